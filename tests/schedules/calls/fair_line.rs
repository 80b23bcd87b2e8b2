//! The fair lock: a waiter's turn. A waiter of this crate keeps its place for 310 ms, in steps of 10 ms, one of Redisson for 1000.

use super::example::examples;
use super::scene::Scene;

examples! {
    "fair/acquire": a_free_lock_without_a_line_is_granted, a_turn_that_comes_too_late_does_nothing,
        a_repeated_grant_raises_the_ttl_alone, who_only_tries_does_not_stand_in_line, a_line_is_made,
        a_free_lock_goes_to_the_head_of_the_line, a_grant_for_a_short_lease_tells_the_next,
        a_dead_head_is_dropped, dropped_heads_make_way_for_who_asks, a_dropped_head_of_a_held_lock_wakes_nobody,
        a_head_without_a_deadline_gets_one, who_is_second_is_told_how_long_the_head_stays,
        who_is_behind_the_second_looks_after_a_dead_head, a_line_does_not_end_by_a_ttl, the_ttl_of_a_line_is_raised_when_half_of_it_is_over,
        a_grant_leaves_those_behind_without_a_ttl;
}

const KEYS: &str = "lock queue times";

/// A turn of a waiter that may stand in line.
fn turn(scene: &mut Scene, who: &str, lease: u64) -> String {
    scene.call("fair/acquire", KEYS, &format!("{who} {lease} @99999 310 1000 1 ch publish"))
}

/// The line.
fn line(scene: &Scene) -> [String; 2] {
    ["queue", "times"].map(|key| {
        let seen = scene.see(key);
        seen.split(" for ").next().unwrap_or_default().to_owned()
    })
}

/// Makes a line.
fn stand(scene: &mut Scene, waiters: &[(&str, &str)]) {
    for (waiter, deadline) in waiters {
        scene.command(&format!("rpush queue {waiter}"));
        scene.command(&format!("zadd times {deadline} {waiter}"));
    }
}

fn a_free_lock_without_a_line_is_granted(scene: &mut Scene) {
    scene.command("zadd times @5 #8");
    assert_eq!(turn(scene, "#1", 50), "nil");
    assert_eq!(scene.see("lock"), "#1=1 for 50");
    assert_eq!(line(scene), ["none", "none"]);
    assert_eq!(scene.heard(), "");
}

fn a_turn_that_comes_too_late_does_nothing(scene: &mut Scene) {
    scene.at(1_234);
    let args = "#1 50 @1233 310 1000 1 ch publish";
    assert_eq!(scene.call("fair/acquire", KEYS, args), "{@1234}");
    assert_eq!(scene.see("lock"), "none");
    scene.command("hset lock #1 1");
    assert_eq!(scene.call("fair/acquire", KEYS, args), "{@1234}");
    assert_eq!(scene.see("lock"), "#1=1");
    let args = "#2 50 @1234 310 1000 1 ch publish";
    assert_eq!(scene.call("fair/acquire", KEYS, args), "-1");
    assert_eq!(line(scene)[0], "#2");
}

fn a_repeated_grant_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock #1 2");
    stand(scene, &[("#2", "@99")]);
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(turn(scene, "#1", lease), "nil");
        assert_eq!(scene.see("lock"), format!("#1=2 for {ttl}"));
    }
    assert_eq!(line(scene), ["#2", "#2=@99"]);
    assert_eq!(scene.heard(), "");
}

fn who_only_tries_does_not_stand_in_line(scene: &mut Scene) {
    scene.command("hset lock #9 1");
    scene.command("pexpire lock 30");
    let args = "#1 50 @99999 310 1000 0 ch publish";
    assert_eq!(scene.call("fair/acquire", KEYS, args), "30");
    assert_eq!(line(scene), ["none", "none"]);
    stand(scene, &[("#2", "@99")]);
    scene.command("del lock");
    assert_eq!(scene.call("fair/acquire", KEYS, args), "99");
    assert_eq!(line(scene), ["#2", "#2=@99"]);
}

