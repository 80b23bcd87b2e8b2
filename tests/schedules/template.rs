//! A script call of Redisson with holes for what differs from call to call.

use crate::LOCK;
use crate::model::{Arg, Invocation, Ms, Script, StepId};

/// What stands for the lock's name and for the holder in a word.
pub(crate) const NAME_HOLE: &str = "<lock>";
pub(crate) const HOLDER_HOLE: &str = "<holder>";

/// A lease of Redisson's that never ends.
pub(crate) const NO_END: i64 = i64::MAX;

/// The call.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) script: Script,
    pub(crate) keys: Vec<Part>,
    pub(crate) args: Vec<Part>,
}

/// A key or an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The latch that keeps an unlock from counting twice.
    Latch,
    Lease,
    /// How long a waiter of a fair lock keeps its place.
    Wait,
    /// What the client's clock says.
    Now,
    /// A moment at which a lease ends, by that clock.
    End,
    /// A number of permits, or a count.
    Count,
    /// The id of a permit.
    Permit,
    /// A word, which may have holes.
    Text(String),
}

/// What a template is filled with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filling<'a> {
    pub(crate) holder: &'a str,
    pub(crate) operation: StepId,
    pub(crate) lease: Ms,
    pub(crate) wait: Ms,
    pub(crate) clock: i64,
    /// When the lease ends.
    pub(crate) end: i64,
    pub(crate) count: i64,
    /// The ids of permits, in order.
    pub(crate) permits: &'a [String],
}

impl Template {
    pub(crate) fn fill(&self, with: Filling<'_>) -> Invocation {
        let mut permits = with.permits.iter();
        let mut arg = |part: &Part| match part {
            Part::Latch => Arg::Text(latch(with.operation)),
            Part::Lease => Arg::Lease(with.lease),
            Part::Wait => Arg::Lease(with.wait),
            Part::Now => Arg::Clock(with.clock),
            Part::End if with.end == NO_END => Arg::Text("922337203685477".into()),
            Part::End => Arg::Clock(with.end),
            Part::Count => Arg::Text(with.count.to_string()),
            Part::Permit => Arg::Text(permits.next().expect("an id for each permit").clone()),
            Part::Text(text) => {
                Arg::Text(text.replace(NAME_HOLE, LOCK).replace(HOLDER_HOLE, with.holder))
            }
        };
        let key = |arg: Arg| match arg {
            Arg::Text(key) => key,
            other => unreachable!("{other:?} is no key"),
        };
        let keys = self.keys.iter().map(&mut arg).map(key).collect();
        let args = self.args.iter().map(arg).collect();
        Invocation { script: self.script.clone(), keys, args }
    }
}

/// The latch of this operation.
pub(crate) fn latch(operation: StepId) -> String {
    format!("redisson_unlock_latch:{{{LOCK}}}:{operation:032x}")
}
