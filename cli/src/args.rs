//! [`Cli`]: the command line.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::NonEmptyStringValueParser,
    error::{Error, ErrorKind},
};

use crate::{
    duration::{read, read_interval, read_lease, read_watchdog},
    outcome::{Outcome, USAGE},
};

/// Distributed locks on Redis, shared with Redisson.
#[derive(Debug, Parser)]
#[command(name = "redisson-lock", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) task: Task,
}

const EXIT_CODES: &str = "Exit codes: 1 nobody to ask, nothing freed, or a BAD finding; 64 usage, 65 not such a lock, \
                          69 no Redis, 70 internal, 74 lock lost, 75 lock not got, 78 configuration; `run` hands on \
                          that of its command";

/// Where the locks are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Servers {
    /// The URL of the servers; by default that of the variable REDIS_URL
    #[arg(long, global = true, value_name = "URL", conflicts_with = "config")]
    pub(crate) redis: Option<String>,
    /// A configuration: Redisson's YAML, or JSON (*.json)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command under a lock
    Run(Run),
    /// Show who holds a lock, and who waits for it
    Who(Name),
    /// List the locks that are held
    Ls(Pattern),
    /// Show the locks that are held again and again; a look that fails is repeated, unless it is the first
    Watch(Watch),
    /// Ask the holder of a lock to release it
    Ask(Name),
    /// Free a lock from its holder
    ForceUnlock(ForceUnlock),
    /// Check the servers: version, eviction, rights, clock, messages, replicas
    Doctor,
    #[command(name = "__standby", hide = true)]
    Standby(Standby),
    #[command(name = "__launch", hide = true)]
    Launch(Launch),
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// How long to wait for the lock at most, such as 10s; 0: not at all [default: for ever]
    #[arg(long, short, value_name = "DURATION", value_parser = read)]
    pub(crate) wait: Option<Duration>,
    /// Hold the lock for this long at most, and never renew it; the command is ended before
    #[arg(long, value_name = "DURATION", value_parser = read_lease, conflicts_with = "watchdog")]
    pub(crate) lease: Option<Duration>,
    /// The lease that is renewed while the command runs [default: that of the configuration, 30s]
    #[arg(long, value_name = "DURATION", value_parser = read_watchdog)]
    pub(crate) watchdog: Option<Duration>,
    /// How long the command may take to end when it is told to
    #[arg(long, value_name = "DURATION", value_parser = read, default_value = "5s")]
    pub(crate) grace: Duration,
    /// End the command and release the lock when somebody asks for it, as `ask` does
    #[arg(long)]
    pub(crate) release_when_asked: bool,
    /// What `who` and `ls` show beside the lock [default: the name of the program]
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// The kind of the lock
    #[arg(long, value_enum, default_value_t = Kind::Lock)]
    pub(crate) kind: Kind,
    /// The name of the lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    /// Whether stderr is JSON.
    #[arg(skip)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Fenced,
    Spin,
    Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// The name of the lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Pattern {
    /// Only locks with such a name, as in Redis's SCAN: order:*
    #[arg(default_value = "*", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) pattern: String,
}

#[derive(Args, Debug)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) pattern: Pattern,
    /// The pause between two looks
    #[arg(long, value_name = "DURATION", value_parser = read_interval, default_value = "1s")]
    pub(crate) interval: Duration,
    /// End after this many looks, those that failed included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct ForceUnlock {
    /// The name of the lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whom: Whom,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Whom {
    /// Free it only if this holder has it, as `who` shows it
    #[arg(long, value_name = "HOLDER")]
    pub(crate) if_holder: Option<String>,
    /// Free it whoever holds it
    #[arg(long)]
    pub(crate) any: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Standby {
    /// The process id of `run`
    pub(crate) run: i32,
    /// The process group to end, where it is known already
    pub(crate) group: Option<i32>,
}

