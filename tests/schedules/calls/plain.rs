//! The plain lock: a string that contains the token of its holder.

use super::example::examples;
use super::scene::Scene;

examples! {
    "plain/acquire": a_free_plain_lock_is_granted, a_held_plain_lock_tells_its_ttl,
        a_plain_acquire_that_comes_too_late_does_nothing, a_repeated_plain_acquire_raises_the_ttl_alone,
        a_plain_acquire_refuses_what_is_no_plain_lock;
    "plain/release": a_release_frees_a_plain_lock, a_release_of_a_plain_lock_tells_how_many_heard_it,
        a_strangers_release_leaves_a_plain_lock;
    "plain/renew": renewals_of_plain_locks_answer_each_for_itself, a_renewal_of_a_plain_lock_never_lowers_the_ttl,
        a_renewal_of_a_plain_lock_on_redis_6_2_never_lowers_the_ttl;
    "plain/prolong": a_hold_of_a_plain_lock_is_prolonged, a_hold_of_a_plain_lock_is_never_shortened,
        a_late_prolonging_of_a_plain_lock_does_nothing, a_hold_that_is_gone_is_not_prolonged;
    "plain/force_unlock": a_plain_lock_is_forced, a_free_plain_lock_is_not_forced,
        a_late_force_leaves_a_plain_lock, a_force_refuses_what_is_no_plain_lock;
    "plain/inspect": a_plain_lock_is_inspected, a_foreign_token_is_shown_in_part;
}

fn a_free_plain_lock_is_granted(scene: &mut Scene) {
    assert_eq!(scene.call("plain/acquire", "lock", "A 50 @0"), "nil");
    assert_eq!(scene.see("lock"), "A for 50");
}

fn a_held_plain_lock_tells_its_ttl(scene: &mut Scene) {
    scene.command("set lock A");
    assert_eq!(scene.call("plain/acquire", "lock", "B 50 @9"), "-1");
    scene.command("pexpire lock 30");
    scene.at(10);
    assert_eq!(scene.call("plain/acquire", "lock", "B 50 @99"), "20");
    assert_eq!(scene.call("plain/acquire", "lock", "B 50 @0"), "20");
    assert_eq!(scene.see("lock"), "A for 20");
}

fn a_hold_of_a_plain_lock_is_prolonged(scene: &mut Scene) {
    scene.command("set lock A px 30");
    assert_eq!(scene.call("plain/prolong", "lock", "A 50 @0"), "1");
    assert_eq!(scene.see("lock"), "A for 50");
}

fn a_hold_of_a_plain_lock_is_never_shortened(scene: &mut Scene) {
    scene.command("set lock A px 30");
    assert_eq!(scene.call("plain/prolong", "lock", "A 20 @0"), "1");
    assert_eq!(scene.see("lock"), "A for 30");
    scene.command("persist lock");
    assert_eq!(scene.call("plain/prolong", "lock", "A 20 @0"), "1");
    assert_eq!(scene.see("lock"), "A");
}

