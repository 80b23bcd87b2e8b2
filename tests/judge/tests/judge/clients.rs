//! C9, C10 and C11: what clients are told, and when; and C0.

use judge::{Check, History, MS, Spread, Witness};

use crate::story::{NOTHING, Story, found, found_blindly, found_with};

/// One holds from 11 to 50, by the servers.
fn held(events: &str) -> String {
    format!(
        "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 49 a unlocks 1\n 50 server releases a:1\n 51 a unlocked 1\n {events}"
    )
}

#[test]
fn c9_a_refusal_has_a_reason() {
    let wrong = |at: &str| vec![format!("C9 broken at {at} for 0")];
    let refused = |from: &str, to: &str| {
        found(&held(&format!("{from} b asks 1 shop wait 0\n {to} b refused 1")))
    };
    assert_eq!(refused("50", "55"), NOTHING);
    assert_eq!(refused("50.000001", "55"), wrong("55"));
    assert_eq!(refused("5", "11"), NOTHING);
    assert_eq!(refused("5", "10.999999"), wrong("10.999999"));
    let error = |from: &str| {
        found_with(&held(&format!("{from} b asks 1 shop wait 0\n 55 b refused 1")), |bounds| {
            bounds.clock_error = MS
        })
    };
    assert_eq!(error("51"), NOTHING);
    assert_eq!(error("51.000001"), wrong("55"));
    // A lock that nobody ever touched.
    assert_eq!(found(&held("20 b asks 1 barn wait 0\n 21 b refused 1")), wrong("21"));
    // Its server has no witness.
    assert_eq!(found(&held("20 b asks 1 s1/barn wait 0\n 21 b refused 1")), NOTHING);
    // Another of the process is before it.
    let queue = "60 b asks 1 shop wait 20\n 61 b asks 2 shop wait 0\n 62 b refused 2\n 63 b cuts 1";
    assert_eq!(found(&held(queue)), NOTHING);
    assert_eq!(found(&held(&queue.replace("b asks 1 shop", "b asks 1 barn"))), wrong("62"));
    // One of several locks.
    let several = queue.replace("wait 0", "wait 1").replace("asks 2 shop", "asks 2 all shop,barn");
    assert_eq!(found(&held(&several)), NOTHING);
    // Who has time learns that nobody has it.
    assert_eq!(found(&held(&queue.replace("wait 0", "wait 1"))), wrong("62"));
    assert_eq!(
        found(&held(&queue.replace("b asks 1 shop", "c asks 1 shop").replace("b cuts", "c cuts"))),
        wrong("62")
    );
}

#[test]
fn c9_a_process_leaves_a_lock_to_others() {
    let refused = |who: &str, at: &str| {
        let story = held(&format!("{at} {who} asks 2 shop wait 1\n 90 {who} refused 2"));
        found_with(&story, |bounds| bounds.courtesy = 20 * MS)
    };
    assert_eq!(refused("a", "70"), NOTHING);
    assert_eq!(refused("a", "70.5"), ["C9 broken at 90 for 0"]);
    assert_eq!(refused("b", "70"), ["C9 broken at 90 for 0"]);
}

#[test]
fn c9_a_refusal_by_a_hold_that_is_believed_in() {
    let story = |who: &str, asked: &str, kinds: [&str; 2]| {
        let [first, second] = kinds;
        found(&format!(
            "10 a asks 1 {first} shop\n 11 server grants a:1 {first}\n 12 a has 1\n 20 server removes a:1
             {asked} {who} asks 2 {second} shop wait 1\n 42 {who} refused 2\n 40 a loses 1 removed"
        ))
    };
    let told = "C3 within L4 at 20 for 20";
    let wrong = [told, "C9 broken at 42 for 0"];
    assert_eq!(story("a", "39", ["", ""]), [told]);
    assert_eq!(story("a", "40", ["", ""]), wrong);
    assert_eq!(story("b", "39", ["", ""]), wrong);
    assert_eq!(story("a", "39", ["writing", "reading"]), [told]);
    assert_eq!(story("a", "39", ["reading", "reading"]), wrong);
}

#[test]
fn c9_a_refusal_by_what_can_be_shared() {
    let story = |held: &str, asked: &str| {
        found(&format!(
            "10 a asks 1 {held} shop\n 11 server grants a:1 {held}\n 12 a has 1\n 20 b asks 1 {asked} shop wait 0\n 21 b refused 1\n 40 a drops 1"
        ))
    };
    let wrong = ["C9 broken at 21 for 0"];
    assert_eq!(story("reading", "reading"), wrong);
    assert_eq!(story("reading", "writing"), NOTHING);
    assert_eq!(story("writing", "reading"), NOTHING);
    assert_eq!(story("writing", "writing"), NOTHING);
}

#[test]
fn c9_an_owner_is_not_refused_by_himself() {
    let story = |first: &str, second: &str| {
        found(&format!(
            "10 a asks 1 shop {first}\n 11 server grants a:1\n 12 a has 1\n 20 a asks 2 shop wait 0 {second}\n 21 a refused 2\n 40 a drops 1"
        ))
    };
    assert_eq!(story("by ann", "by ann"), ["C9 broken at 21 for 0"]);
    assert_eq!(story("by ann", "by bob"), NOTHING);
    assert_eq!(story("", ""), NOTHING);
}

#[test]
fn c9_an_owner_is_refused_by_what_old_data_bring_back() {
    let story = |fault: &str, before: &str| {
        found(&format!(
            "10 a asks 1 shop by ann\n 11 server grants a:1\n 11 heir grants a:1\n 12 a has 1\n {before}
             30 server ends\n {fault}\n 40 heir reigns\n 50 a asks 2 shop wait 0 by ann\n 51 a refused 2"
        ))
    };
    let released = "20 a unlocks 1\n 21 server releases a:1\n 22 a unlocked 1";
    let lost = "30 nemesis begins f data\n 31 nemesis heals f";
    assert_eq!(story(lost, released), NOTHING);
    assert_eq!(story("", released), ["C9 broken at 51 for 0"]);
    let earlier = lost.replace("30", "18").replace("31", "19");
    assert_eq!(story(&earlier, released), ["C9 broken at 51 for 0"]);
}

