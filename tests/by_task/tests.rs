//! The tasks of the page, one by one.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use harness::{
    PATIENCE, PeerArgs, RedisServer, assert_nothing_left, eventually, java_or_skip, lock_channel,
    soon,
};
use redisson_lock::{Client, Config, Error, Loss, RunError};

use crate::{stage::Stage, tasks};

const ORDER: &str = "order:42";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_configures_both() {
    let server = RedisServer::start();
    let mut file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    writeln!(file, "singleServerConfig:\n  address: \"{}\"", server.url()).expect("to write");
    let path = file.path().to_str().expect("a name");
    let client = tasks::connect(path).await.expect("to connect");
    let args = PeerArgs::default().option("--yaml", path);
    if let Some(java) = java_or_skip("one_file_configures_both", &args).await {
        let guard = client.lock(ORDER).lock().await.expect("a hold");
        assert!(!java.party("thread", "lock", ORDER).try_lock().await, "both hold it");
        guard.unlock().await.expect("to unlock");
        java.close().await.expect("to close");
    }
    drop(client.lock(ORDER).lock().await.expect("a hold"));
    tasks::shut_down(client).await.expect("to close");
    assert!(!server.inspector().exists(ORDER), "close waits for the release");
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_around_a_call_keeps_the_other_out_and_is_released_after_an_error() {
    let stage = Stage::new().await;
    let other = stage.party("lock", ORDER);
    let pay = async {
        assert!(!other.try_lock().await, "both hold it");
        Ok::<u64, &str>(7)
    };
    let paid = tasks::around_a_call(&stage.client, pay).await.expect("a hold");
    assert_eq!(paid.expect("paid"), 7);
    let failed = tasks::around_a_call(&stage.client, async { Err("no money") }).await;
    let failed = failed.expect("a hold").expect_err("no money");
    assert!(matches!(failed, RunError::Failed("no money")), "{failed:?}");
    assert!(other.try_lock().await);
    other.unlock().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_and_a_lease_keeps_the_other_out() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    other.lock().await;
    let begun = Instant::now();
    assert!(!tasks::wait_three_seconds(&lock).await.expect("an answer"));
    assert!(begun.elapsed() >= Duration::from_secs(3));
    other.unlock().await;
    assert!(tasks::wait_three_seconds(&lock).await.expect("an answer"));
    let guard = tasks::with_a_lease(&lock).await.expect("an answer").expect("the lock");
    let left = other.remaining_ms().await;
    assert!(0 < left && left <= 10_000, "{left} ms");
    assert!(!other.try_lock().await);
    guard.unlock().await.expect("to unlock");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_re_enters() {
    let stage = Stage::new().await;
    let count = soon("for a re-entry", tasks::reenter(&stage.client)).await.expect("two holds");
    assert_eq!(count, 2);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_writing_to_reading() {
    let stage = Stage::new().await;
    let reading = tasks::write_then_read(&stage.client).await.expect("both sides");
    assert!(!stage.party("write", "catalog").try_lock().await, "a writer beside a reader");
    let reader = stage.party("read", "catalog");
    assert!(reader.try_lock().await, "readers share");
    reader.unlock().await;
    reading.unlock().await.expect("to unlock");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_lock_serves_the_other_first_that_came_first() {
    let stage = Stage::new().await;
    let redis = stage.redis();
    let held = tasks::in_order(&stage.client).await.expect("the lock");
    let other = stage.party("fair", "ticket");
    let first = other.start_try_lock(PATIENCE);
    eventually(PATIENCE, "a line", || (redis.line("ticket").len() == 1).then_some(())).await;
    let client = stage.client.clone();
    let second = tokio::spawn(async move { tasks::in_order(&client).await });
    eventually(PATIENCE, "a line", || (redis.line("ticket").len() == 2).then_some(())).await;
    held.unlock().await.expect("to unlock");
    first.granted().await;
    assert!(!second.is_finished());
    other.unlock().await;
    let guard = soon("for the lock", second).await.expect("a task").expect("the lock");
    guard.unlock().await.expect("to unlock");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_from_one_language_to_the_other() {
    let stage = Stage::new().await;
    let (first, guard) = tasks::with_a_token(&stage.client).await.expect("the lock");
    guard.unlock().await.expect("to unlock");
    let other = stage.party("fenced", "ledger");
    other.lock().await;
    assert!(u64::try_from(other.token().await).expect("a token") > first);
    other.unlock().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_wait_for_the_one_that_the_other_has() {
    let stage = Stage::new().await;
    let other = stage.party("lock", "item:7");
    other.lock().await;
    let client = stage.client.clone();
    let both = tokio::spawn(async move { tasks::all_or_none(&client).await });
    let (redis, channel) = (stage.redis(), lock_channel("item:7"));
    eventually(PATIENCE, "a waiter", || (redis.subscribers(&channel) > 0).then_some(())).await;
    assert!(!both.is_finished());
    other.unlock().await;
    soon("for both", both).await.expect("a task").expect("both");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_of_several_servers_are_enough() {
    let mut servers = [(); 3].map(|()| RedisServer::start());
    let mut clients = Vec::new();
    for server in &servers {
        let config = Config::from_url(server.url()).expect("a URL");
        clients.push(Client::connect(config).await.expect("a connection"));
    }
    servers[1].kill();
    assert!(tasks::most_of_several_servers(&clients).await.expect("two of three"));
    servers[2].kill();
    let alone = tasks::most_of_several_servers(&clients).await;
    assert!(!matches!(alone, Ok(true)), "one of three is no majority");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_learns_that_the_other_has_freed_the_lock() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    let guard = lock.lock().await.expect("the lock");
    assert!(tasks::do_i_have_it(&guard).await.expect("an answer"));
    assert_eq!(tasks::until_lost(&guard, async { 7 }).await, Ok(7));
    assert!(other.force_unlock().await);
    assert!(!tasks::do_i_have_it(&guard).await.expect("an answer"));
    let work = std::future::pending();
    let lost = soon("for the loss", tasks::until_lost(&guard, work)).await;
    assert_eq!(lost, Err(Loss::Removed));
    assert!(matches!(guard.unlock().await, Err(Error::NotHeld { .. })));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hold_of_the_other_is_seen_and_freed() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    assert_eq!(tasks::who_has_it(&lock).await.expect("an answer"), (None, Vec::new()));
    assert!(!tasks::by_force(&lock).await.expect("an answer"), "it is free");
    other.lock().await;
    let (left, holders) = tasks::who_has_it(&lock).await.expect("an answer");
    assert!(
        left.is_some_and(|left| !left.is_zero() && left <= Duration::from_secs(30)),
        "{left:?}"
    );
    let [holder] = &holders[..] else { panic!("{holders:?}") };
    assert!(holder.starts_with(stage.other.client()), "{holder}");
    assert!(tasks::by_force(&lock).await.expect("an answer"));
    assert!(!other.is_held().await);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_is_released_elsewhere_and_a_cancelled_wait_leaves_nothing() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    tasks::release_elsewhere(&lock).await.expect("to unlock");
    assert!(other.try_lock().await);
    assert!(tasks::interrupt(&lock).await);
    let second = Duration::from_secs(1);
    let cut = tasks::cancelled_after(&lock, second, async { panic!("both hold it") }).await;
    assert_eq!(cut.expect("no error"), None);
    other.unlock().await;
    let cut = tasks::cancelled_after(&lock, second, std::future::pending()).await;
    assert_eq!(cut.expect("no error"), None);
    let done = tasks::cancelled_after(&lock, PATIENCE, async { 7 }).await;
    assert_eq!(done.expect("no error"), Some(7));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_on_a_timer_leaves_out_the_ticks_that_the_other_has() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    other.lock().await;
    let runs = Arc::new(AtomicU32::new(0));
    let timer = tokio::spawn({
        let runs = runs.clone();
        async move {
            let job = || {
                let runs = runs.clone();
                async move {
                    runs.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            };
            tasks::on_a_timer(&lock, Duration::from_millis(50), job).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    other.unlock().await;
    eventually(PATIENCE, "two runs", || (runs.load(Ordering::Relaxed) >= 2).then_some(())).await;
    timer.abort();
    let _ = timer.await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_takes_the_lock_without_async_code() {
    let stage = Stage::new().await;
    let other = stage.party("lock", ORDER);
    let url = stage.server.url();
    let (began, begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let config = Config::from_url(url).expect("a URL");
        let client = redisson_lock::blocking::Client::connect(config).expect("a connection");
        let done = tasks::without_async(&client.lock(ORDER), || {
            began.send(()).expect("a test");
            let _ = goes_on.recv();
            7
        });
        client.close().expect("to close");
        done
    });
    tokio::task::spawn_blocking(move || begun.recv()).await.expect("a thread").expect("work");
    assert!(!other.try_lock().await, "both hold it");
    drop(go_on);
    let done = tokio::task::spawn_blocking(|| thread.join().expect("no panic")).await;
    assert_eq!(done.expect("a thread").expect("the lock"), 7);
    assert!(other.try_lock().await);
    other.unlock().await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_shared_and_a_semaphore_may_be_empty() {
    let stage = Stage::new().await;
    let other = stage.party("semaphore", "pool");
    assert_eq!(other.with("set", 3).await, true);
    assert!(tasks::at_most_ten(&stage.client).await.expect("two of three"));
    other.start_acquire(2).granted().await;
    assert!(!tasks::at_most_ten(&stage.client).await.expect("an answer"), "one is free");
    assert_eq!(other.with("count", 0).await, 1);
    stage.redis().query::<()>(harness::redis::cmd("DEL").arg("pool"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_with_an_id_is_seen_and_returned_by_the_other() {
    let stage = Stage::new().await;
    let other = stage.party("expirable_semaphore", "calls");
    let permit = tasks::ten_with_leases(&stage.client).await.expect("a permit");
    assert_eq!(other.with("count", 0).await, 9);
    let left = permit.remaining();
    assert!(!left.is_zero() && left <= Duration::from_secs(60), "{left:?}");
    let ids = [permit.id().to_string()];
    let returned = other.start("unlock", serde_json::json!({ "ids": ids })).answer().await;
    returned.expect("the other returns it");
    assert_eq!(other.with("count", 0).await, 10);
    drop(permit);
    stage.redis().query::<()>(harness::redis::cmd("DEL").arg("calls"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_opens_when_all_have_counted_down() {
    let stage = Stage::new().await;
    let other = stage.party("latch", "ready:7");
    let client = stage.client.clone();
    let all = tokio::spawn(async move { tasks::wait_for_three(&client).await });
    let redis = stage.redis();
    eventually(PATIENCE, "a latch", || redis.exists("ready:7").then_some(())).await;
    for _ in 0..2 {
        other.start("count_down", serde_json::Value::Null).answer().await.expect("a count");
    }
    assert_eq!(other.with("count", 0).await, 1);
    assert!(!all.is_finished());
    tasks::i_am_ready(&stage.client).await.expect("a count");
    assert!(soon("for the latch", all).await.expect("a task").expect("an answer"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_the_other_has_is_passed_over() {
    let stage = Stage::new().await;
    let segment = |n: usize| stage.party("lock", &format!("stock:42:{n}"));
    for n in [0, 1, 3] {
        segment(n).lock().await;
    }
    let guard = tasks::any_of_four(&stage.client).await.expect("a segment");
    assert_eq!(guard.segment(), 2);
    guard.unlock().await.expect("to unlock");
    for n in [0, 1, 3] {
        segment(n).unlock().await;
    }
    let guard = tasks::that_of_a_key(&stage.client, "ann").await.expect("a segment");
    let own = stage.client.segmented("stock:42", 4).index_of("ann");
    for n in 0..4 {
        assert_eq!(segment(n).is_locked().await, n == own, "{n}");
    }
    guard.unlock().await.expect("to unlock");
    stage.end().await;
}

/// The peer in Java takes it by `SET NX PX`, without Redisson's locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_lock_is_that_of_the_other() {
    let stage = Stage::new().await;
    let other = stage.party("plain", "import");
    assert!(other.try_lock_for(Duration::from_secs(60)).await);
    let client = stage.client.clone();
    let waiting = tokio::spawn(async move { tasks::beside_set_nx(&client).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished(), "both hold it");
    other.unlock().await;
    let guard = soon("for the lock", waiting).await.expect("a task").expect("the lock");
    assert!(!other.try_lock_for(Duration::from_secs(60)).await, "both hold it");
    guard.unlock().await.expect("to unlock");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_listens_gives_the_lock_back_when_it_is_asked_for() {
    let stage = Stage::new().await;
    let (other, lock) = (stage.party("lock", ORDER), stage.client.lock(ORDER));
    let guard = lock.lock().await.expect("the lock");
    let holder = tokio::spawn(tasks::until_asked_for(guard, std::future::pending()));
    let config = Config::from_url(stage.server.url()).expect("a URL");
    let client = Client::connect(config).await.expect("a connection");
    let asked = tasks::ask_for_it(&client.lock(ORDER)).await.expect("an answer");
    soon("for the holder", holder).await.expect("a task").expect("to unlock");
    let guard = asked.expect("the lock");
    assert!(!other.try_lock().await, "both hold it");
    guard.unlock().await.expect("to unlock");
    client.close().await.expect("to close");
    stage.end().await;
}
