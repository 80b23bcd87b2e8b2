//! The reentrant lock, one hold at a time.

use super::example::examples;
use super::scene::Scene;

examples! {
    "reentrant/acquire": a_free_lock_is_granted, a_held_lock_tells_its_ttl, an_acquire_that_comes_too_late_does_nothing,
        a_repeated_acquire_raises_the_ttl_alone;
    "reentrant/reenter": a_re_entry_sets_the_count_and_raises_the_ttl,
        a_re_entry_cuts_no_key_short_that_lasts, a_re_entry_of_what_is_gone_is_refused,
        a_re_entry_that_comes_too_late_does_nothing;
    "reentrant/release": a_release_to_0_frees_the_lock, a_release_tells_how_many_heard_it, a_release_sets_the_count,
        a_strangers_release_does_nothing;
    "reentrant/force_unlock": a_force_unlock_frees_the_lock, a_force_unlock_of_a_free_lock_tells_nobody,
        a_force_unlock_that_comes_too_late_does_nothing, a_force_unlock_refuses_what_is_no_lock;
    "reentrant/swap": a_hold_is_handed_off, a_repeated_hand_off_raises_the_ttl_alone,
        a_hold_that_is_gone_is_not_handed_off, a_hand_off_that_comes_too_late_does_nothing;
    "reentrant/extend": a_hold_is_extended_and_the_listeners_are_counted,
        a_hold_that_lasts_is_not_cut_short, a_hold_that_is_gone_is_not_extended,
        listeners_that_may_not_be_counted_are_unknown;
    "reentrant/inspect":
        a_lock_is_inspected, one_holder_is_looked_for, of_many_holders_some_are_listed,
        what_is_too_long_for_a_holder_is_cut;
}

fn a_free_lock_is_granted(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/acquire", "lock", "A 50 @0"), "nil");
    assert_eq!(scene.see("lock"), "A=1 for 50");
}

fn a_held_lock_tells_its_ttl(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("reentrant/acquire", "lock", "B 50 @9"), "-1");
    scene.command("pexpire lock 30");
    scene.at(10);
    assert_eq!(scene.call("reentrant/acquire", "lock", "B 50 @99"), "20");
    assert_eq!(scene.see("lock"), "A=1 for 20");
}

fn an_acquire_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(scene.call("reentrant/acquire", "lock", "A 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.call("reentrant/acquire", "lock", "A 50 @1234"), "nil");
    assert_eq!(scene.call("reentrant/acquire", "lock", "A 70 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1 for 50");
}

fn a_repeated_acquire_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock A 2");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("reentrant/acquire", "lock", &format!("A {lease} @9")), "nil");
        assert_eq!(scene.see("lock"), format!("A=2 for {ttl}"));
    }
}

fn a_re_entry_cuts_no_key_short_that_lasts(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("reentrant/reenter", "lock", "A 50 @0 2"), "1");
    assert_eq!(scene.see("lock"), "A=2");
}

fn a_re_entry_sets_the_count_and_raises_the_ttl(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.command("pexpire lock 30");
    for (lease, count, ttl) in [(40, 2, 40), (39, 3, 40), (41, 2, 41)] {
        let args = format!("A {lease} @0 {count}");
        assert_eq!(scene.call("reentrant/reenter", "lock", &args), "1");
        assert_eq!(scene.see("lock"), format!("A={count} for {ttl}"));
    }
}

fn a_re_entry_of_what_is_gone_is_refused(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/reenter", "lock", "A 50 @9 2"), "0");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock B 1");
    assert_eq!(scene.call("reentrant/reenter", "lock", "A 50 @9 2"), "0");
    assert_eq!(scene.see("lock"), "B=1");
}

