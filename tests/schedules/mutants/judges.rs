//! The judges of a mutant, cheapest first: examples of single calls, random schedules, random schedules with Redisson.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, Once};

use harness::RedisServer;

use crate::asking::Asking;
use crate::calls;
use crate::fair::Fair;
use crate::fuzz::{Fuzz, Fuzzed, number};
use crate::leased::Leased;
use crate::model::{Replacement, Rules};
use crate::number::{Latch, Semaphore};
use crate::read_write::ReadWrite;
use crate::reentrant::{Fenced, Plain, Simple};

/// After so many schedules, a script that none has called is not called by any.
const ENOUGH: u64 = 50;

/// What a judge says of a mutant.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The judge calls no such script.
    NotCalled,
    Survives,
    /// What went wrong.
    Caught(String),
}

/// The sorts of judges, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Examples,
    Schedules,
    WithRedisson,
}

type Trial = dyn Fn(&str, Option<&Replacement>) -> Verdict + Send + Sync;

pub(super) struct Judge {
    pub(super) sort: Sort,
    judge: Box<Trial>,
    /// Scripts of which it is known that this judge does not call them.
    not_called: Mutex<BTreeSet<String>>,
}

impl Judge {
    /// Runs another text in the place of a script, or all as they ship.
    pub(super) fn judge(&self, script: &str, replacement: Option<&Replacement>) -> Verdict {
        if self.not_called.lock().expect("nobody has panicked").contains(script) {
            return Verdict::NotCalled;
        }
        let verdict = (self.judge)(script, replacement);
        if matches!(verdict, Verdict::NotCalled) {
            self.not_called.lock().expect("nobody has panicked").insert(script.into());
        }
        verdict
    }

    fn new(
        sort: Sort,
        judge: impl Fn(&str, Option<&Replacement>) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self { sort, judge: Box::new(judge), not_called: Mutex::default() }
    }

    fn examples() -> Self {
        let judge = |script: &str, replacement: Option<&Replacement>| {
            let mut called = false;
            for example in calls::of(script) {
                called = true;
                if let Err(error) = quietly(|| example.run(replacement)) {
                    return Verdict::Caught(format!("{}: {error}", example.name));
                }
            }
            if called { Verdict::Survives } else { Verdict::NotCalled }
        };
        Self::new(Sort::Examples, judge)
    }

    fn schedules<F: Fuzzed>(redis: Option<&RedisServer>, test: &str) -> Option<Self> {
        let scripts = match redis {
            None => None,
            Some(redis) => Some(Fuzz::<F>::with(redis, Rules::all(), test, true)?.scripts),
        };
        let sort = if redis.is_some() { Sort::WithRedisson } else { Sort::Schedules };
        let judge = move |_: &str, replacement: Option<&Replacement>| {
            run_schedules::<F>(scripts.clone(), replacement)
        };
        Some(Self::new(sort, judge))
    }
}

/// All judges, or the examples alone. Without Java those with Redisson are left out, and a line says so.
pub(super) fn all(test: &str, only_examples: bool) -> Vec<Judge> {
    if only_examples {
        return vec![Judge::examples()];
    }
    let ours = [
        Some(Judge::examples()),
        Judge::schedules::<Simple>(None, test),
        Judge::schedules::<Plain>(None, test),
        Judge::schedules::<Fenced>(None, test),
        Judge::schedules::<Fair>(None, test),
        Judge::schedules::<ReadWrite>(None, test),
        Judge::schedules::<Semaphore>(None, test),
        Judge::schedules::<Latch>(None, test),
        Judge::schedules::<Leased>(None, test),
        Judge::schedules::<Asking>(None, test),
    ];
    let redis = RedisServer::builder().unix_socket().start();
    let beside = [
        Judge::schedules::<Simple>,
        Judge::schedules::<Plain>,
        Judge::schedules::<Fenced>,
        Judge::schedules::<Fair>,
        Judge::schedules::<ReadWrite>,
        Judge::schedules::<Semaphore>,
        Judge::schedules::<Latch>,
        Judge::schedules::<Leased>,
    ];
    ours.into_iter()
        .chain(beside.map(|schedules| schedules(Some(&redis), test)))
        .flatten()
        .collect()
}

fn run_schedules<F: Fuzzed>(
    scripts: Option<F::Scripts>,
    replacement: Option<&Replacement>,
) -> Verdict {
    let mut fuzz = Fuzz::<F>::in_process(scripts, replacement.cloned());
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(F::SCHEDULES);
    for seed in 0..schedules {
        if seed == ENOUGH && replacement.is_some() && !fuzz.has_run_replacement() {
            return Verdict::NotCalled;
        }
        match quietly(|| fuzz.random(seed, None).1) {
            Ok(None) => {}
            Ok(Some(violation)) => return Verdict::Caught(format!("seed {seed}: {violation}")),
            Err(error) => return Verdict::Caught(format!("seed {seed}: {error}")),
        }
    }
    Verdict::Survives
}

/// Runs it; a panic is an answer, and nothing is printed.
fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    done.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("a panic".into(), |text| text.to_string()),
    })
}
