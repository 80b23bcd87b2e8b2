//! C1, C2, C3 and C13, and the classes L1 to L5.

use judge::MS;

use crate::story::{NOTHING, Story, found, found_blindly, found_with};

/// Two turns of one lock. The second is answered at this moment.
fn two_turns(has: &str) -> String {
    format!(
        "10 a asks 1 shop
         12 a has 1
         15 b asks 1 shop
         20 a unlocks 1
         22 a unlocked 1
         {has} b has 1
         30 b unlocks 1
         32 b unlocked 1"
    )
}

#[test]
fn a_belief_ends_when_its_release_is_asked_for() {
    assert_eq!(found_blindly(&two_turns("20")), NOTHING);
    assert_eq!(found_blindly(&two_turns("19.999999")), ["C1 broken at 19.999999 for 0.000001"]);
}

/// One has guard 1 from 12 on, and this happens. Another has its own from 20 to 30.
fn beside(events: &str) -> String {
    format!(
        "10 a asks 1 shop
         12 a has 1
         15 b asks 1 shop
         20 b has 1
         30 b unlocks 1
         {events}"
    )
}

#[test]
fn a_belief_ends_with_a_drop_a_loss_or_the_process() {
    for end in ["drops 1", "loses 1 taken", "dies"] {
        assert_eq!(found_blindly(&beside(&format!("20 a {end}"))), NOTHING, "{end}");
        let late = beside(&format!("20.5 a {end}"));
        assert_eq!(found_blindly(&late), ["C1 broken at 20 for 0.5"], "{end}");
    }
    let check = |at| beside(&format!("13 a checks 1\n {at} a finds 201 taken"));
    assert_eq!(found_blindly(&check("20")), NOTHING);
    assert_eq!(found_blindly(&check("21")), ["C1 broken at 20 for 1"]);
    // To the end of the other's.
    assert_eq!(found_blindly(&beside("50 a drops 1")), ["C1 broken at 20 for 10"]);
}

#[test]
fn a_belief_that_nothing_ends_goes_on_to_the_end_of_the_run() {
    let story = "10 a asks 1 shop\n 12 a has 1\n 15 b asks 1 shop\n 20 b has 1\n 29 b writes 1";
    assert_eq!(found_blindly(story), ["C1 broken at 20 for 9"]);
}

#[test]
fn each_pair_is_found_once() {
    let story = "10 a asks 1 shop\n 11 a has 1\n 12 b asks 1 shop\n 13 b has 1\n 14 c asks 1 shop\n 15 c has 1
         20 b drops 1\n 21 c drops 1\n 22 a drops 1";
    let pairs = ["C1 broken at 13 for 7", "C1 broken at 15 for 5", "C1 broken at 15 for 6"];
    assert_eq!(found_blindly(story), pairs);
}

/// Two guards of one lock at once.
fn two(first: &str, second: &str) -> String {
    format!(
        "10 a asks 1 {first}\n 12 a has 1\n 15 a asks 2 {second}\n 20 a has 2\n 30 a drops 2\n 40 a drops 1"
    )
}

#[test]
fn what_may_be_held_at_once() {
    let clash = ["C1 broken at 20 for 10"];
    assert_eq!(found_blindly(&two("shop", "shop")), clash);
    assert_eq!(found_blindly(&two("shop", "barn")), NOTHING);
    assert_eq!(found_blindly(&two("s1/shop", "s2/shop")), NOTHING);
    assert_eq!(found_blindly(&two("shop by ann", "shop by ann")), NOTHING);
    assert_eq!(found_blindly(&two("shop by ann", "shop by bob")), clash);
    assert_eq!(found_blindly(&two("shop by ann", "shop")), clash);
    assert_eq!(found_blindly(&two("reading shop", "reading shop")), NOTHING);
    assert_eq!(found_blindly(&two("reading shop", "writing shop")), clash);
    assert_eq!(found_blindly(&two("writing shop", "reading shop")), clash);
    assert_eq!(found_blindly(&two("writing shop by ann", "reading shop by ann")), NOTHING);
    assert_eq!(found_blindly(&two("writing shop", "writing shop")), clash);
    assert_eq!(found_blindly(&two("fenced shop", "spin shop")), clash);
    assert_eq!(found_blindly(&two("all shop,barn", "all barn,attic")), clash);
    assert_eq!(found_blindly(&two("all shop,barn", "attic")), NOTHING);
    let owner_of_another = "10 a asks 1 shop by ann\n 12 a has 1\n 15 b asks 1 shop by ann\n 20 b has 1\n 30 b drops 1";
    assert_eq!(found_blindly(owner_of_another), clash);
}

#[test]
fn the_server_excludes_too() {
    let story = |from: &str| {
        format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 20 a unlocks 1\n 20 b asks 1 shop
             {from} server grants b:1\n 22 server releases a:1\n 23 a unlocked 1\n 24 b has 1\n 30 b drops 1"
        )
    };
    // Its log is in order, whatever the stamps say.
    assert_eq!(found(&story("21").replace("22 server", "21 server")), ["C1 broken at 21 for 0"]);
    let reads = "10 a asks 1 reading shop\n 11 server grants a:1 reading\n 12 a has 1\n 20 b asks 1 reading shop
        21 server grants b:1 reading\n 22 b has 1\n 30 b drops 1\n 31 a drops 1";
    assert_eq!(found(reads), NOTHING);
    let write = reads
        .replace("b asks 1 reading", "b asks 1 writing")
        .replace("grants b:1 reading", "grants b:1 writing");
    assert_eq!(found(&write), ["C1 broken at 21 for 0", "C1 broken at 22 for 8"]);
    let plain =
        reads.replace("a asks 1 reading", "a asks 1").replace("grants a:1 reading", "grants a:1");
    assert_eq!(found(&plain), ["C1 broken at 21 for 0", "C1 broken at 22 for 8"]);
}

