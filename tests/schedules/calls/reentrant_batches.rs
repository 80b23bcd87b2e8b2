//! The reentrant lock, several holds in one call.

use super::example::examples;
use super::scene::Scene;

examples! {
    "reentrant/renew": renewals_answer_each_for_itself, a_renewal_never_lowers_the_ttl,
        a_renewal_on_redis_6_2_never_lowers_the_ttl,
        a_renewal_of_what_is_no_lock_leaves_the_others_alone;
    "reentrant/combine": combined_acquires_answer_each_for_itself, a_combined_repeat_raises_the_ttl_alone,
        combined_releases_answer_each_for_itself, of_combined_calls_one_error_stops_no_other,
        a_combined_call_may_mix_both;
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
    let args = "publish A 50 @1234 A 60 @1234 A 70 @1234 A 80 @1233";
    assert_eq!(scene.call("reentrant/combine", "a b c d", args), "{nil, -1, 30, {@1234}}");
    assert_eq!(scene.see("a"), "A=1 for 50");
    assert_eq!(scene.see("b"), "B=1");
    assert_eq!(scene.see("c"), "B=1 for 30");
    assert_eq!(scene.see("d"), "none");
    assert_eq!(scene.heard(), "");
}

fn a_combined_repeat_raises_the_ttl_alone(scene: &mut Scene) {
    scene.command("hset lock A 2");
    for (lease, ttl) in [(40, 40), (39, 40), (41, 41)] {
        let args = format!("publish A {lease} @0");
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
    let args = "publish A 0 cha A 2 chb B 0 chc A 0 chd";
    assert_eq!(scene.call("reentrant/combine", "a b c d", args), "{3, 1, 0, 0}");
    assert_eq!(scene.see("a"), "none");
    assert_eq!(scene.see("b"), "A=2 for 30");
    assert_eq!(scene.see("c"), "A=3 for 30");
    assert_eq!(scene.heard(), "cha 0");
    assert_eq!(scene.call("reentrant/combine", "c", "publish B 1 chc"), "{0}");
    assert_eq!(scene.see("c"), "A=3 for 30");
}

fn of_combined_calls_one_error_stops_no_other(scene: &mut Scene) {
    scene.command("set a text");
    scene.command("hset b B 1");
    let args = "publish A 0 cha B 0 chb";
    let answer = scene.call("reentrant/combine", "a b", args);
    assert!(answer.starts_with("{'WRONGTYPE ") && answer.ends_with(", 2}"), "{answer}");
    assert_eq!(scene.see("a"), "text");
    assert_eq!(scene.see("b"), "none");
    assert_eq!(scene.heard(), "chb 0");
}

fn a_combined_call_may_mix_both(scene: &mut Scene) {
    scene.command("hset a A 1");
    let args = "publish A 0 cha B 50 @9";
    assert_eq!(scene.call("reentrant/combine", "a a", args), "{2, nil}");
    assert_eq!(scene.see("a"), "B=1 for 50");
}
