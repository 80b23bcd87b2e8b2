//! The two sides of a read/write lock.

use std::time::Duration;

use harness::redis::cmd;
use harness::{Access, Lang, Party, read_hold_key};

use crate::kind::{Kind, READ};
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SHORT_WATCHDOG, SLACK};

scenarios! {
    readers_of_both_sides_share: READ;
    a_writer_shuts_everybody_out: READ;
    a_writer_is_woken_when_the_last_reader_leaves: READ;
    a_write_release_lets_all_waiting_readers_in: READ;
    read_holds_are_counted_and_have_timeout_keys: READ;
    the_longest_living_reader_counts: READ;
    a_writer_may_read_and_go_on_reading: READ;
    a_downgrade_lets_waiting_readers_in: READ, in Mix::A_IS_RUST;
    a_crashed_reader_keeps_writers_out_no_longer_than_its_lease: READ;
    a_crashed_reader_costs_a_waiting_writer_no_more: READ, in Mix::B_IS_RUST;
    an_overdue_reader_keeps_nobody_out: READ;
    a_watchdog_keeps_a_reader_alive: READ;
    a_killed_reader_is_followed_by_a_writer: READ;
    a_forced_unlock_of_readers_wakes_a_writer: READ;
    a_forced_unlock_of_the_other_side_does_nothing: READ;
    a_cancelled_reader_leaves_nothing: READ;
    a_reader_cannot_become_a_writer: READ;
    a_reader_who_asks_to_write_is_told_so: READ, in Mix::A_IS_RUST;
    a_plain_lock_is_of_the_wrong_kind: READ, in Mix::A_IS_RUST;
}

async fn readers_of_both_sides_share(pair: &Pair) {
    let readers = [pair.a("one"), pair.b("other"), pair.a("beside"), pair.b("late")];
    for reader in &readers {
        assert!(reader.try_lock().await);
    }
    let holders = pair.redis().holders(pair.name());
    assert_eq!(holders.len(), readers.len());
    assert!(holders.iter().all(|holder| (holder.access, holder.count) == (Access::Read, 1)));
    for (i, reader) in readers.iter().enumerate() {
        assert!(reader.is_held().await);
        assert!(!writer(pair.a("writer")).try_lock().await);
        assert!(!writer(pair.b("writer")).try_lock().await);
        reader.unlock().await;
        assert!(!reader.is_held().await);
        assert_eq!(pair.redis().holders(pair.name()).len(), readers.len() - 1 - i);
    }
    let writer = writer(pair.b("writer"));
    assert!(writer.try_lock().await);
    writer.unlock().await;
}

async fn a_writer_shuts_everybody_out(pair: &Pair) {
    let holder = writer(pair.a("holder"));
    holder.lock().await;
    let written = pair.holder().expect("a holder");
    assert_eq!((written.access, written.count), (Access::Write, 1));
    for party in [pair.a("one"), pair.b("other")] {
        assert!(!party.try_lock().await);
        assert!(!writer(party.clone()).try_lock().await);
        assert_eq!(writer(party).unlock_refused().await, "not_held");
    }
    assert_eq!(pair.holder(), Some(written));
    holder.unlock().await;
}

async fn a_writer_is_woken_when_the_last_reader_leaves(pair: &Pair) {
    let (one, other, writer) = (pair.a("one"), pair.b("other"), writer(pair.b("writer")));
    one.lock().await;
    other.lock().await;
    let turn = pair.start_asleep(&writer).await;
    other.unlock().await;
    assert!(turn.is_pending());
    let last = one.unlock().await;
    let write = turn.granted().await;
    assert!(write.after_start_of(&last) < PROMPT, "{write:?} {last:?}");
    writer.unlock().await;
}

async fn a_write_release_lets_all_waiting_readers_in(pair: &Pair) {
    let holder = writer(pair.a("holder"));
    holder.lock().await;
    let mut readers = Vec::new();
    for i in 0..3 {
        for reader in [pair.a(i), pair.b(i)] {
            let turn = pair.start_asleep(&reader).await;
            readers.push((reader, turn));
        }
    }
    let release = holder.unlock().await;
    // Nobody leaves before all are in.
    let mut inside = Vec::new();
    for (reader, turn) in readers {
        let read = turn.granted().await;
        assert!(read.after_start_of(&release) < PROMPT, "{reader}: {read:?} {release:?}");
        inside.push(reader);
    }
    assert_eq!(pair.redis().holders(pair.name()).len(), inside.len());
    for reader in inside {
        reader.unlock().await;
    }
}

