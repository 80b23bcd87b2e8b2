use super::*;

const AGAIN: Duration = Duration::from_secs(3);

/// Which of the waiters are to ask now.
fn asking(line: &CounterLine, waiters: &[Place]) -> Vec<usize> {
    let is_asking = |place: &Place| matches!(line.step(place.number, AGAIN), Step::Ask);
    (0..waiters.len()).filter(|&at| is_asking(&waiters[at])).collect()
}

fn line_of(wants: &[i64]) -> (CounterLine, Vec<Place>) {
    let line = CounterLine::default();
    line.was_asked_from_outside();
    let places = wants.iter().map(|&wants| line.enter(wants).0).collect();
    (line, places)
}

#[tokio::test(start_paused = true)]
async fn a_message_wakes_the_first_that_is_not_woken() {
    let (line, waiters) = line_of(&[1, 1, 1]);
    assert!(asking(&line, &waiters).is_empty());
    line.wake_first(false);
    line.wake_first(false);
    assert_eq!(asking(&line, &waiters), [0, 1]);
    line.wake_first(true);
    line.wake_first(true);
    assert_eq!(asking(&line, &waiters), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_one_cannot_use_is_offered_to_those_that_can() {
    let (line, waiters) = line_of(&[3, 2, 1, 1]);
    line.wake_first(false);
    assert_eq!(asking(&line, &waiters), [0]);
    line.answered(waiters[0].number, 1);
    assert_eq!(asking(&line, &waiters), [2], "one permit is enough for one of them");
    line.answered(waiters[2].number, 0);
    assert!(asking(&line, &waiters).is_empty());
    // Granted, and some are left.
    line.answered(waiters[3].number, 5);
    line.leave(waiters[3].number);
    assert_eq!(asking(&line, &waiters), [0, 1]);
    line.answered(waiters[0].number, -4);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_fails_with_another_unless_the_server_has_answered_meanwhile() {
    for is_answered in [false, true] {
        let (line, waiters) = line_of(&[1, 1, 1]);
        line.wake(waiters[0].number);
        assert_eq!(asking(&line, &waiters), [0]);
        tokio::time::advance(AGAIN).await;
        assert!(matches!(line.step(waiters[1].number, AGAIN), Step::Ask));
        if is_answered {
            line.answered(waiters[1].number, 0);
        }
        line.failed(waiters[0].number, &Error::timed_out());
        let failed =
            [1, 2].map(|at| matches!(line.step(waiters[at].number, AGAIN), Step::Failed(_)));
        assert_eq!(failed, [false, !is_answered], "who asks has an answer of its own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_passes_its_wake_up_on() {
    let (line, waiters) = line_of(&[1, 1, 1]);
    line.wake_first(false);
    line.leave(waiters[0].number);
    assert_eq!(asking(&line, &waiters[1..]), [0], "woken, but did not ask");
    line.leave(waiters[1].number);
    assert_eq!(asking(&line, &waiters[2..]), [0], "asked, but did not hear");
    line.answered(waiters[2].number, 0);
    line.leave(waiters[2].number);
    assert!(line.ends_listening());
    assert!(line.enter(1).1, "the next one starts another");
    assert!(!line.enter(1).1);
    assert!(!line.ends_listening());
}

#[tokio::test(start_paused = true)]
async fn one_of_them_asks_again_after_a_while() {
    let (line, waiters) = line_of(&[1, 1]);
    tokio::time::advance(AGAIN - Duration::from_millis(1)).await;
    assert!(asking(&line, &waiters).is_empty());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(asking(&line, &waiters), [0], "for both");
    tokio::time::advance(AGAIN).await;
    assert_eq!(asking(&line, &waiters[1..]), [0], "the first is not polled");
}

#[tokio::test(start_paused = true)]
async fn one_of_them_asks_when_a_lease_ends() {
    let (line, waiters) = line_of(&[1, 1]);
    line.next_end(Some(Duration::from_millis(70)));
    let Step::Sleep(until) = line.step(waiters[0].number, AGAIN) else { panic!("asks") };
    assert_eq!(until, Instant::now() + Duration::from_millis(70));
    tokio::time::advance(Duration::from_millis(70)).await;
    assert_eq!(asking(&line, &waiters), [0], "for both");
    line.answered(waiters[0].number, 0);
    line.next_end(Some(Duration::ZERO));
    assert!(asking(&line, &waiters).is_empty(), "not at once");
    line.leave(waiters[0].number);
    waiters[1].bell.notified().await;
    tokio::time::advance(SHORTEST).await;
    assert_eq!(asking(&line, &waiters[1..]), [0]);
    line.next_end(None);
    assert!(asking(&line, &waiters[1..]).is_empty());
    // The answer to a newcomer is older, and polled later.
    line.next_end(Some(Duration::from_millis(70)));
    line.next_end(Some(Duration::from_secs(2)));
    tokio::time::advance(Duration::from_millis(70)).await;
    assert_eq!(asking(&line, &waiters[1..]), [0]);
}

#[tokio::test(start_paused = true)]
async fn waiters_that_come_do_not_put_off_what_the_others_ask() {
    let (line, waiters) = line_of(&[1]);
    tokio::time::advance(AGAIN - Duration::from_millis(1)).await;
    line.was_asked_from_outside();
    let _wants_more = line.enter(3);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(asking(&line, &waiters), [0], "the answer was for the other one");
}

#[tokio::test(start_paused = true)]
async fn what_has_happened_has_happened_for_those_that_waited_then() {
    let (line, waiters) = line_of(&[1, 1]);
    line.wake_first(true);
    assert_eq!(asking(&line, &waiters), [0]);
    let late = line.enter(1).0;
    line.finish(waiters[0].number);
    assert!(matches!(line.step(waiters[1].number, AGAIN), Step::Done));
    assert!(matches!(line.step(late.number, AGAIN), Step::Sleep(_)), "it came later");
}
