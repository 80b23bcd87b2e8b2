//! A server that asks clients for certificates.

use harness::{assert_nothing_left, lock_channel};

use crate::certificates::Authority;
use crate::{LOCK, Stage, assert_refused, connect, hand_over, with_tls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_with_a_certificate_is_let_in_and_one_without_is_told() {
    let Some(stage) = Stage::with("127.0.0.1", ["--tls-auth-clients", "yes"]) else { return };
    assert_refused(stage.config(&stage.authority), "CertificateRequired").await;
    let by_a_stranger = Authority::new("somebody else").certify("client");
    let config = with_tls(&stage.url("rediss"), stage.authority.trusted_by(&by_a_stranger));
    assert_refused(config, "UnknownCA").await;

    let tls = stage.authority.trusted_by(&stage.authority.certify("client"));
    let config = with_tls(&stage.url("rediss"), tls);
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    hand_over(&one, &other, || stage.server.inspector().subscribers(&lock_channel(LOCK))).await;
    one.close().await.unwrap();
    other.close().await.unwrap();
    assert_nothing_left(&stage.server).await;
}
