//! Masters that die and slots that move, while their locks are held, waited for and contended.
//!
//! The contenders are peers, in Rust or in Java. They count on a server of its own that nothing disturbs. A test is named after its
//! contenders: `-- java_java` shows what Redisson does. [`size`] says how many contend, and for how long.

mod announcing;
mod asking;
mod batching;
mod cluster;
mod comeback;
mod contest;
mod counters;
mod down;
mod failover;
mod halfway;
mod kinds;
mod nat;
mod orderly;
mod partition;
mod progress;
mod rights;
mod sentinel;
mod size;
mod stalled;
mod unheard;
mod unreachable;

/// The same test for every mix of contenders.
macro_rules! mixes {
    ($($test:ident;)*) => {$(
        mod $test {
            use harness::Lang::{Java, Rust};

            #[test]
            fn java_java() {
                harness::control(stringify!($test), || {
                    crate::runtime().block_on(super::$test([Java, Java]));
                });
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_rust() {
                super::$test([Rust, Rust]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_java() {
                super::$test([Rust, Java]).await;
            }
        }
    )*};
}
pub(crate) use mixes;

/// As that of the other mixes.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}
