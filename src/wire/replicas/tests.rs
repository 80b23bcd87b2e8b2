use futures::FutureExt;

use super::*;
use crate::wire::{
    connection::{Connecting, Driver},
    deployment::Endpoint,
    url::read_url,
};

#[test]
fn only_a_master_tells_how_many_replicas_it_has() {
    let role = |name: &'static str, third| {
        connected(&Reply::Array(vec![Reply::Bytes(name.into()), Reply::Int(14), third]))
    };
    assert_eq!(role("master", Reply::Array(vec![])), Some(0));
    assert_eq!(role("master", Reply::Array(vec![Reply::Nil, Reply::Nil])), Some(2));
    assert_eq!(role("slave", Reply::Int(6379)), None);
    assert_eq!(role("slave", Reply::Array(vec![])), None);
    assert_eq!(role("master", Reply::Nil), None);
    assert_eq!(connected(&Reply::Nil), None);
}

/// To a server that never answers.
struct Hanging;

impl Driver for Hanging {
    fn connect(&self, _: Endpoint, _: Options) -> Connecting {
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_hang_are_begun_one_at_a_time() {
    let endpoint = read_url("redis://127.0.0.1").unwrap().single().unwrap();
    let settings = ConnectionSettings::for_tests(Arc::new(Hanging), OnBreak::Reconnect);
    let subscriber = Link::subscriber(endpoint.clone(), settings.clone());
    let pool = ReplicaPool::new(endpoint, settings, Link::commands(&subscriber));
    let checkout = pool.checkout(Instant::now() + Duration::from_millis(50)).await;
    assert!(checkout.is_err());
    assert!(pool.next_try().is_ok());
    assert!(pool.next_try().is_err(), "the next one waits");
}
