//! Masters that were killed and come back empty.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{
    Lang, PATIENCE, Proxy, RedisCluster, RedisServer, Sentinel, Servers, assert_nothing_left,
    eventually, lock_channel,
};
use redisson_lock::{Client, Config, Error, RedisErrorKind};

use crate::contest::{Contest, WATCHDOG};
use crate::failover::{BEFORE, Failing, LOCK, SHORT_HOLD, scripts_asked_of};

const OWNERS: usize = 4;
const PEERS: [Lang; 2] = [Lang::Rust; 2];

const DOWN_AFTER: Duration = Duration::from_secs(1);
/// How long nobody says that another is master now.
const SILENCE: Duration = Duration::from_secs(4);
/// For how long the sentinels do nothing afterwards: for all the rest.
const TILT: Duration = Duration::from_secs(60);
/// More than is needed to find the master, on a busy machine.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_on_a_master_that_was_replaced() {
    nothing_runs_on_who_was_replaced("none").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_on_a_master_that_was_replaced_and_has_no_replicas_to_confirm_it() {
    nothing_runs_on_who_was_replaced("all").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_sentinels_still_name_is_used_again() {
    a_master_comes_back_in_its_place(Sentinel::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_its_cluster_still_names_is_used_again() {
    a_master_comes_back_in_its_place(RedisCluster::start()).await;
}

/// It is back before the contenders know of another, and stays a master: sentinels that were stopped do nothing for a
/// while.
async fn nothing_runs_on_who_was_replaced(replicas: &str) {
    let mut servers = Sentinel::builder().down_after(DOWN_AFTER).tilt(TILT).start();
    let args = servers.peer_args().watchdog(WATCHDOG).replicas(replicas);
    let contest = Contest::with(args, PEERS).await.expect("peers in Rust");
    let lost = servers.master();
    let befall = async |contest: &Contest| {
        tokio::time::sleep(BEFORE).await;
        contest.pause();
        servers.kill(lost);
        servers.failed_over(lost).await;
        servers.pause_sentinels();
        servers.restart(lost);
        contest.resume();
        tokio::time::sleep(SILENCE).await;
        servers.resume_sentinels();
        Instant::now()
    };
    let (count, told, progress) = contest.run_beyond(LOCK, OWNERS, SHORT_HOLD, befall).await;
    let (asked, back) = (scripts_asked_of(servers.node(lost)), progress.next_turn(told));
    println!("{replicas}: {count}; {asked} scripts went astray; a turn {back:.1?} after the news");
    let role: Vec<harness::redis::Value> = servers.node(lost).inspector().query(&cmd("ROLE"));
    assert_eq!(role[0], harness::redis::Value::BulkString("master".into()), "{role:?}");
    assert_eq!(asked, 0, "scripts that {lost} was asked to run");
    assert!(back.is_some_and(|back| back < SOON), "no turn in time: {back:?}");
    count.assert_whole();
    count.assert_exclusive();
    assert_nothing_left(&servers).await;
}

/// Its answers to who connects come after another is master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_was_replaced_while_it_was_connected_to_is_left_alone() {
    let servers = Sentinel::builder().down_after(2 * DOWN_AFTER).tilt(TILT).start();
    let args = servers.peer_args().watchdog(WATCHDOG);
    let args = args.option("--command-timeout-ms", PATIENCE.as_millis().to_string());
    let contest = Contest::with(args, PEERS).await.expect("peers in Rust");
    let lost = servers.master();
    let befall = async |contest: &Contest| {
        tokio::time::sleep(BEFORE).await;
        contest.pause();
        for connections in ["normal", "pubsub"] {
            let mut kill = cmd("CLIENT");
            servers.node(lost).inspector().query::<u32>(kill.arg(&["KILL", "TYPE", connections]));
        }
        let before = scripts_asked_of(servers.node(lost));
        servers.node(lost).pause();
        contest.resume();
        // The sentinels still name it.
        tokio::time::sleep(DOWN_AFTER).await;
        contest.pause();
        servers.failed_over(lost).await;
        servers.pause_sentinels();
        servers.node(lost).resume();
        contest.resume();
        tokio::time::sleep(SILENCE).await;
        let asked = scripts_asked_of(servers.node(lost)) - before;
        servers.resume_sentinels();
        (asked, Instant::now())
    };
    let beyond = contest.run_beyond(LOCK, OWNERS, SHORT_HOLD, befall).await;
    let (count, (asked, told), progress) = beyond;
    let back = progress.next_turn(told);
    println!("{count}; {asked} scripts went astray; a turn {back:.1?} after the news");
    assert_eq!(asked, 0, "scripts that {lost} was asked to run");
    assert!(back.is_some_and(|back| back < SOON), "no turn in time: {back:?}");
    count.assert_whole();
    count.assert_exclusive();
    assert_nothing_left(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_client_leaves_a_master_alone_that_was_replaced_while_it_was_connected_to() {
    // Longer than a busy machine makes the next master silent: the sentinels would choose once more.
    let servers = Sentinel::builder().down_after(3 * DOWN_AFTER).tilt(TILT).start();
    let lost = servers.master();
    servers.node(lost).pause();
    let config = config(&servers).command_timeout(PATIENCE);
    let connecting = tokio::spawn(Client::connect(config));
    servers.failed_over(lost).await;
    servers.pause_sentinels();
    servers.node(lost).resume();
    tokio::time::sleep(DOWN_AFTER / 2).await;
    servers.resume_sentinels();
    let client = connecting.await.unwrap().unwrap();
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    assert_eq!(scripts_asked_of(servers.node(lost)), 0, "scripts that {lost} was asked to run");
    client.close().await.unwrap();
    assert_nothing_left(&servers).await;
}

/// The sentinels are silent when they are asked once more, after the next one was connected to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_named_no_more_is_left_although_nobody_confirms_the_next() {
    let servers = Sentinel::start();
    let (old, next) = (servers.node(servers.master()), RedisServer::start());
    let proxy = Proxy::start(next.port()).await;
    // Connecting to the next one lasts as long as the test wants.
    let client = Client::connect(config(&servers).command_timeout(2 * PATIENCE)).await.unwrap();
    let lock = client.lock(LOCK);
    lock.lock().await.unwrap().unlock().await.unwrap();

    // What a client sends first.
    proxy.hold_requests_with("EVALSHA");
    servers.forget_master();
    servers.watch(Sentinel::MASTER, proxy.port());
    let is_connected_to = || (proxy.held() > 0).then_some(());
    eventually(PATIENCE, "the next one to be connected to", is_connected_to).await;
    let is_left = || {
        let clients: String = old.inspector().query(cmd("CLIENT").arg("LIST"));
        (!clients.contains("name=redisson-lock")).then_some(())
    };
    eventually(PATIENCE, "the old one to be left", is_left).await;
    servers.pause_sentinels();
    proxy.release_held();
    let before = [old, &next].map(scripts_asked_of);
    let Err(Error::Redis(error)) = lock.try_lock().wait(DOWN_AFTER).await else { panic!("a turn") };
    assert_eq!(error.kind(), RedisErrorKind::NoMaster, "{error}");
    assert_eq!([old, &next].map(scripts_asked_of), before, "scripts that both were asked to run");

    servers.resume_sentinels();
    let turn = tokio::time::timeout(SOON, lock.lock()).await.expect("a turn").unwrap();
    assert_eq!(next.inspector().keys(), [LOCK]);
    turn.unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(old).await;
    assert_nothing_left(&next).await;
}

/// Its locks are gone, and all goes on.
async fn a_master_comes_back_in_its_place(mut servers: impl Failing) {
    let args = servers.peer_args().watchdog(WATCHDOG);
    let contest = Contest::with(args, PEERS).await.expect("peers in Rust");
    let watch = contest.watch();
    let lost = servers.master();
    let befall = async {
        tokio::time::sleep(BEFORE).await;
        servers.restart(lost);
        Instant::now()
    };
    let (count, back) = tokio::join!(contest.run(LOCK, OWNERS, BEFORE + SOON, SHORT_HOLD), befall);
    let turn = watch.end().next_turn(back);
    println!("{count}; a turn {turn:.1?} after the return of {lost}");
    assert_eq!(servers.master(), lost);
    assert!(turn.is_some_and(|turn| turn < SOON), "no turn in time: {turn:?}");
    count.assert_whole();
    count.assert_exclusive();
    let after = contest.run(LOCK, OWNERS, BEFORE, SHORT_HOLD).await;
    after.assert_whole();
    after.assert_exclusive();
    after.assert_undisturbed();
}

/// Whoever asks the one that hangs is not kept waiting when there is another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_and_goes_on_is_left_alone() {
    let servers = Sentinel::builder().down_after(DOWN_AFTER).start();
    let args = servers.peer_args().watchdog(WATCHDOG);
    let contest = Contest::with(args, PEERS).await.expect("peers in Rust");
    let lost = servers.master();
    let befall = async |_: &Contest| {
        tokio::time::sleep(BEFORE).await;
        servers.node(lost).pause();
        servers.failed_over(lost).await;
        let failed_over = Instant::now();
        tokio::time::sleep(SILENCE).await;
        servers.node(lost).resume();
        failed_over
    };
    let beyond = contest.run_beyond(LOCK, OWNERS, SHORT_HOLD, befall).await;
    let (count, failed_over, progress) = beyond;
    let turn = progress.next_turn(failed_over);
    println!("{count}; a turn {turn:.1?} after the failover");
    assert!(turn.is_some_and(|turn| turn < SOON), "no turn in time: {turn:?}");
    count.assert_whole();
    count.assert_exclusive();
    servers.settled().await;
    assert_nothing_left(&servers).await;
}

/// Of the two connections to a master only that one breaks over which messages come, and no sentinel answers once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_whose_messages_break_is_used_meanwhile() {
    let servers = Sentinel::builder().replicas(1).start();
    let master = servers.node(servers.master());
    let proxy = Proxy::start(master.port()).await;
    servers.forget_master();
    servers.watch(Sentinel::MASTER, proxy.port());
    let client = connect(&servers).await;
    let (lock, waited) = (client.lock("other"), client.lock(LOCK));
    let guard = waited.lock().await.unwrap();
    let turn = tokio::spawn(async move { waited.lock().await });
    let listens = || (master.inspector().subscribers(&lock_channel(LOCK)) == 1).then_some(());
    eventually(PATIENCE, "a listener", listens).await;
    // Its name, which is sent over a new connection only.
    proxy.hold_requests_with("redisson-lock:");
    let killed: u32 = master.inspector().query(cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]));
    assert!(killed > 0);
    let is_connected_to = || (proxy.held() > 0).then_some(());
    eventually(PATIENCE, "it to be connected to again", is_connected_to).await;
    servers.pause_sentinels();
    proxy.release_held();
    for _ in 0..20 {
        lock.lock().await.unwrap().unlock().await.unwrap();
        tokio::time::sleep(DOWN_AFTER / 20).await;
    }
    servers.resume_sentinels();
    guard.unlock().await.unwrap();
    let turn = tokio::time::timeout(SOON, turn).await.expect("a turn").unwrap();
    turn.unwrap().unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(master).await;
}

