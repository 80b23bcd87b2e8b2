//! The expirable semaphore: the number of free permits, and those that are out with the ends of their leases.

use super::example::examples;
use super::scene::{Refuses, Scene};

examples! {
    "expirable/acquire": leased_permits_are_taken_if_there_are_enough, too_few_leased_permits_are_not_taken,
        a_repeat_takes_what_is_missing, a_withdrawn_request_takes_nothing, a_late_request_takes_nothing,
        permits_whose_lease_has_ended_are_taken_back, of_too_many_some_are_taken_back, a_refusal_tells_that_more_leases_have_ended, a_request_forgets_ids,
        permits_get_the_ttl_of_the_semaphore, a_semaphore_that_is_no_number_gives_nothing,
        nothing_is_taken_back_for_a_semaphore_that_is_gone, a_request_that_is_refused_halfway_changes_nothing;
    "expirable/release": leased_permits_are_returned_and_told, several_are_told_by_their_number, a_repeat_returns_nothing,
        a_permit_whose_lease_has_ended_is_returned, of_some_that_are_out_these_are_returned, all_are_returned_or_none,
        permits_are_returned_to_a_full_server, a_release_withdraws_an_acquisition,
        a_return_forgets_ids, a_deleted_semaphore_stays_deleted, a_number_below_one_is_not_told,
        a_release_that_is_refused_halfway_changes_nothing, a_return_where_the_slot_moves_from_is_remembered;
    "expirable/change": permits_are_added, permits_are_set, a_change_is_made_once, a_late_change_changes_nothing,
        a_change_forgets_ids, a_change_makes_a_semaphore, a_semaphore_that_a_change_makes_has_no_permits_out, what_is_no_number_is_not_changed;
    "expirable/renew": leases_are_renewed, a_lease_does_not_get_shorter, a_permit_that_is_gone_is_not_renewed,
        a_key_of_another_type_stops_no_renewal, leases_are_renewed_on_a_full_server;
    "expirable/set_lease": a_lease_is_set, a_lease_that_has_ended_is_not_set, a_late_lease_is_not_set,
        a_lease_is_set_on_a_full_server;
    "expirable/remaining": the_rest_of_leases_is_read;
    "expirable/inspect": the_permits_are_read, a_semaphore_that_is_not_there_is_read, what_is_no_number_is_not_read;
}

const KEYS: &str = "n ids out";

fn leased_permits_are_taken_if_there_are_enough(scene: &mut Scene) {
    scene.command("set n 5");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 2 p q"), "{1, 3, 40}");
    assert_eq!((scene.see("n"), scene.see("out")), ("3".into(), "p=@40 q=@40".into()));
    scene.at(9);
    assert_eq!(scene.call("expirable/acquire", KEYS, "b 50 @9 ch publish 3 r s t"), "{1, 0, 31}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("0".into(), "none".into()));
    assert_eq!(scene.see("out"), "p=@40 q=@40 r=@59 s=@59 t=@59");
    assert_eq!(scene.heard(), "");
}

fn too_few_leased_permits_are_not_taken(scene: &mut Scene) {
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), "{0, 0, -1}");
    assert_eq!(scene.see("n"), "none");
    for (there, wanted) in [("1", "2 p q"), ("0", "1 p"), ("-1", "1 p")] {
        scene.command(&format!("set n {there}"));
        let refused = format!("{{0, {there}, -1}}");
        let args = format!("a 40 @9 ch publish {wanted}");
        assert_eq!(scene.call("expirable/acquire", KEYS, &args), refused);
        assert_eq!((scene.see("n"), scene.see("out")), (there.into(), "none".into()));
    }
    scene.command("zadd out @70 x @90 y");
    scene.at(8);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), "{0, -1, 62}");
    assert_eq!((scene.see("ids"), scene.heard()), ("none".into(), String::new()));
}

