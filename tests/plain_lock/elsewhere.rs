//! The same pairs of processes on a cluster and behind sentinels. The `Lock` of redis-py is used with one server only.

use harness::{Lang, RedisCluster, Sentinel, Servers};

use crate::{Stage, crowd, pairs};

async fn all_is_the_same(servers: impl Servers + 'static, test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::on(Box::new(servers), test, langs).await else { return };
    pairs::exclude(&stage).await;
    pairs::hand_on(&stage).await;
    pairs::come_late(&stage).await;
    crowd::count_together(&stage).await;
    let keys = stage.redis().keys();
    assert!(keys.is_empty(), "{keys:?}");
}

macro_rules! mixes {
    ($($test:ident: $servers:expr;)*) => {$(
        mod $test {
            use super::*;
            use harness::Lang::{Java, Rust};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_rust() {
                all_is_the_same($servers, stringify!($test), [Rust, Rust]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_java() {
                all_is_the_same($servers, stringify!($test), [Rust, Java]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn java_rust() {
                all_is_the_same($servers, stringify!($test), [Java, Rust]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn java_java() {
                all_is_the_same($servers, stringify!($test), [Java, Java]).await;
            }
        }
    )*};
}

mixes! {
    on_a_cluster: RedisCluster::start();
    behind_sentinels: Sentinel::start();
}
