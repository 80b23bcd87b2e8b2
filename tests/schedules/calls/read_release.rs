//! The end of a read hold: a release, by force or not.

use super::example::examples;
use super::scene::Scene;

examples! {
    "read/release": a_last_reader_frees_the_lock, a_reader_leaves_the_others, dead_readers_do_not_keep_the_lock, dead_readers_are_counted_out_once,
        a_reader_whose_timeout_key_lasts_is_alive,
        a_read_release_under_a_write_leaves_the_ttl, a_read_release_sets_the_count,
        a_read_release_of_what_is_gone_removes_its_timeout_key, a_read_release_with_one_key,
        the_others_have_their_timeout_keys_beside_a_tag, another_count_that_is_no_number_leaves_the_ttl,
        other_counts_that_are_enormous_are_not_counted_to;
    "read/force_unlock": a_forced_read_release_takes_all, a_forced_read_release_needs_a_reader,
        a_forced_read_release_that_comes_too_late_does_nothing, a_forced_read_release_beside_a_tag,
        a_forced_read_release_has_a_limit;
}

const A: &str = "{lock}:A:rwlock_timeout:1";

/// Releases A's hold to this count.
fn release(scene: &mut Scene, count: u32) -> String {
    scene.call("read/release", &format!("lock {A}"), &format!("A {count} ch publish"))
}

fn a_last_reader_frees_the_lock(scene: &mut Scene) {
    scene.command("hset lock mode read A 3");
    scene.command(&format!("set {A} 1"));
    assert_eq!(release(scene, 0), "3");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.see(A), "none");
    assert_eq!(scene.heard(), "ch 0");
    assert_eq!(release(scene, 0), "0");
    assert_eq!(scene.heard(), "");
}

/// The first re-entry has the longest lease, or another one.
fn a_reader_leaves_the_others(scene: &mut Scene) {
    for longest in 1..=3 {
        scene.command("hset lock mode read A 1 B 3");
        scene.command("pexpire lock 90");
        scene.command(&format!("set {A} 1 px 90"));
        for n in 1..=3 {
            let lease = if n == longest { 40 } else { 20 };
            scene.command(&format!("set {{lock}}:B:rwlock_timeout:{n} 1 px {lease}"));
        }
        assert_eq!(release(scene, 0), "1");
        assert_eq!(scene.see("lock"), "B=3 mode=read for 40");
        assert_eq!(scene.see(A), "none");
        assert_eq!(scene.heard(), "");
    }
}

fn dead_readers_do_not_keep_the_lock(scene: &mut Scene) {
    scene.command("hset lock mode read A 1 B 2");
    assert_eq!(release(scene, 0), "3");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "ch 0");
}

/// Else each release would look for all that have ever died beside readers that live.
fn dead_readers_are_counted_out_once(scene: &mut Scene) {
    scene.command("hset lock mode read A 1 B 2 C 2 D 0.5 E x F 1");
    scene.command("pexpire lock 90");
    scene.command("set {lock}:C:rwlock_timeout:2 1 px 40");
    assert_eq!(release(scene, 0), "1");
    assert_eq!(
        scene.see("lock"),
        "C=2 D=0.5 E=x mode=read for 90",
        "what is no count is left alone"
    );
}

fn a_reader_whose_timeout_key_lasts_is_alive(scene: &mut Scene) {
    for others in ["B 1", "B 2 C 1"] {
        scene.command(&format!("hset lock mode read A 1 {others}"));
        scene.command("pexpire lock 30");
        scene.command("set {lock}:B:rwlock_timeout:1 1");
        scene.command("set {lock}:B:rwlock_timeout:2 1 px 40");
        scene.command("set {lock}:C:rwlock_timeout:1 1 px 40");
        assert_eq!(release(scene, 0), "1");
        assert!(scene.see("lock").ends_with(" mode=read for 30"), "{}", scene.see("lock"));
        assert_eq!(scene.heard(), "");
    }
}

fn a_read_release_under_a_write_leaves_the_ttl(scene: &mut Scene) {
    scene.command("hset lock mode write A:write 1 A 2");
    scene.command("pexpire lock 90");
    scene.command(&format!("set {A} 1 px 40"));
    assert_eq!(release(scene, 0), "1");
    assert_eq!(scene.see("lock"), "A:write=1 mode=write for 90");
    assert_eq!(scene.see(A), "none");
    assert_eq!(scene.heard(), "");
}

fn a_read_release_sets_the_count(scene: &mut Scene) {
    scene.command("hset lock mode read A 3");
    scene.command("pexpire lock 30");
    scene.command(&format!("set {A} 1 px 30"));
    for _ in 0..2 {
        assert_eq!(release(scene, 2), "1");
        assert_eq!(scene.see("lock"), "A=2 mode=read for 30");
        assert_eq!(scene.see(A), "1 for 30");
    }
    assert_eq!(scene.heard(), "");
}

fn a_read_release_of_what_is_gone_removes_its_timeout_key(scene: &mut Scene) {
    scene.command("hset lock mode read B 1");
    scene.command(&format!("set {A} 1"));
    assert_eq!(release(scene, 1), "0");
    assert_eq!(scene.see(A), "1");
    assert_eq!(release(scene, 0), "0");
    assert_eq!(scene.see(A), "none");
    assert_eq!(scene.see("lock"), "B=1 mode=read");
    assert_eq!(scene.heard(), "");
}

