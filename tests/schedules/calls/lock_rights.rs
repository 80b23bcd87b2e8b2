//! Locks of a user who may not run each command of a script: no lock without TTL stays, and a renewal that may not look says so.

use super::example::examples;
use super::scene::Scene;

examples! {
    "reentrant/acquire": an_acquire_without_pexpire_takes_nothing, a_repeat_without_pexpire_leaves_the_hold;
    "write/acquire": a_write_without_pexpire_takes_nothing, a_repeated_write_without_pexpire_leaves_the_hold;
    "read/acquire": a_read_without_pexpire_takes_nothing, a_read_beside_others_without_pexpire_takes_nothing,
        a_repeated_read_without_pexpire_leaves_the_hold;
    "fenced/acquire": a_fenced_acquire_without_pexpire_takes_nothing;
    "fair/acquire": a_fair_acquire_without_pexpire_takes_nothing, a_head_without_pexpire_wakes_the_next,
        a_waiter_without_pexpire_begins_no_line;
    "reentrant/combine": a_combined_acquire_without_pexpire_takes_nothing,
        a_combined_repeat_without_pexpire_leaves_the_hold;
    "reentrant/renew": a_renewal_that_may_not_look_says_so;
    "plain/renew": a_plain_renewal_that_may_not_look_says_so;
    "read/renew": a_read_renewal_that_may_not_look_says_so;
    "expirable/renew": a_renewal_of_permits_that_may_not_look_says_so;
}

/// Without the right to PEXPIRE it is refused and leaves nothing at the key; with it, it is granted.
fn takes_nothing(scene: &mut Scene, script: &str, keys: &str, args: &str, granted: &str) {
    scene.refuses("pexpire");
    assert_eq!(scene.call(script, keys, args), "NOPERM");
    assert_eq!(scene.see("lock"), "none");
    scene.refuses_nothing();
    assert_eq!(scene.call(script, keys, args), granted);
    assert_ne!(scene.see("lock"), "none");
}

/// A copy of a request that was granted is refused for the same reason.
fn leaves_the_hold(scene: &mut Scene, script: &str, keys: &str, id: &str) {
    assert_eq!(scene.call(script, keys, &format!("{id} 50 @9 ")), "nil");
    let held = scene.see("lock");
    scene.refuses("pexpire");
    assert_eq!(scene.call(script, keys, &format!("{id} 51 @9 ")), "NOPERM");
    assert_eq!(scene.see("lock"), held);
}

fn an_acquire_without_pexpire_takes_nothing(scene: &mut Scene) {
    takes_nothing(scene, "reentrant/acquire", "lock", "A 50 @9", "nil");
}

fn a_repeat_without_pexpire_leaves_the_hold(scene: &mut Scene) {
    leaves_the_hold(scene, "reentrant/acquire", "lock", "A");
}

fn a_write_without_pexpire_takes_nothing(scene: &mut Scene) {
    takes_nothing(scene, "write/acquire", "lock", "A:write 50 @9", "nil");
}

fn a_repeated_write_without_pexpire_leaves_the_hold(scene: &mut Scene) {
    leaves_the_hold(scene, "write/acquire", "lock", "A:write");
}

fn a_read_without_pexpire_takes_nothing(scene: &mut Scene) {
    scene.refuses("pexpire");
    assert_eq!(scene.call("read/acquire", "lock t", "A 50 @9 ''"), "NOPERM");
    assert_eq!(scene.see("t"), "none");
    takes_nothing(scene, "read/acquire", "lock t", "A 50 @9 ''", "nil");
}

fn a_read_beside_others_without_pexpire_takes_nothing(scene: &mut Scene) {
    assert_eq!(scene.call("read/acquire", "lock t", "A 50 @9 ''"), "nil");
    scene.refuses("pexpire");
    assert_eq!(scene.call("read/acquire", "lock u", "B 51 @9 ''"), "NOPERM");
    assert_eq!(scene.see("u"), "none");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
}

fn a_repeated_read_without_pexpire_leaves_the_hold(scene: &mut Scene) {
    assert_eq!(scene.call("read/acquire", "lock t", "A 50 @9 ''"), "nil");
    scene.refuses("pexpire");
    assert_eq!(scene.call("read/acquire", "lock t", "A 51 @9 ''"), "NOPERM");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
    assert_eq!(scene.see("t"), "1 for 51");
}

fn a_fenced_acquire_without_pexpire_takes_nothing(scene: &mut Scene) {
    takes_nothing(scene, "fenced/acquire", "lock token", "A 50 @9", "{1, '2'}");
}