fn a_re_entry_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset lock A 1");
    assert_eq!(scene.call("reentrant/reenter", "lock", "A 50 @1233 2"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_release_to_0_frees_the_lock(scene: &mut Scene) {
    scene.command("hset lock A 3");
    assert_eq!(scene.call("reentrant/release", "lock", "A 0 ch publish"), "2");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "ch 0");
    assert_eq!(scene.call("reentrant/release", "lock", "A 0 ch publish"), "0");
    assert_eq!(scene.heard(), "");
}

fn a_release_tells_how_many_heard_it(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.listen("ch");
    scene.listen("ch");
    assert_eq!(scene.call("reentrant/release", "lock", "A 0 ch publish"), "4");
    scene.command("hset lock A 1");
    assert_eq!(scene.call("reentrant/release", "lock", "A 0 other publish"), "2");
    scene.is_deaf();
    scene.command("hset lock A 1");
    assert_eq!(scene.call("reentrant/release", "lock", "A 0 other publish"), "1");
}

fn a_release_sets_the_count(scene: &mut Scene) {
    scene.command("hset lock A 3");
    scene.command("pexpire lock 30");
    for _ in 0..2 {
        assert_eq!(scene.call("reentrant/release", "lock", "A 2 ch publish"), "1");
        assert_eq!(scene.see("lock"), "A=2 for 30");
    }
    assert_eq!(scene.heard(), "");
}

fn a_strangers_release_does_nothing(scene: &mut Scene) {
    scene.command("hset lock A 1");
    for count in [0, 1] {
        let args = format!("B {count} ch publish");
        assert_eq!(scene.call("reentrant/release", "lock", &args), "0");
    }
    assert_eq!(scene.see("lock"), "A=1");
    assert_eq!(scene.heard(), "");
}

fn a_force_unlock_frees_the_lock(scene: &mut Scene) {
    scene.command("hset lock A 3");
    assert_eq!(scene.call("reentrant/force_unlock", "lock", "@0 ch publish"), "1");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "ch 0");
}

fn a_force_unlock_of_a_free_lock_tells_nobody(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/force_unlock", "lock", "@9 ch publish"), "0");
    assert_eq!(scene.heard(), "");
}

fn a_force_unlock_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset lock A 3");
    assert_eq!(scene.call("reentrant/force_unlock", "lock", "@1233 ch publish"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=3");
    assert_eq!(scene.heard(), "");
}

fn a_force_unlock_refuses_what_is_no_lock(scene: &mut Scene) {
    scene.command("set lock precious");
    assert_eq!(scene.call("reentrant/force_unlock", "lock", "@9 ch publish"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "precious");
}

fn a_hold_is_handed_off(scene: &mut Scene) {
    scene.command("hset lock A 2");
    scene.command("pexpire lock 90");
    assert_eq!(scene.call("reentrant/swap", "lock", "B 40 @0 A"), "nil");
    assert_eq!(scene.see("lock"), "B=1 for 40");
}

fn a_repeated_hand_off_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock B 2");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("reentrant/swap", "lock", &format!("B {lease} @9 A")), "nil");
        assert_eq!(scene.see("lock"), format!("B=2 for {ttl}"));
    }
}

fn a_hold_that_is_gone_is_not_handed_off(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/swap", "lock", "B 40 @9 A"), "-2");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock C 1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("reentrant/swap", "lock", "B 40 @9 A"), "30");
    assert_eq!(scene.see("lock"), "C=1 for 30");
}

fn a_hand_off_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    for holder in ["A", "B"] {
        scene.command("del lock");
        scene.command(&format!("hset lock {holder} 1"));
        assert_eq!(scene.call("reentrant/swap", "lock", "B 40 @1233 A"), "{@1234}");
        assert_eq!(scene.see("lock"), format!("{holder}=1"));
    }
}

fn a_hold_is_extended_and_the_listeners_are_counted(scene: &mut Scene) {
    scene.command("hset lock A 2");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("reentrant/extend", "lock", "A 40 ch numsub"), "1");
    assert_eq!(scene.see("lock"), "A=2 for 40");
    scene.listen("ch");
    scene.listen("ch");
    for (lease, ttl) in [(39, 40), (41, 41)] {
        let args = format!("A {lease} ch numsub");
        assert_eq!(scene.call("reentrant/extend", "lock", &args), "3");
        assert_eq!(scene.see("lock"), format!("A=2 for {ttl}"));
    }
}

