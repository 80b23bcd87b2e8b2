//! Semaphores and latches: the number, what is told, and the ids of requests.

use super::example::examples;
use super::scene::Scene;

examples! {
    "counter/try_set": a_counter_is_made_once_and_told, a_repeated_set_is_done, a_late_set_makes_nothing,
        a_set_forgets_ids, a_new_semaphore_has_no_permits_out, a_set_beside_a_foreign_key_makes_nothing;
    "counter/read": the_number_is_read;
    "counter/cancel": a_request_is_cancelled, a_request_that_took_effect_is_not_cancelled;
    "semaphore/acquire": permits_are_taken_if_there_are_enough, too_few_permits_are_not_taken,
        a_repeated_acquisition_takes_nothing, a_withdrawn_acquisition_takes_nothing, a_late_acquisition_takes_nothing,
        an_acquisition_forgets_ids, permits_that_are_no_integer_are_not_taken;
    "semaphore/release": permits_are_returned_and_told, a_semaphore_that_is_gone_is_made_if_asked_for,
        a_repeated_release_returns_nothing, a_late_release_returns_nothing, permits_are_taken_away_and_not_told,
        a_release_forgets_ids, permits_that_are_no_integer_are_not_returned, permits_are_returned_on_a_full_server;
    "semaphore/withdraw": what_was_taken_is_returned, what_was_not_taken_is_not_returned,
        a_withdrawal_that_is_refused_leaves_the_request, a_repeated_withdrawal_returns_nothing, a_withdrawal_makes_no_semaphore, a_withdrawal_tells_no_number_below_one,
        what_was_taken_is_returned_on_a_full_server;
    "semaphore/drain": all_permits_are_taken, another_number_of_permits_is_not_taken, nothing_is_taken_of_nothing,
        a_repeated_drain_takes_nothing, a_late_drain_takes_nothing, a_drain_forgets_ids,
        permits_that_are_no_integer_are_not_drained;
    "latch/count_down": a_count_goes_down, a_latch_at_zero_is_removed_and_told, a_latch_below_one_is_removed,
        a_repeated_count_counts_nothing, a_late_count_counts_nothing, a_count_forgets_ids, a_count_of_nothing_counts_nothing,
        a_count_that_is_no_integer_stays, a_count_goes_down_on_a_full_server;
}

const KEYS: &str = "n ids";

fn permits_are_taken_if_there_are_enough(scene: &mut Scene) {
    scene.command("set n 5");
    scene.command("pexpire n 70");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "{1, 3}");
    assert_eq!(scene.see("n"), "3 for 70");
    assert_eq!(scene.see("ids"), "a=@600 for 600");
    scene.at(1);
    assert_eq!(scene.call("semaphore/acquire", KEYS, "b 3 @1 500"), "{1, 0}");
    assert_eq!(scene.see("n"), "0 for 69");
    assert_eq!(scene.see("ids"), "b=@501 a=@600 for 500");
    assert_eq!(scene.heard(), "");
}

fn too_few_permits_are_not_taken(scene: &mut Scene) {
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 1 @9 600"), "{0, 0}");
    assert_eq!(scene.see("n"), "none");
    for (there, wanted) in [("2", 3), ("0", 1), ("-1", 1)] {
        scene.command(&format!("set n {there}"));
        let refused = format!("{{0, {there}}}");
        assert_eq!(scene.call("semaphore/acquire", KEYS, &format!("a {wanted} @9 600")), refused);
        assert_eq!(scene.see("n"), there);
    }
    assert_eq!(scene.see("ids"), "none");
}

fn a_repeated_acquisition_takes_nothing(scene: &mut Scene) {
    scene.command("zadd ids @600 a");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "{1, 0}");
    for there in ["1", "5"] {
        scene.command(&format!("set n {there}"));
        let granted = format!("{{1, {there}}}");
        assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), granted);
        assert_eq!(scene.see("n"), there);
    }
    assert_eq!(scene.see("ids"), "a=@600 for 600");
}

