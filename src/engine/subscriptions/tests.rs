use super::*;

fn message(channel: &str) -> Event {
    Event::Message(channel.to_owned())
}

#[tokio::test(start_paused = true)]
async fn messages_are_counted_and_relied_on_from_the_confirmation_to_the_next_gap() {
    let subscriptions = Subscriptions::new();
    let mut subscription = subscriptions.subscribe("a");
    assert!(!subscription.is_confirmed());
    assert_eq!(subscriptions.count("a"), None);
    subscriptions.set(&["a".to_owned()], State::Confirmed, 1);
    subscription.ready().await;
    assert!(subscription.is_confirmed());
    let before = subscription.count();
    assert_eq!(subscriptions.count("a"), Some(before));
    subscription.arm();
    subscriptions.on_event(message("b"));
    assert!(!subscription.is_woken());
    for _ in 0..3 {
        subscriptions.on_event(message("a"));
    }
    assert!(subscription.is_woken());
    assert_eq!(subscription.count(), before + 3);
    assert_eq!(subscriptions.count("a"), Some(before + 3));
    subscription.arm();
    let gaps = subscriptions.gaps();
    for gap in 1..=2 {
        subscriptions.on_event(Event::Gap);
        assert_eq!(*gaps.borrow(), gap);
        assert!(subscription.is_woken() && !subscription.is_confirmed());
        assert_eq!(subscriptions.count("a"), None);
    }
    subscriptions.set(&["a".to_owned()], State::Refused, 1);
    subscription.ready().await;
    assert!(!subscription.is_confirmed());
}

#[tokio::test(start_paused = true)]
async fn the_last_who_goes_ends_the_subscription() {
    let subscriptions = Subscriptions::new();
    let both = [subscriptions.subscribe("a"), subscriptions.subscribe("a")];
    let mut queue = subscriptions.take_queue().unwrap();
    let mut touched = || queue.try_recv().ok();
    assert_eq!((touched().as_deref(), touched()), (Some("a"), None), "the first begins it");
    let [one, other] = both;
    drop(one);
    assert!(subscriptions.is_subscribed("a") && touched().is_none());
    drop(other);
    assert!(!subscriptions.is_subscribed("a"));
    assert_eq!(touched().as_deref(), Some("a"));
}
