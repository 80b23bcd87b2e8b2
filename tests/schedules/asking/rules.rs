//! The rules, each of which can be left out.

use crate::model;

/// One rule, as a client or a script keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each hold has an id of its own. Left out: a client has one for all its holds.
    OneIdAHold,
    /// A question asks each holder that it names. Left out: not the first one.
    AsksEach,
    /// A question is forgotten when it is old. Left out: it is kept as long as there are younger ones.
    ForgetsTheOld,
    /// The questions expire when the last one is old. Left out: never.
    Expires,
    /// A question is told to the clients that listen. Left out: it is not.
    Tells,
}

pub(crate) type Rules = model::Rules<Rule>;
