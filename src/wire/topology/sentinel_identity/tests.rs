mod guesses;

use std::time::Duration;

use super::*;
use crate::wire::topology::{
    failover_epoch::FailoverEpoch,
    slots::{ALL_SLOTS, Claim, Server},
};

/// Most of three.
const MOST: usize = 2;

/// It knows sentinels of these ids, of which the first one is its own, and names the master on that port.
fn says(ids: &str, port: u16) -> View {
    let master = Server { address: Address::new("h", port), id: None };
    let claim = Claim { epoch: 1, slots: ALL_SLOTS, master };
    let ids: Vec<_> = ids.chars().map(|id| NodeId::new(&id.to_string())).collect();
    let own = ids.first().cloned();
    View { claims: vec![claim], ids: ids.into_iter().collect(), own, ..View::default() }
}

/// It replaces that master.
fn replaces(ids: &str, port: u16) -> View {
    let leaving = Some(Address::new("h", port));
    View { leaving, claims: Vec::new(), ..says(ids, port) }
}

/// Which of the views are ours, as digits.
struct Seen(SentinelIdentity, Instant);

impl Seen {
    fn new() -> Self {
        Self(SentinelIdentity::default(), Instant::now())
    }

    /// The first three come from configured addresses.
    fn ours(&mut self, views: &[View]) -> Option<String> {
        self.ours_of(views, 3, MOST)
    }

    /// The first `configured` come from configured addresses, of which `most` are most.
    fn ours_of(&mut self, views: &[View], configured: usize, most: usize) -> Option<String> {
        let are_configured: Vec<_> = (0..views.len()).map(|at| at < configured).collect();
        let answers = Answers { views, are_configured: &are_configured, most };
        let ours = self.0.ours(answers, self.1).ok()?;
        let chosen = views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
        if let Some(master) = common_master(chosen.map(|(view, _)| view)) {
            self.0.uses(&master.clone());
        }
        Some(ours.into_iter().map(|is_ours| if is_ours { '1' } else { '0' }).collect())
    }

    fn later(&mut self, by: Duration) {
        self.1 += by;
    }
}

#[track_caller]
fn assert_ours(seen: &mut Seen, views: &[View], expected: impl Into<Option<&'static str>>) {
    assert_eq!(seen.ours(views).as_deref(), expected.into(), "{views:?}");
}

#[test]
fn one_that_knows_none_of_the_others_is_a_stranger() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("x", 2)], "110");
    // One that names another master, and has forgotten the others, may have been moved.
    assert_ours(seen, &[says("x", 2), says("c", 3)], None);
    assert_ours(seen, &[says("x", 2), says("bc", 3)], "01");
    assert_ours(seen, &[says("x", 2)], None);
    let views = [says("xyz", 2), says("xyz", 2), says("cd", 3)];
    assert_ours(seen, &views, "001");
    // They are replaced one after the other.
    assert_ours(seen, &[says("de", 3), says("x", 2)], "10");
    assert!(seen.0.may_be_ours(&says("e", 1)) && !seen.0.may_be_ours(&says("x", 1)));
}

#[test]
fn those_that_replace_a_master_are_known_as_ever() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[replaces("abc", 1), replaces("abc", 1)], "11");
    assert_ours(seen, &[replaces("abc", 1), says("abc", 2), says("x", 3)], "110");
    assert_ours(seen, &[replaces("abc", 2)], "1");
}

#[test]
fn a_stranger_that_answers_first_gives_way_to_most() {
    let seen = &mut Seen::new();
    let (x, a) = (|| says("xyz", 2), || says("abc", 1));
    assert_ours(seen, &[x()], "1");
    assert_ours(seen, &[x(), a()], "10");
    assert!(!seen.0.is_replaced());
    // Its peers are there, too.
    assert_ours(seen, &[x(), a(), a(), x(), x()], "01100");
    assert!(seen.0.is_replaced());
    assert_ours(seen, &[x(), x(), a()], "001");
    assert!(!seen.0.is_replaced());
}

#[test]
fn those_that_have_not_met_are_ours_if_they_name_the_same_master() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("a", 1), says("x", 2)], None);
    for _ in 0..2 {
        assert_ours(seen, &[says("a", 1), says("b", 1), says("c", 1)], "111");
    }
    assert_ours(seen, &[says("a", 1), says("b", 1)], "11");
    assert_ours(seen, &[says("ab", 2), says("ab", 2), says("d", 1)], "110");
}

