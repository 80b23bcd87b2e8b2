use futures::FutureExt;

use super::*;
use crate::{
    engine::scripted::engine,
    locking::{
        hold::{Grant, Hold},
        line::Awaited,
        registry::Registry,
        request::Bounds,
    },
    observer::LockKind,
    options::{LockOptions, Replicas},
    wire::{Event, WireError},
};

fn size_of_future<F: Future>(
    _: impl FnOnce(&'static Arc<LockState>, &'static Request, &'static mut Attempt<'static>) -> F,
) -> usize {
    size_of::<F>()
}

/// It is allocated for every acquisition that waits. What a waiter that is offered a hold does
/// not need is boxed apart from it.
#[test]
fn a_wait_under_way_is_small() {
    let size = size_of_future(|lock, request, attempt| wait(lock, request, attempt, false));
    assert!(size < 560, "{size} bytes");
}

/// A waiter whose wait is over, behind others.
struct Behind {
    lock: Arc<LockState>,
    request: Request,
    seen: bool,
    /// How many answers had come before its wait.
    before: u64,
}

impl Behind {
    fn new(seen: bool, replicas: Replicas) -> Self {
        let engine = engine(&Arc::default());
        let registry = Arc::new(Registry::default());
        let lock = registry.lock(&engine, LockKind::Reentrant, "lock").unwrap();
        let options = LockOptions { replicas: Some(replicas), ..<_>::default() };
        let bounds = Bounds::until(Instant::now());
        let request = Request::checked(&engine.settings, options, None, None, bounds, false);
        let before = lock.target.line.answers.count();
        Self { request: request.unwrap(), seen, before, lock }
    }

    fn answers(&self) -> &Answers {
        &self.lock.target.line.answers
    }

    /// Whether it may be told that the lock is held. It may wait for that for a second.
    async fn was_held(&self) -> Result<bool, Error> {
        let Self { lock, request, seen, before, .. } = self;
        let id = lock.target.protocol.id(&lock.target.engine.identity);
        let waiter = waiter(lock, request, &id, *seen);
        was_held(lock, request, &waiter, *before, Instant::now() + Duration::from_secs(1)).await
    }