/// Of the two connections to a master only that one breaks over which messages come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_subscription_breaks_listens_again() {
    let servers = Sentinel::builder().replicas(1).start();
    let [one, other] = [connect(&servers).await, connect(&servers).await];
    let inspector = servers.inspector();
    let listening = || {
        let is = || (inspector.subscribers(&lock_channel(LOCK)) == 1).then_some(());
        eventually(PATIENCE, "a listener", is)
    };
    let guard = one.lock(LOCK).lock().await.unwrap();
    let lock = other.lock(LOCK);
    let turn = tokio::spawn(async move { lock.lock().await });
    for _ in 0..3 {
        listening().await;
        let killed: u32 = inspector.query(cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]));
        assert!(killed > 0);
    }
    listening().await;
    assert!(!turn.is_finished());
    guard.unlock().await.unwrap();
    let turn = tokio::time::timeout(SOON, turn).await.expect("a turn").unwrap();
    turn.unwrap().unlock().await.unwrap();
    for client in [one, other] {
        client.close().await.unwrap();
    }
    assert_nothing_left(&servers).await;
}

async fn connect(servers: &Sentinel) -> Client {
    Client::connect(config(servers)).await.unwrap()
}

fn config(servers: &Sentinel) -> Config {
    let [first, others @ ..] = &servers.sentinels()[..] else { panic!("no sentinels") };
    let others: String = others.iter().map(|node| format!("&node={node}")).collect();
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{first}?sentinelServiceName={service}{others}");
    Config::from_url(&url).unwrap()
}