fn a_line_is_made(scene: &mut Scene) {
    scene.command("hset lock #9 1");
    scene.command("pexpire lock 30");
    assert_eq!(turn(scene, "#1", 50), "30");
    assert_eq!(line(scene), ["#1", "#1=@310+1"]);
    scene.at(10);
    assert_eq!(turn(scene, "#2", 50), "20");
    assert_eq!(line(scene), ["#1 #2", "#1=@310+1 #2=@310+2"]);
    scene.at(20);
    assert_eq!(turn(scene, "#3", 50), "-1");
    assert_eq!(line(scene)[0], "#1 #2 #3");
    assert_eq!(scene.heard(), "");
}

fn a_free_lock_goes_to_the_head_of_the_line(scene: &mut Scene) {
    stand(scene, &[("#1", "@310+1"), ("#2", "@310+1"), ("#3", "@310+1")]);
    assert_eq!(turn(scene, "#2", 93), "310");
    assert_eq!(turn(scene, "#3", 93), "310");
    assert_eq!(turn(scene, "#1", 93), "nil");
    assert_eq!(scene.see("lock"), "#1=1 for 93");
    assert_eq!(line(scene)[0], "#2 #3");
    assert_eq!(scene.heard(), "");
}

fn a_grant_for_a_short_lease_tells_the_next(scene: &mut Scene) {
    stand(scene, &[("#1", "@310+1"), ("#2", "@310+1"), ("#3", "@310+1")]);
    assert_eq!(turn(scene, "#1", 92), "nil");
    assert_eq!(scene.heard(), "ch:#2 0");
    // Not who is dead.
    scene.command("flushall");
    scene.at(25);
    stand(scene, &[("#1", "@99"), ("#2", "@25"), ("#3", "@26"), ("#4", "@99")]);
    assert_eq!(turn(scene, "#1", 92), "nil");
    assert_eq!(scene.heard(), "ch:#3 0");
    assert_eq!(line(scene)[0], "#2 #3 #4");
    // Nor nobody.
    scene.command("flushall");
    stand(scene, &[("#1", "@99")]);
    assert_eq!(turn(scene, "#1", 92), "nil");
    assert_eq!(scene.heard(), "");
    assert_eq!(line(scene), ["none", "none"]);
}

fn a_dead_head_is_dropped(scene: &mut Scene) {
    for (at, is_dead) in [(329, false), (330, true)] {
        scene.command("flushall");
        scene.at(at);
        stand(scene, &[("#1", "@900+1"), ("#2", "@900+25"), ("#3", "@900+25")]);
        turn(scene, "#3", 50);
        let (left, woken) = if is_dead { ("#2 #3", "ch:#2 0") } else { ("#1 #2 #3", "") };
        assert_eq!(line(scene)[0], left);
        assert_eq!(scene.heard(), woken);
    }
}

fn dropped_heads_make_way_for_who_asks(scene: &mut Scene) {
    scene.at(25);
    stand(scene, &[("#1", "@25"), ("j:7", "@25"), ("#2", "@99"), ("#3", "@99")]);
    assert_eq!(turn(scene, "#2", 500), "nil");
    assert_eq!(scene.see("lock"), "#2=1 for 500");
    assert_eq!(line(scene)[0], "#3");
    assert_eq!(scene.heard(), "");
}

fn a_dropped_head_of_a_held_lock_wakes_nobody(scene: &mut Scene) {
    scene.at(25);
    scene.command("hset lock #9 1");
    stand(scene, &[("#1", "@25"), ("#2", "@99")]);
    assert_eq!(turn(scene, "#3", 50), "-1");
    assert_eq!(line(scene)[0], "#2 #3");
    assert_eq!(scene.heard(), "");
}

fn a_head_without_a_deadline_gets_one(scene: &mut Scene) {
    for (head, deadline) in [("#1", "#1=@310+1"), ("j:7", "j:7=@1000+1")] {
        scene.command("flushall");
        scene.command(&format!("rpush queue {head}"));
        let args = "#2 50 @99999 310 1000 0 ch publish";
        let wait = if head == "#1" { "310" } else { "8" };
        assert_eq!(scene.call("fair/acquire", KEYS, args), wait);
        assert_eq!(line(scene), [head, deadline]);
    }
}

