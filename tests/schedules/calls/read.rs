//! The read side of a read/write lock, while it is held.

use super::example::examples;
use super::scene::Scene;

examples! {
    "read/acquire": a_free_lock_is_granted_to_a_reader, readers_share, a_reader_waits_for_a_writer,
        a_writer_may_read, nobody_reads_under_a_write_of_nobody, a_reader_refuses_a_lock_of_another_kind,
        a_read_that_comes_too_late_does_nothing, a_repeated_read_raises_ttls_alone,
        a_repeated_read_under_a_write_is_granted, a_read_with_one_key, a_read_cuts_no_lock_short_that_lasts;
    "read/reenter": a_read_re_entry_sets_the_count_and_raises_ttls, a_read_re_entry_of_what_is_gone_is_refused,
        a_read_re_entry_that_comes_too_late_does_nothing, a_read_re_entry_with_one_key,
        a_read_re_entry_cuts_nothing_short_that_lasts;
    "read/renew": read_renewals_answer_each_for_itself, a_read_renewal_never_lowers_a_ttl,
        a_read_renewal_sets_anew_what_has_expired, a_read_renewal_of_what_is_no_lock_leaves_the_others_alone,
        a_read_renewal_that_fails_stops_no_other, a_read_renewal_with_one_key;
    "read/renew_apart": a_timeout_key_is_renewed_alone, a_timeout_key_that_is_gone_stays_gone;
}

const A: &str = "{lock}:A:rwlock_timeout:1";

/// A acquires, under a write hold or `''`.
fn acquire(scene: &mut Scene, lease: u64, not_after: &str, under: &str) -> String {
    scene.call("read/acquire", &format!("lock {A}"), &format!("A {lease} {not_after} {under}"))
}

fn a_free_lock_is_granted_to_a_reader(scene: &mut Scene) {
    assert_eq!(acquire(scene, 50, "@0", "''"), "nil");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
    assert_eq!(scene.see(A), "1 for 50");
}

fn readers_share(scene: &mut Scene) {
    scene.command("hset lock mode read B 1");
    scene.command("pexpire lock 60");
    assert_eq!(acquire(scene, 50, "@0", "''"), "nil");
    assert_eq!(scene.see("lock"), "A=1 B=1 mode=read for 60");
    assert_eq!(scene.see(A), "1 for 50");
    scene.command("hdel lock A");
    assert_eq!(acquire(scene, 70, "@0", "''"), "nil");
    assert_eq!(scene.see("lock"), "A=1 B=1 mode=read for 70");
    assert_eq!(scene.see(A), "1 for 70");
}

fn a_reader_waits_for_a_writer(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 1");
    assert_eq!(acquire(scene, 50, "@9", "''"), "-1");
    scene.command("pexpire lock 30");
    for under in ["''", "V:write"] {
        assert_eq!(acquire(scene, 50, "@9", under), "30");
    }
    assert_eq!(scene.see("lock"), "W:write=1 mode=write for 30");
    assert_eq!(scene.see(A), "none");
}

fn a_writer_may_read(scene: &mut Scene) {
    scene.command("hset lock mode write A:write 1");
    scene.command("pexpire lock 30");
    assert_eq!(acquire(scene, 50, "@0", "A:write"), "nil");
    assert_eq!(scene.see("lock"), "A=1 A:write=1 mode=write for 50");
    assert_eq!(scene.see(A), "1 for 50");
}

fn nobody_reads_under_a_write_of_nobody(scene: &mut Scene) {
    scene.command("hset lock mode write '' 1");
    assert_eq!(acquire(scene, 50, "@0", "''"), "-1");
    assert_eq!(scene.see("lock"), "=1 mode=write");
}