fn a_withdrawn_acquisition_takes_nothing(scene: &mut Scene) {
    scene.command("zadd ids -@600 a");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "{0, 0}");
    scene.command("set n 5");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "{0, 5}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5".into(), "a=-@600".into()));
}

fn a_late_acquisition_takes_nothing(scene: &mut Scene) {
    scene.command("set n 5");
    scene.at(1_234);
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @1233 600"), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5".into(), "none".into()));
}

/// Ids whose time is over, and those that are named.
fn with_old_ids(scene: &mut Scene) {
    scene.command("zadd ids @10 old -@10 older @11 young -@11 younger @900 x @900 y @900 z");
    // The last arguments before the ids are no ids.
    scene.command("zadd ids @950 600 @951 1 @952 publish");
    scene.command("pexpire ids 50");
    scene.at(10);
}

fn an_acquisition_forgets_ids(scene: &mut Scene) {
    scene.command("set n 5");
    with_old_ids(scene);
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @20 600 x y"), "{1, 3}");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 a=@610 z=@900 600=@950 1=@951 publish=@952 for 600"
    );
}

fn permits_that_are_no_integer_are_not_taken(scene: &mut Scene) {
    scene.command("set n 5.5");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "ERR");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5.5".into(), "none".into()));
    // Not even of a request that is known: its answer would be read as the server's time.
    scene.command("set n many");
    for known in ["a", "-@600 a", "@600 a"] {
        if known != "a" {
            scene.command(&format!("zadd ids {known}"));
        }
        assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "WRONGTYPE");
    }
    scene.command("del ids");
    scene.command("del n");
    scene.command("hset n a 1");
    assert_eq!(scene.call("semaphore/acquire", KEYS, "a 2 @9 600"), "WRONGTYPE");
}

fn permits_are_returned_and_told(scene: &mut Scene) {
    scene.command("set n 1");
    scene.command("pexpire n 70");
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @9 600 ch publish 1"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("3 for 70".into(), "ch 3".into()));
    assert_eq!(scene.see("ids"), "r=@600 for 600");
    scene.at(1);
    assert_eq!(scene.call("semaphore/release", KEYS, "s 1 @1 500 ch publish 0"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("4 for 69".into(), "ch 4".into()));
    assert_eq!(scene.see("ids"), "s=@501 r=@600 for 500");
}

fn a_semaphore_that_is_gone_is_made_if_asked_for(scene: &mut Scene) {
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @9 600 ch publish 1"), "-1");
    assert_eq!(
        (scene.see("n"), scene.see("ids"), scene.heard().as_str()),
        ("none".into(), "none".into(), "")
    );
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @9 600 ch publish 0"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("2".into(), "ch 2".into()));
}

fn a_repeated_release_returns_nothing(scene: &mut Scene) {
    scene.command("set n 1");
    scene.command("zadd ids @600 r");
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @9 600 ch publish 1"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("1".into(), String::new()));
    assert_eq!(scene.see("ids"), "r=@600");
}

fn a_late_release_returns_nothing(scene: &mut Scene) {
    scene.command("set n 1");
    scene.at(1_234);
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @1233 600 ch publish 1"), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("1".into(), "none".into()));
}

fn permits_are_taken_away_and_not_told(scene: &mut Scene) {
    scene.command("set n 3");
    for (id, by, left, told) in
        [("r", -2, "1", "ch 1"), ("s", -1, "0", ""), ("t", -4, "-4", ""), ("u", 4, "0", "")]
    {
        let args = format!("{id} {by} @9 600 ch publish 0");
        assert_eq!(scene.call("semaphore/release", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (left.into(), told.into()));
    }
}

fn a_release_forgets_ids(scene: &mut Scene) {
    scene.command("set n 5");
    with_old_ids(scene);
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @20 600 ch publish 1 x y"), "1");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 r=@610 z=@900 600=@950 1=@951 publish=@952 for 600"
    );
}

fn permits_that_are_no_integer_are_not_returned(scene: &mut Scene) {
    scene.command("set n many");
    assert_eq!(scene.call("semaphore/release", KEYS, "r 2 @9 600 ch publish 1"), "ERR");
    assert_eq!((scene.see("n"), scene.see("ids")), ("many".into(), "none".into()));
    assert_eq!(scene.heard(), "");
}

fn what_was_taken_is_returned(scene: &mut Scene) {
    scene.command("set n 1");
    scene.command("zadd ids @600 a");
    scene.at(100);
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("3".into(), "ch 3".into()));
    assert_eq!(scene.see("ids"), "a=-@700 for 600");
}

