//! Scenarios, kinds of lock and mixes of peers.

use std::pin::Pin;

use crate::kind::Kind;
use crate::mix::Mix;
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
        &crate::mix::Mix::ALL
    };
    ($mixes:expr) => {
        $mixes
    };
}
pub(crate) use mixes;

impl Scenario {
    pub(crate) fn tests(&'static self, topology: Topology, mix: Mix) -> impl Iterator<Item = Test> {
        let is_run = topology.is_for(self.name) && self.mixes.contains(&mix);
        let kinds = if is_run { self.kinds } else { &[] };
        kinds.iter().map(move |&kind| Test { scenario: self, topology, kind, mix })
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
