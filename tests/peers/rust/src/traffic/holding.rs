//! What a user has in hand, and what he is told of it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use judge::What;
use redisson_lock::Loss;

use super::recorder::Recorder;
use crate::locks::AnyGuard;

/// A guard, and whether its user knows that it is lost.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) number: u64,
    pub(crate) guard: AnyGuard,
    pub(crate) told: bool,
}

/// Does some work while listening for losses. Ends with the work.
pub(crate) async fn listening<T>(
    holdings: &mut [Holding],
    recorder: &Recorder,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        let lost = tokio::select! {
            biased;
            lost = first_lost(holdings) => lost,
            done = &mut work => return done,
        };
        let (index, why) = lost;
        recorder.note(What::Lost { guard: holdings[index].number, why: loss(why) });
        holdings[index].told = true;
    }
}

async fn first_lost(holdings: &[Holding]) -> (usize, Loss) {
    let untold = holdings.iter().enumerate().filter(|(_, holding)| !holding.told);
    let mut losses: Vec<_> =
        untold.map(|(index, holding)| (index, Box::pin(holding.guard.lost()))).collect();
    poll_fn(move |context| {
        for (index, lost) in &mut losses {
            if let Poll::Ready(why) = lost.as_mut().poll(context) {
                return Poll::Ready((*index, why));
            }
        }
        Poll::Pending
    })
    .await
}

pub(crate) fn loss(why: Loss) -> judge::Loss {
    match why {
        Loss::Expired => judge::Loss::Expired,
        Loss::Removed => judge::Loss::Removed,
        Loss::Taken => judge::Loss::Taken,
        Loss::Closed => judge::Loss::Closed,
        _ => judge::Loss::Unknown,
    }
}