fn a_read_release_with_one_key(scene: &mut Scene) {
    scene.command("hset lock mode read A 1");
    scene.command(&format!("set {A} 1"));
    assert_eq!(scene.call("read/release", "lock", &format!("{A} A 0 ch publish")), "3");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.see(A), "none");
    assert_eq!(scene.heard(), "ch 0");
}

fn the_others_have_their_timeout_keys_beside_a_tag(scene: &mut Scene) {
    for name in ["a{b}", "{b}a"] {
        scene.command(&format!("hset {name} mode read A 1 B 1"));
        scene.command(&format!("set {name}:B:rwlock_timeout:1 1 px 1"));
        let keys = format!("{name} {name}:A:rwlock_timeout:1");
        assert_eq!(scene.call("read/release", &keys, "A 0 ch publish"), "1");
        assert_eq!(scene.see(name), "B=1 mode=read for 1");
    }
}

fn another_count_that_is_no_number_leaves_the_ttl(scene: &mut Scene) {
    scene.command("hset lock mode read A 1 X stranger");
    scene.command("pexpire lock 30");
    assert_eq!(release(scene, 0), "1");
    assert_eq!(scene.see("lock"), "X=stranger mode=read for 30");
    assert_eq!(scene.heard(), "");
}

/// What other holders may have for counts, and the TTL of the lock after the release of one that leaves it 30. An entry of
/// the first of them lives for 40: it counts if no more than 10 000 entries are to be looked at.
pub(super) const ENORMOUS_COUNTS: [(&str, u64); 6] = [
    ("X 10000", 40),
    ("X 10001", 30),
    ("X 1000000000", 30),
    ("X 10000 Y -1", 40),
    ("X 4000 Y 6000", 40),
    ("X 4000 Y 6001", 30),
];

fn other_counts_that_are_enormous_are_not_counted_to(scene: &mut Scene) {
    for (counts, ttl) in ENORMOUS_COUNTS {
        scene.command("del lock");
        scene.command(&format!("hset lock mode read A 1 {counts}"));
        scene.command("pexpire lock 30");
        scene.command("set {lock}:X:rwlock_timeout:4000 1 px 40");
        assert_eq!(release(scene, 0), "1");
        let left = scene.see("lock");
        assert!(left.ends_with(&format!(" mode=read for {ttl}")), "{counts}: {left}");
        assert_eq!(scene.heard(), "");
    }
}

fn a_forced_read_release_takes_all(scene: &mut Scene) {
    scene.command("hset lock mode read A 1 B 3");
    scene.command(&format!("set {A} 1"));
    for n in 1..=3 {
        scene.command(&format!("set {{lock}}:B:rwlock_timeout:{n} 1"));
    }
    assert_eq!(scene.call("read/force_unlock", "lock", "@0 ch publish"), "1");
    for key in ["lock", A, "{lock}:B:rwlock_timeout:1", "{lock}:B:rwlock_timeout:3"] {
        assert_eq!(scene.see(key), "none", "{key}");
    }
    assert_eq!(scene.heard(), "ch 0");
}

fn a_forced_read_release_needs_a_reader(scene: &mut Scene) {
    assert_eq!(scene.call("read/force_unlock", "lock", "@9 ch publish"), "0");
    scene.command("hset lock mode write W:write 1");
    assert_eq!(scene.call("read/force_unlock", "lock", "@9 ch publish"), "0");
    assert_eq!(scene.see("lock"), "W:write=1 mode=write");
    assert_eq!(scene.heard(), "");
}

fn a_forced_read_release_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset lock mode read A 1");
    assert_eq!(scene.call("read/force_unlock", "lock", "@1233 ch publish"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1 mode=read");
    assert_eq!(scene.heard(), "");
}

fn a_forced_read_release_beside_a_tag(scene: &mut Scene) {
    for name in ["a{b}", "{b}a"] {
        let timeout = format!("{name}:A:rwlock_timeout:1");
        scene.command(&format!("hset {name} mode read A 1"));
        scene.command(&format!("set {timeout} 1"));
        assert_eq!(scene.call("read/force_unlock", name, "@0 ch publish"), "1");
        assert_eq!(scene.see(&timeout), "none");
    }
}

fn a_forced_read_release_has_a_limit(scene: &mut Scene) {
    scene.command("hset lock mode read X 4000 Y 1000000000");
    for key in ["X:rwlock_timeout:4000", "Y:rwlock_timeout:6000", "Y:rwlock_timeout:6001"] {
        scene.command(&format!("set {{lock}}:{key} 1"));
    }
    assert_eq!(scene.call("read/force_unlock", "lock", "@0 ch publish"), "1");
    for gone in ["lock", "{lock}:X:rwlock_timeout:4000", "{lock}:Y:rwlock_timeout:6000"] {
        assert_eq!(scene.see(gone), "none", "{gone}");
    }
    assert_eq!(scene.see("{lock}:Y:rwlock_timeout:6001"), "1");
}