fn a_late_prolonging_of_a_plain_lock_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("set lock A px 30");
    assert_eq!(scene.call("plain/prolong", "lock", "A 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "A for 30");
    assert_eq!(scene.call("plain/prolong", "lock", "A 50 @1234"), "1");
    assert_eq!(scene.see("lock"), "A for 50");
}

fn a_hold_that_is_gone_is_not_prolonged(scene: &mut Scene) {
    assert_eq!(scene.call("plain/prolong", "lock", "A 50 @0"), "0");
    assert_eq!(scene.see("lock"), "none");
    scene.command("set lock B px 30");
    assert_eq!(scene.call("plain/prolong", "lock", "A 50 @0"), "0");
    assert_eq!(scene.see("lock"), "B for 30");
}

fn a_plain_acquire_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(scene.call("plain/acquire", "lock", "A 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.call("plain/acquire", "lock", "A 50 @1234"), "nil");
    assert_eq!(scene.call("plain/acquire", "lock", "A 70 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "A for 50");
}

fn a_repeated_plain_acquire_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("set lock A");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("plain/acquire", "lock", &format!("A {lease} @9")), "nil");
        assert_eq!(scene.see("lock"), format!("A for {ttl}"));
    }
}

fn a_plain_acquire_refuses_what_is_no_plain_lock(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("plain/acquire", "lock", "A 50 @9"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_release_frees_a_plain_lock(scene: &mut Scene) {
    scene.command("set lock A");
    assert_eq!(scene.call("plain/release", "lock", "A ch publish"), "2");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "ch 0");
    assert_eq!(scene.call("plain/release", "lock", "A ch publish"), "0");
    assert_eq!(scene.heard(), "");
}

fn a_release_of_a_plain_lock_tells_how_many_heard_it(scene: &mut Scene) {
    scene.listen("ch");
    scene.listen("ch");
    for (channel, heard) in [("ch", "4"), ("other", "2")] {
        scene.command("set lock A");
        assert_eq!(scene.call("plain/release", "lock", &format!("A {channel} publish")), heard);
    }
    scene.is_deaf();
    scene.command("set lock A");
    assert_eq!(scene.call("plain/release", "lock", "A other publish"), "1");
}

fn a_strangers_release_leaves_a_plain_lock(scene: &mut Scene) {
    scene.command("set lock A");
    assert_eq!(scene.call("plain/release", "lock", "B ch publish"), "0");
    assert_eq!(scene.see("lock"), "A");
    assert_eq!(scene.heard(), "");
}

fn renewals_of_plain_locks_answer_each_for_itself(scene: &mut Scene) {
    for lock in ["a", "c"] {
        scene.command(&format!("set {lock} A"));
        scene.command(&format!("pexpire {lock} 30"));
    }
    scene.command("hset d A 1");
    let answers = scene.call("plain/renew", "d a b c", "A A B C 40 50 60 70");
    assert_eq!(answers, "{-1, 1, 0, -1}");
    assert_eq!(scene.see("a"), "A for 50");
    assert_eq!(scene.see("b"), "none");
    assert_eq!(scene.see("c"), "A for 30");
    assert_eq!(scene.see("d"), "A=1");
    assert_eq!(scene.call("plain/renew", "d a", "A A 60"), "{-1, 1}");
    assert_eq!(scene.see("a"), "A for 60");
}

fn a_renewal_of_a_plain_lock_never_lowers_the_ttl(scene: &mut Scene) {
    scene.command("set lock A");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("plain/renew", "lock", &format!("A {lease}")), "1");
        assert_eq!(scene.see("lock"), format!("A for {ttl}"));
    }
}

fn a_renewal_of_a_plain_lock_on_redis_6_2_never_lowers_the_ttl(scene: &mut Scene) {
    scene.is_old();
    a_renewal_of_a_plain_lock_never_lowers_the_ttl(scene);
}

fn a_plain_lock_is_forced(scene: &mut Scene) {
    scene.command("set lock A");
    assert_eq!(scene.call("plain/force_unlock", "lock", "@0 ch publish"), "1");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "ch 0");
}

fn a_free_plain_lock_is_not_forced(scene: &mut Scene) {
    assert_eq!(scene.call("plain/force_unlock", "lock", "@9 ch publish"), "0");
    assert_eq!(scene.heard(), "");
}

fn a_late_force_leaves_a_plain_lock(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("set lock A");
    assert_eq!(scene.call("plain/force_unlock", "lock", "@1233 ch publish"), "{@1234}");
    assert_eq!(scene.see("lock"), "A");
    assert_eq!(scene.heard(), "");
}

fn a_force_refuses_what_is_no_plain_lock(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("plain/force_unlock", "lock", "@9 ch publish"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_plain_lock_is_inspected(scene: &mut Scene) {
    assert_eq!(scene.call("plain/inspect", "lock", ""), "{-2, {}}");
    scene.command("set lock A");
    assert_eq!(scene.call("plain/inspect", "lock", ""), "{-1, {'A', '1'}}");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("plain/inspect", "lock", ""), "{30, {'A', '1'}}");
}

fn a_foreign_token_is_shown_in_part(scene: &mut Scene) {
    scene.command("set lock !~\u{7f}");
    assert_eq!(scene.call("plain/inspect", "lock", ""), r"{-1, {'!~\x7f', '1'}}");
    scene.command(&format!("set lock {}", "ab".repeat(65)));
    let shown = format!("{{-1, {{'{}', '1'}}}}", "ab".repeat(64));
    assert_eq!(scene.call("plain/inspect", "lock", ""), shown);
}