fn a_hold_that_lasts_is_not_cut_short(scene: &mut Scene) {
    scene.command("hset lock A 1");
    for lease in [0, 40] {
        let args = format!("A {lease} ch numsub");
        assert_eq!(scene.call("reentrant/extend", "lock", &args), "1");
        assert_eq!(scene.see("lock"), "A=1");
    }
}

fn a_hold_that_is_gone_is_not_extended(scene: &mut Scene) {
    scene.listen("ch");
    assert_eq!(scene.call("reentrant/extend", "lock", "A 40 ch numsub"), "0");
    scene.command("hset lock B 1");
    assert_eq!(scene.call("reentrant/extend", "lock", "A 40 ch numsub"), "0");
    assert_eq!(scene.see("lock"), "B=1");
}

fn listeners_that_may_not_be_counted_are_unknown(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("reentrant/extend", "lock", "A 40 ch refused"), "-1");
    assert_eq!(scene.see("lock"), "A=1 for 40");
}

fn a_lock_is_inspected(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/inspect", "lock", "9"), "{-2, {}, 0}");
    scene.command("hset lock A 2");
    assert_eq!(scene.call("reentrant/inspect", "lock", "9"), "{-1, {'A', '2'}, 1}");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("reentrant/inspect", "lock", "9"), "{30, {'A', '2'}, 1}");
}

fn one_holder_is_looked_for(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/inspect", "lock", "9 A"), "{-2, {}, 0}");
    scene.command("hset lock mode read A 1 B 2");
    let answer = "{-1, {'mode', 'read', 'B', '2'}, 3}";
    assert_eq!(scene.call("reentrant/inspect", "lock", "9 B"), answer);
    assert_eq!(scene.call("reentrant/inspect", "lock", "1 B"), answer, "however many there are");
    assert_eq!(scene.call("reentrant/inspect", "lock", "9 C"), "{-1, {'mode', 'read'}, 3}");
    let long = "x".repeat(21);
    scene.command(&format!("hset lock C {long}"));
    let answer = "{-1, {'mode', 'read', 'C', ''}, 4}";
    assert_eq!(scene.call("reentrant/inspect", "lock", "9 C"), answer);
}

/// Another program may have written ids and values of any size.
fn what_is_too_long_for_a_holder_is_cut(scene: &mut Scene) {
    let (long, cut) = ("x".repeat(200), "x".repeat(128));
    let (count, text) = ("1".repeat(20), "2".repeat(21));
    scene.command(&format!("hset lock {long} {count} B {text}"));
    let answer = format!("{{-1, {{'{cut}', '{count}', 'B', ''}}, 2}}");
    assert_eq!(scene.call("reentrant/inspect", "lock", "9"), answer);
}

/// The server is not busy for long by what another program wrote.
fn of_many_holders_some_are_listed(scene: &mut Scene) {
    scene.command("hset lock A B B 2 C 3");
    assert_eq!(
        scene.call("reentrant/inspect", "lock", "3"),
        "{-1, {'A', 'B', 'B', '2', 'C', '3'}, 3}"
    );
    assert_eq!(scene.call("reentrant/inspect", "lock", "2"), "{-1, {'A', 'B', 'B', '2'}, 3}");
    // The mode says which kind it is.
    scene.command("hset lock mode read");
    let answer = "{-1, {'mode', 'read', 'A', 'B', 'B', '2'}, 4}";
    assert_eq!(scene.call("reentrant/inspect", "lock", "2"), answer);
    scene.command("del lock");
    scene.command("hset lock mode read A 1 B 2");
    let answer = "{-1, {'mode', 'read', 'A', '1'}, 3}";
    assert_eq!(scene.call("reentrant/inspect", "lock", "2"), answer);
}
