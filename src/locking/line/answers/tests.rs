use super::*;

const NEEDS: Replicas = Replicas::None;

fn error() -> WireError {
    WireError::unanswered("no answer")
}

#[test]
fn a_failure_concerns_those_who_need_the_same_or_more() {
    let failure = |replicas| Failure { error: error().into_error("l"), replicas };
    assert!(failure(Replicas::None).concerns(Replicas::None));
    assert!(failure(Replicas::None).concerns(Replicas::All));
    assert!(failure(Replicas::All).concerns(Replicas::All));
    assert!(!failure(Replicas::All).concerns(Replicas::None));
    assert!(!failure(Replicas::All).concerns(Replicas::AtLeast(1)));
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_is_known_while_it_is_fresh() {
    let answers = Answers::default();
    assert!(answers.known().last.is_none());
    answers.say(None, "l", NEEDS);
    assert!(matches!(answers.known().last, Some(Answer::Held)));
    answers.say(Some(&error()), "l", NEEDS);
    assert!(matches!(answers.known().last, Some(Answer::Failed(_))));
    assert_eq!((answers.count(), answers.known().count), (2, 2));
    tokio::time::advance(FRESH - Duration::from_nanos(1)).await;
    assert!(answers.known().last.is_some());
    tokio::time::advance(Duration::from_nanos(1)).await;
    assert!(answers.known().last.is_none());
    assert_eq!(answers.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_freed_is_an_answer_that_says_nothing_about_a_holder() {
    let answers = Answers::default();
    answers.say(None, "l", NEEDS);
    let next = answers.next();
    answers.freed();
    next.await;
    assert!(answers.known().last.is_none());
    assert_eq!(answers.count(), 2);
    answers.say(None, "l", NEEDS);
    answers.forget();
    assert!(answers.known().last.is_none());
    assert_eq!(answers.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_open_until_its_answer_or_its_askers_end() {
    let answers = Answers::default();
    let is_open = || answers.known().is_asking;
    assert!(!is_open());
    let question = answers.ask();
    assert!(is_open());
    let next = answers.next();
    question.answered(None, "l", NEEDS);
    next.await;
    assert_eq!((is_open(), answers.count()), (false, 1));
    drop(answers.ask());
    assert!(!is_open());
    let older = answers.ask();
    let newer = answers.ask();
    drop(older);
    assert!(is_open(), "the newer one");
    drop(newer);
    assert!(!is_open());
    let _question = answers.ask();
    answers.abandon();
    assert!(!is_open());
    let _question = answers.ask();
    answers.forget();
    assert!(!is_open());
}

#[tokio::test(start_paused = true)]
async fn a_server_serves_that_answers_without_an_error_whatever_it_says() {
    let answers = Answers::default();
    assert!(!answers.has_served_since(0));
    let says: [fn(&Answers); 2] = [|answers| answers.say(None, "l", NEEDS), Answers::freed];
    for says in says {
        answers.say(Some(&error()), "l", NEEDS);
        let count = answers.count();
        assert!(!answers.has_served_since(count));
        says(&answers);
        assert!(answers.has_served_since(count));
        answers.say(Some(&error()), "l", NEEDS);
        assert!(answers.has_served_since(count), "meanwhile");
        assert!(!answers.has_served_since(answers.count()));
    }
}