#[test]
fn those_that_are_set_up_anew_are_ours_at_once_if_they_name_the_master_before() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("x", 1)], "1");
    assert_ours(seen, &[says("abc", 2), says("xyz", 2)], "11");
    assert_ours(seen, &[says("pq", 3), says("pq", 3)], None);
    seen.later(FORGOTTEN - Duration::from_millis(1));
    assert_ours(seen, &[says("pq", 3), says("pq", 3)], None);
    seen.later(Duration::from_millis(1));
    assert_ours(seen, &[says("pq", 3), says("pq", 3)], "11");
    assert_ours(seen, &[says("pq", 3), says("pq", 3), says("abc", 2)], "110");
}

#[test]
fn those_that_were_away_come_first_again_if_they_are_most() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("x", 2)], None);
    // Silence is no answer of theirs.
    assert_ours(seen, &[], "");
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("x", 2)], "1");
    assert_ours(seen, &[says("x", 2), says("abc", 1), says("abc", 1)], "011");
    // Others had joined by the master that they named.
    assert_ours(seen, &[says("y", 1)], "1");
    assert_ours(seen, &[says("y", 1)], "1");
    assert_ours(seen, &[says("abc", 3), says("abc", 3), says("y", 1)], "110");
}

#[test]
fn one_that_was_moved_to_another_deployment_takes_nobody_along() {
    let seen = &mut Seen::new();
    let a = || says("abc", 1);
    assert_ours(seen, &[a(), a(), a()], "111");
    let c = || says("cyz", 2);
    assert_ours(seen, &[a(), a(), c(), c(), c()], "11000");
    assert_ours(seen, &[c()], None);
    assert_ours(seen, &[c(), c(), a()], "001");
}

/// Redis forgets none before `SENTINEL RESET`.
#[test]
fn one_that_lists_many_that_are_gone_makes_no_strangers_of_the_others() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("abcpqrst", 1)], "111");
    assert_ours(seen, &[says("abc", 2), says("abc", 2), replaces("abcpqrst", 1)], "111");
    assert_ours(seen, &[says("abc", 2), says("abc", 2), says("abcpqrst", 1)], "111");
}

#[test]
fn one_that_names_the_same_master_is_known_when_it_has_met_the_others() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("xyz", 1)], "111");
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("xyz", 9)], "110");
}

#[test]
fn those_in_whose_place_others_were_believed_come_first_again() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("x", 2)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("x", 2)], "1");
    assert!(seen.0.is_a_guess());
    assert_ours(seen, &[says("x", 2), says("abc", 1)], "01");
    assert!(!seen.0.is_a_guess());
    assert_ours(seen, &[says("x", 2), says("abc", 1)], "01");
}

/// As after `SENTINEL RESET`.
#[test]
fn those_that_have_forgotten_each_other_are_ours() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("abc", 1)], "111");
    assert_ours(seen, &[says("a", 2), says("b", 2), says("c", 1)], "111");
}

/// All were reset at once, as by a script. It is as if one of them were ahead. Most of them tell.
#[test]
fn one_that_was_moved_is_a_stranger_also_while_nobody_knows_another_one() {
    let seen = &mut Seen::new();
    let a = || says("abc", 1);
    assert_ours(seen, &[a(), a(), a()], "111");
    assert_ours(seen, &[a(), a(), says("cxyz", 2)], "110");
    assert_ours(seen, &[says("c", 2), says("a", 1), says("b", 1)], "011");
    assert_ours(seen, &[says("c", 2), says("c", 2), says("b", 1)], "001");
    assert_ours(seen, &[says("cx", 2), says("ab", 1), says("ba", 1)], "011");
}

/// They are older than Redis 6.2, or their user may not ask for it.
#[test]
fn those_that_do_not_tell_their_ids_are_all_believed() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[], "");
    for _ in 0..2 {
        assert_ours(seen, &[says("", 1), says("", 2)], "11");
    }
    assert_ours(seen, &[says("ab", 1), says("", 2), says("b", 1)], "111");
    assert_ours(seen, &[says("", 1)], "1");
    assert_ours(seen, &[says("xy", 3), says("xy", 3), says("", 1)], "001");
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("xy", 3), says("xy", 3), says("", 1)], "111");
    assert_ours(seen, &[says("ab", 3), says("", 2), says("x", 1)], "110");
}

#[test]
fn one_that_was_moved_joins_no_deployments_for_a_client_that_connects() {
    let mut views = [says("abc", 1), says("bac", 1), says("cyz", 2)];
    views[2].claims[0].epoch = 7;
    assert_ours(&mut Seen::new(), &views, "110");
    let mut views: Vec<_> = views.into_iter().take(2).collect();
    FailoverEpoch::default().check(&mut views, MOST, Instant::now()).unwrap();
    assert_eq!(common_master(&views), Some(&Address::new("h", 1)));
}

