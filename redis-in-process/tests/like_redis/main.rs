//! The server in process answers as a real one, and keeps what a real one keeps.
//!
//! A schedule is drawn from a seed: the scripts of `lua/`, scripts that show how Lua and Redis speak to each other, and single
//! commands; some come in moods in which a server refuses commands. After every step the answer is compared with the real
//! server's, and all keys with what is in them and their TTLs, how many keys are kept, and what two subscribers have heard. The
//! real server's time of day is the schedule's: it runs with a clock preloaded that a file sets.
//!
//! - Not compared: LOADING; what the order of KEYS and of fields in a great hash is; Redis 7.2 and later, whose errors of scripts
//!   and scores are written otherwise.
//! - `FUZZ_SCHEDULES=10000` runs more than the default. Each run begins with a seed of its own. `FUZZ_SEED=…` begins with that seed.
#![cfg(target_os = "linux")]

mod clock;
mod connection;
mod draw;
mod in_process;
mod outcome;
mod pair;
mod real;
mod scripts;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::RedisServer;
use redis_in_process::{Refusal, Reply, Server};

use connection::{Connection, packed};
use pair::Pair;
use scripts::OURS;
use step::Step;

const SCHEDULES: u64 = 4_000;

/// The shortest beginning of the schedule after which they differ, without the steps that do not matter.
fn shrunk(pair: &mut Pair, mut steps: Vec<Step>, last: usize) -> Vec<Step> {
    steps.truncate(last + 1);
    let mut n = steps.len();
    while n > 0 {
        n -= 1;
        let mut fewer = steps.clone();
        fewer.remove(n);
        if let Some((last, _)) = pair.first_difference(&fewer, |_, _| {}) {
            fewer.truncate(last + 1);
            steps = fewer;
            n = n.min(steps.len());
        }
    }
    steps
}

#[test]
fn random_schedules_come_to_the_same() {
    let mut pair = Pair::start();
    if let Err(version) = pair.real.is_comparable() {
        println!("SKIPPED: this compares with Redis 7.0, and the server is {version}");
        return;
    }
    let number = |name| env::var(name).ok().map(|value| value.parse().expect("a number"));
    let seed = number("FUZZ_SEED");
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { SCHEDULES });
    let first = seed.unwrap_or_else(|| fastrand::u64(..));
    let began = Instant::now();
    let (mut done, mut met) = (0_u64, BTreeMap::<_, BTreeSet<_>>::new());
    for seed in (0..schedules).map(|n| first.wrapping_add(n)) {
        let steps = draw::schedule(seed);
        let difference = pair.first_difference(&steps, |step, answer| {
            done += 1;
            if let Step::Script(name, ..) = step {
                met.entry(*name).or_default().insert(sort(answer));
            }
        });
        if let Some((last, _)) = difference {
            let steps = shrunk(&mut pair, steps, last);
            let (_, [real, ours]) = pair.first_difference(&steps, |_, _| {}).expect("they differ");
            let steps: Vec<_> = steps.iter().map(|step| format!("{step:?}")).collect();
            panic!(
                "seed {seed}: after these steps\n{}\nthe real server: {real:?}\nthe one in process: {ours:?}\n\
                 again: FUZZ_SEED={seed} cargo test -p redisson-lock-redis-in-process --test like_redis random",
                steps.join("\n")
            );
        }
    }
    let rate = pair.in_process.scripts as f64 / pair.in_process.busy.as_secs_f64();
    println!(
        "{schedules} schedules from seed {first}: {done} steps, of which {} ran scripts, in {:.0?}; \
         the server in process runs {rate:.0} scripts a second",
        pair.in_process.scripts,
        began.elapsed(),
    );
    if schedules >= SCHEDULES {
        for sample in OURS {
            let met = met.get(sample.name).map_or(0, BTreeSet::len);
            assert!(met >= 2, "{} has given {met} sorts of answers", sample.name);
        }
    }
}

/// What sort of answer it is.
fn sort(answer: &Reply) -> String {
    match answer {
        Reply::Nil => "nil".into(),
        Reply::Int(number @ -2..=2) => number.to_string(),
        Reply::Int(_) => "number".into(),
        Reply::Bulk(_) => "text".into(),
        Reply::Status(_) => "status".into(),
        Reply::Error(error) => error.split(' ').next().unwrap_or_default().into(),
        Reply::Array(items) => {
            format!("{{{}}}", items.iter().map(sort).collect::<Vec<_>>().join(", "))
        }
    }
}

#[test]
fn every_script_of_ours_is_run() {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
    let mut files = BTreeSet::new();
    for folder in fs::read_dir(lua).expect("the scripts") {
        let folder = folder.expect("a folder").path();
        for file in fs::read_dir(&folder).expect("its scripts") {
            let file = file.expect("a script").path();
            let [folder, file] = [&folder, &file].map(|path| path.file_stem().expect("a name"));
            files.insert(format!("{}/{}", folder.display(), file.display()));
        }
    }
    let run: BTreeSet<_> = OURS.iter().map(|sample| sample.name.to_string()).collect();
    assert_eq!(files, run);
}

#[test]
fn a_busy_server_refuses_the_same() {
    // On the system's clock: while that stands still, a busy server does not know how long it has been.
    let real = RedisServer::builder().unix_socket().start();
    let mut connection = Connection::to(&real);
    connection.is_ok(&["CONFIG", "SET", "busy-reply-threshold", "10"]);
    let mut server = Server::new();
    server.refuse(Refusal::Busy);
    let mut runs = Connection::to(&real);
    runs.send(&packed(&["EVAL", "while true do end", "0"]));
    let asked: [&[&str]; 6] = [
        &["GET", "key"],
        &["SET", "key", "value"],
        &["PING"],
        &["TIME"],
        &["EVAL", "return 1", "0"],
        &["PUBLISH", "channel", "text"],
    ];
    let began = Instant::now();
    while !matches!(connection.call(&["PING"]), Reply::Error(_)) {
        assert!(began.elapsed() < Duration::from_secs(10), "the server is never busy");
    }
    for words in asked {
        assert_eq!(connection.call(words), server.command(words), "{words:?}");
    }
    connection.is_ok(&["SCRIPT", "KILL"]);
    server.accept(Refusal::Busy);
    assert!(matches!(runs.read(), Reply::Error(_)));
    assert_eq!(connection.call(&["GET", "key"]), server.command(&["GET", "key"]));
}