/// It has been granted. Its lease begins anew, because the answer counts from this copy, and becomes no shorter.
fn a_repeat_takes_what_is_missing(scene: &mut Scene) {
    scene.command("zadd out @40 p @40 q");
    for there in ["0", "-2", "7"] {
        scene.command(&format!("set n {there}"));
        let granted = format!("{{1, {there}, 40}}");
        assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 2 p q"), granted);
        assert_eq!(scene.see("n"), there);
    }
    scene.at(5);
    // One was taken back.
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 3 p q r"), "{1, 6, 35}");
    assert_eq!((scene.see("n"), scene.see("out")), ("6".into(), "p=@45 q=@45 r=@45".into()));
    scene.command("set n 0");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 50 @9 ch publish 4 p q r s"), "{0, 0, 40}");
    assert_eq!(scene.see("out"), "p=@45 q=@45 r=@45");
    scene.command("zadd out @90 p");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 50 @9 ch publish 2 p q"), "{1, 0, 40}");
    assert_eq!(scene.see("out"), "r=@45 q=@55 p=@90");
}

fn a_withdrawn_request_takes_nothing(scene: &mut Scene) {
    scene.command("set n 5");
    scene.command("zadd ids -@600 a");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), "{0, 5, -1}");
    assert_eq!((scene.see("n"), scene.see("out")), ("5".into(), "none".into()));
    assert_eq!(scene.see("ids"), "a=-@600");
}

fn a_late_request_takes_nothing(scene: &mut Scene) {
    scene.command("set n 5");
    scene.command("zadd out @10 p");
    scene.at(1_234);
    let call = "a 40 @1233 ch publish 1 p";
    assert_eq!(scene.call("expirable/acquire", KEYS, call), "{@1234}");
    assert_eq!((scene.see("n"), scene.see("out")), ("5".into(), "p=@10".into()));
}

fn permits_whose_lease_has_ended_are_taken_back(scene: &mut Scene) {
    scene.command("set n 0");
    scene.command("zadd out @10 x @20 y @21 z");
    scene.at(20);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @90 ch publish 3 p q r"), "{0, 2, 1}");
    assert_eq!((scene.see("n"), scene.see("out")), ("2".into(), "z=@21".into()));
    assert_eq!(scene.heard(), "ch 2");
    scene.at(21);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @90 ch publish 3 p q r"), "{1, 0, 40}");
    assert_eq!((scene.see("n"), scene.heard()), ("0".into(), String::new()));
    assert_eq!(scene.see("out"), "p=@61 q=@61 r=@61");
    // The permits of the request itself.
    scene.at(61);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @90 ch publish 2 p q"), "{1, 1, 40}");
    assert_eq!((scene.see("n"), scene.heard()), ("1".into(), "ch 1".into()));
    assert_eq!(scene.see("out"), "p=@101 q=@101");
}

fn of_too_many_some_are_taken_back(scene: &mut Scene) {
    scene.command("set n 0");
    for n in 0..103 {
        scene.command(&format!("zadd out @{n} x{n}"));
    }
    scene.at(150);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @900 ch publish 1 x101"), "{1, 100, 0}");
    assert_eq!((scene.see("n"), scene.heard()), ("100".into(), "ch 100".into()));
    assert_eq!(
        scene.see("out"),
        "x100=@100 x102=@102 x101=@190",
        "its own has not been taken back"
    );
    scene.command("set n 0");
    scene.command("zadd ids -@600 b");
    scene.command("zadd out @100 x103");
    assert_eq!(scene.call("expirable/acquire", KEYS, "b 40 @900 ch publish 1 p"), "{0, 3, 40}");
}

/// The caller is to ask again at once.
fn a_refusal_tells_that_more_leases_have_ended(scene: &mut Scene) {
    scene.command("set n -200");
    for n in 0..101 {
        scene.command(&format!("zadd out @{n} x{n}"));
    }
    scene.at(150);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @900 ch publish 1 p"), "{0, -100, 0}");
}

/// Ids whose time is over, and those that are named.
fn with_old_ids(scene: &mut Scene) {
    scene.command("zadd ids @10 old -@10 older @11 young -@11 younger @900 x @900 y @900 z");
    // The last arguments before the ids are no ids.
    scene.command("zadd ids @950 600 @951 1 @952 publish @953 p @954 by");
    scene.command("pexpire ids 50");
    scene.at(10);
}

