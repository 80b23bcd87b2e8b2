//! C4 to C8: what only the servers know.

use judge::MS;

use crate::story::{NOTHING, Story, found, found_blindly, found_with};

#[test]
fn c4_expired_while_it_was_trusted() {
    let story = |told: &str| {
        format!(
            "10 a asks 1 shop\n 12 a has 1 trust 290\n 100 a trusts 1 290\n {told} a loses 1 expired"
        )
    };
    assert_eq!(found_blindly(&story("390")), NOTHING);
    assert_eq!(found_blindly(&story("389.999999")), ["C4 broken at 389.999999 for 0"]);
    // What is seen afterwards does not count.
    assert_eq!(found_blindly(&story("302").replace("100 a", "303 a")), NOTHING);
    let slack = |told: &str| {
        found_with(&format!("{}\n 400 server leaves x", story(told)), |bounds| bounds.slack = MS)
    };
    assert_eq!(slack("389.999999").len(), 2); // it expired on no server, and something is left
    assert_eq!(slack("388.999999").len(), 3);
}

/// A hold that the server prolongs at 100, so that it can be trusted to 395.
fn renewed(events: &str) -> String {
    format!(
        "10 a asks 1 shop lease 300\n 11 server grants a:1 until 311\n 12 a has 1\n 100 server renews a:1 until 400\n {events}"
    )
}

/// A watched hold. Its last renewal is due 100 after it was renewed, and a tick may go by.
fn unrenewed(renewed: &str, events: &str) -> Vec<String> {
    found(&format!(
        "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n {renewed}\n {events}"
    ))
}

#[test]
fn c4_a_watched_hold_is_renewed_in_a_calm() {
    let at_100 = "100 server renews a:1 until 400";
    let expired = "400 a loses 1 expired";
    let neglected = ["C4 broken at 400 for 0"];
    assert_eq!(unrenewed(at_100, expired), neglected);
    assert_eq!(unrenewed("", "311 a loses 1 expired"), ["C4 broken at 311 for 0"]);
    // Its process slept, or a fault was felt.
    assert_eq!(unrenewed(at_100, &format!("150 a sleeps\n 151 a wakes\n {expired}")), NOTHING);
    let fault = |from: &str, to: &str| {
        unrenewed(
            at_100,
            &format!("{from} nemesis begins f delay\n {to} nemesis heals f\n {expired}"),
        )
    };
    assert_eq!(fault("150", "151"), NOTHING);
    assert_eq!(fault("80", "90"), NOTHING);
    assert_eq!(fault("80", "89.999999"), neglected);
    assert_eq!(fault("400.000001", "401"), neglected);
    // What its user asked for, or what is none of this crate, is not renewed.
    let story = format!(
        "10 a asks 1 shop lease 300\n 11 server grants a:1 until 311\n 12 a has 1\n {at_100}\n {expired}"
    );
    assert_eq!(found(&story), NOTHING);
}

#[test]
fn c4_a_hold_that_comes_late_is_renewed_by_a_tick_after_it() {
    // Another of the process had it, or its future was not polled.
    let late = |granted: &str| {
        found(&format!(
            "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a idles 1\n {granted} a polls 1
             {granted} a has 1\n 311 a loses 1 expired"
        ))
    };
    assert_eq!(late("301"), ["C4 broken at 311 for 0"]);
    assert_eq!(late("301.000001"), NOTHING);
}

#[test]
fn c4_expired_while_the_server_kept_it() {
    assert_eq!(found(&renewed("395 a loses 1 expired")), NOTHING);
    let alarm = ["C4 broken at 394.999999 for 0"];
    assert_eq!(found(&renewed("394.999999 a loses 1 expired")), alarm);
    // The renewal may not have been confirmed.
    let fault = |from: &str, to: &str| {
        renewed(&format!(
            "{from} nemesis begins f delay\n {to} nemesis heals f\n 394.999999 a loses 1 expired"
        ))
    };
    assert_eq!(found(&fault("95", "105")), NOTHING);
    assert_eq!(found(&fault("80", "90")), NOTHING);
    assert_eq!(found(&fault("80", "89.999999")), alarm);
    assert_eq!(found(&fault("394.999999", "400")), NOTHING);
    assert_eq!(found(&fault("395", "400")), alarm);
    assert_eq!(
        found(&renewed("101 a sleeps\n 102 a wakes\n 394.999999 a loses 1 expired")),
        NOTHING
    );
    // Nor is it, before its answer can be there.
    let hasty = |told: &str| {
        let story =
            renewed(&format!("{told} a loses 1 expired")).replace("100 server", "310 server");
        found_with(&story.replace("until 400", "until 610"), |bounds| bounds.rtt = 2 * MS)
    };
    assert_eq!(hasty("311.999999"), NOTHING);
    assert_eq!(hasty("312"), ["C4 broken at 312 for 0"]);
}

#[test]
fn c4_expired_of_several() {
    let story = "10 a asks 1 all shop,barn\n 12 a has 1 trust 290\n 50 a loses 1 expired";
    assert_eq!(found_blindly(story), NOTHING);
}

#[test]
fn c4_removed_while_it_was_there() {
    let story = |removed: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 50 a loses 1 removed\n {removed} server removes a:1"
        )
    };
    assert_eq!(found(&story("50")), NOTHING);
    assert_eq!(found(&story("50.000001")), ["C4 broken at 50 for 0"]);
    assert_eq!(found(&story("51").replace("removed", "taken")), ["C4 broken at 50 for 0"]);
    let error = |at: &str| found_with(&story(at), |bounds| bounds.clock_error = MS);
    assert_eq!(error("51"), NOTHING);
    assert_eq!(error("51.000001"), ["C4 broken at 50 for 0"]);
    // The lease was over, though the server has not said so.
    let over = "10 a asks 1 shop\n 11 server grants a:1 until 50\n 12 a has 1\n 50 a loses 1 taken";
    assert_eq!(found(over), NOTHING);
    assert_eq!(found(&over.replace("until 50", "until 50.000001")), ["C4 broken at 50 for 0"]);
}