#[test]
fn c9_an_owner_is_refused_by_its_hold_that_is_being_released() {
    let is_untrue = |events: &str| {
        let story =
            format!("10 a asks 1 shop by ann\n 11 server grants a:1\n 12 a has 1\n {events}");
        found(&story).iter().any(|finding| finding.starts_with("C9"))
    };
    let asks = |at: &str, end: &str| {
        format!("{at} a asks 2 shop wait 0 by ann\n {end} a refused 2\n 90 server releases a:1\n")
    };
    let unlocks =
        |at: &str, end: &str| asks("30", "31") + &format!("{at} a unlocks 1\n {end} a unlocked 1");
    assert!(!is_untrue(&unlocks("31", "91")));
    assert!(is_untrue(&unlocks("31.000001", "91")));
    assert!(!is_untrue(&unlocks("20", "30")));
    assert!(is_untrue(&unlocks("20", "29.999999")));
    // Nobody knows when a drop has released it, but by the bound of what is undone.
    assert!(!is_untrue(&(asks("60", "61") + "20 a drops 1")));
    assert!(is_untrue(&(asks("60.000001", "61") + "20 a drops 1")));
}

#[test]
fn c9_an_owner_is_refused_by_its_hold_whose_loss_it_was_told() {
    // Trust ends before the lease does.
    let is_untrue = |told: &str, why: &str| {
        let story = format!(
            "10 a asks 1 shop lease 50 by ann\n 11 server grants a:1 until 61\n 12 a has 1
             {told} a loses 1 {why}\n 58 a asks 2 shop wait 0 by ann\n 60 a refused 2"
        );
        found(&story).iter().any(|finding| finding.starts_with("C9"))
    };
    assert!(!is_untrue("60", "expired"));
    assert!(is_untrue("60.000001", "expired"));
    assert!(is_untrue("60", "closed"));
}

#[test]
fn c9_a_refusal_by_one_that_gathers_several() {
    // One of them was removed, which nobody has told it yet.
    let story = |asks: &str, end: &str, removed: &str| {
        let story = format!(
            "0 s1 reigns\n 0 s2 reigns\n 10 b asks 7 s2/m\n 11 s2 grants b:7 of m
             {asks}\n {removed}\n 50 a asks 2 s1/m wait 5\n 55 a refused 2\n {end} a cuts 1"
        );
        found(&story).iter().any(|finding| finding.starts_with("C9"))
    };
    let removed = "22 s1 grants a:1 of m\n 40 s1 removes a:1 of m";
    let all = "20 a asks 1 s1/m,s2/m all";
    assert!(!story(all, "60", removed));
    assert!(!story(all, "50", removed));
    assert!(story(all, "49.999999", removed));
    assert!(story(all, "60", ""));
    assert!(story("20 a asks 1 s1/m wait 90", "60", removed));
    // What it had before it asked says nothing.
    let before = "18 s1 grants a:1 of m\n 19 s1 removes a:1 of m";
    assert!(story(all, "60", before));
    assert!(!story(all, "60", &before.replace("19", "20")));
}

#[test]
fn c9_a_refusal_by_a_line() {
    let story = |kind: &str| {
        format!(
            "10 a asks 1 fair shop\n 11 server pushes a:1\n 30 a cuts 1\n 31 server gives_up a:1\n 40 b asks 1 {kind} shop wait 0\n 41 b refused 1"
        )
    };
    assert_eq!(found(&story("fair")), ["C9 broken at 41 for 0"]);
    assert_eq!(found(&story("fair").replace("40 b", "31 b")), NOTHING);
    assert_eq!(found(&story("spin").replace("40 b", "30 b")), ["C9 broken at 41 for 0"]);
}

#[test]
fn c9_a_refusal_of_several() {
    let story = |rule: &str, gone: &str| {
        format!(
            "0 s1 reigns\n 0 s2 reigns\n 0 s3 reigns\n 10 s1 grants c:1 of m\n 10 s2 grants c:1 of m
             20 b asks 1 s1/m,s2/m,s3/m wait 0 {rule}\n 21 b refused 1\n {gone}"
        )
    };
    assert_eq!(found(&story("majority", "")), NOTHING);
    assert_eq!(found(&story("majority", "19 s1 releases c:1 of m")), ["C9 broken at 21 for 0"]);
    assert_eq!(found(&story("all", "19 s1 releases c:1 of m")), NOTHING);
    assert_eq!(
        found(&story("all", "19 s1 releases c:1 of m\n 19 s2 releases c:1 of m")),
        ["C9 broken at 21 for 0"]
    );
}

#[test]
fn c9_a_deadlock_is_one() {
    let story = |first: &str, second: &str| {
        held(&format!("{second}\n 52 a fails 2 would_deadlock"))
            .replace("a asks 1 shop", &format!("a asks 1 {first}"))
    };
    let wrong = ["C9 broken at 52 for 0"];
    assert_eq!(
        found(&story("non_reentrant shop by ann", "50 a asks 2 non_reentrant shop by ann")),
        NOTHING
    );
    assert_eq!(
        found(&story("non_reentrant shop by ann", "50.5 a asks 2 non_reentrant shop by ann")),
        wrong
    );
    assert_eq!(
        found(&story("non_reentrant shop by ann", "50 a asks 2 non_reentrant shop by bob")),
        wrong
    );
    assert_eq!(found(&story("non_reentrant shop", "50 a asks 2 non_reentrant shop")), wrong);
}

#[test]
fn c9_a_wrong_kind_is_one() {
    let story = |kind: &str| held(&format!("45 b asks 1 {kind} shop\n 46 b fails 1 wrong_kind"));
    assert_eq!(found(&story("reading")), NOTHING);
    assert_eq!(found(&story("writing")), NOTHING);
    assert_eq!(found(&story("fair")), ["C9 broken at 46 for 0"]);
    let spoilt = "10 server spoils\n 20 b asks 1 shop\n 21 b fails 1 wrong_kind";
    assert_eq!(found(spoilt), NOTHING);
    assert_eq!(found(&spoilt.replace("10 server", "21.5 server")), ["C9 broken at 21 for 0"]);
    let mended = format!(
        "{spoilt}\n 12 c asks 1 shop\n 13 server grants c:1\n 14 c has 1\n 15 c drops 1\n 15 server releases c:1"
    );
    assert_eq!(found(&mended), ["C9 broken at 21 for 0"]);
}