/// A hold that the server takes away at 50, and its user is told of at this moment.
fn taken_away(by: &str, lease: &str, told: &str) -> String {
    format!(
        "10 a asks 1 shop {lease}
         11 server grants a:1 until {}
         12 a has 1
         {by}
         60 b asks 1 shop
         61 server grants b:1
         62 b has 1
         {told} a loses 1 removed
         300 b unlocks 1
         301 server releases b:1
         302 b unlocked 1",
        if lease.is_empty() { "311" } else { "111" }
    )
}

#[test]
fn l4_a_third_of_the_watchdog_a_tick_and_an_answer() {
    let by_clock = "40 nemesis begins step clock\n 40 nemesis heals step\n 50 server expires a:1";
    for by in ["force", "operator", "eviction", "restart", "clock"] {
        let by =
            if by == "clock" { by_clock.into() } else { format!("50 server removes a:1 by {by}") };
        let within = ["C3 within L4 at 50 for 140", "C1 within L4 at 62 for 128"];
        assert_eq!(found(&taken_away(&by, "", "190")), within);
        let beyond = ["C3 beyond L4 at 50 for 140.000001", "C1 beyond L4 at 62 for 128.000001"];
        assert_eq!(found(&taken_away(&by, "", "190.000001")), beyond);
    }
    let no_clock = found(&taken_away("50 server expires a:1", "", "70"));
    assert_eq!(no_clock, ["C3 broken at 50 for 20", "C1 broken at 62 for 8"]);
    let later = "50 server expires a:1\n 51 nemesis begins step clock\n 51 nemesis heals step";
    assert_eq!(found(&taken_away(later, "", "70")), no_clock);
}

#[test]
fn l4_a_renewal_without_an_answer_tells_nothing_before_the_lease_ends() {
    let removed = "50 server removes a:1 by eviction";
    let story =
        |fault: &str, told: &str| found(&taken_away(&format!("{removed}\n {fault}"), "", told));
    let delayed = "55 nemesis begins f delay\n 56 nemesis heals f";
    let within = ["C3 within L4 at 50 for 261", "C1 within L4 at 62 for 238"];
    assert_eq!(story(delayed, "311"), within);
    assert_eq!(story(delayed, "311.000001")[0], "C3 beyond L4 at 50 for 261.000001");
    // Before it was removed, and after its user had to be told.
    let over = delayed.replace("55", "1").replace("56", "2");
    let late = delayed.replace("55", "190.000001").replace("56", "200");
    for fault in [over, late, delayed.replace("delay", "data")] {
        assert_eq!(story(&fault, "190.000001")[0], "C3 beyond L4 at 50 for 140.000001", "{fault}");
    }
}

/// With all that a machine adds: 1 ms of way, 2 of slack, 4 of its clock.
fn found_slowly(story: &str) -> Vec<String> {
    found_with(story, |bounds| {
        (bounds.rtt, bounds.slack, bounds.clock_error) = (MS, 2 * MS, 4 * MS)
    })
}

#[test]
fn l4_nobody_looks_after_a_grant_that_is_not_polled() {
    let story = |idle: &str, told: &str| {
        found(&format!(
            "10 a asks 1 shop\n 11 server grants a:1\n {idle}\n 50 server removes a:1 by eviction
             100 a has 1\n {told} a loses 1 removed"
        ))
    };
    let idle = "12 a idles 1\n 99 a polls 1";
    assert_eq!(story(idle, "239"), ["C3 within L4 at 100 for 139"]);
    assert_eq!(story(idle, "239.000001"), ["C3 beyond L4 at 100 for 139.000001"]);
    assert_eq!(story("", "190"), ["C3 within L4 at 100 for 90"]);
    assert_eq!(story("", "190.000001"), ["C3 beyond L4 at 100 for 90.000001"]);
}

#[test]
fn a_machine_adds_to_each_bound() {
    // What the clock may be wrong by is no excess.
    let by = "50 server removes a:1";
    assert_eq!(
        found_slowly(&taken_away(by, "", "196")),
        ["C3 within L4 at 54 for 142", "C1 within L4 at 62 for 134"]
    );
    let beyond = ["C3 beyond L4 at 54 for 142.5", "C1 beyond L4 at 62 for 134.5"];
    assert_eq!(found_slowly(&taken_away(by, "", "196.5")), beyond);
    let leased = ["C3 within L4 at 54 for 63", "C1 within L4 at 62 for 55"];
    assert_eq!(found_slowly(&taken_away(by, "lease 100", "117")), leased);
    let beyond = ["C3 beyond L4 at 54 for 63.5", "C1 beyond L4 at 62 for 55.5"];
    assert_eq!(found_slowly(&taken_away(by, "lease 100", "117.5")), beyond);
    let failed = ["C3 within L1 at 64 for 133", "C1 within L1 at 117 for 80"];
    assert_eq!(found_slowly(&failover("50", "", "197")), failed);
    let beyond = ["C3 beyond L1 at 64 for 133.5", "C1 beyond L1 at 117 for 80.5"];
    assert_eq!(found_slowly(&failover("50", "", "197.5")), beyond);
    let knows = "11 heir grants a:1 until 111";
    let shorter =
        |told| found_slowly(&failover("50", knows, told).replace("until 340", "until 200"));
    assert_eq!(shorter("206"), ["C3 within L2 at 115 for 91", "C1 within L2 at 117 for 89"]);
    assert_eq!(shorter("206.5"), ["C3 beyond L2 at 115 for 91.5", "C1 beyond L2 at 117 for 89.5"]);
}