#[test]
fn c4_removed_of_a_majority() {
    let story = |gone: &str| {
        format!(
            "10 a asks 1 s1/m,s2/m,s3/m majority\n 11 s1 grants a:1 of m\n 11 s2 grants a:1 of m\n 11 s3 grants a:1 of m
             12 a has 1\n {gone}\n 50 a loses 1 removed"
        )
    };
    assert_eq!(
        found(&story("40 s1 removes a:1 of m\n 41 s2 removes a:1 of m")),
        ["C3 within L4 at 41 for 9"]
    );
    assert_eq!(found(&story("40 s1 removes a:1 of m")), ["C4 broken at 50 for 0"]);
    assert_eq!(found(&story("").replace("majority", "all")), ["C4 broken at 50 for 0"]);
    // A close ends the others.
    let closed = |from: &str, of_s1: &str| {
        let others = "51 s2 releases a:1 of m\n 51 s3 releases a:1 of m";
        story(&format!("{from} a closes 5\n {of_s1}\n {others}\n 52 a done 5"))
    };
    assert_eq!(found(&closed("50", "40 s1 removes a:1 of m")), NOTHING);
    assert_eq!(found(&closed("50", "51 s1 releases a:1 of m")), ["C4 broken at 50 for 0"]);
    let late = closed("50.000001", "40 s1 removes a:1 of m");
    assert_eq!(found(&late), ["C4 broken at 50 for 0"]);
    let one_of_all = story("40 s1 removes a:1 of m").replace("majority", "all");
    assert_eq!(found(&one_of_all), ["C3 within L4 at 40 for 10"]);
    // The lease of another one was nearly over, until a clock that was set made it longer.
    let set = |at: &str| {
        let lease = "10.5 nemesis begins step clock\n 10.5 nemesis heals step";
        let story =
            story(&format!("40 s1 removes a:1 of m\n {lease}\n {at} s2 renews a:1 of m until 400"));
        found(&story.replace("11 s2 grants a:1 of m", "11 s2 grants a:1 of m until 54"))
    };
    assert_eq!(set("51"), NOTHING);
    assert_eq!(set("49"), ["C4 broken at 50 for 0"]);
}

#[test]
fn c4_closed_without_a_close() {
    let story = |close: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n {close}\n 50 a loses 1 closed\n 51 b connects 9\n 51 b done 9"
        )
    };
    assert_eq!(found(&story("50 a closes 5\n 51 a done 5")), NOTHING);
    assert_eq!(found(&story("51 a closes 5\n 51 a done 5")), ["C4 broken at 50 for 0"]);
    assert_eq!(found(&story("50 b closes 5\n 51 b done 5")), ["C4 broken at 50 for 0"]);
    assert_eq!(found(&story("").replace("closed", "unknown")), NOTHING);
}

/// One turn, with other words of the server.
fn turn(server: &str) -> String {
    format!("10 a asks 1 shop\n {server}\n 12 a has 1\n 20 a unlocks 1\n 30 a unlocked 1")
}

#[test]
fn c5_a_grant_for_each_guard() {
    assert_eq!(found(&turn("10 server grants a:1\n 25 server releases a:1")), NOTHING);
    assert_eq!(found(&turn("12 server grants a:1\n 25 server releases a:1")), NOTHING);
    assert_eq!(
        found(&turn("11 server grants a:2\n 25 server releases a:2")),
        ["C5 broken at 12 for 0"]
    );
    assert_eq!(
        found(&turn("12.000001 server grants a:1\n 25 server releases a:1")),
        ["C5 broken at 12 for 0"]
    );
    let error = found_with(&turn("13 server grants a:1\n 25 server releases a:1"), |bounds| {
        bounds.clock_error = MS
    });
    assert_eq!(error, NOTHING);
    // Before it was asked for.
    assert_eq!(
        found(&turn("9.999999 server grants a:1\n 25 server releases a:1")),
        ["C5 broken at 9.999999 for 0"]
    );
    let error = found_with(&turn("9 server grants a:1\n 25 server releases a:1"), |bounds| {
        bounds.clock_error = MS
    });
    assert_eq!(error, NOTHING);
    // For another of the process, which was cut.
    let other = format!(
        "{}\n 5 a asks 2 shop\n 9 a cuts 2",
        turn("9 server grants a:1\n 25 server releases a:1")
    );
    assert_eq!(found(&other), NOTHING);
}

#[test]
fn c5_a_grant_of_a_majority_before_it_was_asked_for() {
    let story = |at: &str| {
        format!(
            "10 a asks 1 s1/m,s2/m,s3/m majority\n 11 s1 grants a:1 of m\n {at} s2 grants a:1 of m\n 11 s3 grants b:1 of m
             12 a has 1 on 0,1\n 20 a drops 1"
        )
    };
    assert_eq!(found(&story("10")), NOTHING);
    assert_eq!(found(&story("9")), ["C5 broken at 9 for 0"]);
}

#[test]
fn c5_an_id_is_granted_once() {
    let twice = "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 20 a unlocks 1\n 21 server releases a:1\n 22 a unlocked 1
        30 a asks 2 shop\n 31 server grants a:1\n 32 a has 2 id a:1\n 40 a unlocks 2\n 41 server releases a:1\n 42 a unlocked 2";
    assert_eq!(found(twice), ["C5 broken at 31 for 0"]);
    // Redisson's ids are threads.
    assert_eq!(found(&format!("0 a starts redisson\n {twice}")), NOTHING);
    let beside = turn("11 server grants a:1\n 11.5 server grants a:1\n 25 server releases a:1");
    assert_eq!(found(&beside), ["C5 broken at 11.5 for 0"]);
}

#[test]
fn c5_a_release_that_was_one() {
    assert_eq!(found(&turn("11 server grants a:1\n 20 server releases a:1")), NOTHING);
    assert_eq!(found(&turn("11 server grants a:1\n 30 server releases a:1")), NOTHING);
    let broken = ["C5 broken at 30 for 0"];
    assert_eq!(found(&turn("11 server grants a:1\n 30.000001 server releases a:1")), broken);
    let error = |at: &str| {
        let story = turn(&format!("11 server grants a:1\n {at} server releases a:1"));
        found_with(&story, |bounds| bounds.clock_error = MS)
    };
    assert_eq!(error("31"), NOTHING);
    assert_eq!(error("31.000001"), broken);
    assert_eq!(error("19"), NOTHING);
    // Before its belief was over, and not by it.
    assert_eq!(
        error("18.999999"),
        ["C2 broken at 19.999999 for 0.000001", "C5 broken at 30 for 0"]
    );
    assert_eq!(found(&turn("11 server grants a:1\n 25 server removes a:1 by force")), broken);
    // It expires at the moment.
    assert_eq!(found(&turn("11 server grants a:1 until 25")), broken);
    // What was not answered is no promise.
    let story = turn("11 server grants a:1\n 40 server releases a:1");
    assert_eq!(
        found(&story.replace("30 a unlocked 1", "30 a cuts 101\n 50 a connects 9\n 50 a done 9")),
        NOTHING
    );
}

