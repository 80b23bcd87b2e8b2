//! The fair lock: releases, withdrawals, and who is woken. A waiter of this crate keeps its place for 310 ms, in steps of 10 ms.

use super::example::examples;
use super::scene::Scene;

examples! {
    "fair/release": a_fair_release_wakes_the_first_who_lives, a_fair_release_passes_over_the_dead,
        a_fair_release_that_is_refused_does_nothing,
        a_fair_release_without_a_line_wakes_nobody, a_fair_release_sets_the_count,
        a_strangers_fair_release_does_nothing;
    "fair/withdraw": a_withdrawal_wakes_the_first_who_lives, a_withdrawal_passes_over_the_dead,
        a_withdrawal_that_is_refused_does_nothing,
        a_withdrawal_from_the_line_of_a_free_lock, a_withdrawal_from_the_line_of_a_held_lock,
        a_withdrawal_of_nothing_wakes_nobody, a_withdrawal_removes_a_deadline_without_a_place;
    "fair/force_unlock": a_forced_fair_release_wakes_the_first_who_lives, a_forced_fair_release_passes_over_the_dead,
        a_forced_fair_release_that_is_refused_does_nothing,
        a_forced_fair_release_of_a_free_lock, a_forced_fair_release_that_comes_too_late,
        a_forced_fair_release_refuses_what_is_no_lock;
    "fair/inspect": a_fair_lock_is_inspected, of_many_holders_and_waiters_some_are_listed,
        what_is_too_long_for_a_holder_is_cut, each_waiter_is_told_with_how_long_it_stays;
}

const KEYS: &str = "lock queue times";

/// A waiter, its deadline, the time, and for how long it keeps its place then.
const KEPT: [(&str, &str, u64, i64); 19] = [
    // Without a mark: until its deadline.
    ("#1", "@26", 25, 1),
    ("#1", "@25", 25, 0),
    ("#1", "@1500", 400, 1100),
    ("#1", "@25+1", 25, 0),
    // Who has asked at 0 has a step more than 310 ms.
    ("#1", "@500+1", 25, 305),
    ("#1", "@500+1", 329, 1),
    ("#1", "@500+1", 330, 0),
    ("#1", "@500+1", 335, -5),
    ("#1", "@501+1", 25, 305),
    ("#1", "@501+1", 330, 0),
    ("#0", "@500+1", 330, 0),
    ("#1", "@100+1", 25, 75),
    // A clock was set back by up to 64 steps.
    ("#1", "@500+5", 25, 325),
    ("#1", "@500+66", 25, 325),
    ("#1", "@500+67", 25, -9265),
    // Of others only the deadline counts.
    ("j:7", "@500+1", 330, 170),
    ("u:4611686018427387903", "@500+1", 330, 170),
    ("u:14611686018427387904", "@500+1", 330, 170),
    ("j:4611686018427387904", "@500+1", 330, 0),
];

/// A holds the lock, or nobody; and this is the line.
fn prepare(scene: &mut Scene, is_held: bool, waiters: &[(&str, &str)]) {
    scene.command("flushall");
    if is_held {
        scene.command("hset lock #9 2");
    }
    for (waiter, deadline) in waiters {
        scene.command(&format!("rpush queue {waiter}"));
        scene.command(&format!("zadd times {deadline} {waiter}"));
    }
}

/// The call frees the lock that #9 holds.
fn wakes_the_first_who_lives(scene: &mut Scene, script: &str, args: &str) {
    for (waiter, deadline, now, kept) in KEPT {
        prepare(scene, true, &[(waiter, deadline)]);
        scene.at(now);
        assert_eq!(scene.call(script, KEYS, args), "1");
        assert_eq!(scene.see("lock"), "none");
        let (woken, left) = match kept > 0 {
            true => (format!("ch:{waiter} 0"), waiter),
            false => (String::new(), "none"),
        };
        assert_eq!(scene.heard(), woken, "{waiter} {deadline} at {now}");
        assert_eq!(scene.see("queue"), left);
        assert_eq!(scene.see("times") == "none", left == "none");
    }
    // Without a deadline it would not be told again.
    prepare(scene, true, &[]);
    scene.command("rpush queue #1");
    assert_eq!(scene.call(script, KEYS, args), "1");
    assert_eq!(scene.heard(), "ch:#1 0");
}