#[test]
fn l4_nobody_looks_after_a_lease() {
    let by = "50 server removes a:1";
    let within = ["C3 within L4 at 50 for 61", "C1 within L4 at 62 for 49"];
    assert_eq!(found(&taken_away(by, "lease 100", "111")), within);
    let beyond = ["C3 beyond L4 at 50 for 61.000001", "C1 beyond L4 at 62 for 49.000001"];
    assert_eq!(found(&taken_away(by, "lease 100", "111.000001")), beyond);
}

#[test]
fn a_class_is_counted_with_its_longest() {
    let story = Story::told(&taken_away("50 server removes a:1", "", "180"));
    let verdict = story.judged();
    let tolls: Vec<_> = verdict.figures.tolls.iter().collect();
    let toll = |count, longest, bound| judge::Toll {
        count,
        longest: longest * MS,
        bound: Some(bound * MS),
    };
    use judge::{Check, Class};
    assert_eq!(
        tolls,
        [
            (&(Class::L4StateTaken, Check::Exclusion), &toll(1, 118, 128)),
            (&(Class::L4StateTaken, Check::Told), &toll(1, 130, 140)),
        ]
    );
    assert!(verdict.is_clean());
}

/// A failover at 60. The old master is heard of until `ends`, the new one knows of what `knows` says.
fn failover(ends: &str, knows: &str, told: &str) -> String {
    format!(
        "0 server reigns
         10 a asks 1 shop
         11 server grants a:1 until 111
         12 a has 1 acked 1
         40 server renews a:1 until 340
         {ends} server ends
         {knows}
         60 heir reigns
         115 b asks 1 shop
         116 heir grants b:1
         117 b has 1
         {told} a loses 1 removed
         300 b unlocks 1
         301 heir releases b:1
         302 b unlocked 1"
    )
}

#[test]
fn l1_the_heir_does_not_know_of_the_grant() {
    let within = ["C3 within L1 at 60 for 130", "C1 within L1 at 117 for 73"];
    assert_eq!(found(&failover("50", "", "190")), within);
    let beyond = ["C3 beyond L1 at 60 for 130.000001", "C1 beyond L1 at 117 for 73.000001"];
    assert_eq!(found(&failover("50", "", "190.000001")), beyond);
}

#[test]
fn l1_is_none_where_the_heir_had_confirmed() {
    let policy = |known: &str| failover("50", &format!("0 a starts all\n {known}"), "130");
    let broken = ["C3 broken at 60 for 70", "C1 broken at 117 for 13"];
    assert_eq!(found(&policy("5 heir follows until 11.000001")), broken);
    assert_eq!(found(&policy("5 heir follows")), broken);
    let within = ["C3 within L1 at 60 for 70", "C1 within L1 at 117 for 13"];
    assert_eq!(found(&policy("5 heir follows until 11")), within);
    assert_eq!(found(&policy("11.000001 heir follows")), within);
    assert_eq!(found(&policy("5 heir follows").replace("acked 1", "acked 0")), within);
    assert_eq!(found(&policy("5 heir follows").replace("starts all", "starts")), within);
}

#[test]
fn l2_the_heir_does_not_know_of_the_renewal() {
    let knows = "11 heir grants a:1 until 111";
    let within = ["C3 within L2 at 111 for 130", "C1 within L2 at 117 for 124"];
    assert_eq!(found(&failover("50", knows, "241")), within);
    let beyond = ["C3 beyond L2 at 111 for 130.000001", "C1 beyond L2 at 117 for 124.000001"];
    assert_eq!(found(&failover("50", knows, "241.000001")), beyond);
    // No longer than it was trusted.
    let shorter = |told| failover("50", knows, told).replace("until 340", "until 200");
    assert_eq!(
        found(&shorter("200")),
        ["C3 within L2 at 111 for 89", "C1 within L2 at 117 for 83"]
    );
    let beyond = ["C3 beyond L2 at 111 for 89.000001", "C1 beyond L2 at 117 for 83.000001"];
    assert_eq!(found(&shorter("200.000001")), beyond);
    // Where the heir knew of it, it is no excuse.
    let known =
        failover("50", "11 heir grants a:1 until 111\n 40 heir renews a:1 until 340", "130");
    let clash = ["C1 broken at 116 for 0", "C1 broken at 117 for 13"];
    let alarm = ["C4 broken at 130 for 0", "C6 broken at 200 for 102"];
    assert_eq!(found(&known), [clash, alarm].concat());
    let no_renewal = failover("50", knows, "112").replace("40 server renews a:1 until 340\n", "");
    assert_eq!(found(&no_renewal), ["C3 broken at 111 for 1"]);
}

#[test]
fn l3_two_masters_serve() {
    let early = |told: &str, fault: &str| {
        let story =
            failover("150", fault, told).replace("115 b", "65 b").replace("116 heir", "66 heir");
        story.replace("117 b", "67 b")
    };
    let within = ["C1 within L3 at 67 for 123", "C3 within L1 at 150 for 40"];
    assert_eq!(found(&early("190", "")), within);
    let beyond = ["C1 beyond L3 at 67 for 123.000001", "C3 within L1 at 150 for 40.000001"];
    assert_eq!(found(&early("190.000001", "")), beyond);
    let parted = "20 nemesis begins part partition\n 68 nemesis heals part";
    assert_eq!(
        found(&early("190.000001", parted)),
        ["C1 within L3 at 67 for 123.000001", "C3 within L1 at 150 for 40.000001"]
    );
    let bounds: Vec<_> = Story::told(&early("191", parted))
        .judged()
        .findings
        .iter()
        .map(|found| found.bound)
        .collect();
    assert_eq!(bounds, [None, Some(130 * MS)]);
    let healed = "20 nemesis begins part partition\n 67 nemesis heals part";
    assert_eq!(found(&early("190.000001", healed)), beyond);
    // Told while the old master still held.
    assert_eq!(found(&early("150", "")), ["C1 within L3 at 67 for 83"]);
}