#[test]
fn c5_a_release_left_to_another_waiter() {
    let story =
        |then: &str| format!("{}\n {then}", turn("11 server grants a:1\n 35 server releases a:1"));
    // Handed off within the process: the server sees one hold.
    assert_eq!(
        found(&story("15 a asks 2 shop\n 31 a has 2 id a:1\n 34 a unlocks 2\n 36 a unlocked 2")),
        NOTHING
    );
    // To one who does not take it: it is released in the background.
    assert_eq!(
        found(&story("15 a asks 2 shop\n 20 a cuts 2\n 36 a connects 9\n 36 a done 9")),
        NOTHING
    );
    assert_eq!(
        found(&story("15 a asks 2 shop\n 19 a cuts 2\n 36 a connects 9\n 36 a done 9")),
        ["C5 broken at 30 for 0"]
    );
}

#[test]
fn c5_a_release_whose_answer_was_lost() {
    let lost = |at: &str, fault: &str| {
        let story = format!(
            "10 a asks 1 shop\n {at} server removes a:1 by force\n 12 a has 1\n 200 a unlocks 1\n 230 a unlocked 1\n {fault}"
        );
        // The grant goes first in the log.
        found(&story.replace("10 a asks 1 shop", "10 a asks 1 shop\n 11 server grants a:1"))
    };
    let fault = "201 nemesis begins f delay\n 202 nemesis heals f";
    // Not long ago it was still there: the answer cannot tell.
    assert_eq!(lost("60", fault), ["C2 within L4 at 60 for 140"]);
    assert_eq!(lost("60", ""), ["C2 within L4 at 60 for 140", "C5 broken at 230 for 0"]);
    assert_eq!(
        lost("49.999999", fault),
        ["C2 beyond L4 at 49.999999 for 150.000001", "C5 broken at 230 for 0"]
    );
    assert_eq!(lost("50", fault), ["C2 beyond L4 at 50 for 150"]);
    assert_eq!(lost("230", fault), NOTHING);
    assert_eq!(lost("230.000001", fault), ["C5 broken at 230 for 0"]);
}

#[test]
fn c5_a_leased_release_is_certain() {
    let story = "10 a asks 1 shop lease 100\n 11 server grants a:1 until 111\n 25 server removes a:1\n 12 a has 1
        30 a unlocks 1\n 40 a unlocked 1\n 35 nemesis begins f delay\n 36 nemesis heals f";
    assert_eq!(found(story), ["C2 within L4 at 25 for 5", "C5 broken at 40 for 0"]);
}

/// An owner enters twice; the count is set at these moments.
fn reentry(second: &str, first: &str, more: &str) -> String {
    format!(
        "10 a asks 1 shop by ann\n 11 server grants a:1\n 12 a has 1\n 20 a asks 2 shop by ann\n 21 server counts a:1 2
         22 a has 2 id a:1 count 2\n {more}\n {second}\n 30 a unlocks 2\n 32 a unlocked 2\n 60 a unlocks 1\n {first}\n 62 a unlocked 1"
    )
}

#[test]
fn c5_the_hold_count_is_the_number_of_guards() {
    let (second, first) = ("31 server counts a:1 1", "61 server releases a:1");
    assert_eq!(found(&reentry(second, first, "")), NOTHING);
    assert_eq!(found(&reentry("", first, "")), ["C5 broken at 60 for 0"]);
    assert_eq!(found(&reentry("29 server counts a:1 1\n", first, "")), ["C5 broken at 30 for 0"]);
    assert_eq!(found(&reentry("59.999999 server counts a:1 1", first, "")), NOTHING);
    assert_eq!(found(&reentry("60 server counts a:1 1", first, "")), ["C5 broken at 60 for 0"]);
    let over = found(&reentry("", "30.5 server releases a:1", ""));
    assert_eq!(over, ["C2 broken at 30.5 for 29.5", "C5 broken at 62 for 0"]);
}

#[test]
fn c5_two_releases_at_once() {
    let story = |first: &str| {
        format!(
            "10 a asks 1 shop by ann lease 100\n 11 server grants a:1 until 111\n 12 a has 1\n
             20 a asks 2 shop by ann lease 91\n 21 server counts a:1 2\n 22 a has 2 id a:1 count 2\n
             {first}\n 108.1 a unlocks 2\n 110 a unlocked 2\n 120 a connects 9\n 120 a done 9"
        )
    };
    // It ran first, and the lease was over before the other one.
    assert_eq!(found(&story("108 a drops 1\n 109 server counts a:1 1")), NOTHING);
    let both = "108 a unlocks 1\n 109 server counts a:1 1\n 112 a finds 101 expired";
    assert_eq!(found(&story(both)), NOTHING);
    let is_broken = |first| found(&story(first)).contains(&"C5 broken at 110 for 0".to_owned());
    assert!(is_broken("108 a drops 1"));
    assert!(is_broken("108 a drops 1\n 107 server counts a:1 1"));
    assert!(is_broken("107 a unlocks 1\n 108 a unlocked 1\n 109 server counts a:1 1"));
}

