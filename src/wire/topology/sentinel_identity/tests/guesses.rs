//! Others were believed in place of those from before.

use super::*;

#[test]
fn one_that_lags_and_lists_one_from_before_does_not_shut_out_its_peers() {
    let seen = &mut Seen::new();
    let mut ask = |views: &[View], expected: &str| {
        let are_configured: Vec<_> = (0..views.len()).map(|at| at == 0).collect();
        let answers = Answers { views, are_configured: &are_configured, most: 1 };
        let ours = seen.0.ours(answers, seen.1).unwrap();
        let digits: String = ours.iter().map(|is| if *is { '1' } else { '0' }).collect();
        assert_eq!(digits, expected, "{views:?}");
        seen.0.uses(&Address::new("h", 1));
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