fn a_fair_acquire_without_pexpire_takes_nothing(scene: &mut Scene) {
    takes_nothing(
        scene,
        "fair/acquire",
        "lock queue deadlines",
        "#1 50 @9 320 640 0 ch publish",
        "nil",
    );
}

fn a_head_without_pexpire_wakes_the_next(scene: &mut Scene) {
    scene.refuses("pexpire");
    // At 10 the second has died.
    for (at, next, left) in [(0, "#2", "#2 #3"), (10, "#3", "#3")] {
        scene.command("flushall");
        scene.at(at);
        for (waiter, deadline) in [("#1", "@300"), ("#2", "@9"), ("#3", "@300")] {
            scene.command(&format!("rpush queue {waiter}"));
            scene.command(&format!("zadd deadlines {deadline} {waiter}"));
        }
        let args = format!("#1 500 @{at} 320 640 1 ch publish");
        assert_eq!(scene.call("fair/acquire", "lock queue deadlines", &args), "NOPERM");
        assert_eq!(scene.see("lock"), "none");
        assert_eq!(scene.heard(), format!("ch:{next} 0"));
        // Redisson would keep the place of a dead one until its deadline.
        assert_eq!(scene.see("queue"), left);
        assert_eq!(scene.see("deadlines").matches('=').count(), left.matches('#').count());
    }
}

fn a_waiter_without_pexpire_begins_no_line(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.command("pexpire lock 50");
    scene.refuses("pexpire");
    let args = "#1 50 @9 320 640 1 ch publish";
    assert_eq!(scene.call("fair/acquire", "lock queue deadlines", args), "NOPERM");
    for key in ["queue", "deadlines"] {
        assert_eq!(scene.see(key), "none");
    }
    scene.refuses_nothing();
    assert_eq!(scene.call("fair/acquire", "lock queue deadlines", args), "50");
}

fn a_combined_acquire_without_pexpire_takes_nothing(scene: &mut Scene) {
    scene.command("hset b B 1");
    scene.refuses("pexpire");
    let args = "publish 0 0 @9 A A A 50";
    let answers = scene.call("reentrant/combine", "lock b c", args);
    assert_eq!(answers.matches("NOPERM").count(), 2, "{answers}");
    for (key, held) in [("lock", "none"), ("b", "B=1"), ("c", "none")] {
        assert_eq!(scene.see(key), held);
    }
    scene.refuses_nothing();
    assert_eq!(scene.call("reentrant/combine", "lock b c", args), "{nil, -1, nil}");
}

fn a_combined_repeat_without_pexpire_leaves_the_hold(scene: &mut Scene) {
    assert_eq!(scene.call("reentrant/combine", "lock", "publish 0 0 @9 A 50"), "{nil}");
    scene.refuses("pexpire");
    let answers = scene.call("reentrant/combine", "lock", "publish 0 0 @9 A 51");
    assert!(answers.contains("NOPERM"), "{answers}");
    assert_eq!(scene.see("lock"), "A=1 for 50");
}

fn a_renewal_that_may_not_look_says_so(scene: &mut Scene) {
    scene.command("hset lock A 1");
    scene.command("pexpire lock 30");
    scene.refuses("hexists");
    assert_eq!(scene.call("reentrant/renew", "lock", "A 50"), "NOPERM");
    assert_eq!(scene.see("lock"), "A=1 for 30");
}

fn a_plain_renewal_that_may_not_look_says_so(scene: &mut Scene) {
    scene.command("set lock A px 30");
    scene.refuses("get");
    assert_eq!(scene.call("plain/renew", "lock", "A 50"), "NOPERM");
    assert_eq!(scene.see("lock"), "A for 30");
}

fn a_read_renewal_that_may_not_look_says_so(scene: &mut Scene) {
    assert_eq!(scene.call("read/acquire", "lock t", "A 50 @9 ''"), "nil");
    scene.refuses("hexists");
    let answers = scene.call("read/renew", "lock t", "A 60");
    assert!(answers.contains("NOPERM"), "{answers}");
    assert_eq!(scene.see("lock"), "A=1 mode=read for 50");
}

fn a_renewal_of_permits_that_may_not_look_says_so(scene: &mut Scene) {
    scene.command("zadd out @30 aaaaaaaaaaaaaaaa");
    scene.refuses("zscore");
    assert_eq!(scene.call("expirable/renew", "out", "aaaaaaaaaaaaaaaa 50"), "NOPERM");
    assert_eq!(scene.see("out"), "aaaaaaaaaaaaaaaa=@30");
}