#[test]
fn c5_the_holds_of_one_redisson_thread() {
    let story = |second: &str| {
        let text = format!(
            "0 j starts redisson\n 10 j asks 1 shop by t lease 100\n 11 server grants j:7 until 111\n 12 j has 1 id j:7
             20 j unlocks 1\n 21 server releases j:7\n 22 j unlocked 1\n
             23 j asks 2 shop by t\n 23.5 server grants j:7 until 60\n 24 j has 2 id j:7\n {second}"
        );
        found_with(&text, |bounds| bounds.clock_error = 20 * MS)
    };
    assert_eq!(story("40 j unlocks 2\n 41 server releases j:7\n 42 j unlocked 2"), NOTHING);
    assert_eq!(story("90 j unlocks 2\n 92 j unlocked 2"), ["C5 broken at 92 for 0"]);
    // The first try was not answered, and its hold is over when the second one succeeds.
    let twice = "0 j starts redisson\n 10 j asks 1 shop by t\n 11 server grants j:7 until 61\n 70 server grants j:7 until 370
        72 j has 1 id j:7\n 80 j unlocks 1\n 81 server releases j:7\n 82 j unlocked 1";
    assert_eq!(found(twice), NOTHING);
}

#[test]
fn c5_a_count_is_judged_when_nothing_is_under_way() {
    let first = "61 server releases a:1";
    let dropped = |at: &str| {
        let story = reentry("", "", "").replace("30 a unlocks 2", &format!("{at} a drops 2"));
        let story =
            story.replace("32 a unlocked 2\n", "").replace("60 a unlocks 1", "160 a unlocks 1");
        format!(
            "{}\n 161 server releases a:1\n",
            story.replace("62 a unlocked 1", "162 a unlocked 1")
        )
    };
    // It is released in the background.
    assert_eq!(found(&dropped("90")), NOTHING);
    assert_eq!(found(&dropped("89.999999")), ["C5 broken at 160 for 0"]);
    // A release or a re-entry is under way.
    let story = |more: &str| reentry("31 server counts a:1 3", first, more);
    assert_eq!(found(&story("")), ["C5 broken at 60 for 0"]);
    assert_eq!(found(&story("50 a asks 3 shop by ann")), NOTHING);
    assert_eq!(found(&story("40 a asks 3 shop by ann\n 60 a fails 3 redis")), NOTHING);
    assert_eq!(found(&story("40 a asks 3 shop by ann\n 41 a cuts 3")), NOTHING);
    assert_eq!(found(&story("40 a asks 3 shop by bob\n 41 a cuts 3")), ["C5 broken at 60 for 0"]);
    assert_eq!(found(&story("40 a asks 3 barn by ann\n 41 a cuts 3")), ["C5 broken at 60 for 0"]);
    assert_eq!(found(&reentry("", first, "").replace("32 a unlocked", "60 a unlocked")), NOTHING);
    assert_eq!(found(&reentry("", first, "").replace("32 a unlocked 2", "32 a cuts 102")), NOTHING);
}

/// A grant that nobody has heard of, of an acquisition that is cut at 20.
fn unheard(end: &str, more: &str) -> String {
    format!(
        "10 a asks 1 shop\n 11 server grants a:1\n 20 a cuts 1\n {end}\n {more}\n 250 c connects 9\n 250 c done 9"
    )
}

#[test]
fn c6_who_lives_undoes_what_it_gave_up() {
    assert_eq!(found(&unheard("90 server releases a:1", "")), NOTHING);
    assert_eq!(
        found(&unheard("90.000001 server releases a:1", "")),
        ["C6 broken at 90 for 0.000001"]
    );
    assert_eq!(found(&unheard("", "")), ["C6 broken at 90 for 160"]);
    // An answer would claim it, and none has come so far.
    let waits = unheard("", "").replace("20 a cuts 1", "");
    assert_eq!(found(&waits), NOTHING);
    let refused = unheard("90.5 server releases a:1", "")
        .replace("a cuts", "a fails")
        .replace("fails 1", "fails 1 redis");
    assert_eq!(found(&refused), ["C6 broken at 90 for 0.5"]);
    let late = unheard("100 server releases a:1", "").replace("11 server", "30 server");
    assert_eq!(found(&late), NOTHING);
    assert_eq!(found(&late.replace("100 server", "100.5 server")), ["C6 broken at 100 for 0.5"]);
}

#[test]
fn c6_a_request_does_nothing_when_nobody_waits_for_its_answer_any_more() {
    let late = |at: &str, more: &str| {
        found(
            &unheard(&format!("{at}.5 server releases a:1\n {more}"), "")
                .replace("11 server", &format!("{at} server")),
        )
    };
    assert_eq!(late("50", ""), NOTHING);
    assert_eq!(late("51", ""), ["C6 broken at 51 for 0"]);
    // Whatever fault has delayed it: but one that makes the server's clock wrong.
    assert_eq!(
        late("51", "15 nemesis begins f delay\n 100 nemesis heals f"),
        ["C6 broken at 51 for 0"]
    );
    assert_eq!(late("51", "15 nemesis begins f clock\n 15 nemesis heals f"), NOTHING);
    // Another one asks.
    assert_eq!(late("51", "22 a asks 2 shop\n 40 a cuts 2"), NOTHING);
    assert_eq!(late("51", "0 a starts redisson"), NOTHING);
    // One of several locks.
    assert_eq!(late("51", "5 a asks 3 shop,barn all\n 6 a cuts 3"), NOTHING);
}

#[test]
fn c6_a_fault_or_sleep_delays_an_undoing() {
    let fault = "15 nemesis begins f delay\n 100 nemesis heals f";
    assert_eq!(found(&unheard("180 server releases a:1", fault)), NOTHING);
    assert_eq!(found(&unheard("181 server releases a:1", fault)), ["C6 broken at 180 for 1"]);
    let before = "5 nemesis begins f delay\n 10 nemesis heals f";
    assert_eq!(found(&unheard("90.5 server releases a:1", before)), ["C6 broken at 90 for 0.5"]);
    let sleep = "50 a sleeps\n 100 a wakes\n 105 a connects 8\n 106 a done 8";
    assert_eq!(found(&unheard("175 server releases a:1", sleep)), NOTHING);
    assert_eq!(found(&unheard("176 server releases a:1", sleep)), ["C6 broken at 175 for 1"]);
}

#[test]
fn c6_a_guard_that_is_given_back_ends() {
    let story = |end: &str, released: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n {end}\n {released} server releases a:1\n 250 c connects 9\n 250 c done 9"
        )
    };
    for end in ["20 a drops 1", "20 a loses 1 unknown", "19 a unlocks 1\n 20 a cuts 101"] {
        assert_eq!(found(&story(end, "90")), NOTHING, "{end}");
        assert_eq!(found(&story(end, "91")), ["C6 broken at 90 for 1"], "{end}");
    }
    assert_eq!(found(&story("", "249.9").replace("249.9 server releases a:1", "")), NOTHING);
}

