//! What a client announces: who it is, and which locks it has held for long.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use harness::redis::cmd;
use harness::{
    Commands, PATIENCE, PeerArgs, assert_nothing_left, assert_nothing_left_but, eventually,
    java_or_skip, rights,
};
use redisson_lock::{Announced, Client, Config, Error, Inspection, Lock, LockGuard, Loss};

use crate::stage::{LOCK, Stage, connect, gets_it, soon, waiter};
use crate::warnings::listen;

/// A hold of such a client is announced after two to four seconds.
const WATCHDOG: Duration = Duration::from_secs(6);

fn announced(config: Config) -> Config {
    let config = config.announce("orders").unwrap().announce_version("1.2").unwrap();
    config.announce_host("pod-1").unwrap().watchdog(WATCHDOG)
}

async fn client(stage: &Stage) -> Client {
    connect(announced(stage.config())).await
}

fn key(client: &Client) -> String {
    format!("redisson_lock_client:{}", client.id())
}

async fn announcement(stage: &Stage, client: &Client) -> BTreeMap<String, String> {
    let key = key(client);
    let there = || Some(stage.redis().hash(&key)).filter(|hash| !hash.is_empty());
    eventually(PATIENCE, "an announcement", there).await
}

/// The fields of the holds.
fn holds(stage: &Stage, client: &Client) -> BTreeMap<String, String> {
    let all = stage.redis().hash(&key(client)).into_iter();
    all.filter(|(field, _)| field.starts_with("hold:")).collect()
}

async fn holds_are(stage: &Stage, client: &Client, count: usize) -> BTreeMap<String, String> {
    eventually(PATIENCE, &format!("{count} announced holds"), || {
        Some(holds(stage, client)).filter(|holds| holds.len() == count)
    })
    .await
}

/// What is announced about the only holder.
fn of_holder(seen: &Inspection) -> &Announced {
    let [holder] = &seen.holders[..] else { panic!("{seen:?}") };
    holder.announced.as_ref().unwrap_or_else(|| panic!("{seen:?}"))
}