#[test]
fn c9_not_held_means_gone() {
    let unlock = |gone: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 20 a unlocks 1\n 22 a finds 101 removed\n {gone}"
        )
    };
    let wrong = ["C9 broken at 22 for 0"];
    assert_eq!(found(&unlock("22 server removes a:1")), NOTHING);
    assert_eq!(found(&unlock("22.000001 server removes a:1")), wrong);
    assert_eq!(found(&unlock("15 server removes a:1")), ["C2 within L4 at 15 for 5"]);
    assert_eq!(found(&unlock("").replace("grants a:1", "grants a:1 until 22")), NOTHING);
    assert_eq!(found(&unlock("").replace("grants a:1", "grants a:1 until 22.000001")), wrong);
    let check = |gone: &str| {
        unlock(gone).replace("a unlocks", "a checks").replace("finds 101", "finds 201")
    };
    assert_eq!(found(&check("22 server removes a:1")), NOTHING);
    assert_eq!(
        found(&check("23 server removes a:1")),
        ["C4 broken at 22 for 0", "C9 broken at 22 for 0"]
    );
}

#[test]
fn c9_held_means_there() {
    let check =
        |from: &str, to: &str| found(&held(&format!("{from} a checks 1\n {to} a checked 1")));
    assert_eq!(check("50", "52"), NOTHING);
    assert_eq!(check("50.000001", "52"), ["C9 broken at 52 for 0"]);
    let over = "10 a asks 1 shop\n 11 server grants a:1 until 15\n 12 a has 1\n 14 a drops 1";
    assert_eq!(found(&format!("{over}\n 14.9 a checks 1\n 16 a checked 1")), NOTHING);
    assert_eq!(
        found(&format!("{over}\n 15 a checks 1\n 16 a checked 1")),
        ["C9 broken at 16 for 0"]
    );
}

#[test]
fn c9_what_is_forced() {
    let forced = |freed: u32, from: &str, to: &str| {
        found(&format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 50 server removes a:1 by force\n {from} b forces 1 shop\n {to} b freed 1 {freed}
             60 a loses 1 removed"
        ))
    };
    let lost = "C3 within L4 at 50 for 10";
    assert_eq!(forced(1, "45", "50"), [lost]);
    assert_eq!(forced(1, "50", "55"), [lost]);
    assert_eq!(forced(1, "45", "49"), ["C9 broken at 49 for 0", lost]);
    assert_eq!(forced(1, "51", "52"), [lost, "C9 broken at 52 for 0"]);
    assert_eq!(forced(0, "51", "52"), [lost]);
    assert_eq!(forced(0, "45", "49"), ["C9 broken at 49 for 0", lost]);
    // Only its own side is freed.
    let reads = |kind: &str| {
        found(&format!(
            "10 a asks 1 reading shop\n 11 server grants a:1 reading\n 12 a has 1\n 20 b forces 1 {kind} shop\n 21 b freed 1 0\n 40 a drops 1"
        ))
    };
    assert_eq!(reads("writing"), NOTHING);
    assert_eq!(reads("reading"), ["C9 broken at 21 for 0"]);
    // By something else it is not freed by force.
    assert_eq!(
        found(&held("49.5 b forces 1 shop\n 50.5 b freed 1 1")),
        ["C9 broken at 50.5 for 0"]
    );
}

#[test]
fn c9_what_is_locked() {
    let asked = |locked: u32, from: &str, to: &str| {
        found(&held(&format!("{from} b is_locked 1 shop\n {to} b locked 1 {locked}")))
    };
    assert_eq!(asked(1, "50", "55"), NOTHING);
    assert_eq!(asked(1, "50.5", "55"), ["C9 broken at 55 for 0"]);
    assert_eq!(asked(0, "50.5", "55"), NOTHING);
    assert_eq!(asked(0, "40", "50"), NOTHING);
    assert_eq!(asked(0, "40", "49.9"), ["C9 broken at 49.9 for 0"]);
    assert_eq!(asked(0, "11.1", "40"), ["C9 broken at 40 for 0"]);
    assert_eq!(asked(0, "11", "40"), NOTHING);
}

#[test]
fn c9_what_an_inspection_shows() {
    let asked = |from: &str, to: &str, shown: &str| {
        found(&held(&format!(
            "30 server counts a:1 2\n 40 server counts a:1 1\n {from} b inspects 1 fair shop\n {to} b sees 1 {shown}"
        )))
    };
    let wrong = ["C9 broken at 35 for 0"];
    assert_eq!(asked("20", "25", "holding a:1"), NOTHING);
    assert_eq!(asked("31", "35", "holding a:1 count 2"), NOTHING);
    assert_eq!(asked("31", "35", "holding a:1 count 1"), wrong);
    assert_eq!(asked("31", "35", "holding b:1 count 2"), wrong);
    assert_eq!(asked("31", "35", ""), wrong);
    assert_eq!(asked("29", "35", "holding a:1 count 1"), NOTHING);
    assert_eq!(asked("55", "56", ""), NOTHING);
    assert_eq!(asked("31", "35", "holding a:1 count 2 queue c:1"), wrong);
    let line = |shown: &str| {
        let story = "10 c asks 1 fair shop\n 11 server pushes c:1\n 12 d asks 1 fair shop\n 13 server pushes d:1\n 20 b inspects 1 fair shop";
        found(&format!("{story}\n 21 b sees 1 {shown}"))
    };
    assert_eq!(line("queue c:1,d:1"), NOTHING);
    assert_eq!(line("queue d:1,c:1"), ["C9 broken at 21 for 0"]);
    assert_eq!(line("queue c:1"), ["C9 broken at 21 for 0"]);
}

