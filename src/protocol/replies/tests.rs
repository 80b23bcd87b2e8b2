use super::{AcquireReply::Held, *};
use crate::owner::Identity;

fn text(text: &str) -> Reply {
    Reply::Bytes(text.to_owned().into())
}

fn array(replies: impl IntoIterator<Item = Reply>) -> Reply {
    Reply::Array(replies.into_iter().collect())
}

fn is_unreadable<T>(answer: Result<T, WireError>) -> bool {
    matches!(answer, Err(WireError::Refused(_)))
}

#[test]
fn a_reply_says_whether_the_hold_was_entered_anew_or_the_copy_was_late() {
    assert_eq!(reentered(Reply::Int(1)).unwrap(), Timely::InTime(Reentry::Granted));
    assert_eq!(reentered(Reply::Int(0)).unwrap(), Timely::InTime(Reentry::Gone));
    assert_eq!(reentered(array([Reply::Int(7)])).unwrap(), Timely::Late(7));
    assert_eq!(forced(Reply::Int(1)).unwrap(), Timely::InTime(Forced::Freed));
    assert_eq!(forced(Reply::Int(0)).unwrap(), Timely::InTime(Forced::NobodyHeld));
    assert_eq!(forced(array([Reply::Int(7)])).unwrap(), Timely::Late(7));
}

#[test]
fn a_time_that_no_script_of_ours_gives_is_no_time() {
    let odd = [
        Reply::Nil,
        Reply::Int(2),
        array([]),
        array([Reply::Int(-1)]),
        array([Reply::Int(7), Reply::Int(7)]),
        array([text("7")]),
    ];
    for reply in odd {
        assert!(is_unreadable(reentered(reply.clone())), "{reply:?}");
        assert!(is_unreadable(forced(reply.clone())), "{reply:?}");
        assert!(is_unreadable(late::<()>(&reply)), "{reply:?}");
    }
}

#[test]
fn a_release_and_an_extension_count_those_who_listen() {
    assert_eq!(released(Reply::Int(0)).unwrap(), None);
    assert_eq!(released(Reply::Int(1)).unwrap(), Some(0));
    assert_eq!(released(Reply::Int(4)).unwrap(), Some(3));
    assert!(is_unreadable(released(Reply::Int(-1))));
    assert_eq!(extended(Reply::Int(0)).unwrap(), Extended::Gone);
    assert_eq!(extended(Reply::Int(-1)).unwrap(), Extended::Yes(None), "nobody was counted");
    assert_eq!(extended(Reply::Int(1)).unwrap(), Extended::Yes(Some(0)));
    assert_eq!(extended(Reply::Int(4)).unwrap(), Extended::Yes(Some(3)));
    assert!(is_unreadable(extended(Reply::Int(-2))));
}

#[test]
fn replicas_confirm_only_what_changed_something() {
    assert!(AcquireReply::needs_confirmation(&Reply::Nil));
    assert!(!AcquireReply::needs_confirmation(&Reply::Int(100)));
    assert!(Reentry::needs_confirmation(&Reply::Int(1)));
    assert!(!Reentry::needs_confirmation(&Reply::Int(0)));
}

#[test]
fn the_time_that_is_left_of_a_lock_may_have_no_end() {
    assert_eq!(AcquireReply::held(1_500), Held(Some(Duration::from_millis(1_500))));
    assert_eq!(AcquireReply::held(-1), Held(None));
}

#[test]
fn one_renewal_may_be_refused_among_others() {
    let reply = [1, 0, -1].map(Reply::Int).into_iter().chain([text("OOM command not allowed")]);
    let answers = renewed(array(reply), 4).unwrap();
    let read: Vec<_> = answers[..3].iter().map(|answer| *answer.as_ref().unwrap()).collect();
    assert_eq!(read, [Renewed::Yes, Renewed::Gone, Renewed::Taken]);
    assert!(matches!(answers[3], Err(WireError::NotNow(_))), "{answers:?}");
    assert!(is_unreadable(renewed(array([Reply::Int(2)]), 1)));
    assert!(is_unreadable(renewed(array([Reply::Int(1)]), 2)));
}

#[test]
fn one_number_says_that_all_holds_are_renewed() {
    let answers = renewed(Reply::Int(2), 2).unwrap();
    assert!(matches!(answers[..], [Ok(Renewed::Yes), Ok(Renewed::Yes)]), "{answers:?}");
    for of_others in [3, 1, 0, -1] {
        assert!(is_unreadable(renewed(Reply::Int(of_others), 2)));
    }
}

#[test]
fn a_snapshot_names_the_holders_and_those_in_line() {
    let me = Identity::new().next();
    let writer = format!("{}:write", me.as_str());
    let fields = array(["mode", "read", me.as_str(), "2", &writer, "x"].map(text));
    let queue = array(["a", "50", "b", "never"].map(text));
    let (three, five) = (Reply::Int(3), Reply::Int(5));
    let seen = inspected(array([Reply::Int(300), fields, three, queue, five])).unwrap();
    assert_eq!((seen.unread_fields(), seen.unread_waiters()), (0, 3));
    assert_eq!((seen.pttl, seen.is_free(), seen.has(&me)), (300, false, true));
    assert!(!seen.has(&Identity::new().next()));
    assert_eq!(seen.queue, [("a".to_owned(), Some(50)), ("b".to_owned(), None)]);
    let holder = |id: &str, count, shares| SeenHolder { id: id.to_owned(), count, shares };
    let sides = [holder(me.as_str(), 2, true), holder(&writer, 0, false)];
    assert_eq!(seen.holders(true), sides);
    let one_side =
        [holder("mode", 0, false), holder(me.as_str(), 2, false), holder(&writer, 0, false)];
    assert_eq!(seen.holders(false), one_side, "a field may have any name");
}

#[test]
fn a_snapshot_of_a_free_lock_has_no_line() {
    let seen = inspected(array([Reply::Int(-2), array([])])).unwrap();
    assert!(seen.is_free() && seen.queue.is_empty() && seen.holders(true).is_empty());
    assert!(is_unreadable(inspected(array([Reply::Int(-2)]))));
    assert!(is_unreadable(inspected(array([Reply::Int(-2), array([]), array([])]))));
    assert!(is_unreadable(inspected(array([Reply::Int(1), array([text("alone")])]))));
}

#[test]
fn a_lock_of_which_a_part_was_read_is_not_free() {
    let seen = inspected(array([Reply::Int(-1), array([]), Reply::Int(7)])).unwrap();
    assert_eq!((seen.is_free(), seen.unread_fields(), seen.unread_waiters()), (false, 7, 0));
}

#[test]
fn a_token_is_a_number_in_text() {
    assert_eq!(token(&text("18446744073709551615")).unwrap(), u64::MAX);
    assert!(is_unreadable(token(&text("-1"))));
    assert!(is_unreadable(token(&Reply::Nil)));
}
