//! Random schedules of copies that arrive twice, late or never, on a real server. They show the rules that each kind of lock
//! needs, by leaving them out one by one.
//!
//! Each test with a rule left out prints the shortest counter-example it found (`--nocapture` shows it).
//!
//! - `FUZZ_SCHEDULES=100000 cargo test --release --test schedules no_schedule` runs longer than the default.
//! - `FUZZ_SEED=…` begins with that seed. A failure prints the command that repeats its schedule.

mod asking;
mod calls;
mod capture;
mod clients;
mod fair;
mod fuzz;
mod known;
mod leased;
mod model;
mod mutants;
mod number;
mod read_write;
mod reentrant;
mod template;

/// The lock all clients want.
const LOCK: &str = "lock";
/// How scripts publish.
const PUBLISH: &str = "publish";