#[test]
fn a_hold_outlives_a_failover() {
    let knows =
        "11 heir grants a:1 until 111\n 40 heir renews a:1 until 340\n 250 heir releases a:1";
    let story = failover("50", knows, "245")
        .replace("245 a loses 1 removed", "245 a unlocks 1\n 251 a unlocked 1");
    let later = story.replace("116 heir", "255 heir").replace("117 b", "256 b");
    // The log of the heir has the release before the next grant.
    assert_eq!(found(&later), NOTHING);
}

/// A failover at 60, between two that serve to 60 and from 60 on.
fn handed_over(events: &str) -> String {
    format!(
        "0 server reigns\n 60 server ends\n 60 heir reigns\n {events}\n 290 c connects 1\n 290 c done 1"
    )
}

#[test]
fn a_failover_may_bring_a_hold_back() {
    let story = |end: &str| {
        handed_over(&format!(
            "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 29 a unlocks 1\n 30 server releases a:1\n 31 a unlocked 1
             11 heir grants a:1\n {end}\n 70 b asks 1 shop wait 0\n 71 b refused 1"
        ))
    };
    // Nobody knows of it, so it lasts for its lease, and no longer.
    assert_eq!(found(&story("131 heir releases a:1")), NOTHING);
    assert_eq!(found(&story("131 heir renews a:1 until 312")), ["C6 broken at 130 for 160"]);
    // The heir knew of the release.
    assert_eq!(found(&story("30 heir releases a:1")), ["C9 broken at 71 for 0"]);
}

#[test]
fn each_of_several_holds_outlives_a_failover() {
    let story = |a: &str, b: &str| {
        handed_over(&format!(
            "10 a asks 1 reading shop\n 11 server grants a:1 reading\n 11 heir grants a:1 reading\n 12 a has 1
             20 b asks 1 reading shop\n 21 server grants b:1 reading\n 21 heir grants b:1 reading\n 22 b has 1
             79 a unlocks 1\n {a} heir releases a:1\n 81 a unlocked 1\n 89 b unlocks 1\n {b} heir releases b:1\n 91 b unlocked 1"
        ))
    };
    assert_eq!(found(&story("80", "90")), NOTHING);
    assert_eq!(found(&story("82", "90")), ["C5 broken at 81 for 0"]);
    assert_eq!(found(&story("80", "92")), ["C5 broken at 91 for 0"]);
}

#[test]
fn a_lease_that_ends_with_a_reign_has_ended() {
    let story =
        "10 a asks 1 shop\n 11 server grants a:1 until 60\n 12 a has 1\n 61 a loses 1 expired";
    assert_eq!(found(&handed_over(story)), ["C3 broken at 60 for 1"]);
    assert_eq!(
        found(&handed_over(&story.replace("until 60", "until 60.5"))),
        ["C3 within L1 at 60 for 1"]
    );
}

#[test]
fn what_was_over_before_a_failover_is_over() {
    let story = "10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n 19 a unlocks 1\n 20 server releases a:1\n 21 a unlocked 1
        11 heir grants a:1\n 20 heir releases a:1\n 30 b asks 1 shop\n 150 b cuts 1";
    assert_eq!(found(&handed_over(story)), ["C11 broken at 80 for 70"]);
}

#[test]
fn the_last_of_two_masters_says_when_a_hold_ends() {
    let story = "10 a asks 1 shop\n 11 server grants a:1\n 11 heir grants a:1\n 12 a has 1\n 99 a unlocks 1\n 100 heir releases a:1\n 101 a unlocked 1";
    assert_eq!(found(&handed_over(story).replace("60 server ends", "150 server ends")), NOTHING);
    let forced = story.replace(
        "99 a unlocks 1\n 100 heir releases a:1\n 101 a unlocked 1",
        "100 heir removes a:1\n 240 a loses 1 removed",
    );
    assert_eq!(
        found(&handed_over(&forced).replace("60 server ends", "150 server ends")),
        ["C3 within L4 at 100 for 140"]
    );
}

#[test]
fn the_next_master_hears_late_of_what_was_done() {
    let story = "10 a asks 1 shop\n 11 server grants a:1 until 41\n 11 heir grants a:1 until 41\n 12 a has 1\n
        40 server renews a:1 until 340\n 45 heir renews a:1 until 340\n
        99 a unlocks 1\n 100 heir releases a:1\n 101 a unlocked 1";
    assert_eq!(found(&handed_over(story)), NOTHING);
    // Not once it is the master.
    let late = handed_over(&story.replace("45 heir", "61 heir"));
    assert!(found(&late).contains(&"C0 broken at 61 for 0".to_owned()));
}

/// Masters from the start to 150, and from 60 on. Both know of a hold up to 111.
fn two_masters(events: &str) -> String {
    let hold = "10 a asks 1 shop\n 11 server grants a:1 until 111\n 11 heir grants a:1 until 111\n 12 a has 1";
    let story = handed_over(&format!("{hold}\n {events}"));
    story.replace("60 server ends", "150 server ends")
}

#[test]
fn of_two_masters_the_next_one_keeps_a_hold() {
    let story = |renewed: &str| {
        two_masters(&format!(
            "70 {renewed} renews a:1 until 105\n 90 {renewed} renews a:1 until 205\n
             199 a unlocks 1\n 200 {renewed} releases a:1\n 201 a unlocked 1"
        ))
    };
    assert_eq!(found(&story("heir")), NOTHING);
    // The next one was never asked, and its word counts.
    assert_eq!(found(&story("server")), ["C2 within L2 at 150 for 49"]);
    // Nobody renewed it.
    let ended = two_masters("199 a unlocks 1\n 201 a finds 101 expired");
    assert_eq!(found(&ended), ["C2 broken at 111 for 88"]);
}