#[test]
fn c9_what_is_left() {
    let asked = |from: &str, to: &str, left: &str| {
        found(&held(&format!("{from} b remaining 1 shop\n {to} b left 1 {left}")))
    };
    // The lease ends at 311.
    assert_eq!(asked("20", "30", "281"), NOTHING);
    assert_eq!(asked("20", "30", "291"), NOTHING);
    assert_eq!(asked("20", "30", "280"), NOTHING);
    assert_eq!(asked("20", "30", "292"), NOTHING);
    assert_eq!(asked("20", "30", "279.9"), ["C9 broken at 30 for 0"]);
    assert_eq!(asked("20", "30", "292.1"), ["C9 broken at 30 for 0"]);
    assert_eq!(asked("40", "60", "none"), NOTHING);
    assert_eq!(asked("20", "30", "none"), ["C9 broken at 30 for 0"]);
    assert_eq!(asked("55", "60", "250"), ["C9 broken at 60 for 0"]);
    // A clock is set, before the lease was or since then.
    let set = |at: &str| {
        let clock = format!("{at} nemesis begins f clock\n {at} nemesis heals f");
        found(&held(&format!("{clock}\n 20 b remaining 1 shop\n 30 b left 1 100")))
    };
    assert_eq!(set("10.9"), ["C9 broken at 30 for 0"]);
    assert_eq!(set("11"), NOTHING);
    assert_eq!(set("31"), ["C9 broken at 30 for 0"]);
}

#[test]
fn c9_which_token_was_the_last() {
    let asked = |from: &str, to: &str, told: &str| {
        found(&format!(
            "10 a asks 1 fenced shop\n 11 server grants a:1 token 7\n 12 a has 1 token 7\n 20 a drops 1\n 21 server releases a:1
             {from} b token 1 fenced shop\n {to} b told 1 {told}"
        ))
    };
    assert_eq!(asked("30", "31", "token 7"), NOTHING);
    assert_eq!(asked("30", "31", "token 6"), ["C9 broken at 31 for 0"]);
    assert_eq!(asked("30", "31", ""), ["C9 broken at 31 for 0"]);
    assert_eq!(asked("10", "31", ""), NOTHING);
}

#[test]
fn c9_the_answer_of_either_master() {
    let story = |from: &str, locked: u32| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 11 heir grants a:1\n 50 server ends\n 60 heir reigns
             70 heir releases a:1\n 65 a drops 1\n {from} b is_locked 1 shop\n 80 b locked 1 {locked}"
        )
    };
    assert_eq!(found(&story("65", 1)), NOTHING);
    assert_eq!(found(&story("71", 1)), ["C9 broken at 80 for 0"]);
    assert_eq!(found(&story("71", 0)), NOTHING);
    assert_eq!(found(&story("62", 0).replace("80 b", "69 b")), ["C9 broken at 69 for 0"]);
}

/// Each operation and its bound in ms.
#[test]
fn c10_each_answer_has_its_bound() {
    let guard = "1 a asks 1 shop\n 2 a has 1";
    let leased = "1 a asks 1 shop lease 50\n 2 a has 1";
    let table = [
        ("", "asks 7 shop wait 0", "refused 7", 30),
        ("", "asks 7 shop wait 25", "refused 7", 55),
        ("", "asks 7 shop wait 25", "has 7", 55),
        ("", "asks 7 shop wait 25", "fails 7 redis", 55),
        ("", "asks 7 shop wait 25", "cuts 7", 55),
        ("", "asks 7 shop", "fails 7 redis", 180),
        (guard, "unlocks 1", "unlocked 1", 130),
        (guard, "unlocks 1", "cuts 101", 130),
        (leased, "unlocks 1", "unlocked 1", 80),
        (guard, "checks 1", "checked 1", 30),
        ("", "is_locked 7 shop", "locked 7 0", 30),
        ("", "inspects 7 shop", "sees 7", 30),
        ("", "remaining 7 shop", "left 7 none", 30),
        ("", "token 7 shop", "told 7", 30),
        ("", "forces 7 shop", "freed 7 0", 130),
        ("", "connects 7", "done 7", 100),
        ("", "closes 7", "done 7", 110),
    ];
    for (before, invoke, answer, bound) in table {
        let story = |took: &str| format!("{before}\n 10 a {invoke}\n {took} a {answer}");
        let at = 10 + bound;
        assert_eq!(found_blindly(&story(&at.to_string())), NOTHING, "{invoke}");
        let late = [format!("C10 broken at {at} for 0.5")];
        assert_eq!(found_blindly(&story(&format!("{at}.5"))), late, "{invoke}");
        let slack =
            found_with(&format!("{}\n 0 s1 reigns", story(&format!("{}.5", at + 1))), |bounds| {
                bounds.slack = MS
            });
        assert_eq!(slack, [format!("C10 broken at {} for 0.5", at + 1)], "{invoke}");
    }
}

#[test]
fn c10_a_majority_that_cannot_answer_in_a_quarter_of_the_lease_has_no_bound() {
    let story = |lease: u32, rule: &str| {
        let story = format!(
            "0 s1 reigns\n 0 s2 reigns\n 0 s3 reigns
             10 a asks 1 s1/m,s2/m,s3/m {rule} lease {lease}\n 900 a fails 1 redis"
        );
        found_with(&story, |bounds| bounds.rtt = MS)
    };
    assert_eq!(story(4, "majority"), NOTHING);
    assert_eq!(story(5, "majority"), ["C10 broken at 190 for 710"]);
    assert_eq!(story(4, "all"), ["C10 broken at 190 for 710"]);
}

#[test]
fn c10_what_has_no_bound() {
    assert_eq!(found_blindly("10 a asks 1 shop\n 5000 a has 1\n 5001 a drops 1"), NOTHING);
    assert_eq!(found_blindly("10 a asks 1 shop\n 5000 a fails 1 wrong_kind"), NOTHING);
    assert_eq!(
        found_blindly(
            "10 a asks 1 shop\n 12 a has 1\n 13 a writes 1\n 5000 a stored 1\n 5000 a drops 1"
        ),
        NOTHING
    );
}

