//! Rules for the source that keep it easy to navigate.

mod docs;
mod graph;
mod items;
mod known;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use graph::{Edges, Graph, circles};
use items::Items;
use known::KNOWN_CIRCLES;
use tokens::tokens;

/// The layers of `src/`, lowest first. A file uses its own layer and the layers below it.
///
/// An entry is a file or a folder, as a path below `src/` without `.rs`; of several that fit a file, the longest counts.
const LAYERS: &[&[&str]] = &[
    &["broken", "determinism", "doctests", "how_it_works", "logging", "sometimes"],
    &[
        "names",
        "owner",
        "error",
        "redis_error",
        "options",
        "runtime",
        "backoff",
        "warnings",
        "observer",
    ],
    &["permit_id"],
    // The layers of the wire. Its entry by itself is its root: what all others see of it.
    &["wire/breaks", "wire/error", "wire/script", "wire/clock", "wire/tls"],
    &["wire", "wire/answers", "wire/node_id", "wire/deployment", "wire/client_name"],
    &["wire/url", "wire/connection", "wire/tls_library", "wire/topology/slots"],
    &["wire/set_name", "wire/barrier", "wire/queue", "wire/resp", "wire/socket"],
    &["wire/session", "wire/fred/answers", "wire/redis_rs/answers"],
    &["wire/link", "wire/fred/connection", "wire/redis_rs/task"],
    &["wire/replicas", "wire/eviction", "wire/fred/login", "wire/redis_rs/connection"],
    &["wire/node", "wire/fred", "wire/redis_rs/login"],
    &["wire/redis_rs"],
    &["wire/drivers"],
    &["wire/topology/channels"],
    &[
        "wire/topology/addresses",
        "wire/topology/cluster_identity",
        "wire/topology/failover_epoch",
        "wire/topology/late_sources",
        "wire/topology/recent_claims",
        "wire/topology/sentinel_identity/believed",
        "wire/topology/sentinels",
    ],
    &["wire/topology/sentinel_identity", "wire/topology/source"],
    &["wire/topology/identity", "wire/topology/sharding"],
    &["wire/topology/discover", "wire/topology/attempts"],
    &["wire/topology/router"],
    &["wire/topology/refresh"],
    &["wire/topology"],
    &["wire/raw"],
    &["wire/transport"],
    &["wire/connect"],
    &["wire/lazy"],
    &["config", "protocol", "in_process"],
    &["engine"],
    &["locking/acquisition"],
    &[
        "locking/budget",
        "locking/copies",
        "locking/request",
        "locking/line/fifo",
        "locking/line/answers",
    ],
    &["locking/line"],
    &["locking/hold"],
    &["locking/handoff", "locking/sharing"],
    &["locking/baton"],
    &["locking/share"],
    &["locking/registry"],
    &["locking/owned", "locking/attempt", "locking/join"],
    &["locking/wait"],
    &["locking"],
    &["counting"],
    &["inspection", "run"],
    &["guard", "counters/permit"],
    &["fenced_guard"],
    &["acquire"],
    &["lock", "counters"],
    &["read_write", "multi"],
    &["segmented"],
    &["client"],
    &["servers", "metrics"],
    &["blocking/park"],
    &["blocking/background"],
    &["blocking"],
    &["test_util/state", "test_util/refusal", "test_util/resp"],
    &["test_util/upkeep"],
    &["test_util/host"],
    &["test_util/link", "test_util/stranger", "test_util/session"],
    &["test_util/port"],
    &["test_util"],
];

/// Files outside of the layers: the root of the crate, and the folder of its unit tests.
const OUTSIDE: &[&str] = &["lib", "sim"];

/// Lines that a file has before one should ask whether it is two files.
const LONG: usize = 350;

/// The drivers and their libraries. Only the driver's folder may name its library.
const DRIVERS: &[(&str, &str)] = &[("wire/fred", "fred::"), ("wire/redis_rs", "redis::")];

/// How many lines a driver may have, without its unit tests.
const LONG_DRIVER: usize = 500;

/// The libraries of TLS, and the files that may name them.
const TLS_LIBRARIES: &[&str] = &["rustls::", "native_tls::", "rustls_native_certs"];
const TLS: &[&str] = &["wire/tls_library", "wire/socket"];

/// What the simulation runs, and what is random beside its seed. `src/determinism.rs` has a seeded one of
/// each.
const SIMULATED: &[&str] = &[
    "locking",
    "engine",
    "counters",
    "counting",
    "multi",
    "segmented",
    "guard",
    "lock",
    "run",
    "runtime",
];
const UNSEEDED: &[&str] = &[
    "tokio::select",
    "tokio::sync::watch",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "dashmap",
    "uuid::Uuid::new_v4",
];