fn a_reader_refuses_a_lock_of_another_kind(scene: &mut Scene) {
    scene.command("hset lock B 1");
    assert_eq!(acquire(scene, 50, "@9", "''"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "B=1");
    assert_eq!(scene.see(A), "none");
}

fn a_read_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(acquire(scene, 50, "@1233", "''"), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock mode read A 1");
    assert_eq!(acquire(scene, 50, "@1233", "''"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1 mode=read");
    assert_eq!(scene.see(A), "none");
}

fn a_repeated_read_raises_ttls_alone(scene: &mut Scene) {
    scene.command("hset lock mode read A 2");
    scene.command("pexpire lock 30");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(acquire(scene, lease, "@0", "''"), "nil");
        assert_eq!(scene.see("lock"), format!("A=2 mode=read for {ttl}"));
        assert_eq!(scene.see(A), format!("1 for {ttl}"));
    }
}

fn a_repeated_read_under_a_write_is_granted(scene: &mut Scene) {
    scene.command("hset lock mode write A:write 1 A 2");
    scene.command("pexpire lock 30");
    assert_eq!(acquire(scene, 50, "@0", "''"), "nil");
    assert_eq!(scene.see("lock"), "A=2 A:write=1 mode=write for 50");
}

fn a_read_with_one_key(scene: &mut Scene) {
    assert_eq!(scene.call("read/acquire", "lock", &format!("{A} A 50 @0 ''")), "nil");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
    assert_eq!(scene.see(A), "1 for 50");
}

/// Of another reader, or of the writer that reads.
fn a_read_cuts_no_lock_short_that_lasts(scene: &mut Scene) {
    for (other, mode, under) in [("B", "read", "''"), ("A:write", "write", "A:write")] {
        scene.command("flushall");
        scene.command(&format!("hset lock mode {mode} {other} 1"));
        for _ in 0..2 {
            assert_eq!(acquire(scene, 50, "@0", under), "nil");
            let fields = if mode == "read" { "A=1 B=1" } else { "A=1 A:write=1" };
            assert_eq!(scene.see("lock"), format!("{fields} mode={mode}"));
            assert_eq!(scene.see(A), "1 for 50");
        }
    }
}

fn a_read_re_entry_cuts_nothing_short_that_lasts(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command(&format!("set {A} 1"));
    assert_eq!(scene.call("read/reenter", &format!("lock {A}"), "A 50 @0 2"), "1");
    assert_eq!([scene.see("lock"), scene.see(A)], ["A=2 mode=read", "1"]);
}

fn a_read_re_entry_sets_the_count_and_raises_ttls(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command("pexpire lock 30");
    for (lease, count, ttl) in [(40, 2, 40), (39, 3, 40), (41, 2, 41)] {
        let (keys, args) = (format!("lock {A}"), format!("A {lease} @0 {count}"));
        assert_eq!(scene.call("read/reenter", &keys, &args), "1");
        assert_eq!(scene.see("lock"), format!("A={count} mode=read for {ttl}"));
        assert_eq!(scene.see(A), format!("1 for {ttl}"));
    }
}

fn a_read_re_entry_of_what_is_gone_is_refused(scene: &mut Scene) {
    scene.command("hset lock mode read B 1");
    assert_eq!(scene.call("read/reenter", &format!("lock {A}"), "A 50 @9 2"), "0");
    assert_eq!(scene.see("lock"), "B=1 mode=read");
    assert_eq!(scene.see(A), "none");
}

fn a_read_re_entry_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset lock mode read A 1");
    assert_eq!(scene.call("read/reenter", &format!("lock {A}"), "A 50 @1233 2"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1 mode=read");
    assert_eq!(scene.see(A), "none");
}

fn a_read_re_entry_with_one_key(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("read/reenter", "lock", &format!("{A} A 50 @0 2")), "1");
    assert_eq!(scene.see("lock"), "A=2 mode=read for 50");
    assert_eq!(scene.see(A), "1 for 50");
}

fn read_renewals_answer_each_for_itself(scene: &mut Scene) {
    for (lock, timeout) in [("a", "ta"), ("c", "tc")] {
        scene.command(&format!("hset {lock} mode read A 1"));
        scene.command(&format!("pexpire {lock} 30"));
        scene.command(&format!("set {timeout} 1 px 20"));
    }
    let answer = scene.call("read/renew", "a b c ta tb tc", "A B C 50 60 70");
    assert_eq!(answer, "{1, 0, -1}");
    assert_eq!(scene.see("a"), "A=1 mode=read for 50");
    assert_eq!(scene.see("ta"), "1 for 50");
    assert_eq!(scene.see("tb"), "none");
    assert_eq!(scene.see("c"), "A=1 mode=read for 30");
    assert_eq!(scene.see("tc"), "1 for 20");
    assert_eq!(scene.call("read/renew", "c a tc ta", "A A 80 90"), "2");
    assert_eq!([scene.see("tc"), scene.see("ta")], ["1 for 80", "1 for 90"]);
}

fn a_read_renewal_never_lowers_a_ttl(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command(&format!("set {A} 1"));
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let (keys, args) = (format!("lock {A}"), format!("A {lease}"));
        assert_eq!(scene.call("read/renew", &keys, &args), "1");
        assert_eq!(scene.see("lock"), format!("A=1 mode=read for {ttl}"));
        assert_eq!(scene.see(A), format!("1 for {ttl}"));
    }
}

fn a_read_renewal_sets_anew_what_has_expired(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command("pexpire lock 90");
    assert_eq!(scene.call("read/renew", &format!("lock {A}"), "A 50"), "1");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 90");
    assert_eq!(scene.see(A), "1 for 50");
}

fn a_read_renewal_of_what_is_no_lock_leaves_the_others_alone(scene: &mut Scene) {
    scene.command("set a text");
    scene.command("hset b mode read B 1");
    assert_eq!(scene.call("read/renew", "a b ta tb", "A B 50"), "{-1, 1}");
    assert_eq!(scene.see("a"), "text");
    assert_eq!(scene.see("ta"), "none");
    assert_eq!(scene.see("b"), "B=1 mode=read for 50");
}

fn a_read_renewal_that_fails_stops_no_other(scene: &mut Scene) {
    scene.command("hset a mode read A 1");
    scene.command("hset b mode read B 1");
    let answer = scene.call("read/renew", "a b ta tb", "A B nonsense 50");
    assert!(answer.starts_with("{'") && answer.ends_with("', 1}"), "{answer}");
    assert_eq!(scene.see("a"), "A=1 mode=read");
    assert_eq!(scene.see("b"), "B=1 mode=read for 50");
}

fn a_read_renewal_with_one_key(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    assert_eq!(scene.call("read/renew", "lock", &format!("{A} A 50")), "1");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
    assert_eq!(scene.see(A), "1 for 50");
}

fn a_timeout_key_is_renewed_alone(scene: &mut Scene) {
    scene.command("set key 1");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("read/renew_apart", "key", &lease.to_string()), "1");
        assert_eq!(scene.see("key"), format!("1 for {ttl}"));
    }
}

fn a_timeout_key_that_is_gone_stays_gone(scene: &mut Scene) {
    assert_eq!(scene.call("read/renew_apart", "key", "50"), "0");
    assert_eq!(scene.see("key"), "none");
}