#[test]
fn c9_who_can_trust_it_no_longer_need_not_wait_for_its_end() {
    let story = |at: &str, why: &str| {
        found(&format!(
            "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n 300 a unlocks 1\n {at} a finds 101 {why}"
        ))
    };
    assert_eq!(story("306", "expired"), NOTHING);
    assert_eq!(story("305.999999", "expired"), ["C9 broken at 305.999999 for 0"]);
    assert_eq!(story("306", "removed"), ["C9 broken at 306 for 0"]);
}

#[test]
fn c10_redisson_has_bounds_of_its_own() {
    let story = "10 a asks 1 shop wait 25\n 66 a refused 1";
    assert_eq!(found_blindly(story), ["C10 broken at 65 for 1"]);
    assert_eq!(found_blindly(&format!("0 a starts redisson\n {story}")), NOTHING);
}

#[test]
fn c10_an_answer_that_never_comes() {
    let story =
        |end: &str| format!("10 a asks 1 shop wait 0\n {end} b connects 1\n {end} b done 1");
    assert_eq!(found_blindly(&story("40")), NOTHING);
    assert_eq!(found_blindly(&story("41")), ["C10 broken at 40 for 1"]);
    assert_eq!(found_blindly(&format!("{}\n 40 a dies", story("41"))), NOTHING);
    assert_eq!(found_blindly(&format!("{}\n 41 a dies", story("50"))), ["C10 broken at 40 for 1"]);
}

#[test]
fn c10_sleep_is_not_counted() {
    let story = |answered: &str| {
        format!("10 a asks 1 shop wait 0\n 20 a sleeps\n 90 a wakes\n {answered} a refused 1")
    };
    assert_eq!(found_blindly(&story("95")), NOTHING);
    assert_eq!(found_blindly(&story("120")), NOTHING);
    assert_eq!(found_blindly(&story("121")), ["C10 broken at 120 for 1"]);
}

#[test]
fn c10_who_is_not_polled_gives_no_answer() {
    let story = |answered: &str| {
        format!("10 a asks 1 shop wait 20\n 15 a idles 1\n 90 a polls 1\n {answered} a refused 1")
    };
    assert_eq!(found_blindly(&story("135")), NOTHING);
    assert_eq!(found_blindly(&story("136")), ["C10 broken at 135 for 1"]);
    // Another is polled.
    let other = story("136").replace("15 a idles 1", "14 a asks 2 shop\n 15 a idles 2");
    let other = other.replace("a polls 1", "a polls 2");
    assert_eq!(found_blindly(&other), ["C10 broken at 60 for 76"]);
    // Without a wait it begins anew.
    let anew = |failed: &str| {
        format!(
            "5 nemesis begins f delay\n 900 nemesis heals f\n 10 a asks 1 shop\n 100 a idles 1\n 150 a polls 1\n {failed} a fails 1 redis"
        )
    };
    assert_eq!(found_blindly(&anew("330")), NOTHING);
    assert_eq!(found_blindly(&anew("331")), ["C10 broken at 330 for 1"]);
}

#[test]
fn c10_a_lock_may_wait_until_trouble_comes() {
    let story = |at: &str, failed: &str| {
        format!(
            "10 a asks 1 shop\n {at} nemesis begins f delay\n 900 nemesis heals f\n {failed} a fails 1 redis\n 1000 b connects 1\n 1000 b done 1"
        )
    };
    assert_eq!(found_blindly(&story("500", "680")), NOTHING);
    assert_eq!(found_blindly(&story("500", "681")), ["C10 broken at 680 for 1"]);
    assert_eq!(found_blindly(&story("5", "191")), ["C10 broken at 190 for 1"]);
    // What comes later is no reason.
    assert_eq!(found_blindly(&story("641", "640")), ["C10 broken at 190 for 450"]);
    assert_eq!(
        found_blindly(&story("500", "631").replace("a asks 1 shop", "a asks 1 shop wait 0")),
        ["C10 broken at 40 for 591"]
    );
}

/// The lock is free from 51 on.
fn waits(events: &str) -> String {
    held(&format!("20 b asks 1 shop\n {events}\n 500 c connects 1\n 500 c done 1"))
}

fn taken(at: &str) -> String {
    format!("{at} server grants b:1\n {at} b has 1\n {at} b drops 1\n {at} server releases b:1")
}

#[test]
fn c11_a_free_lock_is_taken() {
    assert_eq!(found(&waits(&taken("100"))), NOTHING);
    assert_eq!(found(&waits(&taken("101"))), ["C11 broken at 100 for 1"]);
    assert_eq!(found(&waits("")), ["C11 broken at 100 for 400"]);
    assert_eq!(found(&waits("100 b cuts 1")), NOTHING);
    assert_eq!(found(&waits("101 b dies")), ["C11 broken at 100 for 1"]);
    // From the moment somebody waits.
    assert_eq!(found(&waits(&taken("130")).replace("20 b", "80 b")), NOTHING);
    assert_eq!(found(&waits(&taken("131")).replace("20 b", "80 b")), ["C11 broken at 130 for 1"]);
    // A lock that was never touched.
    assert_eq!(
        found("10 a asks 1 barn\n 0 server reigns\n 61 c connects 1\n 61 c done 1"),
        ["C11 broken at 60 for 1"]
    );
    // Who does not wait does not count, nor who waits for several.
    assert_eq!(found(&waits("").replace("20 b asks 1 shop", "20 b asks 1 all shop,barn")), NOTHING);
    let one_try = waits("").replace("20 b asks 1 shop", "90 b asks 1 shop wait 0\n 120 b cuts 1");
    assert_eq!(found(&one_try), NOTHING);
    let soon = |at: &str| found_with(&waits(&taken(at)), |bounds| bounds.news = 20 * MS);
    assert_eq!(soon("70"), NOTHING);
    assert_eq!(soon("71"), ["C11 broken at 70 for 1"]);
    let slack = found_with(&waits(&taken("103")), |bounds| (bounds.rtt, bounds.slack) = (MS, MS));
    assert_eq!(slack, ["C11 broken at 102 for 1"]);
}

