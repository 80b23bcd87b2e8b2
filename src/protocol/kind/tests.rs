use std::time::Duration;

use super::*;
use crate::{
    config::Config,
    owner::Identity,
    protocol::{AcquireReply, Order, Part, ScriptArgs, Timely, Wish, combine, combined},
    wire::{Arg, Invocation, Reply, WireError},
};

fn on(kind: LockKind) -> Box<dyn Protocol> {
    let (_, settings) = Config::default().into_settings().unwrap();
    kind.protocol("l", &settings)
}

#[test]
fn waiters_listen_to_the_channels_of_redisson() {
    let id = Identity::new().next();
    let channel = |kind| on(kind).channel(&id).map(|channel| channel.into_owned());
    let plain = Some("redisson_lock__channel:{l}".to_owned());
    assert_eq!(channel(LockKind::Reentrant), plain);
    assert_eq!(channel(LockKind::NonReentrant), plain);
    assert_eq!(channel(LockKind::Fenced), plain);
    assert_eq!(channel(LockKind::Spin), None);
    assert_eq!(channel(LockKind::Plain), Some("redisson_lock_plain:{l}".to_owned()));
    let polling: Vec<_> = LockKind::ALL.into_iter().filter(|kind| on(*kind).polls()).collect();
    assert_eq!(polling, [LockKind::Plain]);
    let own = Some(format!("redisson_lock__channel:{{l}}:{}", id.as_str()));
    assert_eq!(channel(LockKind::Fair), own);
    assert_eq!(channel(LockKind::NonReentrantFair), own);
    let both = Some("redisson_rwlock:{l}".to_owned());
    assert_eq!([channel(LockKind::Read), channel(LockKind::Write)], [both.clone(), both]);
}

#[test]
fn a_waiter_of_a_fair_lock_asks_three_times_before_its_place_is_lost() {
    let (_, settings) = Config::default().into_settings().unwrap();
    let Order::Server { heartbeat } = on(LockKind::Fair).order() else { panic!("a line") };
    assert_eq!(heartbeat, (settings.fair_wait * 3 / 10));
    assert!(heartbeat > Duration::ZERO && 3 * heartbeat < settings.fair_wait);
}

#[test]
fn acquisitions_and_releases_of_plain_locks_travel_together() {
    let id = Identity::new().next();
    let args = ScriptArgs { lease: 1, not_after: 2 };
    let calls = |kind| {
        let on = on(kind);
        let acquire = on.acquire(&id, args, &Wish::default());
        [on.release(&id, 0), on.release(&id, 1), acquire, on.inspect()]
    };
    let parts = |kind| calls(kind).each_ref().map(Part::of);
    let all = [Some(Part::Release), Some(Part::Lower), Some(Part::Acquire), None];
    assert_eq!(parts(LockKind::Reentrant), all);
    assert_eq!(parts(LockKind::Spin), all);
    assert_eq!(parts(LockKind::Fair), [None; 4]);
    assert_eq!(parts(LockKind::Write), [None; 4]);
    let [release, lower, acquire, _] = calls(LockKind::Reentrant);
    let ints = |acquires: &[Invocation]| -> Vec<_> {
        let calls = [&[release.clone(), lower.clone()], acquires].concat();
        let Invocation { keys, args, .. } = combine(&calls);
        assert_eq!(keys, calls.len());
        args.iter().filter_map(Arg::as_int).collect()
    };
    let with = |lease, not_after| {
        let args = ScriptArgs { lease, not_after };
        on(LockKind::Reentrant).acquire(&id, args, &Wish::default())
    };
    assert_eq!(ints(&[]), [1, 2, 0, 1]);
    assert_eq!(ints(&[acquire.clone(), with(1, 1)]), [1, 2, 1, 1, 1], "one lease of all");
    assert_eq!(ints(&[acquire, with(3, 4)]), [1, 2, 2, 1, 1, 3], "the earliest not-after");
}

#[test]
fn each_call_that_travelled_with_others_has_its_answer() {
    let text = |text: &str| Reply::Bytes(text.to_owned().into());
    let reply = Reply::Array(vec![Reply::Nil, text("WRONGTYPE"), Reply::Int(5)]);
    let answers = combined(reply.clone(), 3).unwrap();
    assert_eq!(answers[0].as_ref().unwrap(), &Reply::Nil);
    assert!(matches!(answers[1], Err(WireError::WrongType)));
    assert_eq!(answers[2].as_ref().unwrap(), &Reply::Int(5));
    for calls in [2, 4] {
        assert!(matches!(combined(reply.clone(), calls), Err(WireError::Refused(_))));
    }
    assert!(combined(Reply::Int(1), 1).is_err());
}

#[test]
fn kinds_differ_in_who_may_hold_them_again_and_beside_whom() {
    let reentrant: Vec<_> = LockKind::ALL.into_iter().filter(|kind| !kind.is_reentrant()).collect();
    assert_eq!(reentrant, [LockKind::NonReentrant, LockKind::NonReentrantFair, LockKind::Plain]);
    let sides: Vec<_> = LockKind::ALL.into_iter().filter(|kind| kind.is_one_side()).collect();
    assert_eq!(sides, [LockKind::Read, LockKind::Write]);
    assert_eq!((LockKind::Read.side(), LockKind::Write.side()), (Side::Read, Side::Write));
    let upheld: Vec<_> = LockKind::ALL.into_iter().filter(|kind| on(*kind).is_upheld()).collect();
    assert_eq!(upheld, [LockKind::Read]);
}

#[test]
fn a_grant_of_a_fenced_lock_comes_with_its_token() {
    let text = |text: &str| Reply::Bytes(text.to_owned().into());
    let fenced = |reply| on(LockKind::Fenced).acquired(reply);
    let granted = fenced(Reply::Array(vec![Reply::Nil, text("8")])).unwrap();
    assert_eq!(granted, Timely::InTime(AcquireReply::Granted { token: Some(8) }));
    let held = AcquireReply::Held(Some(Duration::from_millis(5)));
    assert_eq!(fenced(Reply::Int(5)).unwrap(), Timely::InTime(held));
    assert_eq!(fenced(Reply::Array(vec![Reply::Int(9)])).unwrap(), Timely::Late(9));
    assert!(fenced(Reply::Array(vec![Reply::Nil, Reply::Nil])).is_err());
    assert!(fenced(Reply::Array(vec![Reply::Nil, text("8"), Reply::Nil])).is_err());
    assert!(fenced(Reply::Nil).is_err());
    let plain = |reply| on(LockKind::Reentrant).acquired(reply);
    assert_eq!(plain(Reply::Nil).unwrap(), Timely::InTime(AcquireReply::Granted { token: None }));
    assert_eq!(plain(Reply::Int(5)).unwrap(), Timely::InTime(held));
    assert_eq!(plain(Reply::Array(vec![Reply::Int(9)])).unwrap(), Timely::Late(9));
}