fn a_request_forgets_ids(scene: &mut Scene) {
    scene.command("set n 5");
    with_old_ids(scene);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @20 ch publish 1 p x y"), "{1, 4, 40}");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 older=-@10 old=@10 young=@11 z=@900 600=@950 1=@951 publish=@952 p=@953 by=@954 for 40"
    );
    assert_eq!(scene.call("expirable/acquire", KEYS, "b 40 @20 ch publish 1 q z"), "{1, 3, 40}");
    assert!(!scene.see("ids").contains("z="));
}

fn a_request_that_is_refused_halfway_changes_nothing(scene: &mut Scene) {
    let args = "a 40 @20 ch publish 2 p q";
    for (command, out) in [("zrem", "@4 x"), ("zadd", "@40 x"), ("zadd", "@40 p")] {
        scene.command("del n out");
        scene.command("set n 5");
        scene.command(&format!("zadd out {out}"));
        scene.at(9);
        let before = (scene.see("n"), scene.see("out"));
        scene.refuses(command);
        assert_eq!(scene.call("expirable/acquire", KEYS, args), "NOPERM");
        assert_eq!((scene.see("n"), scene.see("out")), before);
    }
}

fn permits_get_the_ttl_of_the_semaphore(scene: &mut Scene) {
    scene.command("set n 5");
    scene.command("pexpire n 1");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @20 ch publish 1 p"), "{1, 4, 40}");
    assert_eq!((scene.see("n"), scene.see("out")), ("4 for 1".into(), "p=@40 for 1".into()));
}

fn a_semaphore_that_is_no_number_gives_nothing(scene: &mut Scene) {
    scene.command("zadd out @0 x");
    for (there, error) in [("many", "WRONGTYPE"), ("5.5", "ERR")] {
        scene.command(&format!("set n {there}"));
        assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), error);
        assert_eq!((scene.see("n"), scene.see("out")), (there.into(), "x=@0".into()));
    }
    scene.command("set n many");
    scene.command("zadd ids -@600 b");
    let args = "b 40 @9 ch publish 1 p";
    assert_eq!(scene.call("expirable/acquire", "n ids none", args), "WRONGTYPE");
    scene.command("del n");
    scene.command("hset n a 1");
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), "WRONGTYPE");
    assert_eq!((scene.see("out"), scene.heard()), ("x=@0".into(), String::new()));
}

fn nothing_is_taken_back_for_a_semaphore_that_is_gone(scene: &mut Scene) {
    scene.command("zadd out @0 x @0 p");
    scene.at(5);
    assert_eq!(scene.call("expirable/acquire", KEYS, "a 40 @9 ch publish 1 p"), "{0, 0, -1}");
    assert_eq!((scene.see("n"), scene.see("out")), ("none".into(), "p=@0 x=@0".into()));
}

fn leased_permits_are_returned_and_told(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("pexpire n 70");
    scene.command("zadd out @1 p @90 q");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 p"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("5 for 70".into(), "ch 5".into()));
    assert_eq!((scene.see("out"), scene.see("ids")), ("q=@90".into(), "r=@600 for 600".into()));
    scene.at(2);
    assert_eq!(scene.call("expirable/release", KEYS, "'' '' 600 ch publish each 1 q"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("6 for 68".into(), "ch 6".into()));
    assert_eq!((scene.see("out"), scene.see("ids")), ("none".into(), "r=@600 for 598".into()));
}

fn several_are_told_by_their_number(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd out @1 p @90 q");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 2 p q"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("6".into(), "ch 2".into()));
}

