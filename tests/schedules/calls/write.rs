//! The write side of a read/write lock.

use super::example::examples;
use super::read_release::ENORMOUS_COUNTS;
use super::scene::Scene;

examples! {
    "write/acquire": a_free_lock_is_granted_to_a_writer, a_writer_waits_for_others, a_writer_refuses_a_lock_of_another_kind,
        a_write_that_comes_too_late_does_nothing, a_repeated_write_raises_the_ttl_alone;
    "write/release": a_write_release_frees_the_lock, a_write_release_sets_the_count, a_strangers_write_release_does_nothing,
        a_write_release_leaves_the_writers_reads, reads_that_are_dead_do_not_keep_the_lock,
        a_read_whose_timeout_key_lasts_is_alive,
        a_name_with_a_tag_has_its_timeout_keys_beside_it, a_count_that_is_no_number_leaves_the_ttl,
        counts_that_are_enormous_are_not_counted_to;
    "write/force_unlock": a_forced_write_release_takes_all, a_forced_write_release_needs_a_writer,
        a_forced_write_release_that_comes_too_late_does_nothing, a_forced_write_release_beside_a_tag,
        a_forced_write_release_has_a_limit;
}

const ALL_HEARD: &str = "ch 1, ch 0";

fn a_free_lock_is_granted_to_a_writer(scene: &mut Scene) {
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @0"), "nil");
    assert_eq!(scene.see("lock"), "W:write=1 mode=write for 50");
}

fn a_writer_waits_for_others(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @9"), "-1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @9"), "30");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 30");
}

fn a_writer_refuses_a_lock_of_another_kind(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @9"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_write_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock mode write W:write 1");
    assert_eq!(scene.call("write/acquire", "lock", "W:write 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "W:write=1 mode=write");
}

fn a_repeated_write_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 2");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let args = format!("W:write {lease} @0");
        assert_eq!(scene.call("write/acquire", "lock", &args), "nil");
        assert_eq!(scene.see("lock"), format!("W:write=2 mode=write for {ttl}"));
    }
}

fn a_write_release_frees_the_lock(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 3");
    assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), ALL_HEARD);
    assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "0");
    assert_eq!(scene.heard(), "");
}

fn a_write_release_sets_the_count(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 3");
    scene.command("pexpire lock 30");
    for _ in 0..2 {
        assert_eq!(scene.call("write/release", "lock", "W:write 2 ch publish"), "1");
        assert_eq!(scene.see("lock"), "W:write=2 mode=write for 30");
    }
    assert_eq!(scene.heard(), "");
}

fn a_strangers_write_release_does_nothing(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 1");
    for count in [0, 1] {
        let args = format!("V:write {count} ch publish");
        assert_eq!(scene.call("write/release", "lock", &args), "0");
    }
    assert_eq!(scene.see("lock"), "W:write=1 mode=write");
    assert_eq!(scene.heard(), "");
}

/// The first re-entry has the longest lease, or another one.
fn a_write_release_leaves_the_writers_reads(scene: &mut Scene) {
    for longest in 1..=3 {
        scene.command("hset lock mode write W:write 2 W 3");
        scene.command("pexpire lock 90");
        for n in 1..=3 {
            let lease = if n == longest { 40 } else { 20 };
            scene.command(&format!("set {{lock}}:W:rwlock_timeout:{n} 1 px {lease}"));
        }
        assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
        assert_eq!(scene.see("lock"), "W=3 mode=read for 40");
        assert_eq!(scene.heard(), "ch 1");
        scene.command("del lock");
    }
}

fn reads_that_are_dead_do_not_keep_the_lock(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 1 W 2");
    assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), ALL_HEARD);
}

fn a_read_whose_timeout_key_lasts_is_alive(scene: &mut Scene) {
    for count in [1, 2] {
        scene.command(&format!("hset lock mode write W:write 1 W {count}"));
        scene.command("pexpire lock 30");
        scene.command("set {lock}:W:rwlock_timeout:1 1");
        scene.command("set {lock}:W:rwlock_timeout:2 1 px 40");
        assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
        assert_eq!(scene.see("lock"), format!("W={count} mode=read for 30"));
        assert_eq!(scene.heard(), "ch 1");
    }
}

