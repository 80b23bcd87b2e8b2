//! Three patterns that locks are taken for. Each is a module of a few dozen lines, to be read or copied. Its module
//! `trial` runs it in several processes, with the lock and without, and counts what goes wrong.
//!
//! - [`cache`]: a value that is costly to compute is rebuilt by one process, not by all.
//! - [`read_write`]: a copy of a row in a cache never shows less than the database.
//! - [`sale`]: the database refuses a holder that was paused and has lost its lock.
//!
//! `docs/patterns.md` explains them, with figures. README.md says how to run them.

pub mod cache;
pub mod database;
pub mod error;
pub mod figures;
pub mod plot;
pub mod read_write;
pub mod sale;
pub mod stage;
pub mod worker;