#[test]
fn c6_who_is_dead_leaves_its_lease_and_renews_nothing() {
    let story = |renewed: &str| {
        unheard(&format!("{renewed} server renews a:1 until 400"), "").replace("a cuts 1", "a dies")
    };
    assert_eq!(found(&unheard("", "").replace("a cuts 1", "a dies")), NOTHING);
    assert_eq!(found(&story("50")), NOTHING);
    assert_eq!(found(&story("50.000001")), ["C6 broken at 50.000001 for 0.000001"]);
    // A clock that is set changes when a lease ends.
    let clock = |at: &str| {
        let set = format!("{at} nemesis begins f clock\n {at} nemesis heals f\n");
        found(&format!("{set} {}", story("60")))
    };
    assert_eq!(clock("55"), NOTHING);
    assert_eq!(clock("5"), ["C6 broken at 60 for 10"]);
    // It died before it had to be done.
    assert_eq!(found(&unheard("", "90 a dies")), NOTHING);
    assert_eq!(found(&unheard("", "91 a dies")), ["C6 broken at 90 for 160"]);
}

#[test]
fn c6_who_has_closed_leaves_nothing_but_live_guards() {
    let story = |end: &str, more: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n {end}\n 30 a closes 5\n 40 a done 5\n {more}\n 60 c connects 9\n 60 c done 9"
        )
    };
    assert_eq!(found(&story("20 a drops 1", "40 server releases a:1")), NOTHING);
    let left = ["C6 broken at 40 for 1"];
    assert_eq!(found(&story("20 a drops 1", "41 server releases a:1")), left);
    let clock = "5 nemesis begins f clock\n 6 nemesis heals f\n 41 server releases a:1";
    assert_eq!(found(&story("20 a drops 1", clock)), NOTHING);
    let trouble = "39 nemesis begins f delay\n 40 nemesis heals f\n 41 server releases a:1";
    assert_eq!(found(&story("20 a drops 1", trouble)), NOTHING);
    // What is held stays, and is not renewed.
    assert_eq!(found(&story("", "40 a loses 1 closed")), NOTHING);
    assert_eq!(found(&story("", "40 a loses 1 closed\n 40 server renews a:1 until 340")), NOTHING);
    assert_eq!(
        found(&story("", "40 a loses 1 closed\n 41 server renews a:1 until 341")),
        ["C6 broken at 41 for 1"]
    );
    // A copy without an answer may still be under way, for as long as an answer may take.
    let copy = |at: &str| {
        let fault = "30 nemesis begins f delay\n 31 nemesis heals f";
        let renewed = format!("{at} server renews a:1 until 370");
        found(&story("", &format!("{fault}\n 40 a loses 1 closed\n {renewed}")))
    };
    assert_eq!(copy("70"), NOTHING);
    assert_eq!(copy("70.000001"), ["C6 broken at 70.000001 for 0.000001"]);
    // A close that failed is none.
    let failed = story("", "41 server renews a:1 until 341").replace("a done 5", "a fails 5 redis");
    assert_eq!(found(&failed), NOTHING);
    // What is granted after it is dead is none of its business.
    let after = unheard("", "")
        .replace("20 a cuts 1", "12 a cuts 1\n 13 a closes 5\n 14 a done 5")
        .replace("11 server", "14 server");
    assert_eq!(found(&after), NOTHING);
}

#[test]
fn c6_nobody_stands_in_line_who_does_not_wait() {
    let story = |popped: &str| {
        format!(
            "10 a asks 1 fair shop\n 11 server pushes a:1\n 20 a cuts 1\n {popped}\n 200 c connects 9\n 200 c done 9"
        )
    };
    assert_eq!(found(&story("90 server gives_up a:1")), NOTHING);
    assert_eq!(found(&story("91 server gives_up a:1")), ["C6 broken at 90 for 1"]);
    assert_eq!(found(&story("")), ["C6 broken at 90 for 110"]);
    assert_eq!(found(&story("").replace("a cuts 1", "a dies")), NOTHING);
    assert_eq!(found(&format!("0 a starts redisson\n {}", story(""))), NOTHING);
}

/// What the next master has in its data, from 40 on. The hold, or the place, had ended before.
fn old_data(before: &str, after: &str) -> String {
    format!(
        "{before}\n 30 server ends\n 40 heir reigns\n {after}\n 400 c connects 9\n 400 c done 9"
    )
}

#[test]
fn c6_what_old_data_bring_back_lasts_for_its_lease() {
    let hold =
        "10 a asks 1 shop\n 11 server grants a:1\n 11 heir grants a:1\n 12 a has 1\n 20 a drops 1";
    let freed = format!("{hold}\n 21 server releases a:1");
    assert_eq!(found(&old_data(&freed, "")), NOTHING);
    // Somebody prolongs what nobody knows of.
    let renewed = "50 heir renews a:1 until 311.000001";
    assert_eq!(found(&old_data(&freed, renewed)), ["C6 broken at 110 for 201.000001"]);
    let clock = "50 nemesis begins f clock\n 50 nemesis heals f";
    assert_eq!(found(&old_data(&freed, &format!("{clock}\n {renewed}"))), NOTHING);
    // A lease that the data do not have.
    let older = freed.replace("12 a has 1", "15 server renews a:1 until 350\n 12 a has 1");
    let until = |until: &str| old_data(&older, &format!("45 heir renews a:1 until {until}"));
    assert_eq!(found(&until("311")), NOTHING);
    assert_eq!(found(&until("350")), ["C6 broken at 110 for 240"]);
    // What had not ended is nothing that came back.
    assert_eq!(found(&old_data(hold, "")), ["C6 broken at 90 for 221"]);
    // Nor is what the next master has granted itself.
    let late = freed.replace("11 heir grants a:1\n", "");
    assert_eq!(
        found(&old_data(&late, "45 a asks 2 shop\n 46 a cuts 2\n 45 heir grants a:2")),
        ["C6 broken at 116 for 229"]
    );
}

