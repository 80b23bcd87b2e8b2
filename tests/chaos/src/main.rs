//! Real clients and real servers under random faults by a seed, recorded, judged and drawn. `docs/testing.md` has the
//! command line.

mod aof;
mod clock;
mod crew;
mod facts;
mod figures;
mod forced;
mod history;
mod journal;
mod left;
mod machine;
mod moments;
mod monitor;
mod nemesis;
mod options;
mod reigns;
mod report;
mod round;
mod stage;
mod timeline;
mod total;
mod verdict;
mod witness;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use options::{Command, Options};

/// The longest round; a longer run has several, each with a verdict.
const ROUND: u64 = 120;

const USAGE: &str = "redisson-lock-chaos run [--seed N] [--topology single|replicated|sentinel|cluster] [--seconds S]
                        [--rust N] [--java N] [--replicas none|N|all] [--faults a,b] [--locks a,b] [--long %] [--force ‰] [--out DIR]
redisson-lock-chaos judge DIR...
redisson-lock-chaos show DIR...";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = match command.as_str() {
        "run" => Command::parse(arguments).and_then(|command| run(&command)),
        "judge" => each(arguments, verdict::judge_again),
        "show" => each(arguments, |directory| {
            let page = report::write(directory)?;
            println!("{}", page.display());
            Ok(true)
        }),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::from(2)
        }
    }
}

fn each(
    directories: impl Iterator<Item = String>,
    what: impl Fn(&Path) -> Result<bool, String>,
) -> Result<bool, String> {
    let mut all = true;
    for directory in directories {
        all &= what(&PathBuf::from(directory))?;
    }
    Ok(all)
}

/// Whether no round broke a promise.
fn run(command: &Command) -> Result<bool, String> {
    if let Some(unknown) = command.faults.iter().find(|name| !nemesis::knows(name)) {
        return Err(format!("no fault is named {unknown}: {}", nemesis::names()));
    }
    let rounds = command.seconds.div_ceil(ROUND);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut clean = true;
    let mut total = total::Total::default();
    for number in 0..rounds {
        let seed = command.seed.wrapping_add(number);
        let faults = nemesis::chosen(command.topology, &command.faults, seed);
        let options = Options::of(command, seed, command.seconds / rounds, faults);
        let directory = command.out.join(format!("{}-{seed}", command.topology));
        let judged = runtime.block_on(round::play(options, &directory))?;
        clean &= judged.is_clean();
        print!("{}", judged.text());
        if !judged.is_clean() {
            println!("  report         {}", directory.join("report.html").display());
        }
        total.add(&judged);
    }
    if rounds > 1 {
        print!("{total}");
    }
    Ok(clean)
}