#[test]
fn c11_in_a_calm() {
    let fault = |from: &str, to: &str, taken: &str| {
        waits(&format!("{from} nemesis begins f delay\n {to} nemesis heals f\n {taken}"))
    };
    assert_eq!(found(&fault("90", "150", &taken("210"))), NOTHING);
    assert_eq!(found(&fault("90", "150", &taken("211"))), ["C11 broken at 210 for 1"]);
    assert_eq!(found(&fault("20", "40", &taken("101"))), ["C11 broken at 100 for 1"]);
    assert_eq!(found(&fault("20", "41", &taken("101"))), NOTHING);
    assert_eq!(found(&fault("100", "150", &taken("101"))), ["C11 broken at 100 for 1"]);
    let two = format!("95 nemesis begins g delay\n 160 nemesis heals g\n {}", taken("220"));
    assert_eq!(found(&fault("90", "150", &two)), NOTHING);
    let asleep = "90 b sleeps\n 120 b wakes\n 121 b connects 9\n 121 b done 9";
    assert_eq!(found(&waits(&format!("{asleep}\n {}", taken("171")))), NOTHING);
    assert_eq!(found(&waits(&format!("{asleep}\n {}", taken("172")))), ["C11 broken at 171 for 1"]);
}

#[test]
fn c11_who_is_not_polled_takes_nothing() {
    let idle = |at: &str| found(&waits(&format!("60 b idles 1\n 120 b polls 1\n {}", taken(at))));
    assert_eq!(idle("170"), NOTHING);
    assert_eq!(idle("171"), ["C11 broken at 170 for 1"]);
    // Those behind it get past it.
    let other = |who: &str, at: &str| {
        found(&waits(&format!("15 {who} asks 2 shop\n 16 {who} idles 2\n {}", taken(at))))
    };
    assert_eq!(other("b", "120"), NOTHING);
    assert_eq!(other("b", "121"), ["C11 broken at 120 for 1"]);
    assert_eq!(other("d", "121"), ["C11 broken at 100 for 21"]);
}

#[test]
fn c11_the_dead_in_a_line_cost_their_wait() {
    let story = |process: &str, at: &str| {
        let line = format!(
            "{process}\n 15 d asks 1 fair shop\n 16 server pushes d:1\n 17 d dies\n {at} server drops d:1"
        );
        let story = waits(&format!("{line}\n {}", taken(at)))
            .replace("b asks 1 shop", "b asks 1 fair shop");
        found(&story.replace("a asks 1 shop", "a asks 1 fair shop"))
    };
    assert_eq!(story("", "200"), NOTHING);
    assert_eq!(story("", "201"), ["C11 broken at 200 for 1"]);
    assert_eq!(story("0 d starts redisson", "490"), NOTHING);
    let unknown = |at: &str| {
        found(&waits(&format!("16 server pushes x:1\n {at} server drops x:1\n {}", taken(at))))
    };
    assert_eq!(unknown("490"), NOTHING);
}

#[test]
fn c11_after_the_faults_everybody_has_a_turn() {
    let turns = |story: &str| {
        let mut bounds = crate::story::bounds();
        bounds.turn = Some(80 * MS);
        let verdict = judge::judge(&Story::told(story).history, None, &bounds);
        verdict
            .findings
            .iter()
            .map(|finding| (finding.check, finding.at / MS, finding.length / MS))
            .collect::<Vec<_>>()
    };
    let story = |more: &str| {
        format!(
            "10 b asks 1 shop\n 20 nemesis begins f delay\n 100 nemesis heals f\n {more}\n 300 c connects 1\n 300 c done 1"
        )
    };
    let none = [(Check::Liveness, 180, 120)];
    assert_eq!(turns(&story("")), none);
    assert_eq!(turns(&story("180 b has 1\n 181 b drops 1")), []);
    assert_eq!(turns(&story("181 b has 1\n 182 b drops 1")), [(Check::Liveness, 180, 1)]);
    // Another of the process has had its turn.
    assert_eq!(turns(&story("90 b asks 2 shop\n 101 b has 2\n 102 b drops 2")), []);
    assert_eq!(turns(&story("90 b asks 2 shop\n 100 b has 2\n 101 b drops 2")), none);
    assert_eq!(turns(&story("90 b asks 2 barn\n 101 b has 2\n 102 b drops 2")), none);
    assert_eq!(turns(&story("90 d asks 2 shop\n 101 d has 2\n 102 d drops 2")), none);
    // It came later, or left, or slept.
    assert_eq!(turns(&story("").replace("10 b", "101 b")), []);
    assert_eq!(turns(&story("180 b cuts 1")), []);
    assert_eq!(turns(&story("110 b sleeps\n 120 b wakes")), []);
    // Another fault lasts or comes.
    assert_eq!(
        turns(&story("90 nemesis begins g delay\n 101 nemesis heals g")),
        [(Check::Liveness, 181, 119)]
    );
    assert_eq!(turns(&story("180 nemesis begins g delay\n 250 nemesis heals g")), []);
    assert_eq!(turns(&story("181 nemesis begins g delay\n 250 nemesis heals g")), none);
    // The run was over before.
    assert_eq!(turns(&story("").replace("300 c", "180 c")), []);
}

