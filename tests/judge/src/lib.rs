//! A judge over recorded runs: a pure function from what clients saw ([`History`]), what servers did ([`Witness`]) and how
//! long what may take ([`Bounds`]) to a [`Verdict`].
//!
//! It knows nothing of the crate under test, so nothing is wrong in the same way.
//!
//! # Terms
//! - **Belief**: the time in which the user of a guard may work under it: from the answer of the acquisition to the
//!   invocation of the release, the drop, the moment he is told of the loss, or the death of his process. A time in
//!   which the process sleeps is no part of it, up to its first event afterwards, or [`Bounds::wake`] after it goes on.
//! - **Tenure**: the time in which a holder id holds a lock on the server, by the witness.
//! - **Brought back**: a hold, or a place in line, that had ended, and that the next master has in old data. Nobody knows
//!   of it: a hold lasts for the lease that the data say, a place is dropped by the next who waits behind it.
//! - **Idle**: an operation whose future is not polled. That time is not its own: no answer is due, and it takes no free lock.
//! - **Calm**: without a fault, [`Bounds::recovery`] after it included.
//!
//! # Checks
//! | | a finding is | without a witness |
//! |---|---|---|
//! | [C1](Check::Exclusion) | two beliefs at once that exclude each other, on one lock; two such grants by one server | beliefs only; classes by the faults of the nemesis |
//! | [C2](Check::Belief) | a belief, ended by a release or not at all, outside of the tenure; a guard that is granted after its tenure | – |
//! | [C3](Check::Told) | a loss that is told after the end of the tenure, or not by the bound | – |
//! | [C4](Check::Alarm) | `expired` while the hold can be trusted, or in a calm though nobody asked for a lease; `removed` or `taken` before the tenure ended; `closed` without a `close` | by trust only |
//! | [C5](Check::Once) | a guard without a grant; an id granted twice; a release that succeeded and was none; a hold count that is not the number of guards | – |
//! | [C6](Check::Orphan) | a tenure, or a place in line, that nobody claims and that stays; a request that acts when nobody waits for its answer any more; a lease longer than its user asked for; a renewal after the process has closed or died; what is left at the end | – |
//! | [C7](Check::Token) | a token that is not above one answered before; a storage that accepted a lower one, or another's | yes, but for the counter itself |
//! | [C8](Check::Order) | a grant past the first in line; a place dropped of one who was there | – |
//! | [C9](Check::Answer) | a refusal, a state, an error that was not true at any moment of the operation | – |
//! | [C10](Check::Bound) | an answer to a client of this crate that came late, or not at all | yes |
//! | [C11](Check::Liveness) | a free lock that someone waits for in a calm; a process without a turn after the faults | turns only |
//! | [C13](Check::Majority) | C1 for majorities: a belief ends when fewer than a quorum of its tenures are left | beliefs only |
//!
//! # Classes
//! A finding of C1, C2, C3 or C13 may be put down to a [`Class`], by the evidence of the witness. It is a violation if it
//! lasts longer than the class allows. A class is counted in [`Figures::tolls`], and never silent.
//!
//! | | evidence | bound |
//! |---|---|---|
//! | L1 | the hold is not in the log of the next master; not with [`Policy::All`] and a next master that was connected | a third of the watchdog, and the time to fail over and to follow; a lease's end |
//! | L2 | the next master ended the hold by an older lease | as L1 |
//! | L3 | both hold, each on another master | as L1, from the begin of the later master on; none while a partition lasts |
//! | L4 | removed by force, an operator, eviction or a restart; expired early after a clock was set | a third of the watchdog, a tick and [`Bounds::command_timeout`]; a lease's end |
//! | L5 | a process that slept meanwhile | its sleep |

mod bounds;
mod check;
mod history;
mod lines;
mod run;
mod server;
mod spans;
mod verdict;
mod witness;

pub use crate::{
    bounds::{Bounds, MS, SECOND},
    check::judge,
    history::{
        Answer, Call, Code, Event, Fault, Held, History, Kind, Loss, Mode, Nanos, Place, Policy,
        Rule, Seen, What,
    },
    lines::Malformed,
    verdict::{Check, Class, Figures, Finding, Line, Rating, Spread, Toll, Verdict},
    witness::{Deed, Effect, Leave, Left, Log, Reign, Taker, Witness},
};
