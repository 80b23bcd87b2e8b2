//! Read/write locks in a slot that moves: a key that is on another server is not a dead one, and is made on neither twice.

use super::example::examples;
use super::scene::{Refuses, Scene};

examples! {
    "read/acquire": a_repeated_read_without_its_key_here_is_refused, a_new_read_is_granted_where_the_slot_moves_to;
    "read/reenter": a_read_re_entry_without_its_key_here_is_refused;
    "read/renew": a_read_renewal_without_its_key_here_is_refused;
    "read/release": a_read_release_without_its_key_here_is_refused, a_read_release_passes_over_a_key_that_is_elsewhere,
        another_readers_key_elsewhere_keeps_the_lock;
    "read/force_unlock": a_forced_read_release_passes_over_a_key_that_is_elsewhere;
    "write/release": a_read_under_a_write_with_its_key_elsewhere_keeps_the_lock;
    "write/force_unlock": a_forced_write_release_passes_over_a_key_that_is_elsewhere;
}

const A: &str = "{lock}:A:rwlock_timeout:1";
const B: &str = "{lock}:B:rwlock_timeout:1";

fn prepare(scene: &mut Scene, fields: &str) {
    scene.command(&format!("hset lock {fields}"));
    scene.command("pexpire lock 30");
}

/// The call is refused and changes nothing.
fn is_refused(scene: &mut Scene, script: &str, args: &str) {
    prepare(scene, "mode read A 1 B 1");
    scene.is_elsewhere(A, Refuses::WithOthers);
    assert_eq!(scene.call(script, &format!("lock {A}"), args), "ERR");
    assert_eq!(scene.see("lock"), "A=1 B=1 mode=read for 30");
    assert_eq!(scene.see(A), "none");
    assert_eq!(scene.heard(), "");
}

fn a_repeated_read_without_its_key_here_is_refused(scene: &mut Scene) {
    is_refused(scene, "read/acquire", "A 50 @9 ''");
}

fn a_new_read_is_granted_where_the_slot_moves_to(scene: &mut Scene) {
    scene.is_elsewhere(A, Refuses::WithOthers);
    for others in ["", "B=1 "] {
        let args = format!("{A} A 50 @9 ''");
        assert_eq!(scene.call("read/acquire", "lock", &args), "nil");
        assert_eq!(scene.see("lock"), format!("A=1 {others}mode=read for 50"));
        assert_eq!(scene.see(A), "1 for 50");
        scene.command(&format!("del lock {A}"));
        scene.command("hset lock mode read B 1");
        scene.command("pexpire lock 30");
    }
}

fn a_read_re_entry_without_its_key_here_is_refused(scene: &mut Scene) {
    is_refused(scene, "read/reenter", "A 50 @9 2");
}

fn a_read_renewal_without_its_key_here_is_refused(scene: &mut Scene) {
    prepare(scene, "mode read A 1");
    scene.is_elsewhere(A, Refuses::WithOthers);
    let answer = scene.call("read/renew", &format!("lock {A}"), "A 50");
    assert!(answer.starts_with("{'ERR "), "{answer}");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 30");
    assert_eq!(scene.see(A), "none");
}

fn a_read_release_without_its_key_here_is_refused(scene: &mut Scene) {
    is_refused(scene, "read/release", "A 0 ch publish");
}

fn a_read_release_passes_over_a_key_that_is_elsewhere(scene: &mut Scene) {
    scene.is_elsewhere(A, Refuses::Each);
    assert_eq!(scene.call("read/release", &format!("lock {A}"), "A 0 ch publish"), "0");
}

fn another_readers_key_elsewhere_keeps_the_lock(scene: &mut Scene) {
    for refuses in [Refuses::Each, Refuses::WithOthers] {
        prepare(scene, "mode read A 1 B 1");
        scene.command(&format!("set {A} 1"));
        scene.is_elsewhere(B, refuses);
        assert_eq!(scene.call("read/release", &format!("lock {A}"), "A 0 ch publish"), "1");
        assert_eq!(scene.see("lock"), "B=1 mode=read for 30");
        assert_eq!(scene.heard(), "");
    }
}

fn a_forced_read_release_passes_over_a_key_that_is_elsewhere(scene: &mut Scene) {
    prepare(scene, "mode read A 1");
    scene.is_elsewhere(A, Refuses::Each);
    assert_eq!(scene.call("read/force_unlock", "lock", "@9 ch publish"), "1");
    assert_eq!(scene.see("lock"), "none");
}

fn a_read_under_a_write_with_its_key_elsewhere_keeps_the_lock(scene: &mut Scene) {
    for refuses in [Refuses::Each, Refuses::WithOthers] {
        prepare(scene, "mode write B:write 1 B 1");
        scene.is_elsewhere(B, refuses);
        assert_eq!(scene.call("write/release", "lock", "B:write 0 ch publish"), "2");
        assert_eq!(scene.see("lock"), "B=1 mode=read for 30");
        assert_eq!(scene.heard(), "ch 1");
        scene.command("del lock");
    }
}

fn a_forced_write_release_passes_over_a_key_that_is_elsewhere(scene: &mut Scene) {
    prepare(scene, "mode write A:write 1 A 1");
    scene.is_elsewhere(A, Refuses::Each);
    assert_eq!(scene.call("write/force_unlock", "lock", "@9 ch publish"), "1");
    assert_eq!(scene.see("lock"), "none");
}
