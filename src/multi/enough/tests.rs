use tokio::time::sleep;

use super::*;
use crate::redis_error::{RedisError, RedisErrorKind};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Parts that end after so many ms, each with or without an error.
async fn end_of<const N: usize>(
    parts: [(u64, Option<Error>); N],
    need: usize,
) -> (Result<(), Error>, Duration) {
    let begun = Instant::now();
    let parts = parts.map(|(after, error)| async move {
        sleep(ms(after)).await;
        error.map_or(Ok(()), Err)
    });
    (enough(parts.into_iter(), need).await, begun.elapsed())
}

fn lost() -> Option<Error> {
    Some(Error::NotHeld { why: Loss::Removed })
}

fn silent(text: &str) -> Option<Error> {
    Some(Error::Redis(RedisError::new(RedisErrorKind::Timeout, text)))
}

#[tokio::test(start_paused = true)]
async fn those_who_are_not_needed_have_about_as_long_again() {
    let (end, took) = end_of([(5, None), (5, None), (9, None), (900, None)], 2).await;
    assert!(end.is_ok() && took >= ms(9) && took <= ms(12), "{took:?}");
    let (end, took) = end_of([(100, None), (900, None)], 1).await;
    assert!(end.is_ok() && took >= ms(120) && took <= ms(122), "{took:?}");
    let (end, took) = end_of([(5, None), (5, None)], 2).await;
    assert!(end.is_ok() && took <= ms(7), "{took:?}: nobody is left to wait for");
}

#[tokio::test(start_paused = true)]
async fn too_few_are_an_error_after_all_were_tried() {
    let (end, took) = end_of([(1, silent("first")), (2, None), (3, silent("last"))], 2).await;
    assert!(matches!(&end, Err(Error::Redis(error)) if error.to_string().contains("first")));
    assert!(took >= ms(3), "all were tried");
    let (end, _) = end_of([(1, lost()), (2, None)], 1).await;
    assert!(end.is_ok());
    let expired = Some(Error::NotHeld { why: Loss::Expired });
    let (end, _) = end_of([(1, lost()), (2, expired)], 1).await;
    assert!(matches!(end, Err(Error::NotHeld { why: Loss::Removed })), "the first");
}

/// With two of three lost, the third cannot make up for them. With one lost, it can.
#[tokio::test(start_paused = true)]
async fn a_loss_decides_only_where_silent_servers_cannot_make_up_for_it() {
    let (end, _) = end_of([(1, silent("")), (2, lost()), (3, lost())], 2).await;
    assert!(matches!(end, Err(Error::NotHeld { why: Loss::Removed })), "{end:?}");
    let (end, _) = end_of([(1, lost()), (2, silent("")), (3, None)], 2).await;
    assert!(matches!(end, Err(Error::Redis(_))), "{end:?}");
    let (end, _) = end_of([(1, silent("")), (2, lost()), (3, silent(""))], 1).await;
    assert!(matches!(end, Err(Error::Redis(_))), "{end:?}");
    let (end, _) = end_of([(1, silent("")), (2, lost())], 2).await;
    assert!(matches!(end, Err(Error::NotHeld { why: Loss::Removed })), "all are needed: {end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_certain_loss_says_more_than_an_uncertain_one() {
    let unknown = || Some(Error::NotHeld { why: Loss::Unknown });
    for parts in [[(1, unknown()), (2, lost())], [(1, lost()), (2, unknown())]] {
        let (end, _) = end_of(parts, 2).await;
        assert!(matches!(end, Err(Error::NotHeld { why: Loss::Removed })), "{end:?}");
    }
    let (end, _) = end_of([(1, silent("first")), (2, unknown())], 2).await;
    assert!(matches!(end, Err(Error::NotHeld { why: Loss::Unknown })), "{end:?}");
    let (end, _) = end_of([(1, lost()), (2, unknown()), (3, None)], 2).await;
    assert!(matches!(end, Err(Error::NotHeld { why: Loss::Unknown })), "one loss does not decide");
}
