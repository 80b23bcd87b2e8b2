//! The spans `acquire` and `hold`.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::{Debug, Write},
    sync::{Arc, Mutex, Once},
    time::Duration,
};

use harness::{RedisServer, assert_nothing_left, soon};
use redisson_lock::{Client, Config, Loss};
use tokio::time::timeout;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::Interest,
};

thread_local! {
    static LISTENING: RefCell<Option<Spans>> = const { RefCell::new(None) };
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    events: Vec<String>,
    handles: usize,
}

/// Keeps all spans of the crate, with their events.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

/// The subscriber of all threads. It hands on what the thread's own [`Spans`] are to see.
struct Listener;

impl Listener {
    fn spans(&self) -> Option<Spans> {
        LISTENING.try_with(|spans| spans.borrow().clone()).ok().flatten()
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Seen)) {
        if let Some(spans) = self.spans() {
            change(&mut spans.0.lock().unwrap()[id.into_u64() as usize - 1]);
        }
    }
}

impl Spans {
    /// Those of this thread from now on: of all, in a test that has but one thread.
    fn listen() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // One for all threads: what was once found to interest nobody is not asked for again.
            tracing::subscriber::set_global_default(Listener).expect("the only one");
            tracing::callsite::rebuild_interest_cache();
        });
        LISTENING.with_borrow_mut(|spans| spans.insert(Self::default()).clone())
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl Subscriber for Listener {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("redisson_lock");
        let is_seen = ours && *metadata.level() <= Level::DEBUG;
        self.spans().is_some() && (is_seen || metadata.target() == "observer_test")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut seen = Seen { name: attributes.metadata().name(), handles: 1, ..Seen::default() };
        seen.parent = ENTERED.with_borrow(|entered| entered.last().copied());
        attributes.record(&mut Fields(&mut seen.fields));
        let spans = self.spans().expect("enabled");
        let mut spans = spans.0.lock().unwrap();
        spans.push(seen);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.change(span, |seen| values.record(&mut Fields(&mut seen.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let Some(id) = ENTERED.with_borrow(|entered| entered.last().copied()) else { return };
        let mut line = String::new();
        write!(line, "{} {fields:?}", event.metadata().level()).unwrap();
        self.change(&Id::from_u64(id), |seen| seen.events.push(line));
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            let last = entered.iter().rposition(|id| *id == span.into_u64());
            entered.remove(last.expect("entered before"));
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.change(id, |seen| seen.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut left = 0;
        self.change(&id, |seen| {
            seen.handles -= 1;
            left = seen.handles;
        });
        left == 0
    }
}

fn fields<const N: usize>(span: &Seen, names: [&str; N]) -> [String; N] {
    names.map(|name| span.fields.get(name).cloned().unwrap_or_default())
}

#[tokio::test]
async fn acquisitions_and_holds_have_spans_with_lock_kind_and_holder() {
    let spans = Spans::listen();
    let server = RedisServer::start();
    let config = Config::from_url(server.url()).unwrap().watchdog(Duration::from_secs(6));
    let client = Client::connect(config).await.unwrap();
    let lock = client.fair_lock("order:42");

    let request = tracing::info_span!(target: "observer_test", "request");
    let guard = tracing::Instrument::instrument(lock.lock().into_future(), request).await.unwrap();
    let holder = guard.holder().to_owned();
    let [acquire] = &spans.named("acquire")[..] else { panic!("one acquisition") };
    let expected = ["order:42", "fair", &holder, "granted"];
    assert_eq!(fields(acquire, ["lock", "kind", "holder", "outcome"]), expected);
    assert_eq!(acquire.handles, 0, "it has ended");
    let [hold] = &spans.named("hold")[..] else { panic!("one hold") };
    assert_eq!(fields(hold, ["lock", "kind", "holder", "end"]), ["order:42", "fair", &holder, ""]);
    assert_eq!(hold.handles, 1, "it is open");
    assert_eq!((hold.parent, acquire.parent), (Some(1), Some(1)), "both are the caller's");

    // The loss is told within the hold.
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    assert!(guard.unlock().await.is_err());
    let [hold] = &spans.named("hold")[..] else { panic!("one hold") };
    assert_eq!((fields(hold, ["end"]), hold.handles), (["lost".into()], 0));
    let [event] = &hold.events[..] else { panic!("{:?}", hold.events) };
    assert!(event.starts_with("WARN") && event.contains("lock lost"), "{event}");

    // A release, and a wait that is cut off.
    let guard = lock.lock().await.unwrap();
    assert!(timeout(Duration::from_millis(50), lock.lock()).await.is_err());
    guard.unlock().await.unwrap();
    let outcomes: Vec<_> =
        spans.named("acquire").iter().map(|span| span.fields["outcome"].clone()).collect();
    assert_eq!(outcomes, ["granted", "granted", "cancelled"]);
    let ends: Vec<_> = spans.named("hold").iter().map(|span| span.fields["end"].clone()).collect();
    assert_eq!(ends, ["lost", "released"]);
    soon("to close", client.close()).await.unwrap();
    assert_nothing_left(&server).await;
    let open: Vec<_> = ["acquire", "hold"].iter().flat_map(|name| spans.named(name)).collect();
    assert!(open.iter().all(|span| span.handles == 0), "{open:#?}");
}
