//! Releases that the server refuses in their middle.

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, Error, RedisErrorKind};

use crate::tally::Tally;

/// The script has freed the lock when the server refuses its message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_message_is_refused_is_no_loss() {
    let server = RedisServer::start();
    let rights = ["on", ">secret", "~*", "+@all", "resetchannels"];
    server.inspector().query::<()>(cmd("ACL").arg("SETUSER").arg("service").arg(&rights));
    let url = format!("redis://service:secret@127.0.0.1:{}", server.port());
    let tally = Tally::default();
    let client =
        Client::connect(Config::from_url(url).unwrap().observer(tally.clone())).await.unwrap();
    let read_write = client.read_write_lock("d");
    let locks = [client.lock("a"), client.plain_lock("c")];
    let locks = locks.iter().chain([read_write.read_lock(), read_write.write_lock()]);
    for (released, lock) in (1..).zip(locks) {
        let guard = lock.lock().await.unwrap();
        match guard.unlock().await {
            Err(Error::Redis(error)) if error.kind() == RedisErrorKind::NoPermission => {}
            other => panic!("{other:?}"),
        }
        eventually(PATIENCE, "the end of the hold", || (tally.now() == (0, 0)).then_some(())).await;
        assert_eq!(tally.of("released"), released, "{:#?}", tally.counts());
        assert!(!lock.is_locked().await.unwrap());
    }
    client.close().await.unwrap();
}