/// The call frees the lock that #9 holds.
fn passes_over_the_dead(scene: &mut Scene, script: &str, args: &str) {
    scene.at(25);
    prepare(scene, true, &[("#1", "@20"), ("#2", "@24"), ("#3", "@99"), ("#4", "@99")]);
    assert_eq!(scene.call(script, KEYS, args), "1");
    assert_eq!(scene.heard(), "ch:#3 0");
    assert_eq!([scene.see("queue"), scene.see("times")], ["#3 #4", "#3=@99 #4=@99"]);
    prepare(scene, true, &[("#1", "@20"), ("#2", "@99"), ("#3", "@99")]);
    assert_eq!(scene.call(script, KEYS, args), "1");
    assert_eq!(scene.heard(), "ch:#2 0");
    // Redisson's waiter would take no turn before the deadline of #1.
    scene.at(330);
    prepare(scene, true, &[("#1", "@900+1"), ("j:7", "@1900")]);
    assert_eq!(scene.call(script, KEYS, args), "1");
    assert_eq!(scene.heard(), "ch:j:7 0");
    assert_eq!([scene.see("queue"), scene.see("times")], ["j:7", "j:7=@1900"]);
    scene.at(25);
    prepare(scene, true, &[("#1", "@20"), ("#2", "@24")]);
    // Of one who left the queue alone.
    scene.command("zadd times @99 #8");
    assert_eq!(scene.call(script, KEYS, args), "1");
    assert_eq!(scene.heard(), "");
    assert_eq!([scene.see("queue"), scene.see("times")], ["none", "none"]);
}

/// The call frees the lock that #9 holds, unless keys of the line are of another type: then it does nothing.
fn is_refused_at_once(scene: &mut Scene, script: &str, args: &str) {
    for key in ["queue", "times"] {
        prepare(scene, true, &[("#1", "@99")]);
        scene.command(&format!("set {key} precious"));
        let line = [scene.see("queue"), scene.see("times")];
        assert_eq!(scene.call(script, KEYS, args), "WRONGTYPE");
        assert_eq!(scene.see("lock"), "#9=2", "the {key}");
        assert_eq!([scene.see("queue"), scene.see("times")], line);
        assert_eq!(scene.heard(), "");
    }
}

fn a_fair_release_wakes_the_first_who_lives(scene: &mut Scene) {
    wakes_the_first_who_lives(scene, "fair/release", "#9 0 310 ch publish");
}

fn a_fair_release_passes_over_the_dead(scene: &mut Scene) {
    passes_over_the_dead(scene, "fair/release", "#9 0 310 ch publish");
}

fn a_fair_release_that_is_refused_does_nothing(scene: &mut Scene) {
    is_refused_at_once(scene, "fair/release", "#9 0 310 ch publish");
}

fn a_fair_release_without_a_line_wakes_nobody(scene: &mut Scene) {
    prepare(scene, true, &[]);
    scene.command("set times precious");
    assert_eq!(scene.call("fair/release", KEYS, "#9 0 310 ch publish"), "1");
    assert_eq!(scene.see("lock"), "none");
    assert_eq!(scene.heard(), "");
    assert_eq!(scene.call("fair/release", KEYS, "#9 0 310 ch publish"), "0");
}

fn a_fair_release_sets_the_count(scene: &mut Scene) {
    prepare(scene, true, &[("#1", "@99")]);
    scene.command("pexpire lock 30");
    for _ in 0..2 {
        assert_eq!(scene.call("fair/release", KEYS, "#9 3 310 ch publish"), "1");
        assert_eq!(scene.see("lock"), "#9=3 for 30");
    }
    assert_eq!(scene.heard(), "");
}

fn a_strangers_fair_release_does_nothing(scene: &mut Scene) {
    prepare(scene, true, &[("#1", "@99")]);
    for count in [0, 1] {
        let args = format!("#8 {count} 310 ch publish");
        assert_eq!(scene.call("fair/release", KEYS, &args), "0");
    }
    assert_eq!(scene.see("lock"), "#9=2");
    assert_eq!(scene.heard(), "");
}

fn a_withdrawal_wakes_the_first_who_lives(scene: &mut Scene) {
    wakes_the_first_who_lives(scene, "fair/withdraw", "#9 310 ch publish");
}

fn a_withdrawal_passes_over_the_dead(scene: &mut Scene) {
    passes_over_the_dead(scene, "fair/withdraw", "#9 310 ch publish");
}

fn a_withdrawal_that_is_refused_does_nothing(scene: &mut Scene) {
    is_refused_at_once(scene, "fair/withdraw", "#9 310 ch publish");
}

fn a_withdrawal_from_the_line_of_a_free_lock(scene: &mut Scene) {
    prepare(scene, false, &[("#9", "@99"), ("#1", "@99")]);
    assert_eq!(scene.call("fair/withdraw", KEYS, "#9 310 ch publish"), "1");
    assert_eq!([scene.see("queue"), scene.see("times")], ["#1", "#1=@99"]);
    assert_eq!(scene.heard(), "ch:#1 0");
}

fn a_withdrawal_from_the_line_of_a_held_lock(scene: &mut Scene) {
    prepare(scene, true, &[("#1", "@99"), ("#2", "@99")]);
    assert_eq!(scene.call("fair/withdraw", KEYS, "#1 310 ch publish"), "1");
    assert_eq!([scene.see("queue"), scene.see("times")], ["#2", "#2=@99"]);
    assert_eq!(scene.see("lock"), "#9=2");
    assert_eq!(scene.heard(), "");
}