/// As long as Redisson has held the lock it does not tell the next, which therefore asks every 40th of its wait.
fn who_is_second_is_told_how_long_the_head_stays(scene: &mut Scene) {
    scene.at(25);
    for (head, deadline, wait) in [
        ("#1", "@500+1", "305"),
        ("#1", "@100+1", "75"),
        ("#1", "@500+5", "325"),
        ("#1", "@500+66", "325"),
        ("j:7", "@500+1", "8"),
        ("j:7", "@28", "3"),
        ("u:14611686018427387904", "@500+1", "8"),
        ("u:4611686018427387903", "@500+1", "8"),
        ("#0", "@500+1", "305"),
    ] {
        scene.command("flushall");
        stand(scene, &[(head, deadline)]);
        assert_eq!(turn(scene, "#2", 50), wait, "{head} {deadline}");
    }
    scene.command("flushall");
    stand(scene, &[("#1", "@500+67")]);
    assert_eq!(turn(scene, "#2", 50), "nil");
}

fn who_is_behind_the_second_looks_after_a_dead_head(scene: &mut Scene) {
    scene.at(25);
    stand(scene, &[("j:7", "@75"), ("#2", "@1500+3")]);
    assert_eq!(turn(scene, "#3", 50), "50");
    scene.command("hset lock #9 1");
    assert_eq!(turn(scene, "#3", 50), "-1");
}

/// Somebody gives the line a TTL, as Redisson's multi lock does with its lease.
fn end_in_30_ms(scene: &mut Scene) {
    for key in ["queue", "times"] {
        scene.command(&format!("pexpire {key} 30"));
    }
}

/// Whoever asks: one whose deadline stays as it is, one that finds others without a deadline, or a newcomer.
fn a_line_does_not_end_by_a_ttl(scene: &mut Scene) {
    for (who, queue) in [("#1", "#1 #2"), ("#2", "#1 #2"), ("#3", "#1 #2 #3"), ("#4", "#1 #2 #4")] {
        scene.at(0);
        scene.command("flushall");
        scene.command("hset lock #9 1");
        stand(scene, &[("#1", "@310+1"), ("#2", "@310+1")]);
        if who == "#4" {
            scene.command("zrem times #2");
        }
        end_in_30_ms(scene);
        turn(scene, who, 50);
        let before = line(scene);
        assert_eq!(before[0], queue, "{who}");
        scene.at(31);
        assert_eq!(line(scene), before, "{who}");
        scene.at(5_000_000);
        assert_eq!(line(scene), before, "{who}");
        // All have died.
        scene.at(10_001_000);
        assert_eq!(line(scene), ["none", "none"], "{who}");
    }
}

fn the_ttl_of_a_line_is_raised_when_half_of_it_is_over(scene: &mut Scene) {
    let (half, whole) = (5_000_000, 10_000_000);
    for (queue, times) in [(half, half), (half - 1, half), (half, half - 1)] {
        scene.command("flushall");
        scene.command("hset lock #9 1");
        stand(scene, &[("#1", "@310+1")]);
        scene.command(&format!("pexpire queue {queue}"));
        scene.command(&format!("pexpire times {times}"));
        turn(scene, "#1", 50);
        let left = if queue + times == 2 * half { half } else { whole };
        for key in ["queue", "times"] {
            let seen = scene.see(key);
            assert!(seen.ends_with(&format!(" for {left}")), "{queue}, {times}: {seen}");
        }
    }
}

fn a_grant_leaves_those_behind_without_a_ttl(scene: &mut Scene) {
    stand(scene, &[("#1", "@310+1"), ("j:7", "@1310")]);
    end_in_30_ms(scene);
    assert_eq!(turn(scene, "#1", 500), "nil");
    scene.at(31);
    assert_eq!(line(scene), ["j:7", "j:7=@1310"]);
}
