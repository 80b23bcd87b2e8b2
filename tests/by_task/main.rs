//! The guide for those who come from Redisson: its code is what is tested here, beside a Redisson.

mod page;
mod stage;
mod tasks;
mod tests;
