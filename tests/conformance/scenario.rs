//! What is run: scenarios, kinds of lock and mixes of peers.

use std::fmt;
use std::pin::Pin;

use harness::Lang;

use crate::kind::Kind;
use crate::pair::Pair;
use crate::topology::Topology;

/// A story told of two peers, and the kinds of lock of which it is true.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [Kind],
    pub(crate) mixes: &'static [Mix],
    pub(crate) run: for<'a> fn(&'a Pair) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// A list of scenarios, each an `async fn(&Pair)` with the kinds it makes sense for, and the mixes if not all.
macro_rules! scenarios {
    ($($name:ident: $kinds:expr $(, in $mixes:expr)?;)*) => {
        pub(crate) const SCENARIOS: &[crate::scenario::Scenario] = &[$(crate::scenario::Scenario {
            name: stringify!($name),
            kinds: $kinds,
            mixes: crate::scenario::mixes!($($mixes)?),
            run: |pair| Box::pin($name(pair)),
        }),*];
    };
}
pub(crate) use scenarios;

macro_rules! mixes {
    () => {
        &crate::scenario::Mix::ALL
    };
    ($mixes:expr) => {
        $mixes
    };
}
pub(crate) use mixes;

impl Scenario {
    pub(crate) fn tests(&'static self, topology: Topology, mix: Mix) -> impl Iterator<Item = Test> {
        let is_run = topology.is_for(self) && self.mixes.contains(&mix);
        let kinds = if is_run { self.kinds } else { &[] };
        kinds.iter().map(move |&kind| Test { scenario: self, topology, kind, mix })
    }
}

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
    /// Where Redisson in the role of A is known to do worse.
    pub(crate) const A_IS_RUST: &[Self] =
        &[Self { a: Lang::Rust, b: Lang::Rust }, Self { a: Lang::Rust, b: Lang::Java }];
    /// What Redisson in the role of A is known for.
    pub(crate) const A_IS_JAVA: &[Self] =
        &[Self { a: Lang::Java, b: Lang::Java }, Self { a: Lang::Java, b: Lang::Rust }];
    /// Where Redisson in any role is known to do worse.
    pub(crate) const ALL_RUST: &[Self] = &[Self { a: Lang::Rust, b: Lang::Rust }];
    /// Where Redisson in the role of B is known to do worse.
    pub(crate) const B_IS_RUST: &[Self] =
        &[Self { a: Lang::Rust, b: Lang::Rust }, Self { a: Lang::Java, b: Lang::Rust }];
    /// Where there is somebody to ask who knows the question.
    pub(crate) const WITH_RUST: &[Self] = &[
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

/// One scenario on one topology, of one kind, with one mix.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) scenario: &'static Scenario,
    pub(crate) topology: Topology,
    pub(crate) kind: Kind,
    pub(crate) mix: Mix,
}

impl Test {
    pub(crate) fn name(&self) -> String {
        let (topology, kind) = (self.topology.prefix(), self.kind.name());
        format!("{topology}{kind}::{}::{}", self.scenario.name, self.mix)
    }
}
