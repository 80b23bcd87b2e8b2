//! Mutants of the scripts: each script of `lua/` with one small mistake has to be caught by some test.
//!
//! - `make mutants` tries all of them, and prints a table. With `MUTANTS_OF=fair/release,fair/withdraw` it tries those of these scripts.
//!   `MUTANTS_BY=examples` asks the examples alone, in seconds.
//! - By default a sample is tried. `MUTANTS=100 MUTANTS_SEED=…` sets how many, and which.
//!
//! `survivors.txt` lists the mutants that no test here catches, each with the reason. `MUTANTS_TELL=1` says what caught the others.

mod judges;
mod lexer;
mod mutate;
mod survivors;
mod table;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::fuzz::number;
use crate::model::Replacement;
use judges::{Judge, Sort, Verdict};
use mutate::{Mutant, mutants};
use survivors::{Reason, Survivor, listed};
use table::{Fate, table};

/// Mutants in a sample.
const SAMPLE: usize = 40;

#[test]
fn each_mutant_of_a_script_is_caught() {
    let only_examples = env::var("MUTANTS_BY").is_ok_and(|judges| judges == "examples");
    let judges = judges::all("each_mutant_of_a_script_is_caught", only_examples);
    if !only_examples && !judges.iter().any(|judge| judge.sort == Sort::WithRedisson) {
        return; // Some mutants are caught beside Redisson only.
    }
    let all = env::var("MUTANTS").is_ok_and(|value| value == "all");
    let chosen = choose(all);
    let listed = listed();
    if all {
        check_shipped(&judges);
    }
    let tried = chosen.into_iter().filter(|mutant| all || is_listed(mutant, &listed).is_none());
    let tried: Vec<_> = tried.collect();
    let fates = try_all(&judges, &tried, &listed);
    if all {
        println!("{}", table(&tried, &fates));
    }
    let survivors = tried.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Survived);
    let survivors: Vec<_> = survivors.map(|(mutant, _)| mutant.to_string()).collect();
    let count = survivors.len();
    assert!(survivors.is_empty(), "no test catches {count}:\n\n{}\n", survivors.join("\n\n"));
    let caught = tried.iter().zip(&fates).filter(|(mutant, fate)| {
        matches!(fate, Fate::Caught(_)) && is_listed(mutant, &listed).is_some()
    });
    let caught: Vec<_> = caught.map(|(mutant, _)| mutant.to_string()).collect();
    assert!(caught.is_empty(), "caught, to be struck off the list:\n\n{}\n", caught.join("\n\n"));
}

#[test]
fn each_entry_of_the_list_is_a_mutant() {
    let all: Vec<_> = every_mutant();
    for Survivor { script, change, .. } in listed() {
        let there = all.iter().any(|mutant| mutant.script == script && mutant.change == change);
        assert!(there, "{script} has no such mutant:\n{change:?}");
    }
}

/// The mutants to try: all of the scripts asked for, or a sample of them.
fn choose(all: bool) -> Vec<Mutant> {
    let mut mutants = every_mutant();
    if let Ok(scripts) = env::var("MUTANTS_OF") {
        mutants.retain(|mutant| scripts.split(',').any(|script| script == mutant.script));
        assert!(!mutants.is_empty(), "{scripts}: no mutants");
    }
    if !all {
        let size = number("MUTANTS").map_or(SAMPLE, |size| size as usize);
        let seed = number("MUTANTS_SEED").unwrap_or(0);
        println!("{size} of {} mutants by MUTANTS_SEED={seed}", mutants.len());
        fastrand::Rng::with_seed(seed).shuffle(&mut mutants);
        mutants.truncate(size);
    }
    mutants
}

fn every_mutant() -> Vec<Mutant> {
    scripts().iter().flat_map(|(name, text)| mutants(name, text)).collect()
}

/// The scripts by their names, such as `fair/acquire`.
fn scripts() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("lua");
    let mut scripts = Vec::new();
    // No lock depends on what is announced: tests/faults tries these.
    let of_locks = |folder: &PathBuf| !folder.ends_with("announcement");
    for folder in entries(&root).into_iter().filter(of_locks) {
        for file in entries(&folder) {
            let name = file.strip_prefix(&root).expect("below it").with_extension("");
            let text = std::fs::read_to_string(&file).expect("a script");
            scripts.push((name.to_str().expect("a plain name").to_owned(), text));
        }
    }
    assert!(!scripts.is_empty(), "there are no scripts");
    scripts
}

fn entries(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn is_listed(mutant: &Mutant, listed: &[Survivor]) -> Option<Reason> {
    let is_it = |one: &&Survivor| one.script == mutant.script && one.change == mutant.change;
    listed.iter().find(is_it).map(|one| one.reason)
}

/// No judge catches the scripts as they ship: else all mutants would be caught.
fn check_shipped(judges: &[Judge]) {
    for judge in judges {
        for (name, _) in scripts() {
            let verdict = judge.judge(&name, None);
            let (sort, is_caught) = (judge.sort, matches!(verdict, Verdict::Caught(_)));
            assert!(!is_caught, "the scripts as they ship: {sort:?} {verdict:?}");
            if sort != Sort::Examples {
                break;
            }
        }
    }
}

/// What became of each mutant, in order. Each core tries one at a time.
fn try_all(judges: &[Judge], mutants: &[Mutant], listed: &[Survivor]) -> Vec<Fate> {
    let shipped = scripts();
    let next = AtomicUsize::new(0);
    let fates = Mutex::new(vec![Fate::Survived; mutants.len()]);
    let work = || {
        while let Some((at, mutant)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, mutants.get(at)?)))
        {
            let (_, text) =
                shipped.iter().find(|(name, _)| *name == mutant.script).expect("its script");
            let fate = fate(judges, mutant, text, is_listed(mutant, listed));
            if fate == Fate::Survived {
                println!("{mutant}\n= survives\n");
            }
            fates.lock().expect("no other has panicked")[at] = fate;
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    fates.into_inner().expect("nobody has panicked")
}

fn fate(judges: &[Judge], mutant: &Mutant, shipped: &str, listed: Option<Reason>) -> Fate {
    let replacement = Replacement { shipped: shipped.into(), text: mutant.text.as_str().into() };
    for judge in judges {
        if let Verdict::Caught(how) = judge.judge(&mutant.script, Some(&replacement)) {
            if env::var("MUTANTS_TELL").is_ok() {
                println!("{mutant}\n= {:?}: {how}\n", judge.sort);
            }
            return Fate::Caught(judge.sort);
        }
    }
    match listed {
        Some(reason) => Fate::Listed(reason),
        None => Fate::Survived,
    }
}
