//! Examples: what one call of each script does. They need no server, and they are the first judge of the scripts' mutants.

mod asking;
mod counter_rights;
mod counters;
mod example;
mod expirable;
mod fair;
mod fair_line;
mod fenced;
mod lock_rights;
mod moving;
mod plain;
mod read;
mod read_release;
mod reentrant;
mod reentrant_batches;
mod scene;
mod write;

pub(crate) use example::Example;

/// All examples of a script.
pub(crate) fn of(script: &str) -> impl Iterator<Item = &'static Example> {
    let all = [
        lock_rights::EXAMPLES,
        reentrant::EXAMPLES,
        reentrant_batches::EXAMPLES,
        fenced::EXAMPLES,
        fair::EXAMPLES,
        fair_line::EXAMPLES,
        read::EXAMPLES,
        read_release::EXAMPLES,
        counter_rights::EXAMPLES,
        write::EXAMPLES,
        moving::EXAMPLES,
        plain::EXAMPLES,
        counters::EXAMPLES,
        asking::EXAMPLES,
        expirable::EXAMPLES,
    ];
    all.into_iter().flatten().filter(move |example| example.script == script)
}