/// Looks until the holder's note is this one.
async fn noted(lock: &Lock, note: Option<&str>) -> Announced {
    let look = async {
        loop {
            let seen = lock.inspect().await.unwrap();
            let found = seen.holders.first().and_then(|holder| holder.announced.clone());
            if let Some(found) = found.filter(|it| it.held_for.is_some())
                && found.note.as_deref() == note
            {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("to see the note", look).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_says_who_it_is_until_it_is_closed() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let hash = announcement(&stage, &client).await;
    let of = |field: &str| hash.get(field).map(String::as_str);
    assert_eq!(
        (of("app"), of("host"), of("version")),
        (Some("orders"), Some("pod-1"), Some("1.2"))
    );
    assert_eq!(of("pid"), Some(&*std::process::id().to_string()));
    assert_eq!(of("library"), Some(env!("CARGO_PKG_VERSION")));
    let ttl = stage.redis().pttl(&key(&client));
    assert!((1..=WATCHDOG.as_millis() as i64).contains(&ttl), "{ttl}");
    // It is renewed, and changes in nothing else.
    let seen = || stage.redis().hash(&key(&client))["seen"].clone();
    let before = seen();
    eventually(PATIENCE, "a renewal", || (seen() > before).then_some(())).await;
    assert!(stage.redis().pttl(&key(&client)) > 1_000);
    assert_eq!(stage.redis().hash(&key(&client))["since"], hash["since"]);

    let guard = client.lock(LOCK).lock().await.unwrap();
    let seen = far.lock(LOCK).inspect().await.unwrap();
    let who = of_holder(&seen);
    assert_eq!((&*who.app, who.host.as_deref()), ("orders", Some("pod-1")));
    assert_eq!((who.pid, who.version.as_deref()), (Some(std::process::id()), Some("1.2")));
    assert!(who.last_seen < PATIENCE, "{who:?}");
    let age = SystemTime::now().duration_since(who.since).unwrap_or_default();
    assert!(age < PATIENCE, "{who:?}");
    assert_eq!((who.held_since, &who.note), (None, &None), "the hold is too young");
    guard.unlock().await.unwrap();

    // Another one announces nothing.
    let guard = far.lock(LOCK).lock().await.unwrap();
    assert_eq!(client.lock(LOCK).inspect().await.unwrap().holders[0].announced, None);
    guard.unlock().await.unwrap();
    soon("to close", client.close()).await.unwrap();
    assert!(!stage.redis().exists(&key(&client)));
    stage.end([far]).await;
}

/// The lock stays held, and whoever finds it is to know by whom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_outlives_its_client_stays_announced() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let asking = far.lock(LOCK);
    let lease = Duration::from_secs(60);
    let guard = client.lock(LOCK).lock().lease(lease).note("reindex").await.unwrap();
    noted(&asking, Some("reindex")).await;
    soon("to close", client.close()).await.unwrap();
    assert_eq!(guard.lost().await, Loss::Closed);
    noted(&asking, Some("reindex")).await;
    assert!(asking.force_unlock().await.unwrap());
    let _: i64 = stage.redis().query(cmd("DEL").arg(key(&client)));
    stage.end([far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_announced_after_its_first_renewal_and_until_it_ends() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let asking = far.lock(LOCK);
    let guard = client.lock(LOCK).lock().note("reindex of\nshop 7").await.unwrap();
    let begun = SystemTime::now();
    let who = noted(&asking, Some("reindex of shop 7")).await;
    assert!(who.held_for.unwrap() >= WATCHDOG / 3, "{who:?}");
    let since = who.held_since.unwrap();
    let apart = since.duration_since(begun).unwrap_or_else(|apart| apart.duration());
    assert!(apart < PATIENCE, "{who:?}");
    let [field] = &holds(&stage, &client).into_keys().collect::<Vec<_>>()[..] else { panic!() };
    let (_, number) = guard.holder().rsplit_once(':').unwrap();
    assert_eq!(*field, format!("hold:{number}:{LOCK}"));
    guard.note("page 2");
    assert_eq!(noted(&asking, Some("page 2")).await.held_since, Some(since));
    guard.note("");
    noted(&asking, None).await;
    guard.unlock().await.unwrap();
    holds_are(&stage, &client, 0).await;

    // A lease is never renewed, and is announced all the same; try_lock has a note, too.
    let lease = Duration::from_secs(60);
    let guard = client.lock(LOCK).try_lock().lease(lease).note("by hand").await.unwrap().unwrap();
    noted(&asking, Some("by hand")).await;
    let ttl = Duration::from_millis(stage.redis().pttl(&key(&client)) as u64);
    assert!(ttl > lease / 2, "it lives as long as the hold: {ttl:?}");
    drop(guard);
    holds_are(&stage, &client, 0).await;
    stage.end([client, far]).await;
}

/// 1 000 pairs are as many commands as without an announcement, but for the client's own key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_holds_send_nothing_more() {
    const PAIRS: usize = 1_000;
    let stage = Stage::new().await;
    let config = stage.config().watchdog(Duration::from_secs(30));
    let mut counts = Vec::new();
    for announces in [false, true] {
        let config = match announces {
            true => config.clone().announce("orders").unwrap(),
            false => config.clone(),
        };
        let client = connect(config).await;
        if announces {
            announcement(&stage, &client).await;
        }
        let lock = client.lock(LOCK);
        // The server knows the scripts.
        lock.lock().await.unwrap().unlock().await.unwrap();
        let mut commands = Commands::watch(stage.server.client());
        for n in 0..PAIRS {
            let guard = lock.lock().note(format!("turn {n}")).await.unwrap();
            guard.unlock().await.unwrap();
        }
        let sent = commands.so_far(stage.redis());
        let own = key(&client);
        let of_locks = sent.iter().filter(|line| line.contains(LOCK) && !line.contains(&own));
        let calls = of_locks.filter(|line| line.to_lowercase().contains("\"evalsha\""));
        counts.push(calls.count());
        let others = sent.iter().filter(|line| line.contains(&own)).count();
        assert!(announces || others == 0, "{others} commands for {own}");
        assert!(holds(&stage, &client).is_empty());
        stage.end([client]).await;
    }
    assert_eq!(counts, [2 * PAIRS; 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_handed_off_begins_anew() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let (lock, asking) = (client.lock(LOCK), far.lock(LOCK));
    for note in [Some("the second"), None] {
        // A hold is handed off for a few ms only, so not each time.
        let handed_off = async {
            loop {
                let first = lock.lock().note("the first").await.unwrap();
                let id = first.holder().to_owned();
                let next = match note {
                    Some(note) => tokio::spawn(lock.lock().note(note).into_future()),
                    None => waiter(&client, LOCK),
                };
                tokio::task::yield_now().await;
                let before: (u64, u64) = stage.redis().query(&cmd("TIME"));
                first.unlock().await.unwrap();
                let (second, _) = gets_it(next).await;
                if second.holder() == id {
                    return (second, before);
                }
                second.unlock().await.unwrap();
            }
        };
        let (second, (seconds, micros)) = soon("to be handed off", handed_off).await;
        let before = Duration::from_millis(seconds * 1_000 + micros / 1_000);
        let who = noted(&asking, note).await;
        let since = who.held_since.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        // The client's estimate of the server's time may be off by some ms, on a busy machine by more.
        assert!(since + Duration::from_secs(1) > before, "{since:?} {before:?}");
        assert!(who.held_for.unwrap() >= WATCHDOG / 3, "{who:?}");
        second.unlock().await.unwrap();
        holds_are(&stage, &client, 0).await;
    }
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entries_share_one_announcement_and_readers_have_one_each() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let mut me = client.owner();
    let outer = client.lock(LOCK).lock().by(&mut me).note("outer").await.unwrap();
    let since = noted(&far.lock(LOCK), Some("outer")).await.held_since;
    let inner = client.lock(LOCK).lock().by(&mut me).note("inner").await.unwrap();
    assert_eq!(noted(&far.lock(LOCK), Some("inner")).await.held_since, since);
    inner.unlock().await.unwrap();
    holds_are(&stage, &client, 1).await;
    outer.unlock().await.unwrap();

    const READERS: usize = 150;
    let sides = client.read_write_lock("catalog");
    let mut readers = Vec::new();
    for n in 0..READERS {
        // With a lease of its own it shares no hold.
        let read = sides.read_lock().lock().lease(10 * PATIENCE);
        readers.push(read.note(format!("reader {n}")).await.unwrap());
    }
    holds_are(&stage, &client, READERS).await;
    let seen = far.read_write_lock("catalog").inspect().await.unwrap();
    let who: BTreeMap<_, _> =
        seen.holders.iter().map(|it| (&*it.id, it.announced.as_ref().unwrap())).collect();
    assert_eq!(who.len(), READERS);
    for (n, reader) in readers.iter().enumerate() {
        assert_eq!(who[reader.holder()].note, Some(format!("reader {n}")));
    }
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    let writer = sides.write_lock().lock().note("the writer").await.unwrap();
    holds_are(&stage, &client, 1).await;
    let seen = far.read_write_lock("catalog").inspect().await.unwrap();
    assert_eq!(of_holder(&seen).note.as_deref(), Some("the writer"));
    writer.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_after_a_flush_and_a_restart() {
    let mut stage = Stage::new().await;
    let client = client(&stage).await;
    let before = announcement(&stage, &client).await;
    let guard = client.lock(LOCK).lock().lease(10 * PATIENCE).note("long").await.unwrap();
    holds_are(&stage, &client, 1).await;
    stage.redis().query::<()>(cmd("DEL").arg(key(&client)));
    holds_are(&stage, &client, 1).await;
    let after = announcement(&stage, &client).await;
    assert_eq!(after["app"], before["app"]);
    // The revision of another write is not built upon.
    stage.redis().query::<()>(cmd("HDEL").arg(key(&client)).arg("app"));
    stage.redis().query::<()>(cmd("HSET").arg(key(&client)).arg("revision").arg("x"));
    eventually(PATIENCE, "the whole", || {
        stage.redis().hash(&key(&client)).contains_key("app").then_some(())
    })
    .await;
    stage.restart_server();
    holds_are(&stage, &client, 1).await;
    announcement(&stage, &client).await;
    drop(guard);
    soon("to close", client.close()).await.unwrap();
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_gone_was_last_seen_then_and_ends_with_its_ttl() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let lease = 2 * WATCHDOG;
    let guard = client.lock(LOCK).lock().lease(lease).note("gone").await.unwrap();
    noted(&far.lock(LOCK), Some("gone")).await;
    // As if the process had died: nothing comes through.
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    let look = async {
        loop {
            let seen = far.lock(LOCK).inspect().await.unwrap();
            if !seen.is_locked() {
                return;
            }
            if of_holder(&seen).last_seen > WATCHDOG {
                assert_eq!(of_holder(&seen).note.as_deref(), Some("gone"));
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("to be seen long ago", look).await;
    eventually(PATIENCE, "the end of all", || stage.redis().keys().is_empty().then_some(())).await;
    drop(guard);
    stage.proxy.heal();
    let _ = soon("to close", client.close()).await;
    stage.end([far]).await;
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_once_and_locks_as_ever() {
    let warnings = listen();
    let stage = Stage::new().await;
    let user = |rights: &[String]| harness::set_user(&mut stage.server.client(), "service", rights);
    let locks = rights("rights (ACL)", "order:");
    user(&locks);
    let url = stage.proxy.url().replace("redis://", "redis://service:secret@");
    let client = connect(announced(Config::from_url(&url).unwrap())).await;
    warnings.eventually_has(&["cannot be announced", "NOPERM"]).await;
    let lock = client.lock(LOCK);
    let guard = lock.lock().note("unseen").await.unwrap();
    tokio::time::sleep(WATCHDOG).await;
    let seen = lock.inspect().await.unwrap();
    assert!(seen.is_locked() && seen.holders[0].announced.is_none());
    guard.unlock().await.unwrap();
    assert_eq!(warnings.count("announced"), 1);
    stage.end([client]).await;

    // With them all is well, and nothing is refused but what connecting asks for anyway.
    let both = [locks, rights("announcing, and reading what others announce", "order:")].concat();
    user(&both);
    stage.redis().query::<()>(cmd("ACL").arg("LOG").arg("RESET"));
    let client = connect(announced(Config::from_url(&url).unwrap())).await;
    let guard = client.lock(LOCK).lock().note("seen").await.unwrap();
    noted(&client.lock(LOCK), Some("seen")).await;
    guard.unlock().await.unwrap();
    let refused = harness::refused(&mut stage.server.client());
    assert!(refused.iter().all(|what| what.starts_with("client") || what == "info"), "{refused:?}");
    stage.end([client]).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_costs_no_more_than_a_line() {
    let warnings = listen();
    let stage = Stage::new().await;
    let client = client(&stage).await;
    announcement(&stage, &client).await;
    let set = |name: &str, value: &str| {
        stage.redis().query::<()>(cmd("CONFIG").arg("SET").arg(name).arg(value));
    };
    set("maxmemory", "1");
    let key = key(&client);
    eventually(PATIENCE, "its end", || (!stage.redis().exists(&key)).then_some(())).await;
    set("maxmemory", "0");
    announcement(&stage, &client).await;
    assert!(warnings.count("announced") <= 1);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_holds_are_announced_in_batches_and_cost_nothing_while_they_last() {
    const HOLDS: usize = 2_000;
    let stage = Stage::new().await;
    let client = client(&stage).await;
    let mut guards = Vec::new();
    for n in 0..HOLDS {
        guards.push(client.lock(format!("order:{n}")).lock().await.unwrap());
    }
    holds_are(&stage, &client, HOLDS).await;
    let own = key(&client);
    let mut commands = Commands::watch(stage.server.client());
    let seen = || stage.redis().hash(&own)["seen"].clone();
    let before = seen();
    eventually(PATIENCE, "a write", || (seen() > before).then_some(())).await;
    let lines = commands.so_far(stage.redis());
    let set = lines.iter().filter(|line| line.contains(&own) && line.contains("hset"));
    let longest = set.map(String::len).max().unwrap();
    assert!(longest < 500, "{longest} bytes in one write of no change");
    drop(guards);
    holds_are(&stage, &client, 0).await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_the_place_of_an_announcement_does_no_harm() {
    let stage = Stage::new().await;
    let (one, far) = (stage.client().await, stage.far_client().await);
    let guard = one.lock(LOCK).lock().await.unwrap();
    let own = key(&one);
    let holder = || async { far.lock(LOCK).inspect().await.unwrap().holders.remove(0) };
    stage.redis().query::<()>(cmd("HSET").arg(&own).arg("app").arg("x").arg("since").arg("-5"));
    assert_eq!(holder().await.announced.unwrap().app, "x");
    let long = "y".repeat(4_097);
    stage
        .redis()
        .query::<()>(cmd("HSET").arg(&own).arg("host").arg(&long[1..]).arg("version").arg(&long));
    let seen = holder().await.announced.unwrap();
    assert_eq!((seen.host.unwrap().len(), seen.version), (4_096, None), "one that is too long");
    stage.redis().query::<()>(cmd("DEL").arg(&own));
    stage.redis().query::<()>(cmd("SET").arg(&own).arg("text"));
    assert_eq!(holder().await.announced, None);
    guard.unlock().await.unwrap();
    assert_nothing_left_but(&stage.server, &[&own]).await;
    stage.redis().query::<()>(cmd("DEL").arg(&own));
    stage.end([one, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_announcement_hides_no_other_one() {
    let stage = Stage::new().await;
    let (one, two, far) = (client(&stage).await, client(&stage).await, stage.far_client().await);
    for client in [&one, &two] {
        announcement(&stage, client).await;
    }
    let reads = |client: &Client| client.read_write_lock(LOCK).read_lock().clone();
    let guards = [reads(&one).lock().await.unwrap(), reads(&two).lock().await.unwrap()];
    stage.redis().query::<()>(cmd("DEL").arg(key(&two)));
    stage.redis().query::<()>(cmd("SET").arg(key(&two)).arg("no hash"));
    let seen = reads(&far).inspect().await.unwrap();
    let announced = |client: &Client| {
        let holder =
            seen.holders.iter().find(|holder| holder.id.starts_with(&client.id().to_string()));
        holder.unwrap_or_else(|| panic!("{seen:?}")).announced.is_some()
    };
    assert!(announced(&one) && !announced(&two), "{seen:?}");
    drop(guards);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redisson_holder_is_shown_by_its_id_alone() {
    let stage = Stage::new().await;
    let args = PeerArgs::redis(stage.server.url());
    let test = "a_redisson_holder_is_shown_by_its_id_alone";
    let Some(jvm) = java_or_skip(test, &args).await else { return };
    let client = client(&stage).await;
    let java = jvm.party("thread", "lock", LOCK);
    assert!(java.try_lock().await);
    let seen = client.lock(LOCK).inspect().await.unwrap();
    let [holder] = &seen.holders[..] else { panic!("{seen:?}") };
    assert!(holder.id.starts_with(jvm.client()) && !holder.ours, "{holder:?}");
    assert_eq!(holder.announced, None);
    // Its connections do not lead to it either.
    let list: String = stage.redis().query(cmd("CLIENT").arg("LIST"));
    assert!(!list.contains(jvm.client()), "{list}");
    // Redisson waits for a hold that is announced, and gets it.
    java.unlock().await;
    let guard = client.lock(LOCK).lock().note("seen by none in Java").await.unwrap();
    holds_are(&stage, &client, 1).await;
    let waiting = java.start_lock();
    guard.unlock().await.unwrap();
    waiting.granted().await;
    java.unlock().await;
    jvm.close().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_client_announces_itself_too() {
    let stage = Stage::new().await;
    let far = stage.far_client().await;
    let config = announced(stage.config());
    let held = tokio::task::spawn_blocking(move || {
        let client = redisson_lock::blocking::Client::connect(config).unwrap();
        let guard = client.lock(LOCK).lock().note("a thread").run().unwrap();
        (client.id().to_owned(), std::thread::sleep(2 * WATCHDOG), guard.unlock(), client.close())
    });
    let who = noted(&far.lock(LOCK), Some("a thread")).await;
    assert_eq!(who.app, "orders");
    let (_, (), unlocked, closed) = held.await.unwrap();
    unlocked.and(closed).unwrap();
    stage.end([far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_client_is_announced_when_its_server_comes_up() {
    let stage = Stage::new().await;
    stage.proxy.refuse(true);
    let client = Client::connect(announced(stage.config()).lazy_connect(true)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.proxy.refuse(false);
    let hash = announcement(&stage, &client).await;
    let since = Duration::from_millis(hash["since"].parse().unwrap());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert!(now.abs_diff(since) < PATIENCE, "{since:?}");
    stage.end([client]).await;
}

/// The guards of one test are of one client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_has_one_note_for_all() {
    let stage = Stage::new().await;
    let (client, far) = (client(&stage).await, stage.far_client().await);
    let locks = redisson_lock::MultiLock::all([client.lock("a"), client.lock("b")]);
    let guard = locks.lock().note("begun").await.unwrap();
    noted(&far.lock("a"), Some("begun")).await;
    guard.note("both");
    noted(&far.lock("a"), Some("both")).await;
    noted(&far.lock("b"), Some("both")).await;
    let closed: Result<(), Error> = guard.unlock().await;
    closed.unwrap();
    stage.end([client, far]).await;
    assert_nothing_left(&stage.server).await;
}

const _: fn(&LockGuard) = |guard| guard.note("a &str, or a String");
