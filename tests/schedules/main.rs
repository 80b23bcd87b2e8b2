//! Random schedules of copies that come twice, late or never, on a real server: the rules each kind of lock keeps,
//! proved by leaving them out one by one.
//!
//! Each test with a rule left out prints the shortest counter-example it found (`--nocapture` shows it).
//!
//! - `FUZZ_SCHEDULES=100000 cargo test --release --test schedules no_schedule` runs longer than the default.
//! - `FUZZ_SEED=…` begins with that seed; a failure prints the command that does its schedule again.

mod capture;
mod fair;
mod fuzz;
mod model;
mod read_write;
mod reentrant;
mod template;

/// The lock all clients want.
const LOCK: &str = "lock";
/// How scripts publish.
const PUBLISH: &str = "publish";