fn a_repeat_returns_nothing(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd ids @600 r");
    scene.command("zadd out @90 q");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 q"), "1");
    assert_eq!(scene.call("expirable/release", KEYS, "s '' 600 ch publish each 1 p"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("4".into(), String::new()));
    assert_eq!((scene.see("out"), scene.see("ids")), ("q=@90".into(), "r=@600".into()));
    // An empty id is none.
    scene.command("zadd ids @600 ''");
    assert_eq!(scene.call("expirable/release", KEYS, "'' '' 600 ch publish each 1 p"), "0");
}

fn a_permit_whose_lease_has_ended_is_returned(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd out @5 p");
    scene.at(5);
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 p"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("5".into(), "ch 5".into()));
    assert_eq!((scene.see("out"), scene.see("ids")), ("none".into(), "none".into()));
}

fn of_some_that_are_out_these_are_returned(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd out @90 p @90 q @90 x");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 3 p gone q"), "0");
    assert_eq!((scene.see("n"), scene.heard()), ("6".into(), "ch 2".into()));
    assert_eq!((scene.see("out"), scene.see("ids")), ("x=@90".into(), "none".into()));
}

fn all_are_returned_or_none(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd out @5 x @90 p @90 q");
    scene.at(5);
    for ids in ["p gone q", "p x q", "gone p q", "p q x"] {
        let args = format!("r '' 600 ch publish all 3 {ids}");
        assert_eq!(scene.call("expirable/release", KEYS, &args), "0");
    }
    assert_eq!((scene.see("n"), scene.see("ids")), ("4".into(), "none".into()));
    assert_eq!((scene.see("out"), scene.heard()), ("x=@5 p=@90 q=@90".into(), String::new()));
    for _ in 0..2 {
        assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish all 2 p q"), "1");
        assert_eq!((scene.see("n"), scene.see("out")), ("6".into(), "x=@5".into()));
    }
    assert_eq!((scene.see("ids"), scene.heard()), ("r=@605 for 600".into(), "ch 2".into()));
}

fn permits_are_returned_to_a_full_server(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd out @90 p @90 q");
    scene.is_full();
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 p"), "1");
    assert_eq!(scene.call("expirable/release", KEYS, "'' a 600 ch publish each 1 q"), "1");
    assert_eq!((scene.see("n"), scene.see("out")), ("6".into(), "none".into()));
    assert_eq!(scene.see("ids"), "a=-@600 r=@600 for 600");
    // What is withdrawn need not have been granted.
    assert_eq!(scene.call("expirable/release", "n more out", "'' b 600 ch publish each 1 p"), "0");
    assert_eq!(scene.see("more"), "b=-@600 for 600");
}

fn a_release_withdraws_an_acquisition(scene: &mut Scene) {
    scene.command("set n 4");
    scene.command("zadd ids @5 old -@5 older");
    scene.at(5);
    assert_eq!(scene.call("expirable/release", KEYS, "'' a 600 ch publish each 1 p"), "0");
    assert_eq!((scene.see("n"), scene.see("ids")), ("4".into(), "a=-@605 for 600".into()));
    scene.command("zadd out @90 p");
    assert_eq!(scene.call("expirable/release", KEYS, "r b 700 ch publish each 1 p"), "1");
    assert_eq!(scene.see("ids"), "b=-@705 a=-@605 r=@705 for 700");
    assert_eq!(scene.heard(), "ch 5");
}

fn a_return_forgets_ids(scene: &mut Scene) {
    scene.command("set n 4");
    with_old_ids(scene);
    scene.command("zadd out @90 p");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 p x y"), "1");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 r=@610 z=@900 600=@950 1=@951 publish=@952 p=@953 by=@954 for 600"
    );
    assert_eq!(scene.call("expirable/release", KEYS, "s '' 600 ch publish each 1 q z"), "0");
    assert!(!scene.see("ids").contains("z="));
}

fn a_deleted_semaphore_stays_deleted(scene: &mut Scene) {
    scene.command("zadd out @90 p");
    assert_eq!(scene.call("expirable/release", KEYS, "r '' 600 ch publish each 1 p"), "1");
    assert_eq!((scene.see("n"), scene.see("out")), ("none".into(), "none".into()));
    assert_eq!(scene.heard(), "");
}

