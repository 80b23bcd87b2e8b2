//! `redisson-lock`: locks on Redis from the command line.
//!
//! | file | content |
//! |---|---|
//! | [`args`], [`duration`] | the command line |
//! | [`outcome`], [`table`] | exit codes and words; what is printed |
//! | [`warnings`] | what the library warns of |
//! | [`connection`] | the configuration, and the connection to the servers |
//! | [`run`] | `run`: the lock, the command, the standby |
//! | [`survey`], [`fields`] | which locks there are, and who holds them |
//! | [`whois`] | what the holders' clients announce |
//! | [`who`], [`watch`], [`mod@ask`], [`force_unlock`], [`doctor`] | the other subcommands |

mod args;
mod ask;
mod connection;
mod doctor;
mod duration;
mod fields;
mod force_unlock;
mod outcome;
mod run;
mod survey;
mod table;
mod warnings;
mod watch;
mod who;
mod whois;

use std::{future::Future, process::ExitCode};

use args::{Cli, Task};
use outcome::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(outcome) => return outcome.end(),
    };
    let json = cli.json;
    // `doctor` looks for causes itself.
    if !matches!(cli.task, Task::Standby(_) | Task::Launch(_) | Task::Doctor) {
        warnings::tell(json);
    }
    let outcome = match cli.task {
        // These two are processes that `run` starts. They need no runtime.
        Task::Standby(args) => return run::standby::watch_over(args.run, args.group),
        Task::Launch(args) => {
            return run::launch::exec_when_told(args.gate, &args.command).in_json(json).end();
        }
        Task::Run(args) => {
            run::signals::unblock();
            on_runtime(run::run(args::Run { json, ..args }, cli.servers))
        }
        Task::Who(args) => on_runtime(who::who(args, cli.servers, json)),
        Task::Ls(args) => on_runtime(survey::ls(args, cli.servers, json)),
        Task::Watch(args) => on_runtime(watch::watch(args, cli.servers, json)),
        Task::Ask(args) => on_runtime(ask::ask(args, cli.servers, json)),
        Task::ForceUnlock(args) => on_runtime(force_unlock::force_unlock(args, cli.servers, json)),
        Task::Doctor => on_runtime(doctor::doctor(cli.servers, json)),
    };
    outcome.unwrap_or_else(Outcome::from).in_json(json).end()
}

fn on_runtime<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let done = runtime.block_on(task);
    // What still runs, such as a close without an answer, must not delay the end.
    runtime.shutdown_background();
    done
}