#[test]
fn no_file_uses_a_higher_layer() {
    let wrong = upward(&Graph::read(&below("src")).edges(), LAYERS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_planted_upward_use_is_found() {
    let files = [
        ("src/lib.rs", "mod high; mod low;"),
        ("src/high.rs", ""),
        ("src/low/mod.rs", "mod upper; mod lower;"),
        ("src/low/upper.rs", ""),
        ("src/low/lower.rs", "use super::upper::U; fn f() { super::super::high::h() }"),
    ];
    let sources = files.map(|(file, source)| (file.into(), source.to_owned()));
    let edges = Graph::read(&BTreeMap::from(sources)).edges();
    let layers: &[&[&str]] = &[&["low/lower"], &["low"], &["high"]];
    assert_eq!(upward(&edges, layers).len(), 2);
    assert_eq!(upward(&edges, &[&["low"], &["high"]]).len(), 1);
}

#[test]
fn every_file_of_src_has_a_layer() {
    let sources = below("src");
    for file in sources.keys() {
        let module = module(file);
        let outside = OUTSIDE.contains(&module.split('/').next().unwrap_or_default());
        assert!(outside || layer(&module, LAYERS).is_some(), "{module} stands in no layer");
    }
    for entry in LAYERS.iter().copied().flatten().chain(OUTSIDE) {
        let stands = sources.keys().any(|file| is_within(&module(file), entry));
        assert!(stands, "there is no {entry}: strike it out of the layers");
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let edges = Graph::read(&below("")).edges();
    let found = circles(&edges);
    let known: Vec<BTreeSet<PathBuf>> =
        KNOWN_CIRCLES.iter().map(|circle| circle.iter().map(PathBuf::from).collect()).collect();
    let new = found.iter().filter(|circle| !known.contains(circle));
    let new: Vec<_> = new.map(|circle| describe(circle, &edges)).collect();
    assert!(new.is_empty(), "not in KNOWN_CIRCLES:\n{}", new.join("\n\n"));
    let gone: Vec<_> = known.iter().filter(|circle| !found.contains(circle)).collect();
    assert!(gone.is_empty(), "gone or smaller, strike out of KNOWN_CIRCLES:\n{gone:#?}");
}

#[test]
fn every_source_file_is_looked_at() {
    let sources = below("");
    let graph = Graph::read(&sources);
    let read = graph.files();
    for file in sources.keys() {
        assert!(read.contains(file.as_path()), "no module is {}", file.display());
    }
}

/// Another driver can take the place of each as long as this holds.
#[test]
fn only_one_folder_names_each_driver_and_it_is_small() {
    for (folder, library) in DRIVERS {
        let mut lines = 0;
        for (file, source) in below("src") {
            let is_test = file.ends_with("tests.rs");
            if is_within(&module(&file), folder) {
                lines += if is_test { 0 } else { source.lines().count() };
                continue;
            }
            // Tests look at their server with redis-rs. A configuration takes over redis-rs's.
            if is_test || ["sim", "config/redis_rs"].iter().any(|it| is_within(&module(&file), it))
            {
                continue;
            }
            let named = code(&source).find(|line| names(line, library));
            assert!(named.is_none(), "{} names {named:?}", file.display());
        }
        assert!((1..=LONG_DRIVER).contains(&lines), "{folder} has {lines} lines");
    }
}

#[test]
fn libraries_of_tls_are_named_in_one_place() {
    for (file, source) in below("src") {
        if !TLS.contains(&&*module(&file)) {
            let named = code(&source).find(|line| TLS_LIBRARIES.iter().any(|it| line.contains(it)));
            assert!(named.is_none(), "{} names {named:?}", file.display());
        }
    }
}

/// The first unseeded name that a file has outside of its unit tests.
fn unseeded(source: &str) -> Option<String> {
    let mut modules = vec![Items::read(&tokens(source))];
    while let Some(items) = modules.pop() {
        let imported = items.imports.iter().map(|import| &import.path);
        let mut named = imported.chain(&items.paths).map(|path| path.join("::"));
        let of = |name: &str, it: &str| {
            name.strip_prefix(it).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let found = named.find(|name| UNSEEDED.iter().any(|it| of(name, it)));
        if found.is_some() {
            return found;
        }
        modules.extend(items.inline.into_iter().map(|(_, within)| within));
    }
    None
}

/// Whether a line names a library. A driver's module may have the library's name.
fn names(line: &str, library: &str) -> bool {
    let line = line.replace("fred::FredDriver", "");
    line.match_indices(library).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
    })
}

/// With one of these, a seed would not repeat its simulated run.
#[test]
fn what_the_simulation_runs_is_drawn_from_its_seed() {
    for (file, source) in below("src") {
        if SIMULATED.iter().any(|it| is_within(&module(&file), it)) {
            let named = unseeded(&source);
            assert!(named.is_none(), "{}: {named:?}, not determinism's", file.display());
        }
    }
}

#[test]
fn a_planted_unseeded_name_is_found() {
    for source in [
        "fn f() { tokio::select! { () = a => {} } }",
        "use tokio::{join, select};",
        "use tokio::sync::{mpsc, watch::Receiver};",
        "mod m { use std::collections::{BTreeMap, HashMap}; }",
        "fn f(map: &dashmap::DashMap<u8, u8>) {}",
    ] {
        assert!(unseeded(source).is_some(), "{source}");
    }
    let unseeded = unseeded("use crate::determinism::{HashMap, select, watch}; use tokio::join;");
    assert_eq!(unseeded, None);
}

#[test]
fn a_protocol_is_pure() {
    for (file, source) in below("src") {
        if is_within(&module(&file), "protocol") {
            let waits = code(&source)
                .any(|line| ["async ", ".await", "tokio"].iter().any(|word| line.contains(word)));
            assert!(!waits, "{} waits", file.display());
        }
    }
}

#[test]
fn files_stay_small() {
    for (file, source) in below("src") {
        let lines = source.lines().count();
        assert!(lines <= LONG, "{} has {lines} lines", file.display());
    }
}

#[test]
fn every_script_says_what_it_takes_and_gives() {
    let scripts = files(&root().join("lua"), "lua");
    assert!(!scripts.is_empty());
    for file in scripts {
        let script = fs::read_to_string(&file).unwrap();
        let header: String =
            script.lines().take_while(|line| line.starts_with("--")).collect::<Vec<_>>().join("\n");
        let body = &script[header.len()..];
        let says = |word: &str| header.contains(word);
        let file = file.display();
        assert!(says("KEYS[") && says("Returns") && says("Repeat"), "{file} lacks its header");
        let mut last = header.lines().skip_while(|line| !line.starts_with("-- Repeat")).skip(1);
        let beside = last.find(|line| !line.starts_with("--          "));
        assert!(beside.is_none(), "{file}: {beside:?} belongs beside the code that it tells of");
        for n in 1..9 {
            let argument = format!("ARGV[{n}]");
            assert!(
                !body.contains(&argument) || says(&argument),
                "{file} does not explain {argument}"
            );
        }
    }
}

#[test]
fn handles_and_guards_go_anywhere() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<redisson_lock::Client>();
    anywhere::<redisson_lock::Lock>();
    anywhere::<redisson_lock::FencedLock>();
    anywhere::<redisson_lock::ReadWriteLock>();
    anywhere::<redisson_lock::MultiLock>();
    anywhere::<redisson_lock::MultiGuard>();
    anywhere::<redisson_lock::LockGuard>();
    anywhere::<redisson_lock::FencedGuard>();
    anywhere::<redisson_lock::Owner>();
    anywhere::<redisson_lock::Semaphore>();
    anywhere::<redisson_lock::Permit>();
    anywhere::<redisson_lock::ExpirableSemaphore>();
    anywhere::<redisson_lock::ExpirablePermit>();
    anywhere::<redisson_lock::CountDownLatch>();
    anywhere::<redisson_lock::Error>();
    anywhere::<redisson_lock::blocking::Client>();
    anywhere::<redisson_lock::blocking::Lock>();
    anywhere::<redisson_lock::blocking::FencedLock>();
    anywhere::<redisson_lock::blocking::ReadWriteLock>();
    anywhere::<redisson_lock::blocking::MultiLock>();
    anywhere::<redisson_lock::blocking::Semaphore>();
    anywhere::<redisson_lock::blocking::Permit>();
    anywhere::<redisson_lock::blocking::ExpirableSemaphore>();
    anywhere::<redisson_lock::blocking::ExpirablePermit>();
    anywhere::<redisson_lock::blocking::CountDownLatch>();
    fn shareable<T: Sync + 'static>() {}
    shareable::<redisson_lock::blocking::LockGuard>();
    shareable::<redisson_lock::blocking::FencedGuard>();
    shareable::<redisson_lock::blocking::MultiGuard>();
    fn sendable<T: Send>(_: T) {}
    fn spawnable<T: Send + 'static>(_: T) {}
    // It compiles: that is the test.
    let _ = |lock: &redisson_lock::Lock, guard: redisson_lock::LockGuard| {
        sendable(lock.lock().into_future());
        sendable(lock.try_lock().into_future());
        sendable(guard.unlock());
    };
    let _ = |lock: &redisson_lock::Lock, fenced: &redisson_lock::FencedLock| {
        spawnable(lock.lock().into_future());
        spawnable(lock.try_lock().wait(Duration::from_secs(1)).into_future());
        spawnable(fenced.lock().lease(Duration::from_secs(1)).into_future());
    };
    let _ = |both: &redisson_lock::ReadWriteLock, locks: &redisson_lock::MultiLock| {
        spawnable(both.read().into_future());
        spawnable(both.try_write().into_future());
        spawnable(locks.lock().into_future());
        spawnable(locks.try_lock().into_future());
    };
    let _ = |guard: redisson_lock::LockGuard, several: redisson_lock::MultiGuard| {
        spawnable(guard.run(async { Ok::<_, std::io::Error>(()) }));
        spawnable(several.run(async { Ok::<_, std::io::Error>(()) }));
    };
    let _ = |pool: &redisson_lock::Semaphore, permit: redisson_lock::Permit| {
        spawnable(pool.acquire(1).into_future());
        spawnable(pool.try_acquire(1).wait(Duration::from_secs(1)).into_future());
        spawnable(permit.release());
    };
    let _ = |pool: &redisson_lock::ExpirableSemaphore, permit: redisson_lock::ExpirablePermit| {
        spawnable(pool.acquire(1).lease(Duration::from_secs(1)).into_future());
        spawnable(pool.try_acquire(1).wait(Duration::from_secs(1)).into_future());
        spawnable(permit.release());
    };
    let _ = |latch: &'static redisson_lock::CountDownLatch| {
        spawnable(latch.wait());
        spawnable(latch.count_down());
    };
    let _ = |lock: &redisson_lock::MultiLock, guard: redisson_lock::MultiGuard| {
        sendable(lock.lock().into_future());
        sendable(lock.try_lock().into_future());
        sendable(guard.unlock());
    };
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// The Rust files below a folder, by their paths in the repository.
fn below(folder: &str) -> BTreeMap<PathBuf, String> {
    let read = |file: PathBuf| {
        let source = fs::read_to_string(&file).unwrap();
        (file.strip_prefix(root()).unwrap().to_owned(), source)
    };
    files(&root().join(folder), "rs").into_iter().map(read).collect()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let skipped = ["target", ".git"].iter().any(|name| path.ends_with(name));
            found.extend(if skipped { Vec::new() } else { files(&path, ending) });
        } else if path.extension().is_some_and(|other| other == ending) {
            found.push(path);
        }
    }
    found
}

