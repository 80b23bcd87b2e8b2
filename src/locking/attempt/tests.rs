use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    engine::scripted::{Scripted, engine},
    locking::{registry::Registry, request::Bounds},
    observer::LockKind,
    options::LockOptions,
    wire::Reply,
};

const WAY: Duration = Duration::from_millis(5);

/// What is sent for an attempt of a caller that does not wait. See [`sent_for`].
async fn sent(answer: WireError, has_it: bool) -> Vec<&'static str> {
    let bounds = Bounds::answer_by(Instant::now() + 2 * WAY);
    sent_for(LockKind::Reentrant, bounds, Err(answer), has_it).await
}

/// What is sent for an attempt that is answered so. It is dropped when it has the answer, or before.
async fn sent_for(
    kind: LockKind,
    bounds: Bounds,
    answer: Result<Reply, WireError>,
    has_it: bool,
) -> Vec<&'static str> {
    let answers = [answer, Ok(Reply::Int(0)), Ok(Reply::Int(0))];
    let transport = Arc::new(Scripted { slow: WAY, ..Scripted::new(answers) });
    let engine = engine(&transport);
    let registry = Arc::new(Registry::default());
    let lock = registry.lock(&engine, kind, "lock").unwrap();
    let options = LockOptions::default();
    let request = Request::checked(&engine.settings, options, None, None, bounds, false).unwrap();
    let mut attempt = Attempt::new(&lock, &request, None);
    let time = if has_it { 4 * WAY } else { WAY / 2 };
    let answer = timeout(time, attempt.ask(None, None)).await;
    assert_eq!(answer.is_ok(), has_it);
    drop(attempt);
    sleep(Duration::from_secs(1)).await;
    let calls = transport.calls.lock().unwrap();
    calls.iter().map(|(call, _)| call.script.name).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_refused_request_may_have_done_is_undone_and_what_it_has_not_done_is_not() {
    const ASKED: &str = "reentrant/acquire";
    const UNDONE: &str = "reentrant/release";
    let before = || WireError::from_server("NOPERM no permission to run 'evalsha'");
    let inside =
        || WireError::from_server("NOPERM no permission to run 'pexpire' script: user_script");
    for has_it in [false, true] {
        assert_eq!(sent(before(), has_it).await, [ASKED], "{has_it}");
        assert_eq!(sent(inside(), has_it).await, [ASKED, UNDONE], "{has_it}");
    }
    assert_eq!(sent(WireError::unanswered("silent"), false).await, [ASKED, UNDONE]);
    assert_eq!(sent(WireError::WrongType, false).await, [ASKED]);
}

/// A waiter of the local line has nothing on the server. One of a fair lock has a place there.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_refused_gives_its_place_back_if_it_may_have_one() {
    let held = || Ok(Reply::Int(1_000));
    let wrong_type = || Err(WireError::WrongType);
    let until = || Bounds::until(Instant::now() + 2 * WAY);
    for has_it in [false, true] {
        for (kind, asked) in [
            (LockKind::Reentrant, "reentrant/acquire"),
            (LockKind::Fenced, "fenced/acquire"),
            (LockKind::Plain, "plain/acquire"),
            (LockKind::Read, "read/acquire"),
            (LockKind::Write, "write/acquire"),
        ] {
            assert_eq!(sent_for(kind, until(), held(), has_it).await, [asked], "{has_it}");
            assert_eq!(sent_for(kind, until(), wrong_type(), has_it).await, [asked], "{has_it}");
        }
        let (fair, asked) = (LockKind::Fair, "fair/acquire");
        let withdrawn = sent_for(fair, until(), held(), has_it).await;
        assert_eq!(withdrawn, [asked, "fair/withdraw"], "{has_it}");
        assert_eq!(sent_for(fair, until(), wrong_type(), has_it).await, [asked], "{has_it}");
    }
}
