//! [`block_on`]: polls a future on a thread that sleeps until it is woken.
//!
//! tokio's `block_on` does the same, as fast, but panics where it must not be called. Some of these
//! places cannot be recognised beforehand.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use tokio::runtime::Handle;

/// A thread that sleeps or is about to.
struct Sleeper {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

impl Sleeper {
    fn sleep(&self) {
        // Another's `unpark` may end a `park`.
        while !self.is_woken.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }
}

/// Runs the future to its end on the calling thread. Its timers and tasks start on the runtime of
/// the handle, which another thread drives.
pub(super) fn block_on<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    let _entered = runtime.enter();
    let mut future = pin!(future);
    let sleeper = Arc::new(Sleeper { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(sleeper.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        sleeper.sleep();
    }
}
