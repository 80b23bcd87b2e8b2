//! Masters that die and slots that move, under locks that are held, waited for and fought over.
//!
//! Whoever contends is a peer, in Rust or in Java; what they count is on a server of its own, which stays out of it.
//! A test is named after who contends: `-- java_java` shows what Redisson does. How many contend, and for how long, is in [`size`].

mod batching;
mod cluster;
mod comeback;
mod contest;
mod failover;
mod halfway;
mod kinds;
mod progress;
mod rights;
mod sentinel;
mod size;
mod stalled;
mod unheard;

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
