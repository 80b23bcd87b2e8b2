use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::*;

/// One who may stand in line, and counts how often it was woken.
#[derive(Default)]
struct One {
    ticket: Option<Ticket>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl One {
    fn poll(&mut self, fifo: &Fifo<u32>) -> Poll<u32> {
        let waker = Waker::from(self.woken.clone());
        fifo.poll_first(&mut self.ticket, &mut Context::from_waker(&waker), || ())
    }

    fn sign(&self, fifo: &Fifo<u32>) -> bool {
        let waker = Waker::from(self.woken.clone());
        fifo.sign(self.ticket.unwrap(), &mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }

    fn leave(&self, fifo: &Fifo<u32>, legacy: Option<u32>) -> bool {
        fifo.leave(self.ticket.unwrap(), legacy).last
    }
}

fn line_of<const N: usize>(fifo: &Fifo<u32>) -> [One; N] {
    std::array::from_fn(|n| {
        let mut one = One::default();
        assert_eq!(one.poll(fifo).is_ready(), n == 0);
        one
    })
}

#[test]
fn first_come_first_served_and_each_leaves_something_to_the_next() {
    let fifo = Fifo::default();
    let [first, second, mut third] = line_of(&fifo);
    assert!(!second.leave(&fifo, None));
    assert!(!first.leave(&fifo, Some(7)));
    assert_eq!((third.woken(), third.poll(&fifo)), (1, Poll::Ready(7)));
    assert!(third.leave(&fifo, Some(8)) && fifo.is_empty());
    assert_eq!(One::default().poll(&fifo), Poll::Ready(0), "nobody was left to leave it to");
}

#[test]
fn one_that_gives_no_sign_loses_its_place_and_stands_in_line_anew() {
    let fifo = Fifo::default();
    let [mut first, mut second, mut third] = line_of(&fifo);
    assert!(first.sign(&fifo));
    assert!(!fifo.tick(false).put_out);
    assert_eq!(first.woken(), 1, "asked for a sign");
    let tick = fifo.tick(false);
    assert!(tick.put_out && !tick.over);
    assert_eq!(second.poll(&fifo), Poll::Ready(0));
    assert!(!first.sign(&fifo));
    assert!(first.poll(&fifo).is_pending(), "behind the others");
    assert!(!second.leave(&fifo, None));
    assert!(third.poll(&fifo).is_ready());
    assert!(!third.leave(&fifo, None));
    assert!(first.poll(&fifo).is_ready());
}

#[test]
fn one_that_gives_signs_keeps_its_place_and_so_does_each_while_the_clock_stood_still() {
    let fifo = Fifo::default();
    let [first, _second] = line_of(&fifo);
    for _ in 0..100 {
        assert!(first.sign(&fifo));
        assert!(!fifo.tick(false).put_out);
    }
    for _ in 0..100 {
        assert!(!fifo.tick(true).put_out);
    }
    assert!(fifo.tick(false).put_out);
}

#[test]
fn all_that_give_no_sign_lose_their_places_at_once() {
    let fifo = Fifo::default();
    let mut ones: [One; 30] = line_of(&fifo);
    assert!(ones[0].sign(&fifo));
    // The first is asked, then put out; the others are asked, and all but two are put out.
    let ticks = [fifo.tick(false), fifo.tick(false)];
    assert_eq!(ticks.map(|tick| tick.put_out), [false, true]);
    assert!(ones[20].poll(&fifo).is_pending() && ones[25].poll(&fifo).is_pending());
    assert!(fifo.tick(false).put_out);
    assert!(ones[20].poll(&fifo).is_ready());
    assert!(!ones[20].leave(&fifo, None));
    assert!(ones[25].poll(&fifo).is_ready());
    assert!(ones[25].leave(&fifo, None));
}

#[test]
fn ticks_end_with_the_last_who_waits_behind_another() {
    let fifo = Fifo::default();
    let [first, ..]: [One; 3] = line_of(&fifo);
    assert!(first.sign(&fifo));
    let ticks = [fifo.tick(false), fifo.tick(false), fifo.tick(false)];
    let tick = |put_out, empty| Tick { put_out, empty, over: empty };
    assert_eq!(ticks, [tick(false, false), tick(true, false), tick(true, true)]);
    assert!(fifo.is_empty());
    let (mut first, mut second, begun) = (One::default(), One::default(), Cell::new(0));
    for one in [&mut first, &mut second] {
        let waker = Waker::from(one.woken.clone());
        let begin = || begun.set(begun.get() + 1);
        let _ = fifo.poll_first(&mut one.ticket, &mut Context::from_waker(&waker), begin);
    }
    assert_eq!(begun.get(), 1, "and begin with the next");
    assert!(!second.leave(&fifo, None));
    assert!(!fifo.tick(false).over, "the first was asked");
    assert!(first.sign(&fifo));
    assert!(fifo.tick(false).over);
}

#[test]
fn one_that_gives_no_sign_loses_its_place_also_when_nobody_stays_behind_it() {
    let fifo = Fifo::default();
    let [first, passing] = line_of(&fifo);
    assert!(!passing.leave(&fifo, None));
    let ticks = [fifo.tick(false), fifo.tick(false)];
    let tick = |put_out| Tick { put_out, empty: put_out, over: put_out };
    assert_eq!((ticks, first.woken()), ([tick(false), tick(true)], 0));
    assert!(fifo.is_empty());
}

#[test]
fn places_that_were_left_are_not_kept_for_ever() {
    let fifo = Fifo::default();
    let [first, last_known] = line_of(&fifo);
    for _ in 0..10_000 {
        let mut passing = One::default();
        assert!(passing.poll(&fifo).is_pending());
        let mut stays = One::default();
        assert!(stays.poll(&fifo).is_pending());
        assert!(!passing.leave(&fifo, None));
        assert!(!stays.leave(&fifo, None));
    }
    assert!(fifo.state().places.len() < 100, "{}", fifo.state().places.len());
    assert!(!first.leave(&fifo, None));
    assert!(last_known.woken() > 0);
}

#[test]
fn a_line_that_many_leave_in_its_middle_keeps_at_most_twice_those_who_stay() {
    let fifo = Fifo::default();
    let ones: [One; 100] = line_of(&fifo);
    for (gone, one) in (1..).zip(&ones[1..=70]) {
        assert!(!one.leave(&fifo, None));
        let (kept, here) = (fifo.state().places.len(), 100 - gone);
        assert!(kept <= 2 * here, "{kept} places for {here}");
    }
    assert!(!ones[0].leave(&fifo, Some(7)));
    assert_eq!(ones[71].woken(), 1);
}

#[test]
fn a_few_that_left_keep_their_places_for_a_while() {
    let fifo = Fifo::default();
    let ones: [One; 20] = line_of(&fifo);
    for one in &ones[1..=16] {
        assert!(!one.leave(&fifo, None));
        assert_eq!(fifo.state().places.len(), 20, "to tidy so short a line is not worth it");
    }
    assert!(!ones[17].leave(&fifo, None));
    assert_eq!(fifo.state().places.len(), 3);
}

#[test]
fn what_was_left_to_the_next_stays_until_it_is_polled() {
    let fifo = Fifo::default();
    let [first, mut second, _third] = line_of(&fifo);
    assert!(!first.leave(&fifo, Some(7)));
    assert!(!fifo.tick(true).put_out);
    assert_eq!(second.poll(&fifo), Poll::Ready(7));
    // Nobody inherits from a line that is put out.
    let fifo = Fifo::default();
    let [first, _second] = line_of(&fifo);
    assert!(!first.leave(&fifo, Some(7)));
    assert!([fifo.tick(false), fifo.tick(false)][1].empty);
    assert_eq!(One::default().poll(&fifo), Poll::Ready(0));
}

#[test]
fn news_wake_the_first_once_until_it_is_polled() {
    let fifo = Fifo::default();
    let [first, second] = line_of(&fifo);
    let nudged = |one: &One| {
        let waker = Waker::from(one.woken.clone());
        fifo.poll_nudged(one.ticket.unwrap(), &mut Context::from_waker(&waker))
    };
    assert!(nudged(&first).is_pending());
    fifo.nudge();
    fifo.nudge();
    assert_eq!((first.woken(), second.woken()), (1, 0));
    assert_eq!((nudged(&first), nudged(&first)), (Poll::Ready(true), Poll::Pending));
    assert_eq!(nudged(&second), Poll::Ready(false));
    fifo.nudge();
    assert_eq!(first.woken(), 2);
}