#[test]
fn one_that_is_moved_is_a_stranger_while_it_meets_its_new_peers() {
    for first in ["c", "cy"] {
        let seen = &mut Seen::new();
        let a = || says("abc", 1);
        assert_ours(seen, &[a(), a(), a()], "111");
        assert_ours(seen, &[a(), a(), says(first, 2)], "110");
        assert_ours(seen, &[a(), a(), says("cy", 2)], "110");
        assert_ours(seen, &[says("yc", 2), a(), says("cyz", 2)], "010");
        assert_ours(seen, &[says("cy", 2)], None);
    }
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    // It alone is there. It may also have forgotten the others.
    assert_ours(seen, &[says("c", 2)], None);
    assert_ours(seen, &[says("x", 2), says("c", 2)], None);
    assert_ours(seen, &[says("cyz", 2)], None);
    assert_ours(seen, &[says("cyz", 2), says("abc", 1)], "01");
}

#[test]
fn those_that_were_away_come_first_again_although_one_of_them_was_moved() {
    for guess in ["cyz", "xyc"] {
        let seen = &mut Seen::new();
        let (a, c) = (|| says("abc", 1), || says("cyz", 2));
        assert_ours(seen, &[a(), a(), a()], "111");
        assert_ours(seen, &[says(guess, 2)], None);
        seen.later(FORGOTTEN);
        assert_ours(seen, &[says(guess, 2)], "1");
        assert_ours(seen, &[c()], "1");
        assert!(seen.0.is_a_guess() && seen.0.is_unsure());
        assert_ours(seen, &[a(), a(), c()], "110");
    }
}

#[test]
fn those_from_before_come_first_again_after_one_that_was_set_up_anew() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("y", 1)], "1");
    assert_ours(seen, &[says("y", 1)], "1");
    assert_ours(seen, &[says("abc", 2), says("y", 1)], "10");
    assert!(!seen.0.is_replaced(), "their epochs go on");
}

#[test]
fn those_that_were_away_are_awaited_during_a_guess() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("xyz", 2)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("xyz", 2)], "1");
    let is = |ids| (seen.0.is_awaited(&says(ids, 1)), seen.0.may_be_ours(&says(ids, 1)));
    assert_eq!(["abc", "xyz", "pq"].map(is), [(true, true), (false, true), (false, false)]);
}

#[test]
fn there_are_as_many_as_have_answered_lately_whoever_answers_now() {
    let seen = &mut Seen::new();
    assert_eq!(seen.0.count(1), None);
    assert_ours(seen, &[says("abcpqr", 1), says("bac", 1), says("cab", 1)], "111");
    assert_ours(seen, &[says("cab", 2)], "1");
    assert_eq!((seen.0.count(1), seen.0.count(2)), (Some(3), Some(3)));
    seen.later(CATCH_UP);
    assert_ours(seen, &[says("cab", 2)], "1");
    assert_eq!((seen.0.count(1), seen.0.count(2)), (Some(1), Some(2)));
}

#[test]
fn an_answer_of_others_counts_as_that_once() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("x", 2)], "1");
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert!(seen.0.is_replaced());
    assert_ours(seen, &[], "");
    assert!(!seen.0.is_replaced());
}

#[test]
fn one_that_tells_no_id_does_not_contradict_those_that_do() {
    let seen = &mut Seen::new();
    let a = || says("abc", 1);
    assert_ours(seen, &[a(), a()], "11");
    assert_ours(seen, &[a(), says("", 2)], "10");
    assert_ours(seen, &[says("", 1)], "1");
    assert_ours(seen, &[says("", 2)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("", 2)], "1");
    assert!(seen.0.is_a_guess());
    assert_ours(seen, &[a(), a(), says("", 2)], "110");
}

#[test]
fn those_that_are_replaced_one_by_one_are_ours_also_if_the_master_is_replaced_meanwhile() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("bac", 1), says("cab", 1)], "111");
    assert_ours(seen, &[says("d", 1), says("bac", 1), says("cab", 1)], "111");
    assert_ours(seen, &[says("dbc", 2), says("bacd", 1), replaces("cabd", 1)], "111");
    assert_ours(seen, &[says("dbc", 2), says("e", 2), says("cabde", 2)], "111");
    assert_ours(seen, &[says("edc", 3)], "1");
    // The only one that answers has an empty state, and then meets those from before.
    assert_ours(seen, &[says("f", 3)], "1");
    assert!(seen.0.is_a_guess());
    assert_ours(seen, &[says("fde", 4)], "1");
    assert!(!seen.0.is_a_guess() && !seen.0.is_replaced());
}