fn what_was_not_taken_is_not_returned(scene: &mut Scene) {
    scene.command("set n 1");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("1".into(), String::new()));
    assert_eq!(scene.see("ids"), "a=-@600 for 600");
}

fn a_request_is_cancelled(scene: &mut Scene) {
    scene.at(100);
    assert_eq!(scene.call("counter/cancel", "ids", "a 600"), "1");
    assert_eq!(scene.see("ids"), "a=-@700 for 600");
    scene.at(200);
    assert_eq!(scene.call("counter/cancel", "ids", "a 600"), "1");
    assert_eq!(scene.see("ids"), "a=-@700 for 500");
}

fn a_request_that_took_effect_is_not_cancelled(scene: &mut Scene) {
    scene.command("zadd ids @600 a");
    assert_eq!(scene.call("counter/cancel", "ids", "a 600"), "0");
    assert_eq!(scene.see("ids"), "a=@600");
}

fn a_repeated_withdrawal_returns_nothing(scene: &mut Scene) {
    scene.command("set n 1");
    scene.command("zadd ids -@600 a");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("1".into(), String::new()));
    assert_eq!(scene.see("ids"), "a=-@600");
}

fn a_withdrawal_that_is_refused_leaves_the_request(scene: &mut Scene) {
    scene.command("set n many");
    scene.command("zadd ids @600 a");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "ERR");
    assert_eq!((scene.see("n"), scene.heard()), ("many".into(), String::new()));
    assert_eq!(scene.see("ids"), "a=@600 for 600");
    scene.command("set n 1");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.see("ids")), ("3".into(), "a=-@600 for 600".into()));
    // By the error of the command, not by one of its own.
    scene.command("zadd ids @600 b");
    scene.refuses("incrby");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "b 2 600 ch publish"), "NOPERM");
    assert!(scene.see("ids").contains("b=@600"), "{}", scene.see("ids"));
}

fn a_withdrawal_makes_no_semaphore(scene: &mut Scene) {
    scene.command("zadd ids @600 a");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("none".into(), String::new()));
    assert_eq!(scene.see("ids"), "a=-@600 for 600");
}

fn a_withdrawal_tells_no_number_below_one(scene: &mut Scene) {
    for (id, there, then, told) in [("a", -5, "-3", ""), ("b", -2, "0", ""), ("c", -1, "1", "ch 1")]
    {
        scene.command(&format!("set n {there}"));
        scene.command(&format!("zadd ids @600 {id}"));
        let args = format!("{id} 2 600 ch publish");
        assert_eq!(scene.call("semaphore/withdraw", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (then.into(), told.into()));
    }
}

fn all_permits_are_taken(scene: &mut Scene) {
    for (id, there) in [("d", "5"), ("e", "-3")] {
        scene.command(&format!("set n {there}"));
        scene.command("pexpire n 70");
        let args = format!("{id} {there} @0 600");
        assert_eq!(scene.call("semaphore/drain", KEYS, &args), "{1, '0'}");
        assert_eq!(scene.see("n"), "0 for 70");
    }
    assert_eq!(scene.see("ids"), "d=@600 e=@600 for 600");
    assert_eq!(scene.heard(), "");
}

fn another_number_of_permits_is_not_taken(scene: &mut Scene) {
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @9 600"), "{0, '0'}");
    scene.command("set n 6");
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @9 600"), "{0, '6'}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("6".into(), "none".into()));
}

