//! For each check a story that breaks it, and one that just does not.

mod beliefs;
mod clients;
mod lawful;
mod servers;
mod story;