#[test]
fn of_two_masters_the_one_before_renews_what_the_next_one_grants_to_another() {
    let story = |renewed: &str| {
        two_masters(&format!(
            "70 {renewed} renews a:1 until 205\n 115 b asks 1 shop\n 116 heir grants b:1\n 117 b has 1
             130 b drops 1\n 131 heir releases b:1\n 140 a loses 1 removed"
        ))
    };
    assert_eq!(found(&story("server")), ["C1 within L2 at 117 for 13"]);
    // The next one knew of it.
    assert_eq!(found(&story("heir"))[0], "C1 broken at 116 for 0");
}

#[test]
fn of_two_masters_the_one_before_counts_a_hold() {
    let counted = |count: u32, heir: &str| {
        let story = two_masters(&format!(
            "62 a asks 2 shop by ann\n 63 server counts a:1 {count}\n 64 a has 2 id a:1\n 107 a unlocks 1
             108 server counts a:1 1\n 109 a unlocked 1\n 110 a drops 2\n 110.5 server releases a:1\n {heir}"
        ));
        found(&story.replace("10 a asks 1 shop", "10 a asks 1 shop by ann"))
    };
    assert_eq!(counted(2, "110.7 heir releases a:1"), NOTHING);
    // With one master only.
    let story = |count: u32| {
        format!(
            "10 a asks 1 shop by ann\n 11 server grants a:1\n 12 a has 1\n 62 a asks 2 shop by ann
             63 server counts a:1 {count}\n 64 a has 2 id a:1\n 107 a unlocks 1\n 108 server counts a:1 1
             109 a unlocked 1\n 110 a drops 2\n 110.5 server releases a:1"
        )
    };
    assert_eq!(found(&story(2)), NOTHING);
    assert_eq!(found(&story(3)), ["C5 broken at 107 for 0"]);
}

#[test]
fn of_two_masters_the_one_before_releases_a_hold() {
    let released = |at: &str| {
        two_masters(&format!(
            "79 a unlocks 1\n {at} server releases a:1\n 81 a unlocked 1\n 90 heir releases a:1"
        ))
    };
    assert_eq!(found(&released("80")), NOTHING);
    assert_eq!(found(&released("70")), ["C5 broken at 81 for 0"]);
}

#[test]
fn of_two_masters_the_next_one_releases_a_hold() {
    let released = |more: &str| {
        two_masters(&format!("79 a unlocks 1\n 80 heir releases a:1\n 81 a unlocked 1\n {more}"))
    };
    assert_eq!(found(&released("")), NOTHING);
    let again =
        "82 b asks 1 shop\n 83 heir grants b:1\n 84 b has 1\n 85 b drops 1\n 86 heir releases b:1";
    assert_eq!(found(&released(again)), NOTHING);
    let early =
        "75 b asks 1 shop\n 76 heir grants b:1\n 77 b has 1\n 85 b drops 1\n 86 heir releases b:1";
    assert_eq!(found(&released(early)), ["C1 broken at 76 for 0", "C1 broken at 77 for 2"]);
}

#[test]
fn the_next_master_renews_and_counts() {
    let story = |events: &str| {
        handed_over(&format!(
            "10 a asks 1 shop by ann\n 11 server grants a:1\n 11 heir grants a:1\n 12 a has 1\n {events}"
        ))
    };
    let renewed = |told: &str| {
        story(&format!("100 heir renews a:1 until 400\n {told} a loses 1 expired"))
            .replace("290", "396")
            .replace("shop by ann", "shop by ann lease 300")
    };
    assert_eq!(found(&renewed("395")), NOTHING);
    assert_eq!(found(&renewed("394")), ["C4 broken at 394 for 0"]);
    let entered = |count: u32| {
        story(&format!(
            "100 a asks 2 shop by ann\n 101 heir counts a:1 {count}\n 102 a has 2 id a:1\n 110 a unlocks 2\n 111 heir counts a:1 1\n 112 a unlocked 2
             120 a unlocks 1\n 121 heir releases a:1\n 122 a unlocked 1"
        ))
    };
    assert_eq!(found(&entered(2)), NOTHING);
    assert_eq!(found(&entered(3)), ["C5 broken at 110 for 0"]);
}

#[test]
fn a_request_is_repeated_on_the_next_master() {
    let story = "10 a asks 1 shop\n 59 server grants a:1\n 61 heir grants a:1\n 62 a has 1\n 70 a unlocks 1\n 71 heir releases a:1\n 72 a unlocked 1";
    assert_eq!(found(&handed_over(story)), NOTHING);
    // At the very moment, too, and not unless it asks.
    assert_eq!(found(&handed_over(&story.replace("61 heir", "60 heir"))), NOTHING);
    assert_eq!(
        found(&handed_over(
            &story
                .replace("61 heir", "60 heir")
                .replace("10 a asks", "60.5 a asks")
                .replace("59 server grants a:1", "")
        )),
        ["C5 broken at 60 for 0"]
    );
}

#[test]
fn a_lease_that_ends_when_it_should_is_no_work_of_a_clock() {
    let story = "10 a asks 1 shop\n 11 server grants a:1 until 50\n 12 a has 1\n 40 nemesis begins step clock\n 40 nemesis heals step
        50 server expires a:1\n 70 a loses 1 expired";
    assert_eq!(found(story), ["C3 broken at 50 for 20"]);
    assert_eq!(found(&story.replace("until 50", "until 51")), ["C3 within L4 at 50 for 20"]);
}

/// A process sleeps from 100 to 400, and its lease ends at 311.
fn sleeper(told: &str) -> String {
    format!(
        "10 a asks 1 shop
         11 server grants a:1 until 311
         12 a has 1
         100 a sleeps
         312 b asks 1 shop
         313 server grants b:1 until 613
         314 b has 1
         400 a wakes
         {told} a loses 1 expired
         500 b unlocks 1
         501 server releases b:1
         502 b unlocked 1"
    )
}