fn nothing_is_taken_of_nothing(scene: &mut Scene) {
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 0 @9 600"), "{1, '0'}");
    assert_eq!(scene.see("n"), "none");
    scene.command("set n 0");
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 0 @9 600"), "{1, '0'}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("0".into(), "none".into()));
}

fn a_repeated_drain_takes_nothing(scene: &mut Scene) {
    scene.command("zadd ids @600 d");
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @9 600"), "{1, '0'}");
    for there in ["5", "7"] {
        scene.command(&format!("set n {there}"));
        let done = format!("{{1, '{there}'}}");
        assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @9 600"), done);
        assert_eq!(scene.see("n"), there);
    }
}

fn a_late_drain_takes_nothing(scene: &mut Scene) {
    scene.command("set n 5");
    scene.at(1_234);
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @1233 600"), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5".into(), "none".into()));
}

fn a_drain_forgets_ids(scene: &mut Scene) {
    scene.command("set n 5");
    with_old_ids(scene);
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @20 600 x y"), "{1, '0'}");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 d=@610 z=@900 600=@950 1=@951 publish=@952 for 600"
    );
}

fn permits_that_are_no_integer_are_not_drained(scene: &mut Scene) {
    scene.command("set n 5.5");
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5.5 @9 600"), "ERR");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5.5".into(), "none".into()));
    scene.command("set n many");
    assert_eq!(scene.call("semaphore/drain", KEYS, "d 5 @9 600"), "WRONGTYPE");
}

fn a_counter_is_made_once_and_told(scene: &mut Scene) {
    assert_eq!(scene.call("counter/try_set", KEYS, "t 3 @0 600 ch publish 7"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("3".into(), "ch 7".into()));
    assert_eq!(scene.see("ids"), "t=@600 for 600");
    assert_eq!(scene.call("counter/try_set", KEYS, "u 4 @9 600 ch publish 7"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("3".into(), String::new()));
    assert_eq!(scene.see("ids"), "t=@600 for 600");
}

fn a_repeated_set_is_done(scene: &mut Scene) {
    scene.command("zadd ids @600 t");
    assert_eq!(scene.call("counter/try_set", KEYS, "t 3 @9 600 ch publish 7"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("none".into(), String::new()));
    scene.command("set n 2");
    assert_eq!(scene.call("counter/try_set", KEYS, "t 3 @9 600 ch publish 7"), "1");
    assert_eq!((scene.see("n"), scene.see("ids")), ("2".into(), "t=@600".into()));
}

fn a_late_set_makes_nothing(scene: &mut Scene) {
    scene.at(1_234);
    assert_eq!(scene.call("counter/try_set", KEYS, "t 3 @1233 600 ch publish 7"), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("none".into(), "none".into()));
}

fn a_new_semaphore_has_no_permits_out(scene: &mut Scene) {
    scene.command("zadd out @90 p");
    assert_eq!(scene.call("counter/try_set", "n ids out", "t 3 @9 600 ch publish 7"), "1");
    assert_eq!((scene.see("n"), scene.see("out")), ("3".into(), "none".into()));
    // Those of a semaphore that is there stay, also for a copy.
    scene.command("zadd out @90 p");
    for id in ["t", "u"] {
        scene.call("counter/try_set", "n ids out", &format!("{id} 3 @9 600 ch publish 7"));
        assert_eq!((scene.see("n"), scene.see("out")), ("3".into(), "p=@90".into()));
    }
}

fn a_set_beside_a_foreign_key_makes_nothing(scene: &mut Scene) {
    scene.command("set out precious");
    let args = "t 3 @9 600 ch publish 7";
    assert_eq!(scene.call("counter/try_set", "n ids out", args), "WRONGTYPE");
    assert_eq!((scene.see("n"), scene.see("ids")), ("none".into(), "none".into()));
}

fn a_set_forgets_ids(scene: &mut Scene) {
    with_old_ids(scene);
    assert_eq!(scene.call("counter/try_set", KEYS, "t 3 @20 600 ch publish 1 x y"), "1");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 t=@610 z=@900 600=@950 1=@951 publish=@952 for 600"
    );
}

fn the_number_is_read(scene: &mut Scene) {
    assert_eq!(scene.call("counter/read", "n", ""), "nil");
    scene.command("set n -3");
    assert_eq!(scene.call("counter/read", "n", ""), "'-3'");
}

fn a_count_goes_down(scene: &mut Scene) {
    scene.command("set n 3");
    scene.command("pexpire n 70");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @0 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("2 for 70".into(), String::new()));
    assert_eq!(scene.see("ids"), "c=@600 for 600");
    assert_eq!(scene.call("latch/count_down", KEYS, "d @9 500 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("1 for 70".into(), String::new()));
    assert_eq!(scene.see("ids"), "d=@500 c=@600 for 500");
}

fn a_latch_at_zero_is_removed_and_told(scene: &mut Scene) {
    scene.command("set n 1");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("none".into(), "ch 0".into()));
    assert_eq!(scene.see("ids"), "c=@600 for 600");
}

fn a_latch_below_one_is_removed(scene: &mut Scene) {
    for (id, there) in [("c", 0), ("d", -4)] {
        scene.command(&format!("set n {there}"));
        let args = format!("{id} @9 600 ch publish");
        assert_eq!(scene.call("latch/count_down", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), ("none".into(), String::new()));
    }
}

fn a_repeated_count_counts_nothing(scene: &mut Scene) {
    scene.command("zadd ids @600 c");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "1");
    scene.command("set n 1");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("1".into(), String::new()));
}

