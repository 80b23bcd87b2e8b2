//! A connection whose answers come in their order, each for the command that waits the longest. What comes while none
//! waits is dropped, as fred does.

use std::{
    cell::RefCell,
    future::{pending, ready},
    rc::Rc,
};

use tokio::{
    sync::{Notify, oneshot},
    time::sleep_until,
};

use super::*;

#[derive(Default)]
struct Wire {
    round_trip: Duration,
    /// The answer behind the first refusal is so much later.
    late: RefCell<Option<Duration>>,
    cannot_save: bool,
    coming: RefCell<VecDeque<(Instant, Answer)>>,
    waiting: RefCell<VecDeque<oneshot::Sender<Answer>>>,
    news: Notify,
}

impl Wire {
    fn new(round_trip: u64, late: u64, cannot_save: bool) -> Rc<Self> {
        let late = RefCell::new(Some(Duration::from_millis(late)));
        let round_trip = Duration::from_millis(round_trip);
        Rc::new(Self { round_trip, late, cannot_save, ..Self::default() })
    }

    async fn run(&self) {
        loop {
            let next = self.coming.borrow().front().map(|(at, _)| *at);
            let Some(at) = next else {
                self.news.notified().await;
                continue;
            };
            sleep_until(at).await;
            let (_, answer) = self.coming.borrow_mut().pop_front().unwrap();
            if let Some(waiting) = self.waiting.borrow_mut().pop_front() {
                let _ = waiting.send(answer);
            }
        }
    }

    fn comes(&self, answer: Answer, late: Duration) {
        let mut coming = self.coming.borrow_mut();
        let at = Instant::now() + self.round_trip + late;
        let at = coming.back().map_or(at, |(last, _)| at.max(*last));
        coming.push_back((at, answer));
        self.news.notify_one();
    }

    async fn subscribe(
        &self,
        barrier: &Barrier,
        within: Duration,
        is_refused: bool,
    ) -> Result<(), FailureKind> {
        let mut is_first = true;
        let ping = |mark: String| {
            let mut late = Duration::ZERO;
            if std::mem::take(&mut is_first) && is_refused {
                self.comes(Err(Failure::refused("NOPERM no")), Duration::ZERO);
                late = self.late.take().unwrap_or_default();
            }
            self.ping(mark, late)
        };
        barrier.pass(within, ping).await.map_err(|error| error.kind)
    }

    fn ping(&self, mark: String, late: Duration) -> impl Future<Output = Answer> + use<> {
        let (tell, told) = oneshot::channel();
        self.waiting.borrow_mut().push_back(tell);
        let answer = match self.cannot_save {
            true => Err(Failure::refused("MISCONF no disk")),
            false => Ok(Reply::Bytes(mark.into())),
        };
        self.comes(answer, late);
        async move { told.await.unwrap() }
    }
}

async fn while_it_runs(wire: &Wire, test: impl Future<Output = ()>) {
    tokio::select! { () = wire.run() => unreachable!("it has no end"), () = test => {} }
}

/// As a worker tries them: all, then each.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_taken_for_no_other_however_far_the_server_is() {
    for (round_trip, late) in [
        (0, 5),
        (20, 10),
        (20, 60),
        (80, 40),
        (250, 65),
        (250, 125),
        (250, 200),
        (330, 110),
        (900, 400),
    ] {
        for cannot_save in [false, true] {
            let (wire, barrier) = (Wire::new(round_trip, late, cannot_save), Barrier::new());
            while_it_runs(&wire, async {
                for (is_refused, what) in [(true, "both"), (true, "bad"), (false, "good")] {
                    let told = wire.subscribe(&barrier, WITHIN, is_refused).await;
                    let expected = if is_refused { Err(FailureKind::Refused) } else { Ok(()) };
                    let where_it_is = format!("{round_trip} ms, {late} ms, {cannot_save}");
                    assert_eq!(told, expected, "{what}: {where_it_is}");
                }
            })
            .await;
        }
    }
}

/// No answer has a mark then.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_save_is_believed_again_after_one_that_was_given_up() {
    for (round_trip, within) in [(80, 1), (120, 1), (250, 3), (400, 3), (900, 3)] {
        let (wire, barrier) = (Wire::new(round_trip, 0, true), Barrier::new());
        let within = Duration::from_secs(within);
        while_it_runs(&wire, async {
            let given_up = wire.subscribe(&barrier, within, false);
            assert!(given_up.now_or_never().is_none());
            let told = wire.subscribe(&barrier, within, false).await;
            assert_eq!(told, Err(FailureKind::TimedOut), "it may be the answer to the other");
            let told = wire.subscribe(&barrier, within, false).await;
            assert_eq!(told, Ok(()), "{round_trip} ms of {within:?}");
        })
        .await;
    }
}

/// Nothing is known of how far it is: the first command of the connection has had no answer.
#[tokio::test(start_paused = true)]
async fn a_far_server_without_marks_is_asked_long_enough_the_second_time() {
    let (wire, barrier) = (Wire::new(400, 0, true), Barrier::new());
    let within = Duration::from_secs(1);
    while_it_runs(&wire, async {
        let no_answer = barrier.in_step(within, |_| pending(), async { Err::<(), _>(unclear()) });
        no_answer.await.unwrap_err();
        let ask = || barrier.in_step(within, |mark| wire.ping(mark, Duration::ZERO), ready(Ok(())));
        assert_eq!(ask().await.unwrap_err().kind, FailureKind::TimedOut);
        ask().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_refusal_after_another_is_told() {
    let (wire, barrier) = (Wire::new(5, 0, false), Barrier::new());
    while_it_runs(&wire, async {
        for _ in 0..5 {
            let told = wire.subscribe(&barrier, WITHIN, true).await;
            assert_eq!(told, Err(FailureKind::Refused));
        }
    })
    .await;
}