#[test]
fn l5_nobody_believes_while_asleep() {
    assert_eq!(
        found(&sleeper("405")),
        ["C3 within L5 at 311 for 94", "C1 within L5 at 314 for 91"]
    );
    assert_eq!(
        found(&sleeper("410")),
        ["C3 within L5 at 311 for 99", "C1 within L5 at 314 for 96"]
    );
    let beyond = ["C1 beyond L5 at 410 for 0.000001", "C3 beyond L5 at 410 for 0.000001"];
    assert_eq!(found(&sleeper("410.000001")), beyond);
    // Its first event shows that it is awake.
    let awake =
        sleeper("405").replace("400 a wakes", "400 a wakes\n 404 a connects 9\n 404 a done 9");
    assert_eq!(found(&awake), ["C1 beyond L5 at 404 for 1", "C3 beyond L5 at 404 for 1"]);
}

#[test]
fn l5_who_believed_before_it_slept_is_no_sleeper() {
    let story = "10 a asks 1 shop\n 12 a has 1\n 13 b asks 1 shop\n 14 b has 1\n 15 a sleeps\n 30 b drops 1\n 40 a wakes";
    assert_eq!(found_blindly(story), ["C1 broken at 14 for 1"]);
    // It need not be the first who sleeps; and one that dies in its sleep never wakes.
    let story = "10 a asks 1 shop\n 12 a has 1\n 13 b asks 1 shop\n 14 b has 1\n 14 b sleeps\n 30 b dies\n 40 a drops 1";
    assert_eq!(found_blindly(story), ["C1 within L5 at 14 for 16"]);
    let story = "10 a asks 1 shop\n 12 a has 1\n 13 b asks 1 shop\n 14 b has 1\n 14 b sleeps\n 40 a drops 1";
    assert_eq!(found_blindly(story), ["C1 within L5 at 14 for 26"]);
    let story = "10 a asks 1 shop\n 12 a has 1\n 13 b asks 1 shop\n 14 b has 1\n 14 b sleeps\n 39 b wakes\n 40 a drops 1";
    assert_eq!(found_blindly(story), ["C1 within L5 at 14 for 26"]);
}

/// Without a witness: what happened before another was granted at 62.
fn blind(before: &str, lease: &str, told: &str) -> String {
    format!(
        "10 a asks 1 shop {lease}
         12 a has 1
         {before}
         60 b asks 1 shop
         62 b has 1
         {told} a loses 1 removed
         400 b drops 1"
    )
}

#[test]
fn without_a_witness_the_nemesis_is_believed() {
    let fault = |class: &str| format!("50 nemesis begins f {class}\n 50 nemesis heals f");
    assert_eq!(found_blindly(&blind("", "", "70")), ["C1 broken at 62 for 8"]);
    assert_eq!(found_blindly(&blind(&fault("delay"), "", "70")), ["C1 broken at 62 for 8"]);
    for class in ["data", "clock"] {
        assert_eq!(found_blindly(&blind(&fault(class), "", "202")), ["C1 within L4 at 62 for 140"]);
        assert_eq!(found_blindly(&blind(&fault(class), "", "203")), ["C1 beyond L4 at 62 for 141"]);
    }
    assert_eq!(
        found_blindly(&blind(&fault("failover"), "", "192")),
        ["C1 within L1 at 62 for 130"]
    );
    assert_eq!(
        found_blindly(&blind(&fault("failover"), "", "193")),
        ["C1 beyond L1 at 62 for 131"]
    );
    assert_eq!(
        found_blindly(&blind(&fault("partition"), "", "399")),
        ["C1 within L3 at 62 for 337"]
    );
    let leased = |told| blind(&fault("data"), "lease 100", told);
    assert_eq!(found_blindly(&leased("112")), ["C1 within L4 at 62 for 50"]);
    assert_eq!(found_blindly(&leased("113")), ["C1 beyond L4 at 62 for 51"]);
    // A fault before the acquisition, or after the other's grant, explains nothing.
    for at in ["9", "63"] {
        let fault = format!("{at} nemesis begins f data\n {at} nemesis heals f");
        assert_eq!(found_blindly(&blind(&fault, "", "70")), ["C1 broken at 62 for 8"]);
    }
    for at in ["10", "62"] {
        let fault = format!("{at} nemesis begins f data\n {at} nemesis heals f");
        assert_eq!(found_blindly(&blind(&fault, "", "70")), ["C1 within L4 at 62 for 8"]);
    }
}

#[test]
fn without_a_witness_a_forced_unlock_is_believed() {
    let within = ["C1 within L4 at 62 for 8"];
    let broken = ["C1 broken at 62 for 8"];
    assert_eq!(found_blindly(&blind("50 c forces 1 shop\n 51 c freed 1 1", "", "70")), within);
    assert_eq!(found_blindly(&blind("50 c forces 1 shop\n 51 c freed 1 0", "", "70")), broken);
    assert_eq!(found_blindly(&blind("50 c forces 1 shop\n 51 c dies", "", "70")), within);
    assert_eq!(found_blindly(&blind("50 c forces 1 shop\n 51 c cuts 1", "", "70")), within);
    assert_eq!(found_blindly(&blind("50 c forces 1 barn\n 51 c freed 1 1", "", "70")), broken);
    assert_eq!(found_blindly(&blind("50 c forces 1 s1/shop\n 51 c freed 1 1", "", "70")), broken);
    assert_eq!(found_blindly(&blind("8 c forces 1 shop\n 9.9 c freed 1 1", "", "70")), broken);
    assert_eq!(found_blindly(&blind("8 c forces 1 shop\n 10 c freed 1 1", "", "70")), within);
    assert_eq!(found_blindly(&blind("62 c forces 1 shop\n 63 c freed 1 1", "", "70")), within);
    assert_eq!(found_blindly(&blind("62.1 c forces 1 shop\n 63 c freed 1 1", "", "70")), broken);
}

