//! Others were believed in place of those from before.

use super::*;

#[test]
fn one_that_lags_and_lists_one_from_before_does_not_shut_out_its_peers() {
    let seen = &mut Seen::new();
    let mut ask = |views: &[View], expected: &str| {
        assert_eq!(seen.ours_of(views, 1, 1).as_deref(), Some(expected), "{views:?}");
    };
    ask(&[says("abc", 1), says("bac", 1), says("cab", 1)], "111");
    ask(&[says("dc", 1)], "1");
    ask(&[says("dcef", 1), says("edf", 1), says("fde", 1)], "111");
    ask(&[says("dcef", 1), says("edf", 2), says("fde", 2)], "111");
}

/// The others count epochs of their own.
#[test]
fn a_return_from_others_is_told_although_some_were_replaced_meanwhile() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("abc", 1)], "111");
    assert_ours(seen, &[says("xyz", 2)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("xyz", 2)], "1");
    assert!(seen.0.is_replaced());
    assert_ours(seen, &[says("ade", 1)], "1");
    assert!(seen.0.is_replaced());
}

#[test]
fn a_return_over_several_guesses_is_told_if_there_were_others_among_them() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
    assert_ours(seen, &[says("y", 1)], "1");
    assert_ours(seen, &[says("z", 3)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("z", 3)], "1");
    assert_ours(seen, &[says("abc", 1), says("z", 3)], "10");
    assert!(seen.0.is_replaced());
}

#[test]
fn one_that_tells_no_id_follows_a_failover_with_those_that_do() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("abc", 1), says("", 1)], "111");
    assert_ours(seen, &[says("abc", 2), says("abc", 2), says("", 2)], "111");
}

/// They may have been moved. One alone is not even believed itself.
#[test]
fn one_that_tells_no_id_is_not_believed_by_the_word_of_doubtful_ones() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abcde", 1), says("cabde", 1), says("dabce", 1)], "111");
    assert_ours(seen, &[says("b", 2), says("a", 2), says("", 2)], "110");
    assert_ours(seen, &[says("b", 3), says("", 3)], None);
}

/// a and b were moved, and reset.
#[test]
fn one_that_is_of_both_takes_only_its_own_group_along() {
    let seen = &mut Seen::new();
    let mut ask = |views: &[View]| seen.ours_of(views, 1, 1).unwrap();
    ask(&[says("abc", 1), says("bac", 1), says("cab", 1)]);
    ask(&[says("dc", 1)]);
    assert_eq!(ask(&[says("dcef", 1), says("a", 2), says("b", 2)]), "100");
}

#[test]
fn doubtful_ones_from_before_do_not_come_back_against_those_known() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("bac", 1)], "11");
    // Set up anew with the same master.
    assert_ours(seen, &[says("gh", 1)], "1");
    assert_ours(seen, &[says("gh", 1), says("hg", 1)], "11");
    assert_ours(seen, &[says("hg", 1), says("b", 2)], "10");
    assert_ours(seen, &[says("hg", 1), says("a", 2), says("b", 2)], "100");
}

/// Those from before were reset. The one that names another master may be ahead, or may have been moved. It is
/// believed when they have met.
#[test]
fn a_doubtful_one_from_before_comes_back_if_it_names_the_master_before() {
    let seen = &mut Seen::new();
    assert_ours(seen, &[says("abc", 1), says("bac", 1), says("cab", 1)], "111");
    assert_ours(seen, &[says("bxy", 2), says("xby", 2)], None);
    seen.later(FORGOTTEN);
    assert_ours(seen, &[says("bxy", 2), says("xby", 2)], "11");
    let views = [says("a", 1), says("c", 3), says("bxy", 2), says("xby", 2)];
    assert_ours(seen, &views, "1000");
    assert_ours(seen, &[says("ac", 3), says("ca", 3), says("bxy", 2), says("xby", 2)], "1100");
}
