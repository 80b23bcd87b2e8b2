//! The fenced lock: its tokens.

use super::example::examples;
use super::scene::Scene;

examples! {
    "fenced/acquire": a_grant_counts_one_token_more, a_repeat_has_the_same_token, a_held_lock_counts_no_token,
        a_grant_that_comes_too_late_counts_no_token, a_counter_that_is_no_number_grants_nothing,
        a_counter_that_is_gone_begins_again_for_who_holds, a_token_is_exact;
    "fenced/swap": a_hand_off_counts_one_token_more, a_repeated_hand_off_has_the_same_token,
        a_hand_off_of_what_is_gone_counts_no_token, a_late_hand_off_counts_no_token,
        a_hand_off_with_a_counter_that_is_no_number_changes_nothing, a_counter_that_is_gone_begins_again_with_a_swap;
    "fenced/token": the_last_token_is_read;
}

fn a_grant_counts_one_token_more(scene: &mut Scene) {
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @0"), "{1, '1'}");
    assert_eq!(scene.see("lock"), "A=1 for 50");
    assert_eq!(scene.see("count"), "1");
    scene.command("del lock");
    scene.command("pexpire count 99");
    assert_eq!(scene.call("fenced/acquire", "lock count", "B 40 @0"), "{1, '2'}");
    assert_eq!(scene.see("lock"), "B=1 for 40");
    assert_eq!(scene.see("count"), "2");
}

fn a_repeat_has_the_same_token(scene: &mut Scene) {
    scene.command("hset lock A 2");
    scene.command("set count 7");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let args = format!("A {lease} @0");
        assert_eq!(scene.call("fenced/acquire", "lock count", &args), "{1, '7'}");
        assert_eq!(scene.see("lock"), format!("A=2 for {ttl}"));
    }
    assert_eq!(scene.see("count"), "7");
}

fn a_held_lock_counts_no_token(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("fenced/acquire", "lock count", "B 50 @9"), "-1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("fenced/acquire", "lock count", "B 50 @9"), "30");
    assert_eq!(scene.see("lock"), "A=1 for 30");
    assert_eq!(scene.see("count"), "none");
}

fn a_grant_that_comes_too_late_counts_no_token(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.see("count"), "none");
    scene.command("hset lock A 1");
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @1233"), "{@1234}");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_counter_that_is_no_number_grants_nothing(scene: &mut Scene) {
    scene.command("rpush count x");
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @9"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "none");
}

fn a_counter_that_is_gone_begins_again_for_who_holds(scene: &mut Scene) {
    scene.command("hset lock A 1");
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @9"), "{1, 1}");
    assert_eq!(scene.see("count"), "1");
}

fn a_token_is_exact(scene: &mut Scene) {
    scene.command("set count 9007199254740992");
    let token = "{1, '9007199254740993'}";
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @9"), token);
    assert_eq!(scene.call("fenced/acquire", "lock count", "A 50 @9"), token);
}

fn a_hand_off_counts_one_token_more(scene: &mut Scene) {
    scene.command("hset lock A 2");
    scene.command("pexpire lock 90");
    scene.command("set count 7");
    scene.command("pexpire count 99");
    assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @0 A"), "{1, '8'}");
    assert_eq!(scene.see("lock"), "B=1 for 40");
    assert_eq!(scene.see("count"), "8");
}

fn a_repeated_hand_off_has_the_same_token(scene: &mut Scene) {
    scene.command("hset lock B 2");
    scene.command("set count 7");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let args = format!("B {lease} @0 A");
        assert_eq!(scene.call("fenced/swap", "lock count", &args), "{1, '7'}");
        assert_eq!(scene.see("lock"), format!("B=2 for {ttl}"));
    }
    assert_eq!(scene.see("count"), "7");
}

fn a_hand_off_of_what_is_gone_counts_no_token(scene: &mut Scene) {
    assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @9 A"), "-2");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock C 1");
    scene.command("pexpire lock 30");
    assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @9 A"), "30");
    assert_eq!(scene.see("lock"), "C=1 for 30");
    assert_eq!(scene.see("count"), "none");
}

fn a_late_hand_off_counts_no_token(scene: &mut Scene) {
    scene.at(1_234);
    for holder in ["A", "B"] {
        scene.command("del lock");
        scene.command(&format!("hset lock {holder} 1"));
        assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @1233 A"), "{@1234}");
        assert_eq!(scene.see("lock"), format!("{holder}=1"));
        assert_eq!(scene.see("count"), "none");
    }
}

fn a_hand_off_with_a_counter_that_is_no_number_changes_nothing(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.command("rpush count x");
    assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @9 A"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "A=1");
}

fn a_counter_that_is_gone_begins_again_with_a_swap(scene: &mut Scene) {
    scene.command("hset lock B 1");
    assert_eq!(scene.call("fenced/swap", "lock count", "B 40 @9 A"), "{1, 1}");
    assert_eq!(scene.see("count"), "1");
}

fn the_last_token_is_read(scene: &mut Scene) {
    assert_eq!(scene.call("fenced/token", "count", ""), "0");
    scene.command("set count 9007199254740993");
    assert_eq!(scene.call("fenced/token", "count", ""), "'9007199254740993'");
}