/// A hold whose lease ends at 311, and what its user does.
fn hold(end: &str) -> String {
    format!(
        "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n {end}\n 340 c connects 1\n 340 c done 1"
    )
}

#[test]
fn c2_a_belief_outlives_the_lease() {
    assert_eq!(found(&hold("311 a drops 1")), NOTHING);
    assert_eq!(found(&hold("311.000001 a drops 1")), ["C2 broken at 311 for 0.000001"]);
    assert_eq!(
        found(&hold("315 a unlocks 1\n 316 a finds 101 expired")),
        ["C2 broken at 311 for 4"]
    );
}

#[test]
fn c2_a_belief_begins_after_the_lease() {
    let late = "10 a asks 1 shop\n 11 server grants a:1 until 311\n 312 a has 1\n 313 a drops 1";
    assert_eq!(found(late), ["C2 broken at 312 for 1"]);
}

#[test]
fn c2_who_sleeps_believes_nothing() {
    let story = "300 a sleeps\n 320 a wakes\n 325 a drops 1";
    assert_eq!(found(&hold(story)), ["C2 within L5 at 311 for 14"]);
    let story = "300 a sleeps\n 320 a wakes\n 331 a drops 1";
    assert_eq!(found(&hold(story)), ["C2 beyond L5 at 330 for 1"]);
}

#[test]
fn c3_who_loses_is_told_by_the_end_of_the_lease() {
    let hold = |events: &str| hold(events).replace("asks 1 shop", "asks 1 shop lease 300");
    assert_eq!(found(&hold("311 a loses 1 expired")), NOTHING);
    assert_eq!(found(&hold("311.000001 a loses 1 expired")), ["C3 broken at 311 for 0.000001"]);
    // Nobody is told at all.
    assert_eq!(found(&hold("")), ["C3 broken at 311 for 29"]);
    assert_eq!(found(&hold("320 a dies")), ["C3 broken at 311 for 9"]);
    assert_eq!(found(&hold("311 a dies")), NOTHING);
    // What is given back after it is lost is lost.
    assert_eq!(found(&hold("312 a loses 1 expired\n 313 a drops 1")), ["C3 broken at 311 for 1"]);
    assert_eq!(found(&hold("312 a drops 1\n 313 a loses 1 expired")), ["C2 broken at 311 for 1"]);
}

/// `a` is put out by force, as is seen at `seen`; `b` has it from 51 on.
fn seen_late(seen: &str, more: &str) -> String {
    format!(
        "{more}\n 10 a asks 1 shop\n 11 server grants a:1\n 12 a has 1\n
         40 b asks 2 shop\n {seen} server removes a:1 by force\n {seen} server grants b:2\n 51 b has 2\n
         60 a loses 1 removed\n 70 b drops 2\n 71 server releases b:2"
    )
}

#[test]
fn c1_the_end_of_a_hold_may_be_seen_late() {
    let found = |seen: &str, more: &str| {
        found_with(&seen_late(seen, more), |bounds| bounds.clock_error = 3 * MS)
    };
    let within = ["C1 within L4 at 51 for 9", "C3 within L4 at 57 for 3"];
    assert_eq!(found("54", ""), within);
    assert_eq!(found("54.000001", "")[0], "C1 broken at 51 for 9");
    // Nobody tells Redisson's users; what they believe ends with the hold.
    assert_eq!(found("54", "0 a starts redisson"), NOTHING);
    assert_eq!(found("54.000001", "0 a starts redisson")[0], "C1 broken at 51 for 0.000001");
    // The hold of the other one may end soon, too.
    let short = seen_late("50", "").replace("70 b drops 2\n 71 server", "52 b drops 2\n 53 server");
    let short = found_with(&short, |bounds| bounds.clock_error = 3 * MS);
    assert_eq!(short, ["C1 within L4 at 51 for 1", "C3 within L4 at 53 for 7"]);
    // A hold that its user gave back is no excuse.
    let released = seen_late("54", "").replace("removes a:1 by force", "releases a:1");
    let released = found_with(&released, |bounds| bounds.clock_error = 3 * MS);
    assert_eq!(released[0], "C1 broken at 51 for 9");
}

#[test]
fn c3_the_lead_of_a_sleeper_is_none() {
    let lead = |sleep: &str| {
        let story = hold(&format!("{sleep}\n 330 a loses 1 expired"));
        Story::told(&story).judged().figures.least_lead
    };
    assert_eq!(lead("310 a sleeps\n 328 a wakes"), None);
    assert_eq!(lead("200 a sleeps\n 228 a wakes"), Some(-19 * MS as i64));
}

#[test]
fn c3_the_least_lead_is_told() {
    let lead = |told: &str| {
        Story::told(&hold(&format!("{told} a loses 1 expired"))).judged().figures.least_lead
    };
    assert_eq!(lead("308"), Some(3 * MS as i64));
    assert_eq!(lead("312"), Some(-(MS as i64)));
    let story = "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n 30 server removes a:1\n 40 a loses 1 removed";
    assert_eq!(Story::told(story).judged().figures.least_lead, None);
    let released = "10 a asks 1 shop\n 11 server grants a:1 until 311\n 12 a has 1\n 307 a loses 1 expired\n 308 server releases a:1
        310 a asks 2 shop\n 311 server grants a:2 until 611\n 312 a has 2\n 606 a loses 2 expired";
    assert_eq!(Story::told(released).judged().figures.least_lead, Some(4 * MS as i64));
}