#[test]
fn c0_a_history_makes_sense() {
    let idle = |at: &str| found_blindly(&format!("10 a connects 1\n 20 a done 1\n {at} a idles 1"));
    assert_eq!(idle("15"), NOTHING);
    assert_eq!(idle("25"), ["C0 broken at 25 for 0"]);
    let broken = |at: &str| vec![format!("C0 broken at {at} for 0")];
    let table = [
        ("10 a refused 1", "10"),
        ("10 a cuts 1", "10"),
        ("10 a drops 1", "10"),
        ("10 a loses 1 expired", "10"),
        ("10 a trusts 1 5", "10"),
        ("10 a joins 1 0 a:1", "10"),
        ("10 a checks 1", "10"),
        ("10 a writes 1", "10"),
        ("10 a unlocks 1", "10"),
        ("10 a wakes", "10"),
        ("10 a sleeps\n 11 a sleeps", "11"),
        ("10 a dies\n 11 a connects 1", "11"),
        ("10 a connects 1\n 11 a done 1\n 12 a done 1", "12"),
        ("10 a connects 1\n 11 a done 1\n 12 a connects 1", "12"),
        ("10 a connects 1\n 11 a refused 1", "11"),
        ("10 a asks 1 shop\n 11 a done 1", "11"),
        ("10 a asks 1 shop\n 11 a has 1\n 12 a drops 1\n 13 a drops 1", "13"),
        (
            "10 a asks 1 shop\n 11 a has 1\n 12 a unlocks 1\n 12.5 a refused 101\n 13 a drops 1",
            "12.5",
        ),
        ("10 a asks 1 all shop,barn\n 11 a has 1 on 0\n 12 a drops 1", "11"),
        ("10 a asks 1 shop\n 11 a has 1 on 1\n 12 a drops 1", "11"),
        ("10 nemesis heals f", "10"),
        ("10 nemesis begins f delay\n 11 nemesis begins f delay", "11"),
    ];
    for (story, at) in table {
        let found = found_blindly(story);
        assert_eq!(found[..1], broken(at), "{story}");
    }
    let two =
        found_blindly("10 a asks 1 shop\n 11 a has 1\n 12 a drops 1\n 13 a starts\n 0 b starts");
    assert_eq!(two, NOTHING);
}

#[test]
fn c0_a_client_has_one_process() {
    let mut story = Story::told("0 a starts\n 0 b starts\n 1 a connects 1\n 1 a done 1");
    for event in &mut story.history.events {
        if let judge::What::Start { client, .. } = &mut event.what {
            *client = Some("x".into());
        }
    }
    assert_eq!(story.judged().findings.len(), 1);
}

#[test]
fn c0_each_answer_fits_its_question() {
    let questions = [
        ("asks 7 shop", "refused 7"),
        ("asks 7 shop", "has 7"),
        ("asks 7 shop", "fails 7 redis"),
        ("is_locked 7 shop", "locked 7 0"),
        ("inspects 7 shop", "sees 7"),
        ("remaining 7 shop", "left 7 none"),
        ("token 7 shop", "told 7"),
        ("forces 7 shop", "freed 7 0"),
        ("connects 7", "done 7"),
        ("closes 7", "done 7"),
        ("closes 7", "fails 7 redis"),
    ];
    for (question, _) in questions {
        for (other, answer) in questions {
            let fits = question.split(' ').next() == other.split(' ').next()
                || answer == "fails 7 redis"
                || answer == "done 7" && matches!(question, "connects 7" | "closes 7");
            if answer == "has 7" && question != "asks 7 shop" {
                continue;
            }
            let found = found_blindly(&format!("10 a {question}\n 11 a {answer}"));
            assert_eq!(found.is_empty(), fits, "{question}, {answer}");
        }
    }
}

#[test]
fn c0_a_witness_makes_sense() {
    let table = [
        "10 server renews a:1",
        "10 server counts a:1 2",
        "10 server releases a:1",
        "10 server removes a:1",
        "10 server pops a:1",
        "9 server pushes a:1\n 10 server pushes a:1",
        "5 server grants a:1 until 9\n 10 server releases a:1",
    ];
    for story in table {
        assert_eq!(found(story), ["C0 broken at 10 for 0"], "{story}");
    }
    // The end of a lease may be told late, or not at all.
    assert_eq!(found("5 server grants a:1 until 9\n 10 server expires a:1"), NOTHING);
    assert_eq!(found("5 server grants a:1 until 9\n 9 server grants a:2 until 20"), NOTHING);
    let error = |at: &str| {
        let story = format!("5 server grants a:1 until 9\n {at} server releases a:1");
        found_with(&story, |bounds| bounds.clock_error = MS)
    };
    assert_eq!(error("10"), NOTHING);
    assert_eq!(error("10.5"), ["C0 broken at 10.5 for 0"]);
    let error =
        found_with("5 server grants a:1 until 9\n 8 server grants a:2 until 20", |bounds| {
            bounds.clock_error = MS
        });
    assert_eq!(error, NOTHING);
}

#[test]
fn the_figures_of_a_run() {
    let story = Story::told(
        "1 a asks 1 shop\n 2 a has 1\n 3 a drops 1\n 4 a asks 2 shop\n 7 a has 2\n 8 a loses 2 closed\n 8 a closes 9\n 9 a cuts 9
         30 nemesis begins f delay\n 35 nemesis heals f\n 20 b asks 1 shop\n 50 b has 1\n 51 b drops 1\n 60 b asks 2 shop",
    );
    let figures = judge::judge(&story.history, None, &crate::story::bounds()).figures;
    assert_eq!((figures.operations, figures.unknown, figures.grants), (5, 2, 3));
    assert_eq!(figures.losses.into_iter().collect::<Vec<_>>(), [(judge::Loss::Closed, 1)]);
    assert_eq!(figures.waits, Spread { count: 3, p50: 3 * MS, p99: 30 * MS, max: 30 * MS });
    assert_eq!(figures.calm_waits, Spread { count: 2, p50: MS, p99: 3 * MS, max: 3 * MS });
    let judged: Vec<_> = figures.judged.into_iter().collect();
    // Two acquisitions and the close have no bound: one is answered, one waits.
    assert_eq!(
        judged,
        [(Check::Form, 1), (Check::Exclusion, 3), (Check::Alarm, 1), (Check::Bound, 1)]
    );
}

#[test]
fn a_spread_of_many() {
    let asks = |n: u64| {
        format!(
            "{} a asks {n} lock{n}\n {} a has {n}\n {} a drops {n}\n",
            n * 1000,
            n * 1001,
            n * 1001
        )
    };
    let story: String = (1..=200).map(asks).collect();
    let waits =
        judge::judge(&Story::told(&story).history, None, &crate::story::bounds()).figures.waits;
    assert_eq!(waits, Spread { count: 200, p50: 100 * MS, p99: 198 * MS, max: 200 * MS });
}