fn a_late_count_counts_nothing(scene: &mut Scene) {
    scene.command("set n 1");
    scene.at(1_234);
    assert_eq!(scene.call("latch/count_down", KEYS, "c @1233 600 ch publish"), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("1".into(), "none".into()));
}

fn a_count_forgets_ids(scene: &mut Scene) {
    scene.command("set n 5");
    with_old_ids(scene);
    assert_eq!(scene.call("latch/count_down", KEYS, "c @20 600 ch publish x y"), "1");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 c=@610 z=@900 600=@950 1=@951 publish=@952 for 600"
    );
}

fn a_count_of_nothing_counts_nothing(scene: &mut Scene) {
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "0");
    assert_eq!((scene.see("n"), scene.see("ids")), ("none".into(), "none".into()));
}

fn a_count_that_is_no_integer_stays(scene: &mut Scene) {
    scene.command("set n many");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "ERR");
    assert_eq!((scene.see("n"), scene.see("ids")), ("many".into(), "none".into()));
    scene.command("del n");
    scene.command("hset n a 1");
    assert_eq!(scene.call("latch/count_down", KEYS, "c @9 600 ch publish"), "WRONGTYPE");
    assert_eq!((scene.see("n"), scene.see("ids")), ("a=1".into(), "none".into()));
}

fn permits_are_returned_on_a_full_server(scene: &mut Scene) {
    scene.command("set n 3");
    scene.is_full();
    assert_eq!(scene.call("semaphore/release", KEYS, "a 2 @9 600 ch publish 1"), "1");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5".into(), "a=@600 for 600".into()));
}

fn what_was_taken_is_returned_on_a_full_server(scene: &mut Scene) {
    scene.command("set n 3");
    scene.command("zadd ids @600 a");
    scene.is_full();
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 2 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.see("ids")), ("5".into(), "a=-@600 for 600".into()));
}

fn a_count_goes_down_on_a_full_server(scene: &mut Scene) {
    scene.command("set n 3");
    scene.is_full();
    assert_eq!(scene.call("latch/count_down", KEYS, "a @9 600 ch publish"), "1");
    assert_eq!((scene.see("n"), scene.see("ids")), ("2".into(), "a=@600 for 600".into()));
}
