//! Labels and counters of the [`MetricsObserver`].

use std::{sync::mpsc, thread, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;

fn label_of(observer: &MetricsObserver, lock: &str) -> SharedString {
    observer.label_of(lock, LockKind::Reentrant).0
}

#[test]
fn ten_thousand_names_with_a_uuid_have_one_label() {
    let observer = MetricsObserver::new();
    for _ in 0..10_000 {
        let id = crate::determinism::uuid();
        let label = label_of(&observer, &format!("order:{id}"));
        assert_eq!(&*label, "order:*");
        let label = label_of(&observer, &format!("order:{}", id.simple()));
        assert_eq!(&*label, "order:*");
    }
    assert_eq!(observer.labels.read().unwrap().len(), 1);
}

#[test]
fn names_beyond_the_most_have_one_label_and_known_ones_keep_theirs() {
    let observer = MetricsObserver::new().label(str::to_owned).max_labels(3);
    for lock in ["a", "b", "a", "c"] {
        assert_eq!(&*label_of(&observer, lock), lock);
    }
    for n in 0..1000 {
        assert_eq!(&*label_of(&observer, &format!("lock {n}")), OTHER);
    }
    assert_eq!(&*label_of(&observer, "b"), "b");
}

/// Callers of as many threads look there at the same time.
#[test]
fn a_name_beyond_the_most_waits_for_no_reader() {
    let observer = MetricsObserver::new().label(str::to_owned).max_labels(1);
    assert_eq!(&*label_of(&observer, "a"), "a");
    let reading = observer.labels.read().unwrap();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| tell.send(label_of(&observer, "b")));
        let label = told.recv_timeout(Duration::from_secs(10));
        drop(reading);
        assert_eq!(label.as_deref(), Ok(OTHER));
    });
}

/// The counters that a recorder knows: their labels but the first, and their values.
fn counters(recorder: &DebuggingRecorder) -> Vec<(String, u64)> {
    let known = recorder.snapshotter().snapshot().into_vec().into_iter();
    let counter = |(key, _, _, value): (metrics_util::CompositeKey, _, _, DebugValue)| {
        let DebugValue::Counter(value) = value else { return None };
        let labels: Vec<_> = key.key().labels().map(Label::value).collect();
        Some((format!("{} {}", key.key().name(), labels.join(" ")), value))
    };
    let mut counters: Vec<_> = known.filter_map(counter).collect();
    counters.sort();
    counters
}

/// The `increase()` of a counter that begins with 1 is 0.
#[test]
fn counters_of_losses_and_failures_begin_at_zero() {
    let recorder = DebuggingRecorder::new();
    let observer = MetricsObserver::new().max_labels(1);
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    let begin = |lock, kind| observer.hold_begun(&HoldBegun { lock, kind, holder: "" });
    begin("a", LockKind::Fair);
    let all = |label: &str| -> Vec<_> {
        let lost = LOSSES.map(|why| format!("{LOST} {label} {}", reason(why)));
        let failed = [true, false].map(|it| format!("{RELEASE_FAILURES} {label} {}", result(it)));
        lost.into_iter().chain(failed).map(|name| (name, 0)).collect()
    };
    let mut expected = all("a fair");
    expected.sort();
    assert_eq!(counters(&recorder), expected);

    // A wait is enough, and each kind has its own, as has the label of those beyond the most.
    observer.wait_begun(&WaitBegun { lock: "a", kind: LockKind::Read });
    begin("b", LockKind::Fair);
    begin("c", LockKind::Fair);
    expected.extend(all("a read").into_iter().chain(all("other fair")));
    expected.sort();
    assert_eq!(counters(&recorder), expected);
}

#[test]
fn every_reason_begins_at_zero() {
    let reasons = ["expired", "removed", "taken", "closed", "unknown"];
    assert_eq!(LOSSES.map(reason), reasons);
}