/// A file of `src/` as its entry in the layers would be: `engine/lease`.
fn module(file: &Path) -> String {
    let module = file.strip_prefix("src").unwrap().with_extension("");
    let module = if module.ends_with("mod") { module.parent().unwrap() } else { &module };
    module.to_str().unwrap().to_owned()
}

fn is_within(module: &str, entry: &str) -> bool {
    module.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The layer of the longest entry that fits.
fn layer(module: &str, layers: &[&[&str]]) -> Option<usize> {
    let entries =
        layers.iter().enumerate().flat_map(|(n, layer)| layer.iter().map(move |e| (n, e)));
    let fits = entries.filter(|(_, entry)| is_within(module, entry));
    fits.max_by_key(|(_, entry)| entry.len()).map(|(n, _)| n)
}

fn upward(edges: &Edges, layers: &[&[&str]]) -> Vec<String> {
    let layer = |file: &Path| layer(&module(file), layers);
    let mut wrong = Vec::new();
    for (file, used) in edges {
        for (other, name) in used.iter().filter(|(other, _)| layer(other) > layer(file)) {
            if layer(file).is_some() {
                let (file, other) = (file.display(), other.display());
                wrong.push(format!("{file} uses {name} of {other}, which stands above it"));
            }
        }
    }
    wrong
}

/// A circle as an entry of the list of known ones, and the uses that make it.
fn describe(circle: &BTreeSet<PathBuf>, edges: &Edges) -> String {
    let names: Vec<_> = circle.iter().map(|file| file.to_str().unwrap()).collect();
    let mut lines = vec![format!("&{names:?},")];
    for file in circle {
        let used = edges[file].iter().filter(|(other, _)| circle.contains(*other));
        lines.extend(
            used.map(|(other, name)| {
                format!("{} uses {name} of {}", file.display(), other.display())
            }),
        );
    }
    lines.join("\n")
}

/// The lines of a file that are no comments, up to its unit tests.
fn code(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}