#[test]
fn c6_who_has_closed_does_not_know_what_old_data_bring_back() {
    let story = |freed: &str| {
        old_data(
            &format!(
                "10 a asks 1 shop\n 11 server grants a:1\n 11 heir grants a:1\n 12 a has 1\n 20 a drops 1\n {freed}"
            ),
            "45 a closes 5\n 50 a done 5",
        )
    };
    assert_eq!(found(&story("21 server releases a:1")), NOTHING);
    assert_eq!(found(&story("")), ["C6 broken at 50 for 261"]);
}

#[test]
fn c5_what_old_data_bring_back_is_released() {
    let story = |heir: &str| {
        old_data(
            &format!(
                "10 a asks 1 shop\n 11 server grants a:1\n {heir}\n 12 a has 1\n 20 server removes a:1"
            ),
            "50 a unlocks 1\n 52 a unlocked 1",
        )
    };
    let back = story("11 heir grants a:1\n 51 heir releases a:1");
    assert_eq!(found(&back), NOTHING);
    assert_eq!(found(&story("")), ["C2 within L4 at 20 for 30", "C5 broken at 52 for 0"]);
}

#[test]
fn c5_what_old_data_bring_back_is_no_grant() {
    let story = |granted: &str| {
        let both = |server: &str| {
            format!("{granted} {server} grants a:1\n {granted} {server} grants a:1 of barn")
        };
        old_data(
            &format!(
                "10 a asks 1 shop,barn all\n {}\n {}\n 12 a has 1\n 20 server removes a:1 by eviction",
                both("server"),
                both("heir")
            ),
            "50 a unlocks 1\n 51 heir releases a:1\n 51 heir releases a:1 of barn\n 52 a unlocked 1",
        )
    };
    assert_eq!(found(&story("11")), NOTHING);
    let unasked = "C5 broken at 9 for 0";
    assert_eq!(found(&story("9")), [unasked, unasked]);
}

#[test]
fn c6_a_line_goes_on_on_the_next_master() {
    let stands = "10 a asks 1 fair shop\n 11 server pushes a:1\n 11 heir pushes a:1";
    let taken =
        "50 heir pops a:1\n 50 heir grants a:1\n 51 a has 1\n 52 a drops 1\n 53 heir releases a:1";
    assert_eq!(found(&old_data(stands, taken)), NOTHING);
    // From then on, nobody has waited.
    let left = format!("{stands}\n 20 a cuts 1");
    assert_eq!(found(&old_data(&left, "110 heir drops a:1")), NOTHING);
    assert_eq!(found(&old_data(&left, "111 heir drops a:1")), ["C6 broken at 110 for 1"]);
    // It had left, and nobody knows that it is back.
    let gone = format!("{left}\n 21 server gives_up a:1");
    assert_eq!(found(&old_data(&gone, "300 heir drops a:1")), NOTHING);
}

#[test]
fn c8_a_place_that_old_data_bring_back_is_dropped() {
    let story = |left: &str| {
        old_data(
            &format!(
                "10 a asks 1 fair shop\n 11 server pushes a:1\n 11 heir pushes a:1\n 12 a asks 2 fair shop\n {left}"
            ),
            "145 heir drops a:1\n 145 heir grants a:2\n 146 a has 2\n 147 a drops 2\n 148 heir releases a:2",
        )
    };
    assert_eq!(found(&story("20 a cuts 1\n 21 server gives_up a:1")), NOTHING);
    let waits = story("").replacen("400 c", "150 a cuts 1\n 400 c", 1);
    assert_eq!(found(&waits), ["C8 broken at 145 for 0"]);
}

#[test]
fn c6_the_end_leaves_nothing() {
    assert_eq!(
        found("10 a connects 1\n 11 a done 1\n 12 server leaves some:key"),
        ["C6 broken at 11 for 0"]
    );
    let redisson = format!("0 a starts redisson\n {}", unheard("", ""));
    assert_eq!(found(&redisson), NOTHING);
}

/// Two turns of a fenced lock with these tokens; the second is asked for at this moment.
fn fenced(first: u64, asked: &str, second: u64, server: &str) -> String {
    format!(
        "10 a asks 1 fenced shop\n 11 server grants a:1 token {first}\n 12 a has 1 token {first}\n 20 a unlocks 1
         21 server releases a:1\n 22 a unlocked 1\n {server}\n {asked} b asks 1 fenced shop
         32 server grants b:1 token {second}\n 33 b has 1 token {second}\n 40 b drops 1"
    )
}

#[test]
fn c7_tokens_rise() {
    assert_eq!(found(&fenced(1, "30", 2, "")), NOTHING);
    let fallen = ["C7 broken at 32 for 0", "C7 broken at 33 for 0"];
    assert_eq!(found(&fenced(2, "30", 1, "")), fallen);
    assert_eq!(found(&fenced(2, "30", 2, "")), fallen);
    assert_eq!(found_blindly(&fenced(1, "30", 2, "")), NOTHING);
    assert_eq!(found_blindly(&fenced(2, "30", 2, "")), ["C7 broken at 33 for 0"]);
    // Who was asked for before the other's answer may have any other token.
    assert_eq!(found_blindly(&fenced(2, "12.000001", 1, "")), ["C7 broken at 33 for 0"]);
    assert_eq!(found_blindly(&fenced(2, "12", 1, "")), NOTHING);
    assert_eq!(found_blindly(&fenced(2, "12", 2, "")), ["C7 broken at 33 for 0"]);
    assert_eq!(
        found_blindly(
            &fenced(2, "30", 1, "").replace("b asks 1 fenced shop", "b asks 1 fenced barn")
        ),
        NOTHING
    );
}

#[test]
fn c7_the_highest_counts_not_the_last() {
    let story = "1 a asks 1 fenced shop\n 2 a has 1 token 5\n 3 a drops 1\n 4 a asks 2 fenced shop\n 5 a has 2 token 6\n 6 a drops 2
        4.5 b asks 1 fenced shop\n 7 b has 1 token 3\n 8 b drops 1\n 9 c asks 1 fenced shop\n 10 c has 1 token 6\n 11 c drops 1";
    assert_eq!(found_blindly(story), ["C7 broken at 7 for 0", "C7 broken at 10 for 0"]);
}

