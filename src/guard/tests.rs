//! The size of the futures of a guard.

use super::*;

fn size_of_future<F: Future>(_: impl FnOnce(LockGuard) -> F) -> usize {
    size_of::<F>()
}

/// The work is moved into the future once, and once within it.
#[test]
fn a_run_is_not_much_larger_than_twice_its_work() {
    const WORK: usize = 4096;
    let work = async || {
        let large = [0_u8; WORK];
        std::future::pending::<()>().await;
        Ok::<_, Error>(large[0])
    };
    let size = size_of_future(|guard| guard.run(work()));
    assert!(size < 2 * WORK + 1024, "{size} bytes");
}
