//! The reentrant lock, several holds in one call.

use super::example::examples;
use super::scene::Scene;

examples! {
    "reentrant/renew": renewals_answer_each_for_itself, a_renewal_never_lowers_the_ttl,
        a_renewal_on_redis_6_2_never_lowers_the_ttl,
        a_renewal_of_what_is_no_lock_leaves_the_others_alone;
    "reentrant/combine": combined_acquires_answer_each_for_itself, combined_acquires_may_have_one_lease,
        of_two_combined_acquires_each_has_its_lease,
        combined_acquires_that_come_late_do_nothing, a_combined_repeat_raises_the_ttl_alone,
        combined_releases_answer_each_for_itself, of_combined_calls_one_error_stops_no_other,
        a_combined_call_may_mix_all;
}

fn renewals_answer_each_for_itself(scene: &mut Scene) {
    for lock in ["a", "c"] {
        scene.command(&format!("hset {lock} A 1"));
        scene.command(&format!("pexpire {lock} 30"));
    }
    assert_eq!(scene.call("reentrant/renew", "a b c", "A B C 50 60 70"), "{1, 0, -1}");
    assert_eq!(scene.see("a"), "A=1 for 50");
    assert_eq!(scene.see("b"), "none");
    assert_eq!(scene.see("c"), "A=1 for 30");
    assert_eq!(scene.call("reentrant/renew", "c a", "A A 80 90"), "2");
    assert_eq!(scene.see("a"), "A=1 for 90");
    assert_eq!(scene.see("c"), "A=1 for 80");
}

fn a_renewal_never_lowers_the_ttl(scene: &mut Scene) {
    scene.command("hset lock A 1");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        assert_eq!(scene.call("reentrant/renew", "lock", &format!("A {lease}")), "1");
        assert_eq!(scene.see("lock"), format!("A=1 for {ttl}"));
    }
}

fn a_renewal_on_redis_6_2_never_lowers_the_ttl(scene: &mut Scene) {
    scene.is_old();
    a_renewal_never_lowers_the_ttl(scene);
}

fn a_renewal_of_what_is_no_lock_leaves_the_others_alone(scene: &mut Scene) {
    scene.command("set a text");
    scene.command("hset b B 1");
    assert_eq!(scene.call("reentrant/renew", "a b", "A B 50"), "{-1, 1}");
    assert_eq!(scene.see("a"), "text");
    assert_eq!(scene.see("b"), "B=1 for 50");
}

fn combined_acquires_answer_each_for_itself(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset b B 1");
    scene.command("hset c B 1");
    scene.command("pexpire c 30");
    let args = "publish 0 0 @1234 A A A A 50 60 70 80";
    assert_eq!(scene.call("reentrant/combine", "a b c d", args), "{nil, -1, 30, nil}");
    assert_eq!(scene.see("a"), "A=1 for 50");
    assert_eq!(scene.see("b"), "B=1");
    assert_eq!(scene.see("c"), "B=1 for 30");
    assert_eq!(scene.see("d"), "A=1 for 80");
    assert_eq!(scene.heard(), "");
}

fn combined_acquires_may_have_one_lease(scene: &mut Scene) {
    scene.command("hset b A 1");
    scene.command("pexpire b 70");
    assert_eq!(scene.call("reentrant/combine", "a b", "publish 0 0 @0 A A 50"), "{nil, nil}");
    assert_eq!(scene.see("a"), "A=1 for 50");
    assert_eq!(scene.see("b"), "A=1 for 70");
}

fn of_two_combined_acquires_each_has_its_lease(scene: &mut Scene) {
    scene.command("hset b A 1");
    scene.command("pexpire b 55");
    assert_eq!(scene.call("reentrant/combine", "a b", "publish 0 0 @0 A A 50 60"), "{nil, nil}");
    assert_eq!(scene.see("a"), "A=1 for 50");
    assert_eq!(scene.see("b"), "A=1 for 60");
}

fn combined_acquires_that_come_late_do_nothing(scene: &mut Scene) {
    scene.at(1_234);
    scene.command("hset b B 1");
    scene.command("hset c A 1");
    scene.command("pexpire c 30");
    let args = "publish 0 0 @1233 A A A 50";
    assert_eq!(scene.call("reentrant/combine", "a b c", args), "{{@1234}, -1, {@1234}}");
    assert_eq!(scene.see("a"), "none");
    assert_eq!(scene.see("b"), "B=1");
    assert_eq!(scene.see("c"), "A=1 for 30");
}

fn a_combined_repeat_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock A 2");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let args = format!("publish 0 0 @0 A {lease}");
        assert_eq!(scene.call("reentrant/combine", "lock", &args), "{nil}");
        assert_eq!(scene.see("lock"), format!("A=2 for {ttl}"));
    }
}

fn combined_releases_answer_each_for_itself(scene: &mut Scene) {
    for lock in ["a", "b", "c"] {
        scene.command(&format!("hset {lock} A 3"));
        scene.command(&format!("pexpire {lock} 30"));
    }
    scene.listen("cha");
    let args = "publish 3 4 0 A B C A cha chc chd 2";
    assert_eq!(scene.call("reentrant/combine", "a c d b", args), "{3, 0, 0, 1}");
    assert_eq!(scene.see("a"), "none");
    assert_eq!(scene.see("b"), "A=2 for 30");
    assert_eq!(scene.see("c"), "A=3 for 30");
    assert_eq!(scene.heard(), "cha 0");
    assert_eq!(scene.call("reentrant/combine", "c", "publish 0 1 0 B 1"), "{0}");
    assert_eq!(scene.see("c"), "A=3 for 30");
}

fn of_combined_calls_one_error_stops_no_other(scene: &mut Scene) {
    scene.command("set a text");
    scene.command("hset b B 1");
    let args = "publish 2 3 @0 A B A A A cha chb 1 50";
    let answer = scene.call("reentrant/combine", "a b a a c", args);
    let parts = ["{'WRONGTYPE ", "', 2, 'WRONGTYPE ", "', 'WRONGTYPE ", "', nil}"];
    assert!(answer.starts_with(parts[0]) && answer.ends_with(parts[3]), "{answer}");
    assert!(answer.contains(parts[1]) && answer.contains(parts[2]), "{answer}");
    assert_eq!(scene.see("a"), "text");
    assert_eq!(scene.see("b"), "none");
    assert_eq!(scene.see("c"), "A=1 for 50");
    assert_eq!(scene.heard(), "chb 0");
}

fn a_combined_call_may_mix_all(scene: &mut Scene) {
    scene.command("hset a A 1");
    scene.command("hset b A 2");
    let args = "publish 1 2 @9 A A B B cha 1 50";
    assert_eq!(scene.call("reentrant/combine", "a b a b", args), "{2, 1, nil, -1}");
    assert_eq!(scene.see("a"), "B=1 for 50");
    assert_eq!(scene.see("b"), "A=1");
}
