//! A holder is asked to release its lock. Redisson neither asks nor hears it.

use std::time::Duration;

use harness::{PATIENCE, Party, eventually};

use crate::kind::{EVERY, EXCLUSIVE, READ};
use crate::mix::Mix;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::{PROMPT, SLACK};

scenarios! {
    a_holder_that_is_asked_gives_the_lock_to_a_waiter: EXCLUSIVE, in Mix::A_IS_RUST;
    a_question_before_the_holder_listens_is_heard: EVERY, in Mix::ALL_RUST;
    a_question_is_for_the_hold_of_that_time: EVERY, in Mix::ALL_RUST;
    all_readers_are_asked: READ, in Mix::ALL_RUST;
    readers_of_a_jvm_are_counted_and_hear_nothing: READ, in Mix::WITH_RUST;
    a_jvm_that_holds_the_lock_hears_no_question: EVERY, in Mix::JAVA_RUST;
}

/// Longer than a question takes that is on its way.
const MOMENT: Duration = Duration::from_millis(500);

fn channel(pair: &Pair) -> String {
    format!("redisson_lock_asked:{{{}}}", pair.name())
}

/// Waits until so many processes listen to questions.
async fn listening_to_questions(pair: &Pair, processes: usize) {
    let channel = channel(pair);
    let listening = || (pair.redis().subscribers(&channel) == processes).then_some(());
    eventually(PATIENCE, &format!("{processes} processes on {channel}"), listening).await;
}

async fn hears(party: &Party) {
    let asked = party.start_asked(SLACK).answer().await.expect("an answer");
    assert!(asked.is_true(), "{party} was not asked");
}

async fn a_holder_that_is_asked_gives_the_lock_to_a_waiter(pair: &Pair) {
    let (holder, asker, waiter) = (pair.a("holder"), pair.rust("asker"), pair.b("waiter"));
    assert_eq!(asker.ask_to_release().await, None);
    holder.lock().await;
    let asked = holder.start_asked(PATIENCE);
    let turn = pair.start_asleep(&waiter).await;
    listening_to_questions(pair, 1).await;
    assert!(asked.is_pending() && turn.is_pending());
    assert_eq!(asker.ask_to_release().await, Some((1, 1)));
    assert!(asked.answer().await.expect("an answer").is_true());
    // Nothing was taken from it.
    assert!(turn.is_pending() && holder.is_held().await);
    let unlock = holder.unlock().await;
    let lock = turn.granted().await;
    let hand_over = lock.after_start_of(&unlock);
    assert!(hand_over < PROMPT, "{hand_over:?}");
    waiter.unlock().await;
    listening_to_questions(pair, 0).await;
}

async fn a_question_before_the_holder_listens_is_heard(pair: &Pair) {
    let (holder, asker) = (pair.a("holder"), pair.b("asker"));
    holder.lock().await;
    assert_eq!(asker.ask_to_release().await, Some((1, 0)));
    hears(&holder).await;
    holder.unlock().await;
}

/// The next hold of the same owner is another one, and so is that of another owner in the same process.
async fn a_question_is_for_the_hold_of_that_time(pair: &Pair) {
    let (holder, next, asker) = (pair.a("holder"), pair.a("next"), pair.b("asker"));
    for party in [&holder, &holder, &next] {
        party.lock().await;
        let asked = party.start_asked(MOMENT).answer().await.expect("an answer");
        assert!(!asked.is_true(), "{party} hears a question to the hold before");
        assert_eq!(asker.ask_to_release().await.map(|(holders, _)| holders), Some(1));
        hears(party).await;
        party.unlock().await;
    }
}

async fn all_readers_are_asked(pair: &Pair) {
    let readers = [pair.a("one"), pair.a("two"), pair.b("three")];
    for reader in &readers {
        reader.lock().await;
    }
    let asked: Vec<_> = readers.iter().map(|reader| reader.start_asked(PATIENCE)).collect();
    listening_to_questions(pair, 2).await;
    // The writer's side has no holder to ask.
    let writer = pair.b("writer").of_kind("write");
    assert_eq!(writer.ask_to_release().await, None);
    tokio::time::sleep(MOMENT).await;
    assert!(asked.iter().all(|asked| asked.is_pending()));
    assert_eq!(pair.b("asker").ask_to_release().await, Some((3, 2)));
    for asked in asked {
        assert!(asked.answer().await.expect("an answer").is_true());
    }
    for reader in &readers {
        reader.unlock().await;
    }
}

async fn readers_of_a_jvm_are_counted_and_hear_nothing(pair: &Pair) {
    let (one, other) = (pair.a("one"), pair.b("other"));
    one.lock().await;
    other.lock().await;
    let rust = pair.rust("asker");
    assert_eq!(rust.ask_to_release().await, Some((2, 0)));
    one.unlock().await;
    other.unlock().await;
}

async fn a_jvm_that_holds_the_lock_hears_no_question(pair: &Pair) {
    let (holder, asker) = (pair.a("holder"), pair.b("asker"));
    // Its id is the same each time.
    for _ in 0..2 {
        holder.lock().await;
        assert_eq!(asker.ask_to_release().await, Some((1, 0)));
        tokio::time::sleep(MOMENT).await;
        assert!(holder.is_held().await);
        holder.unlock().await;
        assert_eq!(asker.ask_to_release().await, None);
    }
}