#[derive(Args, Debug)]
pub(crate) struct Launch {
    /// The file descriptor that says when
    pub(crate) gate: i32,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

impl Cli {
    /// Reads the command line. The error is how the program is to end.
    pub(crate) fn read() -> Result<Self, Ending> {
        let json = std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == "--json");
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let printed = crate::outcome::print(&error.render().to_string());
                Ending(printed.map_or_else(Outcome::from, |_| Outcome::new(0)))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Ending(
                    Outcome::new(USAGE)
                        .with(
                            "no subcommand: run, who, ls, watch, ask, force-unlock or doctor is needed",
                        )
                        .in_json(json),
                )
            }
            _ => Ending(Outcome::new(USAGE).with(sentence(&error)).in_json(json)),
        })
    }
}

/// How the program ends without doing anything.
#[derive(Debug)]
pub(crate) struct Ending(Outcome);

impl Ending {
    pub(crate) fn end(self) -> ExitCode {
        self.0.end()
    }
}

/// What clap says in several lines, in one.
fn sentence(error: &Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let said: Vec<_> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    let mut said = said.join(" ");
    let is_run = text.contains("Usage: redisson-lock run");
    // clap's own tip would make a value of an option a name, and a name the command of `run`.
    if let Some(tip) = said.find(" tip: to pass ") {
        said.truncate(tip);
        said.push_str(
            "; a value that begins with `-` is joined to its option, as in `--option=-value`",
        );
        said.push_str(if is_run { "" } else { ", and a name that does follows `--`" });
    }
    let lacks_command =
        error.kind() == ErrorKind::MissingRequiredArgument && said.contains("<CMD>");
    if is_run && (error.kind() == ErrorKind::UnknownArgument || lacks_command) {
        said.push_str("; the command of `run` and all of its arguments follow `--`");
    }
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn refused(line: &[&str]) -> String {
        let words = ["redisson-lock"].iter().chain(line);
        sentence(&Cli::try_parse_from(words).unwrap_err())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_makes_no_sense_is_one_sentence_with_its_place() {
        let cases: [(&[&str], &str); 14] = [
            (&["run", "--wait", "x", "l", "--", "true"], "--wait"),
            (&["run", "--lease", "10ms", "l", "--", "true"], "--lease"),
            (&["run", "--lease", "9s", "--watchdog", "9s", "l", "--", "true"], "--watchdog"),
            (&["run", "--kind", "cow", "l", "--", "true"], "cow"),
            (&["run", "l"], "CMD"),
            (&["run", "l"], "follow `--`"),
            (&["run", "--wait", "-5s", "l", "--", "true"], "joined to its option"),
            (&["force-unlock", "l", "--if-holder", "-x:1"], "joined to its option"),
            (&["who", "-x"], "a name that does follows `--`"),
            (&["run", "l", "./report.sh"], "follow `--`"),
            (&["run", "", "--", "true"], "name"),
            (&["force-unlock", "l"], "--if-holder"),
            (&["watch", "--interval", "0"], "--interval"),
            (&["--redis", "redis://h", "--config", "f", "ls"], "--config"),
        ];
        for (line, place) in cases {
            let said = refused(line);
            assert!(said.to_lowercase().contains(&place.to_lowercase()), "{line:?}: {said}");
            assert!(!said.contains('\n') && !said.contains("Usage"), "{said}");
            assert!(!said.contains("tip:"), "{said}");
        }
    }

    #[test]
    fn all_after_the_dashes_is_the_commands() {
        let words = ["redisson-lock", "run", "l", "--", "sh", "-c", "x", "--json", "--", "-w"];
        let cli = Cli::try_parse_from(words).unwrap();
        assert!(!cli.json);
        let Task::Run(run) = cli.task else { panic!() };
        assert_eq!(run.command, ["sh", "-c", "x", "--json", "--", "-w"]);
        assert_eq!((run.wait, run.kind), (None, Kind::Lock));
    }
}