#[test]
fn a_verdict_reads_as_a_story() {
    let story = "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n 50 server removes a:1 by force\n 60 b asks 1 shop
        61 server grants b:1\n 62 b has 1\n 70 a loses 1 removed\n 80 b drops 1";
    let verdict = Story::told(story).judged();
    assert_eq!(
        verdict.findings[1].to_string(),
        "C1 exclusion [within L4 state taken away] \"shop\" at 0.062000 s for 8.000 ms (bound 128.000 ms): \
         a (guard 1) and b (guard 1) both believe to hold it
          0.010000 s  a            asks for guard 1
          0.011000 s  server       grants to a:1
          0.012000 s  a            has guard 1, id a:1
          0.050000 s  server       no longer holds for a:1: Removed(Force), lease until 0.311000 s
          0.060000 s  b            asks for guard 1
          0.061000 s  server       grants to b:1
          0.062000 s  b            has guard 1, id b:1
          0.070000 s  a            is told that guard 1 is lost: Removed
          0.080000 s  b            gives guard 1 back
          0.361000 s  server       no longer holds for b:1: Expired { early: false }, lease until 0.361000 s
"
    );
    let text = verdict.to_string();
    let end = text
        .split("\n")
        .skip_while(|line| !line.starts_with("0 violations"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(
        end,
        "0 violations; 2 operations, 0 of unknown result, 2 grants
losses: 1 Removed; least lead: 
waits, all: 2, p50 2.000 ms, p99 2.000 ms, max 2.000 ms
waits, calm: 2, p50 2.000 ms, p99 2.000 ms, max 2.000 ms
L4 state taken away, C1 exclusion: 1, longest 8.000 ms, bound 128.000 ms
L4 state taken away, C3 told: 1, longest 20.000 ms, bound 140.000 ms
stale writes: 0, 0 of them accepted
judged: C0 form: 1, C1 exclusion: 2, C2 belief: 1, C3 told: 1, C4 alarm: 1, C5 once: 2, C6 orphan: 2, C11 liveness: 2
"
    );
}

#[test]
fn what_is_written_is_read() {
    let text = "0 a starts redisson all\n 1 a asks 1 fair s1/shop,barn majority by ann lease 5 wait 3\n 2 a has 1 token 3 acked 2 trust 4
        3 a trusts 1 2\n 3 a joins 1 0 x:1\n 4 a loses 1 taken\n 5 a unlocks 1\n 6 a finds 101 unknown\n 7 a sleeps\n 8 a wakes
        9 a closes 9\n 9 a cuts 9\n 9 a inspects 10 shop\n 9 a sees 10 holding a:1 queue b:1\n 9 a dies\n 10 nemesis begins f partition
        10 nemesis heals f\n 11 server grants a:1 reading token 5\n 12 server counts a:1 2\n 13 server renews a:1\n 14 server removes a:1 by eviction
        15 heir reigns\n 3 heir follows until 5\n 16 heir pushes c:1\n 17 heir drops c:1\n 18 heir loses_counter\n 19 heir spoils\n 20 heir leaves key";
    let story = Story::told(text);
    assert_eq!(History::from_lines(&story.history.to_lines()), Ok(story.history));
    assert_eq!(Witness::from_lines(&story.witness.to_lines()), Ok(story.witness));
}

#[test]
fn the_examples_of_the_written_form_are_read() {
    let examples = |source: &str| {
        let lines = source.lines().filter_map(|line| line.strip_prefix("/// {"));
        lines.map(|line| format!("{{{line}\n")).collect::<String>()
    };
    let history = examples(include_str!("../../src/history.rs"));
    let history = History::from_lines(&format!("{{\"history\":1}}\n{history}")).unwrap();
    assert_eq!(history.events.len(), 4);
    let witness = examples(include_str!("../../src/witness.rs"));
    let witness = Witness::from_lines(&format!("{{\"witness\":1}}\n{witness}")).unwrap();
    assert_eq!((witness.logs.len(), witness.logs[0].effects.len(), witness.left.len()), (1, 2, 1));
}

#[test]
fn what_cannot_be_read_is_told_by_its_line() {
    let history = |text: &str| History::from_lines(text).unwrap_err().to_string();
    assert_eq!(history(""), "line 1: it is empty");
    assert_eq!(history("\n{\"history\":2}"), "line 2: history of version 2, which is not 1");
    assert_eq!(history("{\"at\":1}"), "line 1: no version: {\"history\":1}");
    assert_eq!(history("{\"history\":1}\n\n{\"at\":1}"), "line 3: missing field `process`");
    assert!(history("{\"history\":1}\nnonsense").starts_with("line 2: "));
    let witness = Witness::from_lines(
        "{\"witness\":1}\n{\"line\":\"effect\",\"at\":1,\"server_ms\":null,\"lock\":\"l\",\"deed\":\"spoilt\"}",
    );
    assert_eq!(witness.unwrap_err().to_string(), "line 2: an effect before any log");
    let joined = "{\"history\":1}\n{\"history\":1}\n{\"at\":1,\"process\":\"a\",\"event\":\"end\"}\n{\"history\":1}\n";
    assert_eq!(History::from_lines(joined).unwrap().events.len(), 1);
}

#[test]
fn lengths_are_read_easily() {
    let story = |told: &str| {
        let verdict = Story::told(&format!(
            "10 a asks 1 shop\n 12 a has 1\n 13 b asks 1 shop\n 14 b has 1\n {told} a drops 1\n {told} b drops 1"
        ));
        judge::judge(&verdict.history, None, &crate::story::bounds()).findings[0].to_string()
    };
    for (told, length) in [
        ("14.000999", " 999 ns"),
        ("14.001", " 1.000 us"),
        ("15", " 1.000 ms"),
        ("1014", " 1.000 s"),
    ] {
        assert!(story(told).contains(&format!("for{length}: ")), "{}", story(told));
    }
}