fn a_number_below_one_is_not_told(scene: &mut Scene) {
    scene.command("set n -2");
    scene.command("zadd out @90 p @90 q @90 r");
    for (permit, left, told) in [("p", "-1", ""), ("q", "0", ""), ("r", "1", "ch 1")] {
        let args = format!("{permit}r '' 600 ch publish each 1 {permit}");
        assert_eq!(scene.call("expirable/release", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (left.into(), told.into()));
    }
}

fn a_release_that_is_refused_halfway_changes_nothing(scene: &mut Scene) {
    scene.command("zadd out @90 p @90 q");
    scene.refuses("zrem");
    for number in ["none", "3"] {
        if number != "none" {
            scene.command(&format!("set n {number}"));
        }
        assert_eq!(
            scene.call("expirable/release", KEYS, "r a 600 ch publish each 2 p q"),
            "NOPERM"
        );
        assert_eq!((scene.see("n"), scene.see("out")), (number.into(), "p=@90 q=@90".into()));
        assert_eq!((scene.see("ids"), scene.heard()), ("none".into(), String::new()));
    }
}

/// A key that gets empty is gone, and is taken for one on the other server.
fn a_return_where_the_slot_moves_from_is_remembered(scene: &mut Scene) {
    scene.is_elsewhere("ids", Refuses::OnceGone);
    for (args, left, ids) in [
        ("r '' 600 ch publish each 1 p x", "5", "r=@605 for 600"),
        ("'' a 600 ch publish each 1 p x", "6", "a=-@605 for 600"),
        ("'' '' 600 ch publish each 1 p x", "7", "none"),
    ] {
        scene.at(0);
        scene.command(&format!("set n {}", left.parse::<i64>().unwrap() - 1));
        scene.command("del ids");
        scene.command("zadd ids @5 x");
        scene.command("zadd out @90 p @90 q");
        scene.at(5);
        assert_eq!(scene.call("expirable/release", KEYS, args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (left.into(), format!("ch {left}")));
        assert_eq!((scene.see("out"), scene.see("ids")), ("q=@90".into(), ids.into()));
    }
}

fn permits_are_added(scene: &mut Scene) {
    scene.command("set n 3");
    scene.command("pexpire n 70");
    scene.command("zadd out @90 p");
    for (id, by, left, told) in
        [("r", 2, "5", "ch 2"), ("s", 1, "6", "ch 1"), ("t", 0, "6", ""), ("u", -8, "-2", "")]
    {
        let args = format!("{id} {by} @9 600 ch publish by");
        assert_eq!(scene.call("expirable/change", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (format!("{left} for 70"), told.into()));
    }
    assert_eq!(scene.see("ids"), "r=@600 s=@600 t=@600 u=@600 for 600");
}

fn permits_are_set(scene: &mut Scene) {
    scene.command("set n 3");
    scene.command("zadd out @0 p @90 q");
    for (id, to, left, told) in [
        ("r", 5, "3", ""),
        ("s", 7, "5", "ch 7"),
        ("t", 1, "-1", "ch 1"),
        ("u", 2, "0", "ch 2"),
        ("v", 0, "-2", ""),
    ] {
        let args = format!("{id} {to} @9 600 ch publish to");
        assert_eq!(scene.call("expirable/change", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), (left.into(), told.into()));
    }
    assert_eq!(scene.see("out"), "p=@0 q=@90");
}

fn a_change_is_made_once(scene: &mut Scene) {
    scene.command("set n 3");
    scene.command("zadd ids @600 r");
    assert_eq!(scene.call("expirable/change", KEYS, "r 2 @9 600 ch publish by"), "1");
    assert_eq!((scene.see("n"), scene.heard()), ("3".into(), String::new()));
}

fn a_late_change_changes_nothing(scene: &mut Scene) {
    scene.command("set n 3");
    scene.at(9);
    assert_eq!(scene.call("expirable/change", KEYS, "r 2 @8 600 ch publish by"), "{@9}");
    assert_eq!(scene.see("n"), "3");
    assert_eq!(scene.call("expirable/change", KEYS, "r 2 @9 600 ch publish by"), "1");
}

fn a_change_forgets_ids(scene: &mut Scene) {
    scene.command("set n 3");
    with_old_ids(scene);
    assert_eq!(scene.call("expirable/change", KEYS, "r 2 @20 600 ch publish by x y"), "1");
    assert_eq!(
        scene.see("ids"),
        "younger=-@11 young=@11 r=@610 z=@900 600=@950 1=@951 publish=@952 p=@953 by=@954 for 600"
    );
}

fn a_change_makes_a_semaphore(scene: &mut Scene) {
    for how in ["by", "to"] {
        scene.command("del n ids");
        // They are of another semaphore.
        scene.command("zadd out @90 p");
        let args = format!("r 2 @9 600 ch publish {how}");
        assert_eq!(scene.call("expirable/change", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.heard()), ("2".into(), "ch 2".into()));
    }
}

fn a_semaphore_that_a_change_makes_has_no_permits_out(scene: &mut Scene) {
    for (id, how) in [("r", "by"), ("s", "to")] {
        scene.command("del n");
        scene.command("zadd out @90 p");
        let args = format!("{id} 2 @9 600 ch publish {how}");
        assert_eq!(scene.call("expirable/change", KEYS, &args), "1");
        assert_eq!((scene.see("n"), scene.see("out")), ("2".into(), "none".into()));
    }
    scene.command("del n");
    scene.command("set out precious");
    let args = "t 2 @9 600 ch publish by";
    assert_eq!(scene.call("expirable/change", KEYS, args), "WRONGTYPE");
    assert_eq!((scene.see("n"), scene.see("ids")), ("none".into(), "r=@600 s=@600 for 600".into()));
}

fn what_is_no_number_is_not_changed(scene: &mut Scene) {
    scene.command("set n many");
    for (how, error) in [("by", "ERR"), ("to", "WRONGTYPE")] {
        let args = format!("r 2 @9 600 ch publish {how}");
        assert_eq!(scene.call("expirable/change", KEYS, &args), error);
        assert_eq!((scene.see("n"), scene.see("ids")), ("many".into(), "none".into()));
    }
    assert_eq!(scene.heard(), "");
}

const ONE: &str = "one-permit-of-16";
const TWO: &str = "two-permits-of16";

fn leases_are_renewed(scene: &mut Scene) {
    scene.command(&format!("zadd out @40 {ONE} @41 {TWO} @30 other"));
    scene.command(&format!("zadd more @40 {TWO}"));
    scene.at(20);
    let args = format!("{ONE}{TWO} {TWO} 50 60");
    assert_eq!(scene.call("expirable/renew", "out more", &args), "2");
    assert_eq!(scene.see("out"), format!("other=@30 {ONE}=@70 {TWO}=@70"));
    assert_eq!(scene.see("more"), format!("{TWO}=@80"));
    // One lease for all.
    let args = format!("{ONE} {TWO} 90");
    assert_eq!(scene.call("expirable/renew", "out more", &args), "2");
    assert_eq!(scene.see("out"), format!("other=@30 {TWO}=@70 {ONE}=@110"));
    assert_eq!(scene.see("more"), format!("{TWO}=@110"));
}

fn a_lease_does_not_get_shorter(scene: &mut Scene) {
    scene.command(&format!("zadd out @90 {ONE} @41 {TWO}"));
    let args = format!("{ONE}{TWO} 50");
    assert_eq!(scene.call("expirable/renew", "out", &args), "1");
    assert_eq!(scene.see("out"), format!("{TWO}=@50 {ONE}=@90"));
}

fn a_permit_that_is_gone_is_not_renewed(scene: &mut Scene) {
    assert_eq!(scene.call("expirable/renew", "out", &format!("{ONE} 50")), "{0}");
    assert_eq!(scene.see("out"), "none");
    scene.command(&format!("zadd out @41 {TWO}"));
    for ids in [format!("{ONE}{TWO}"), format!("{TWO}{ONE}")] {
        assert_eq!(scene.call("expirable/renew", "out", &format!("{ids} 50")), "{0}");
    }
    assert_eq!(scene.see("out"), format!("{TWO}=@41"));
    scene.at(41);
    assert_eq!(scene.call("expirable/renew", "out", &format!("{TWO} 50")), "{0}");
    assert_eq!(scene.see("out"), format!("{TWO}=@41"));
}

fn a_key_of_another_type_stops_no_renewal(scene: &mut Scene) {
    scene.command("set text 1");
    scene.command(&format!("zadd out @41 {ONE}"));
    let args = format!("{ONE} {ONE} 50");
    assert_eq!(scene.call("expirable/renew", "text out", &args), "{0, 1}");
    assert_eq!(scene.see("out"), format!("{ONE}=@50"));
}

fn leases_are_renewed_on_a_full_server(scene: &mut Scene) {
    scene.command("set text 1");
    scene.command(&format!("zadd out @41 {ONE}"));
    scene.is_full();
    assert_eq!(scene.call("expirable/renew", "out", &format!("{ONE} 50")), "1");
    assert_eq!(scene.call("expirable/renew", "text out", &format!("{ONE} {ONE} 60")), "{0, 1}");
    assert_eq!(scene.see("out"), format!("{ONE}=@60"));
}

fn a_lease_is_set_on_a_full_server(scene: &mut Scene) {
    scene.command("zadd out @41 p");
    scene.is_full();
    assert_eq!(scene.call("expirable/set_lease", "out", "p 90 @20"), "1");
    assert_eq!(scene.see("out"), "p=@90");
}

fn a_lease_is_set(scene: &mut Scene) {
    scene.command("zadd out @41 p @41 q");
    scene.at(9);
    assert_eq!(scene.call("expirable/set_lease", "out", "p 70 @9"), "1");
    assert_eq!(scene.see("out"), "q=@41 p=@79");
    assert_eq!(scene.call("expirable/set_lease", "out", "p 5 @9"), "1");
    assert_eq!(scene.see("out"), "p=@14 q=@41");
}

fn a_lease_that_has_ended_is_not_set(scene: &mut Scene) {
    scene.command("zadd out @9 p");
    scene.at(9);
    for permit in ["p", "gone"] {
        let args = format!("{permit} 70 @9");
        assert_eq!(scene.call("expirable/set_lease", "out", &args), "0");
    }
    assert_eq!(scene.see("out"), "p=@9");
}

fn a_late_lease_is_not_set(scene: &mut Scene) {
    scene.command("zadd out @41 p");
    scene.at(9);
    assert_eq!(scene.call("expirable/set_lease", "out", "p 70 @8"), "{@9}");
    assert_eq!(scene.see("out"), "p=@41");
}

fn the_rest_of_leases_is_read(scene: &mut Scene) {
    scene.command("zadd out @41 p @9 q @8 r");
    scene.at(9);
    assert_eq!(scene.call("expirable/remaining", "out", "p q r gone"), "{32, 0, 0, 0}");
}

fn the_permits_are_read(scene: &mut Scene) {
    scene.command("set n -1");
    scene.command("zadd out @8 p @9 q @10 r @41 s");
    scene.at(9);
    assert_eq!(scene.call("expirable/inspect", "n out", "10"), "{1, 2, 'r', 1, 's', 32}");
    assert_eq!(scene.call("expirable/inspect", "n out", "1"), "{1, 2, 'r', 1}");
    assert_eq!(scene.call("expirable/inspect", "n out", "0"), "{1, 2}");
    assert_eq!(scene.see("out"), "p=@8 q=@9 r=@10 s=@41");
}

fn a_semaphore_that_is_not_there_is_read(scene: &mut Scene) {
    scene.command("zadd out @41 s");
    assert_eq!(scene.call("expirable/inspect", "n out", "10"), "nil");
}

fn what_is_no_number_is_not_read(scene: &mut Scene) {
    scene.command("set n many");
    assert_eq!(scene.call("expirable/inspect", "n out", "10"), "WRONGTYPE");
}