    fn at_once(&self) -> Option<Result<bool, Error>> {
        self.was_held().now_or_never()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_reported_as_held_when_it_was_seen_so_and_nothing_is_known_since() {
    for seen in [false, true] {
        let behind = Behind::new(seen, Replicas::None);
        assert_eq!(behind.at_once().unwrap().unwrap(), seen);
        behind.answers().freed();
        assert!(!behind.at_once().unwrap().unwrap(), "seen {seen}, and it was released since");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_reported_as_held_by_an_answer_of_meanwhile_and_by_none_of_before() {
    let mut behind = Behind::new(false, Replicas::None);
    behind.answers().say(None, "lock", Replicas::None);
    assert!(behind.at_once().unwrap().unwrap());
    behind.before = behind.answers().count();
    assert!(!behind.at_once().unwrap().unwrap());
    behind.answers().say(None, "lock", Replicas::None);
    behind.answers().say(None, "lock", Replicas::None);
    assert!(behind.at_once().unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_local_caller_holds_is_reported_as_held() {
    let behind = Behind::new(false, Replicas::None);
    let hold = granted(&behind.lock);
    hold.lease.add_share();
    assert!(behind.at_once().unwrap().unwrap());
    // While it is being released, that is not known.
    hold.lease.remove_share();
    assert!(behind.at_once().is_none());
}

/// A hold that the server has just granted to a local caller.
fn granted(lock: &Arc<LockState>) -> Arc<Hold> {
    let grant = Grant::of(&lock.target, Duration::from_secs(30));
    let hold = Hold::begin(&lock.target, grant, None, false);
    lock.handoff.granted(&hold, None);
    hold
}

#[tokio::test(start_paused = true)]
async fn while_the_server_is_asked_its_next_answer_decides() {
    for failed in [None, Some(WireError::unanswered("silent"))] {
        let behind = Behind::new(false, Replicas::None);
        behind.answers().say(None, "lock", Replicas::None);
        let question = behind.answers().ask();
        let mut asking = Box::pin(behind.was_held());
        assert!((&mut asking).now_or_never().is_none(), "an earlier answer does not");
        // Another one has the answer, and this question is still open.
        behind.answers().say(failed.as_ref(), "lock", Replicas::None);
        let told = asking.await;
        match failed {
            None => assert!(told.unwrap()),
            Some(_) => assert!(told.unwrap_err().to_string().contains("silent")),
        }
        drop(question);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_time_ends_with_an_error() {
    let behind = Behind::new(true, Replicas::None);
    let _question = behind.answers().ask();
    let begun = Instant::now();
    assert!(matches!(behind.was_held().await, Err(Error::Redis(_))));
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

/// A failure to ask replicas does not concern one who needs none.
#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_those_whom_it_concerns() {
    for (replicas, concerns) in [(Replicas::None, false), (Replicas::All, true)] {
        let behind = Behind::new(true, replicas);
        let failure = WireError::unanswered("silent");
        behind.answers().say(Some(&failure), "lock", Replicas::All);
        match behind.at_once().unwrap() {
            Err(error) => assert!(concerns && error.to_string().contains("silent"), "{error}"),
            Ok(held) => assert!(!concerns && !held, "it asks itself"),
        }
        // Unless somebody asks.
        let _question = behind.answers().ask();
        assert_eq!(behind.at_once().is_some(), concerns);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_of_a_release_is_told_to_those_who_wait() {
    let behind = Behind::new(false, Replicas::None);
    let Behind { lock, request, .. } = &behind;
    let (target, answers) = (&lock.target, behind.answers());
    let id = target.protocol.id(&target.engine.identity);
    let waiter = waiter(lock, request, &id, false);
    let waits = Waiter { deadline: None, ..waiter };
    let head = Head::enter(lock, &waits).await.unwrap();
    target.say(None);
    assert!(matches!(answers.known().last, Some(Answer::Held)));
    target.say(Some(&WireError::unanswered("silent")));
    assert!(matches!(answers.known().last, Some(Answer::Failed(_))));
    target.say_freed();
    assert_eq!((answers.count(), answers.known().last.is_none()), (3, true));
    drop(head);
    target.say(None);
    target.say_freed();
    assert_eq!(answers.count(), 3, "nobody waits");
}

#[tokio::test(start_paused = true)]
async fn a_lock_knows_how_often_it_is_held_here_and_how_many_messages_have_come() {
    let behind = Behind::new(false, Replicas::None);
    let target = &behind.lock.target;
    let engine = &target.engine;
    let holds = [(); 2].map(|()| granted(&behind.lock));
    assert_eq!(target.holds_here(), 2);
    assert_eq!(Awaited::holds_here(&behind.lock), 2);
    let id = holds[0].id().clone();
    drop(holds);
    assert_eq!((target.holds_here(), target.heard(&id)), (0, None));
    let channel = target.protocol.channel(&id).unwrap();
    let mut subscription = engine.subscriptions.subscribe(&channel);
    subscription.ready().await;
    let before = target.heard(&id).unwrap();
    for more in 1..=3 {
        engine.subscriptions.on_event(Event::Message(channel.clone().into_owned()));
        assert_eq!(target.heard(&id), Some(before + more));
    }
}

/// It says nothing about now, and with nobody to ask the waiter asks itself.
#[tokio::test(start_paused = true)]
async fn a_failure_of_before_is_none_of_this_wait() {
    let mut behind = Behind::new(false, Replicas::None);
    let failed = WireError::unanswered("silent");
    behind.answers().say(Some(&failed), "lock", Replicas::None);
    assert!(behind.at_once().unwrap().is_err());
    behind.before = behind.answers().count();
    assert!(!behind.at_once().unwrap().unwrap());
}