fn a_name_with_a_tag_has_its_timeout_keys_beside_it(scene: &mut Scene) {
    for name in ["a{b}", "{b}a"] {
        scene.command(&format!("hset {name} mode write W:write 1 W 1"));
        scene.command(&format!("set {name}:W:rwlock_timeout:1 1 px 1"));
        assert_eq!(scene.call("write/release", name, "W:write 0 ch publish"), "2");
        assert_eq!(scene.see(name), "W=1 mode=read for 1");
    }
}

fn a_count_that_is_no_number_leaves_the_ttl(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 1 X stranger");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
    assert_eq!(scene.see("lock"), "X=stranger mode=read for 30");
    assert_eq!(scene.heard(), "ch 1");
}

fn counts_that_are_enormous_are_not_counted_to(scene: &mut Scene) {
    for (counts, ttl) in ENORMOUS_COUNTS {
        scene.command("del lock");
        scene.command(&format!("hset lock mode write W:write 1 {counts}"));
        scene.command("pexpire lock 30");
        scene.command("set {lock}:X:rwlock_timeout:4000 1 px 40");
        assert_eq!(scene.call("write/release", "lock", "W:write 0 ch publish"), "2");
        let left = scene.see("lock");
        assert!(left.ends_with(&format!(" mode=read for {ttl}")), "{counts}: {left}");
        assert_eq!(scene.heard(), "ch 1");
    }
}

fn a_forced_write_release_takes_all(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 2 W 3");
    for n in 1..=3 {
        scene.command(&format!("set {{lock}}:W:rwlock_timeout:{n} 1"));
    }
    assert_eq!(scene.call("write/force_unlock", "lock", "@0 ch publish"), "1");
    for key in ["lock", "{lock}:W:rwlock_timeout:1", "{lock}:W:rwlock_timeout:3"] {
        assert_eq!(scene.see(key), "none", "{key}");
    }
    assert_eq!(scene.heard(), ALL_HEARD);
}

fn a_forced_write_release_needs_a_writer(scene: &mut Scene) {
    assert_eq!(scene.call("write/force_unlock", "lock", "@9 ch publish"), "0");
    scene.command("hset lock mode read A 1");
    assert_eq!(scene.call("write/force_unlock", "lock", "@9 ch publish"), "0");
    assert_eq!(scene.see("lock"), "A=1 mode=read");
    assert_eq!(scene.heard(), "");
}

fn a_forced_write_release_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset lock mode write W:write 2");
    assert_eq!(scene.call("write/force_unlock", "lock", "@1233 ch publish"), "{@1234}");
    assert_eq!(scene.see("lock"), "W:write=2 mode=write");
    assert_eq!(scene.heard(), "");
}

fn a_forced_write_release_beside_a_tag(scene: &mut Scene) {
    for name in ["a{b}", "{b}a"] {
        let timeout = format!("{name}:W:rwlock_timeout:1");
        scene.command(&format!("hset {name} mode write W:write 1 W 1"));
        scene.command(&format!("set {timeout} 1"));
        assert_eq!(scene.call("write/force_unlock", name, "@0 ch publish"), "1");
        assert_eq!(scene.see(&timeout), "none");
    }
}

fn a_forced_write_release_has_a_limit(scene: &mut Scene) {
    scene.command("hset lock mode write W:write 1 X 4000 Y 1000000000");
    for key in ["X:rwlock_timeout:4000", "Y:rwlock_timeout:5999", "Y:rwlock_timeout:6000"] {
        scene.command(&format!("set {{lock}}:{key} 1"));
    }
    assert_eq!(scene.call("write/force_unlock", "lock", "@0 ch publish"), "1");
    for gone in ["lock", "{lock}:X:rwlock_timeout:4000", "{lock}:Y:rwlock_timeout:5999"] {
        assert_eq!(scene.see(gone), "none", "{gone}");
    }
    assert_eq!(scene.see("{lock}:Y:rwlock_timeout:6000"), "1");
}