/// Redisson keeps a timeout key for each of them, this crate one for all holds of an owner.
async fn read_holds_are_counted_and_have_timeout_keys(pair: &Pair) {
    let (reader, other) = (pair.a("reader"), pair.b("other"));
    let has_second = reader.peer().lang() == Lang::Java;
    let seen = || {
        let holder = pair.holder().expect("a holder");
        let keys = [1, 2].map(|n| read_hold_key(pair.name(), &holder.id(), n));
        (holder.count, keys.map(|key| pair.redis().exists(&key)))
    };
    reader.lock().await;
    assert_eq!(seen(), (1, [true, false]));
    reader.lock().await;
    assert_eq!(seen(), (2, [true, has_second]));
    assert_eq!(reader.hold_count().await, 2);
    assert_eq!(other.hold_count().await, 0);
    assert_eq!(other.unlock_refused().await, "not_held");
    reader.unlock().await;
    assert_eq!(seen(), (1, [true, false]));
    assert!(!writer(other).try_lock().await);
    reader.unlock().await;
    assert!(!pair.redis().exists(pair.name()));
}

async fn the_longest_living_reader_counts(pair: &Pair) {
    let (long, short) = (pair.a("long"), pair.b("short"));
    let ttl = || pair.redis().pttl(pair.name());
    long.lock_for(Duration::from_secs(60)).await;
    short.lock_for(Duration::from_secs(20)).await;
    assert!((40_000..=60_000).contains(&ttl()), "{}", ttl());
    long.unlock().await;
    assert!((1..=20_000).contains(&ttl()), "{}", ttl());
    long.lock_for(Duration::from_secs(60)).await;
    assert!((40_000..=60_000).contains(&ttl()), "{}", ttl());
    short.unlock().await;
    assert!((40_000..=60_000).contains(&ttl()), "{}", ttl());
    long.unlock().await;
}

async fn a_writer_may_read_and_go_on_reading(pair: &Pair) {
    let (reading, other) = (pair.a("owner"), pair.b("other"));
    let writing = writer(reading.clone());
    writing.lock().await;
    reading.lock().await;
    assert_eq!(pair.redis().holders(pair.name()).len(), 2);
    let turn = pair.start_asleep(&writer(pair.b("waiter"))).await;
    assert!(!other.try_lock().await);
    writing.unlock().await;
    // Whoever comes now may read, and nobody may write.
    assert_eq!(pair.holder().expect("a holder").access, Access::Read);
    assert!(other.try_lock().await);
    assert!(!writer(other.clone()).is_held().await);
    assert!(!writing.is_held().await);
    reading.unlock().await;
    assert!(turn.is_pending());
    let last = other.unlock().await;
    let write = turn.granted().await;
    assert!(write.after_start_of(&last) < PROMPT, "{write:?} {last:?}");
    writer(pair.b("waiter")).unlock().await;
}

/// Redisson tells nobody, and they sleep for as long as the lock was to live.
async fn a_downgrade_lets_waiting_readers_in(pair: &Pair) {
    let reading = pair.a("owner");
    let writing = writer(reading.clone());
    writing.lock().await;
    reading.lock().await;
    let readers = [pair.b("one"), pair.b("two"), pair.a("three")];
    let mut turns = Vec::new();
    for reader in &readers {
        turns.push(pair.start_asleep(reader).await);
    }
    let release = writing.unlock().await;
    for turn in turns {
        let read = turn.granted().await;
        assert!(read.after_start_of(&release) < PROMPT, "{read:?} {release:?}");
    }
    for reader in readers.iter().chain([&reading]) {
        reader.unlock().await;
    }
}

/// When the living reader leaves, what is left is what the dead one's lease has left.
async fn a_crashed_reader_keeps_writers_out_no_longer_than_its_lease(pair: &Pair) {
    let (crashed, living, writer) =
        (pair.doomed("crashed").await, pair.b("living"), writer(pair.b("writer")));
    crashed.lock().await;
    living.lock().await;
    crashed.peer().kill().await;
    living.unlock().await;
    let turn = writer.start_lock();
    turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    writer.unlock().await;
}

/// A Redisson writer that waited before that sleeps for what it was told then: 30 s.
async fn a_crashed_reader_costs_a_waiting_writer_no_more(pair: &Pair) {
    let (crashed, living, writer) =
        (pair.doomed("crashed").await, pair.a("living"), writer(pair.b("writer")));
    crashed.lock().await;
    living.lock().await;
    let turn = pair.start_asleep(&writer).await;
    crashed.peer().kill().await;
    living.unlock().await;
    turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    writer.unlock().await;
}

async fn an_overdue_reader_keeps_nobody_out(pair: &Pair) {
    let (overdue, living) = (pair.a("overdue"), pair.b("living"));
    let lease = Duration::from_millis(500);
    overdue.lock_for(lease).await;
    living.lock_for(Duration::from_secs(60)).await;
    let writer = writer(pair.b("writer"));
    assert!(!writer.start_try_lock(2 * lease).answer().await.expect("an answer").is_granted());
    living.unlock().await;
    assert!(writer.try_lock().await);
    writer.unlock().await;
}