#[test]
fn c7_a_lost_counter_is_counted() {
    assert_eq!(found(&fenced(2, "30", 1, "25 server loses_counter")), ["C7 within L4 at 33 for 0"]);
    let flush = |at: &str, class: &str| {
        fenced(2, "30", 1, &format!("{at} nemesis begins f {class}\n {at} nemesis heals f"))
    };
    assert_eq!(found_blindly(&flush("25", "data")), ["C7 within L4 at 33 for 0"]);
    assert_eq!(found_blindly(&flush("25", "failover")), ["C7 within L1 at 33 for 0"]);
    assert_eq!(found_blindly(&flush("25", "delay")), ["C7 broken at 33 for 0"]);
    assert_eq!(found_blindly(&flush("33", "data")), ["C7 within L4 at 33 for 0"]);
    assert_eq!(found_blindly(&flush("33.5", "data")), ["C7 broken at 33 for 0"]);
    assert_eq!(found_blindly(&flush("9", "data")), ["C7 broken at 33 for 0"]);
    let heir =
        fenced(2, "30", 2, "25 server ends\n 26 heir reigns").replace("32 server", "32 heir");
    assert_eq!(found(&heir), ["C7 within L1 at 33 for 0"]);
    // The heir knew of it.
    let knew = heir.replace(
        "26 heir reigns",
        "11 heir grants a:1 token 2\n 21 heir releases a:1\n 26 heir reigns",
    );
    assert_eq!(found(&knew), ["C7 broken at 32 for 0", "C7 within L1 at 33 for 0"]);
}

#[test]
fn c7_a_hold_has_one_token() {
    let story = |second: &str| {
        format!(
            "10 a asks 1 fenced shop by ann\n 12 a has 1 token 1\n 13 a asks 2 fenced shop by ann\n 14 a has 2 id a:1 token {second}\n 20 a drops 2\n 21 a drops 1"
        )
    };
    assert_eq!(found_blindly(&story("1")), NOTHING);
    assert_eq!(found_blindly(&story("2")), ["C7 broken at 14 for 0"]);
    assert_eq!(found_blindly(&format!("0 a starts redisson\n {}", story("2"))), NOTHING);
    assert_eq!(
        found(&fenced(1, "30", 3, "").replace("b has 1 token 3", "b has 1 token 2")),
        ["C7 broken at 33 for 0"]
    );
}

#[test]
fn c7_what_a_storage_accepts() {
    let story = |second: &str, then: &str| {
        format!(
            "10 a asks 1 fenced shop\n 12 a has 1 token 1\n 13 a drops 1\n 14 b asks 1 fenced shop\n 15 b has 1 token 2
             16 b writes 1 token 2\n 17 b stored 1\n {second}\n {then}\n 30 b drops 1"
        )
    };
    let late = "18 a writes 1 token 1";
    assert_eq!(found_blindly(&story(late, "19 a stale 1")), NOTHING);
    assert_eq!(found_blindly(&story(late, "19 a stored 1")), ["C7 broken at 19 for 0"]);
    assert_eq!(found_blindly(&story("17 a writes 1 token 1", "19 a stored 1")), NOTHING);
    assert_eq!(
        found_blindly(&story("18 a writes 1 token 2", "19 a stored 1")),
        ["C7 broken at 19 for 0"]
    );
    assert_eq!(found_blindly(&story("18 b writes 1 token 2 op 9", "19 b stored 1 op 9")), NOTHING);
    assert_eq!(found_blindly(&story("18 a writes 1", "19 a stored 1")), NOTHING);
    // Accepted by another storage.
    assert_eq!(
        found_blindly(
            &story(late, "19 a stored 1").replace("a asks 1 fenced shop", "a asks 1 fenced barn")
        ),
        NOTHING
    );
}

#[test]
fn stale_writes_are_counted() {
    let story = |at: &str, how: &str| {
        let story = format!(
            "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n {at} a writes 1\n 320 a {how} 1"
        );
        Story::told(&story).judged().figures.stale_uses
    };
    assert_eq!(story("311", "stored"), (0, 0));
    assert_eq!(story("311.000001", "stored"), (1, 1));
    assert_eq!(story("311.000001", "stale"), (1, 0));
}

/// Two stand in line behind a holder, and this is how the line goes.
fn line(turns: &str) -> String {
    format!(
        "10 a asks 1 fair shop\n 11 server grants a:1\n 12 a has 1\n 20 b asks 1 fair shop\n 21 server pushes b:1
         30 c asks 1 fair shop\n 31 server pushes c:1\n 40 a unlocks 1\n 41 server releases a:1\n 42 a unlocked 1\n {turns}"
    )
}

#[test]
fn c8_first_come_first_served() {
    let first = "43 server pops b:1\n 43 server grants b:1\n 44 b has 1\n 45 b drops 1";
    let second = "43 server pops c:1\n 43 server grants c:1\n 44 c has 1\n 45 c drops 1";
    assert_eq!(found(&line(first)), NOTHING);
    assert_eq!(found(&line(second)), ["C8 broken at 43 for 0"]);
    // In whatever order the server says it.
    assert_eq!(
        found(&line("43 server grants b:1\n 43 server pops b:1\n 44 b has 1\n 45 b drops 1")),
        NOTHING
    );
    assert_eq!(
        found(&line("43 server grants c:1\n 43 server pops c:1\n 44 c has 1\n 45 c drops 1")),
        ["C8 broken at 43 for 0"]
    );
    // The first has gone.
    assert_eq!(
        found(&line(&format!("42 b cuts 1\n 42.5 server gives_up b:1\n {second}"))),
        NOTHING
    );
    // One who never stood in line.
    let newcomer = "43 d asks 1 fair shop\n 43 server grants d:1\n 44 d has 1\n 45 d drops 1";
    assert_eq!(found(&line(newcomer)), ["C8 broken at 43 for 0"]);
    // Another kind of lock takes it out of turn, and then nothing is judged.
    assert_eq!(found(&line(&newcomer.replace("fair shop", "shop"))), NOTHING);
}

#[test]
fn c8_a_later_grant_is_not_the_turn_of_one_who_left() {
    let story = "43 server pops b:1\n 44 server grants b:1\n 44 b has 1\n 45 b drops 1";
    assert_eq!(found(&line(story)), ["C8 broken at 44 for 0"]);
    let other = "43 server pops b:1\n 43 server grants d:1\n 43.5 server releases d:1";
    assert_eq!(found(&line(other)), ["C8 broken at 43 for 0"]);
}