#[test]
fn redisson_tells_nobody() {
    let story = |then: &str| {
        format!(
            "0 j starts redisson\n 10 j asks 1 shop lease 100\n 11 server grants j:7 until 111\n 12 j has 1 id j:7
             112 b asks 1 shop\n {then}\n 120 b drops 1\n 130 j drops 1"
        )
    };
    assert_eq!(found(&story("113 server grants b:1\n 114 b has 1")), NOTHING);
    // Without a witness its lease counts from the moment it asked.
    assert_eq!(found_blindly(&story("112 b has 1")), NOTHING);
    assert_eq!(
        found_blindly(&story("112 b has 1").replace("112 b", "109 b")),
        ["C1 broken at 109 for 1"]
    );
    let watched = story("112 b has 1").replace("lease 100", "");
    assert_eq!(found_blindly(&watched), ["C1 broken at 112 for 8"]);
}

/// One name on three servers. This is what the two have, and what happens between.
fn majority(first: &str, between: &str, second: &str, told: &str) -> String {
    let grants = |who: &str, on: &str, at: &str| {
        let servers = on.split(',').map(|at| at.parse::<u32>().unwrap() + 1);
        servers.map(|n| format!("{at} s{n} grants {who}:1 of m\n")).collect::<String>()
    };
    format!(
        "0 s1 reigns\n 0 s2 reigns\n 0 s3 reigns
         10 a asks 1 s1/m,s2/m,s3/m majority
         {}
         12 a has 1 on {first}
         {between}
         60 b asks 1 s3/m,s1/m,s2/m majority
         {}
         62 b has 1 on {}
         {told}
         200 b unlocks 1
         202 b unlocked 1",
        grants("a", first, "11"),
        grants("b", second, "61"),
        second
            .split(',')
            .map(|at| ["1", "2", "0"][at.parse::<usize>().unwrap()])
            .collect::<Vec<_>>()
            .join(","),
    )
}

#[test]
fn c13_two_majorities() {
    let told = "190 a loses 1 removed";
    let one_lost = majority("0,1", "50 s2 removes a:1 of m by restart", "1,2", told);
    assert_eq!(found(&one_lost), ["C3 within L4 at 50 for 140", "C13 within L4 at 62 for 128"]);
    let late =
        majority("0,1", "50 s2 removes a:1 of m by restart", "1,2", "190.5 a loses 1 removed");
    assert_eq!(found(&late), ["C3 beyond L4 at 50 for 140.5", "C13 beyond L4 at 62 for 128.5"]);
    // It had one to spare.
    let spare = |on: &str, then: &str| {
        format!(
            "0 s3 reigns\n 10 a asks 1 s1/m,s2/m,s3/m majority\n 11 s1 grants a:1 of m\n 11 s2 grants a:1 of m
             20 s3 grants a:1 of m\n 20 a has 1 on {on}\n {then}\n 50 s2 removes a:1 of m by restart\n 190.5 a drops 1"
        )
    };
    assert_eq!(found(&spare("0,1,2", "")), NOTHING);
    assert_eq!(
        found(&spare("0,1", "")),
        ["C2 beyond L4 at 50 for 140.5", "C6 broken at 90 for 100.5"]
    );
    assert_eq!(found(&spare("0,1", "30 a joins 1 2 a:1").replace("20 a has", "12 a has")), NOTHING);
    let two = majority(
        "0,1,2",
        "50 s2 removes a:1 of m by restart\n 51 s3 removes a:1 of m by restart",
        "1,2",
        told,
    );
    assert_eq!(found(&two), ["C3 within L4 at 51 for 139", "C13 within L4 at 62 for 128"]);
}

#[test]
fn c13_more_than_half() {
    let story = |servers: &str, on: &str| {
        let places: Vec<_> = servers.split(',').map(|n| format!("r{n}/m")).collect();
        found_blindly(&format!(
            "10 a asks 1 {} majority\n 11 a has 1 on {on}\n 12 a drops 1",
            places.join(",")
        ))
    };
    let few = ["C0 broken at 11 for 0"];
    assert_eq!(story("1,2,3,4,5", "0,2,4"), NOTHING);
    assert_eq!(story("1,2,3,4,5", "0,2"), few);
    assert_eq!(story("1,2,3,4", "0,1,2"), NOTHING);
    assert_eq!(story("1,2,3,4", "0,1"), few);
    assert_eq!(story("1", "0"), NOTHING);
}

#[test]
fn c13_without_a_witness() {
    let two = majority("0,1", "", "1,2", "70 a drops 1");
    assert_eq!(found_blindly(&two), ["C13 broken at 62 for 8"]);
    assert_eq!(found_blindly(&majority("0,1", "", "1,2", "62 a drops 1")), NOTHING);
    // Other servers, or one of them alone, are another lock.
    assert_eq!(
        found_blindly(
            &two.replace("s3/m,s1/m,s2/m majority", "s1/m").replace("b has 1 on 2,0", "b has 1")
        ),
        NOTHING
    );
    let reads = two.replace("asks 1", "asks 1 reading");
    assert_eq!(found_blindly(&reads), NOTHING);
}

/// A guard whose hold is released at this moment, and of which its user is told at once.
fn granted_late(over: &str) -> String {
    format!(
        "10 a asks 1 shop\n 11 server grants a:1\n {over} server releases a:1\n 30 a has 1\n 30 a loses 1 removed"
    )
}

#[test]
fn c2_granted_when_it_was_over() {
    assert_eq!(found(&granted_late("30")), NOTHING);
    assert_eq!(found(&granted_late("29.999999")), ["C2 broken at 30 for 0"]);
    let removed = granted_late("29").replace("releases a:1", "removes a:1 by eviction");
    assert_eq!(found(&removed), NOTHING);
    // Nobody polled it.
    let idle = |to: &str| found(&format!("{}\n 12 a idles 1\n {to} a polls 1", granted_late("20")));
    assert_eq!(idle("20"), ["C2 broken at 30 for 0"]);
    assert_eq!(idle("20.000001"), NOTHING);
}
