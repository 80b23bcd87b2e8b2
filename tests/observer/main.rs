//! Locks seen from outside: what an observer, the metrics and the spans tell equals what the test did.

mod counts;
mod enabled;
mod every_kind;
mod panics;
mod refused;
mod spans;
mod swapped;
mod tally;