/// Two of a process stand in line, one of which is not polled.
#[test]
fn c8_one_that_is_not_polled_is_dropped_beside_one_that_is() {
    let story = |idle: &str| {
        found(&format!(
            "10 a asks 1 fair shop\n 11 server grants a:1\n 12 a has 1\n 20 b asks 1 fair shop\n 20 b asks 2 fair shop
             21 server pushes b:1\n 21 server pushes b:2\n {idle}\n 130 a unlocks 1\n 131 server releases a:1
             132 a unlocked 1\n 135 server drops b:1\n 135 server pops b:2\n 135 server grants b:2\n 136 b has 2
             137 b drops 2\n 138 server releases b:2\n 150 b cuts 1"
        ))
    };
    assert_eq!(story("22 b idles 1\n 149 b polls 1"), NOTHING);
    assert_eq!(story(""), ["C8 broken at 135 for 0"]);
}

#[test]
fn c8_who_waits_is_not_dropped() {
    let dropped = |more: &str| {
        line(&format!("{more}\n 135 server drops b:1\n 136 server pops c:1\n 136 server grants c:1\n 137 c has 1\n 138 c drops 1"))
            .replace("40 a", "134 a").replace("41 server", "134 server").replace("42 a", "134.5 a")
    };
    let found_dropped = |more: &str| found(&dropped(more));
    let broken = ["C8 broken at 135 for 0"];
    assert_eq!(found_dropped(""), broken);
    assert_eq!(found_dropped("130 b dies"), NOTHING);
    assert_eq!(found_dropped("136 b dies"), broken);
    assert_eq!(found_dropped("131 b cuts 1"), NOTHING);
    assert_eq!(found_dropped("136 b cuts 1"), broken);
    assert_eq!(found_dropped("130 b sleeps"), NOTHING);
    assert_eq!(found_dropped("22 b sleeps\n 34 b wakes\n 35 b connects 9\n 35 b done 9"), broken);
    assert_eq!(
        found_dropped("22 b sleeps\n 34 b wakes\n 35.5 b connects 9\n 35.5 b done 9"),
        NOTHING
    );
    assert_eq!(found_dropped("22 b idles 1\n 35 b polls 1"), broken);
    assert_eq!(found_dropped("22 b idles 1\n 35.5 b polls 1"), NOTHING);
    assert_eq!(found_dropped("50 nemesis begins f delay\n 51 nemesis heals f"), NOTHING);
    assert_eq!(found_dropped("20 nemesis begins f delay\n 24.9 nemesis heals f"), broken);
    assert_eq!(found_dropped("5 nemesis begins f clock\n 5 nemesis heals f"), NOTHING);
    assert_eq!(found_dropped("0 b starts redisson"), NOTHING);
}

#[test]
fn c6_a_hold_is_to_last_longer_than_its_user_asked_for() {
    let story = |asks, until| {
        format!(
            "10 a asks 1 {asks}\n 11 server grants a:1 until {until}\n 12 a has 1\n 20 a drops 1\n 21 server releases a:1"
        )
    };
    let leased = |until| found(&story("lease 50 shop", until));
    assert_eq!(leased("63"), NOTHING);
    assert_eq!(leased("63.000001"), ["C6 broken at 12 for 0.000001"]);
    let watched = |until| found(&story("shop", until));
    assert_eq!(watched("313"), NOTHING);
    assert_eq!(watched("313.000001"), ["C6 broken at 12 for 0.000001"]);
    // An owner has asked for more before, perhaps.
    assert_eq!(found(&story("by ann lease 50 shop", "400")), NOTHING);
    // A clock was set.
    let set = format!("5 nemesis begins f clock\n 6 nemesis heals f\n {}", story("shop", "400"));
    assert_eq!(found(&set), NOTHING);
}

#[test]
fn c5_a_reader_whose_lease_is_over_is_released() {
    let story = |other: &str| {
        let asks = "asks 1 reading lease 50 shop";
        format!(
            "10 a {asks}\n 11 server grants a:1 reading until 61\n 12 a has 1\n 60 a loses 1 expired\n {other}
             70 a unlocks 1\n 72 a unlocked 1"
        )
    };
    let other = "20 b asks 1 reading shop\n 21 server grants b:1 reading\n 22 b has 1
        80 b drops 1\n 81 server releases b:1";
    assert_eq!(found(&story(other)), NOTHING);
    assert_eq!(found(&story("")), ["C5 broken at 72 for 0"]);
}

#[test]
fn c5_a_late_copy_takes_a_lock_again() {
    let story = |fault: &str, late: &str| {
        format!(
            "{fault}\n 10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 20 a unlocks 1\n 21 server releases a:1
             22 a unlocked 1\n {late} server grants a:1\n 60 server releases a:1"
        )
    };
    let fault = "5 nemesis begins f delay\n 15 nemesis heals f";
    assert_eq!(found(&story(fault, "42")), NOTHING);
    assert_eq!(found(&story(fault, "42.000001")), ["C5 broken at 42.000001 for 0"]);
    assert_eq!(found(&story("", "42")), ["C5 broken at 42 for 0"]);
    // Its process did not run for a while.
    let slept = |at: &str| {
        found(&story("", at).replace("60 server", "23 a sleeps\n 35 a wakes\n 60 server"))
    };
    assert_eq!(slept("42"), NOTHING);
    assert_eq!(slept("42.000001"), ["C5 broken at 42.000001 for 0"]);
}

#[test]
fn c5_redisson_unlocks_a_free_fair_lock() {
    let story = |kind: &str| {
        found(&format!(
            "0 a starts redisson\n 10 a asks 1 {kind} shop by t\n 11 server grants a:7\n 12 a has 1 id a:7
             20 server removes a:7 by operator\n 30 a asks 2 {kind} shop by t\n 31 server grants a:7\n 32 a has 2 id a:7
             40 a unlocks 2\n 41 server releases a:7\n 42 a unlocked 2\n 50 a unlocks 1\n 51 a unlocked 1"
        ))
    };
    assert_eq!(story("fair"), NOTHING);
    assert_eq!(story("spin"), ["C5 broken at 51 for 0"]);
}