async fn a_watchdog_keeps_a_reader_alive(pair: &Pair) {
    let pair = pair.with(|args| args.watchdog(SHORT_WATCHDOG)).await;
    let (reader, other, writer) = (pair.a("reader"), pair.b("other"), writer(pair.b("writer")));
    reader.lock().await;
    other.lock().await;
    let refusal = writer.start_try_lock(2 * SHORT_WATCHDOG).answer().await.expect("an answer");
    let believed = [reader.is_held().await, other.is_held().await];
    let ttls: Vec<_> = (pair.redis().holders(pair.name()).iter())
        .map(|holder| pair.redis().pttl(&read_hold_key(pair.name(), &holder.id(), 1)))
        .collect();
    assert!(!refusal.is_granted(), "the readers believe {believed:?}, their keys have {ttls:?}");
    let whole = SHORT_WATCHDOG.as_millis() as i64;
    assert!(ttls.len() == 2 && ttls.iter().all(|ttl| (1..=whole).contains(ttl)), "{ttls:?}");
    other.unlock().await;
    reader.unlock().await;
}

async fn a_killed_reader_is_followed_by_a_writer(pair: &Pair) {
    let (reader, writer) = (pair.doomed("reader").await, writer(pair.b("writer")));
    reader.lock().await;
    let turn = writer.start_lock();
    pair.listening(1).await;
    reader.peer().kill().await;
    turn.granted_within(SHORT_WATCHDOG + SLACK).await;
    writer.unlock().await;
}

/// Their keys stay until their leases end, which had better be soon.
async fn a_forced_unlock_of_readers_wakes_a_writer(pair: &Pair) {
    let (one, other, officer) = (pair.a("one"), pair.b("other"), pair.b("officer"));
    let lease = Duration::from_secs(5);
    one.lock_for(lease).await;
    other.lock_for(lease).await;
    let waiting = writer(pair.b("writer"));
    let turn = pair.start_asleep(&waiting).await;
    assert!(officer.force_unlock().await);
    turn.granted_within(PROMPT).await;
    for reader in [&one, &other] {
        assert_eq!(reader.unlock_refused().await, "not_held");
    }
    waiting.unlock().await;
    let keys = pair.redis().keys().into_iter().filter(|key| key.contains(pair.name()));
    for key in keys {
        // Or gone by now.
        let pttl = pair.redis().pttl(&key);
        assert!(pttl == -2 || (0..=5_000).contains(&pttl), "{key}");
        pair.redis().query::<()>(cmd("DEL").arg(key));
    }
}

async fn a_forced_unlock_of_the_other_side_does_nothing(pair: &Pair) {
    let (holder, officer) = (pair.a("holder"), pair.b("officer"));
    holder.lock().await;
    assert!(!writer(officer.clone()).force_unlock().await);
    assert!(holder.is_held().await);
    holder.unlock().await;
    writer(holder.clone()).lock().await;
    assert!(!officer.force_unlock().await);
    assert!(writer(holder.clone()).is_held().await);
    writer(holder).unlock().await;
}

async fn a_cancelled_reader_leaves_nothing(pair: &Pair) {
    let (holder, reader) = (writer(pair.a("holder")), pair.b("reader"));
    holder.lock().await;
    let turn = pair.start_asleep(&reader).await;
    reader.cancel().await;
    let error = turn.answer().await.expect_err("a cancelled acquisition");
    assert_eq!(error.code(), Some("cancelled"), "{error}");
    pair.listening(0).await;
    holder.unlock().await;
    assert!(!reader.is_held().await);
    assert!(!pair.redis().exists(pair.name()));
}

/// This crate may say that there is no use in waiting.
async fn a_reader_cannot_become_a_writer(pair: &Pair) {
    let reader = pair.a("reader");
    reader.lock().await;
    let before = pair.redis().hash(pair.name());
    match writer(reader.clone()).ask("try_lock", serde_json::Value::Null).await {
        Ok(answer) => assert!(!answer.is_granted(), "{answer:?}"),
        Err(error) => assert_eq!(error.code(), Some("would_deadlock"), "{error}"),
    }
    assert_eq!(pair.redis().hash(pair.name()), before);
    reader.unlock().await;
    assert!(writer(reader.clone()).try_lock().await);
    writer(reader).unlock().await;
}

/// Redisson waits for ever.
async fn a_reader_who_asks_to_write_is_told_so(pair: &Pair) {
    let (reader, other) = (pair.a("reader"), pair.b("other"));
    other.lock().await;
    reader.lock().await;
    assert_eq!(writer(reader.clone()).lock_fails("lock").await, "would_deadlock");
    reader.unlock().await;
    other.unlock().await;
}

/// Redisson takes it all the same, and two hold it.
async fn a_plain_lock_is_of_the_wrong_kind(pair: &Pair) {
    let (holder, other) = (pair.b("holder").of_kind("lock"), pair.a("other"));
    holder.lock().await;
    let before = pair.redis().hash(pair.name());
    for op in ["lock", "try_lock"] {
        assert_eq!(other.lock_fails(op).await, "wrong_kind");
        assert_eq!(writer(other.clone()).lock_fails(op).await, "wrong_kind");
    }
    assert_eq!(pair.redis().hash(pair.name()), before);
    holder.unlock().await;
}

fn writer(party: Party) -> Party {
    party.of_kind(Kind::Write.name())
}