fn a_withdrawal_of_nothing_wakes_nobody(scene: &mut Scene) {
    prepare(scene, false, &[("#1", "@99")]);
    assert_eq!(scene.call("fair/withdraw", KEYS, "#9 310 ch publish"), "0");
    assert_eq!(scene.see("queue"), "#1");
    assert_eq!(scene.heard(), "");
}

fn a_withdrawal_removes_a_deadline_without_a_place(scene: &mut Scene) {
    scene.command("zadd times @99 #9");
    assert_eq!(scene.call("fair/withdraw", KEYS, "#9 310 ch publish"), "0");
    assert_eq!(scene.see("times"), "none");
}

fn a_forced_fair_release_wakes_the_first_who_lives(scene: &mut Scene) {
    wakes_the_first_who_lives(scene, "fair/force_unlock", "@999 310 ch publish");
}

fn a_forced_fair_release_passes_over_the_dead(scene: &mut Scene) {
    passes_over_the_dead(scene, "fair/force_unlock", "@999 310 ch publish");
}

fn a_forced_fair_release_that_is_refused_does_nothing(scene: &mut Scene) {
    is_refused_at_once(scene, "fair/force_unlock", "@999 310 ch publish");
}

fn a_forced_fair_release_of_a_free_lock(scene: &mut Scene) {
    prepare(scene, false, &[("#1", "@99")]);
    assert_eq!(scene.call("fair/force_unlock", KEYS, "@999 310 ch publish"), "0");
    assert_eq!(scene.see("queue"), "#1");
    assert_eq!(scene.heard(), "");
}

fn a_forced_fair_release_that_comes_too_late(scene: &mut Scene) {
    scene.at(1_234);
    prepare(scene, true, &[]);
    assert_eq!(scene.call("fair/force_unlock", KEYS, "@1233 310 ch publish"), "{@1234}");
    assert_eq!(scene.see("lock"), "#9=2");
    assert_eq!(scene.call("fair/force_unlock", KEYS, "@1234 310 ch publish"), "1");
}

fn a_forced_fair_release_refuses_what_is_no_lock(scene: &mut Scene) {
    scene.command("set lock precious");
    assert_eq!(scene.call("fair/force_unlock", KEYS, "@999 310 ch publish"), "WRONGTYPE");
    assert_eq!(scene.see("lock"), "precious");
}

fn a_fair_lock_is_inspected(scene: &mut Scene) {
    assert_eq!(scene.call("fair/inspect", KEYS, "310 9"), "{-2, {}, 0, {}, 0}");
    prepare(scene, true, &[("#1", "@99"), ("j:7", "@50")]);
    scene.command("rpush queue #2");
    scene.command("pexpire lock 30");
    let answer = scene.call("fair/inspect", KEYS, "310 9");
    assert_eq!(answer, "{30, {'#9', '2'}, 1, {'#1', '99', 'j:7', '50', '#2', ''}, 3}");
}

fn of_many_holders_and_waiters_some_are_listed(scene: &mut Scene) {
    scene.command("hset lock A 1 B 2 C 3");
    scene.command("rpush queue #1 #2 #3");
    let all = "{-1, {'A', '1', 'B', '2', 'C', '3'}, 3, {'#1', '', '#2', '', '#3', ''}, 3}";
    assert_eq!(scene.call("fair/inspect", KEYS, "310 3"), all);
    let some = "{-1, {'A', '1', 'B', '2'}, 3, {'#1', '', '#2', ''}, 3}";
    assert_eq!(scene.call("fair/inspect", KEYS, "310 2"), some);
}

/// Another program may have written ids and values of any size.
fn what_is_too_long_for_a_holder_is_cut(scene: &mut Scene) {
    let (long, cut) = ("x".repeat(200), "x".repeat(128));
    let (count, text) = ("1".repeat(20), "2".repeat(21));
    scene.command(&format!("hset lock {long} {count} B {text}"));
    scene.command(&format!("rpush queue {long}"));
    let answer = format!("{{-1, {{'{cut}', '{count}', 'B', ''}}, 2, {{'{cut}', ''}}, 1}}");
    assert_eq!(scene.call("fair/inspect", KEYS, "310 9"), answer);
}

fn each_waiter_is_told_with_how_long_it_stays(scene: &mut Scene) {
    for (waiter, deadline, now, kept) in KEPT {
        prepare(scene, false, &[(waiter, deadline)]);
        scene.at(now);
        let waiters = format!("{{'{waiter}', '{kept}'}}");
        assert_eq!(
            scene.call("fair/inspect", KEYS, "310 9"),
            format!("{{-2, {{}}, 0, {waiters}, 1}}")
        );
    }
}
