//! What is run: scenarios, kinds of lock and mixes of peers.

use std::fmt;
use std::pin::Pin;

use harness::Lang;

use crate::stage::Pair;

/// A story told of two peers, and the kinds of lock of which it is true.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) run: for<'a> fn(&'a Pair) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// A list of scenarios, each an `async fn(&Pair)` with the kinds it makes sense for.
macro_rules! scenarios {
    ($($name:ident: $kinds:expr),* $(,)?) => {
        pub(crate) const SCENARIOS: &[crate::scenario::Scenario] = &[$(crate::scenario::Scenario {
            name: stringify!($name),
            kinds: $kinds,
            run: |pair| Box::pin($name(pair)),
        }),*];
    };
}
pub(crate) use scenarios;

impl Scenario {
    pub(crate) fn tests(&'static self, mix: Mix) -> impl Iterator<Item = Test> {
        self.kinds.iter().map(move |&kind| Test { scenario: self, kind, mix })
    }
}

/// A kind of lock, as `PEER.md` names it. A new kind is a variant here and a place in the lists of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
        }
    }
}

/// The kinds with one holder, re-entry, and one channel for all that wait.
pub(crate) const REENTRANT: &[Kind] = &[Kind::Lock];

/// Who plays A and who plays B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) a: Lang,
    pub(crate) b: Lang,
}

impl Mix {
    pub(crate) const ALL: [Self; 4] = [
        Self { a: Lang::Java, b: Lang::Java },
        Self { a: Lang::Rust, b: Lang::Rust },
        Self { a: Lang::Rust, b: Lang::Java },
        Self { a: Lang::Java, b: Lang::Rust },
    ];

    pub(crate) fn needs(self, lang: Lang) -> bool {
        self.a == lang || self.b == lang
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.a, self.b)
    }
}

/// One scenario, of one kind, with one mix.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) scenario: &'static Scenario,
    pub(crate) kind: Kind,
    pub(crate) mix: Mix,
}

impl Test {
    pub(crate) fn name(&self) -> String {
        format!("{}::{}::{}", self.kind.name(), self.scenario.name, self.mix)
    }
}
