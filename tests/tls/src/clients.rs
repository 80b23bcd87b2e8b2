//! A server that asks clients for certificates.

use harness::{assert_nothing_left, lock_channel};
use redisson_lock::{Client, Config, Error};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_read_from_the_files_that_a_configuration_names() {
    let Some(stage) = Stage::with("127.0.0.1", ["--tls-auth-clients", "yes"]) else { return };
    let directory = stage.directory.path();
    let authority = stage.authority.write(directory);
    let (certificate, key) = stage.authority.certify("client").write(directory);
    let config = Config::from_url(stage.url("rediss")).unwrap().tls_authority_file(authority);
    let config = config.tls_client_files(certificate, &key);
    // As a service reads it from a file of its own.
    let config: Config = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    let client = connect(config.clone()).await;
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(&stage.server).await;

    let twice = Client::connect(config.clone().tls(stage.authority.trusted()).unwrap()).await;
    assert!(matches!(&twice, Err(Error::Config(why)) if why.contains("is set, too")), "{twice:?}");
    std::fs::remove_file(&key).unwrap();
    let gone = Client::connect(config).await;
    assert!(matches!(&gone, Err(Error::Config(why)) if why.contains("client.key")), "{gone:?}");
}
