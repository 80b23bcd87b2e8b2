//! What the source keeps to, so that it stays easy to find one's way in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The layers of `src/`, lowest first: a module uses its own layer and those above it in this list.
const LAYERS: &[&[&str]] = &[
    &["names", "owner", "error", "replicas", "runtime"],
    &["wire"],
    &["answers", "config", "fifo", "patience", "protocol", "tenure"],
    &["engine"],
    &["entry", "queue", "passing", "hold", "share", "claim"],
    &["contend"],
    &["lock", "read_write", "acquire", "guard", "inspection"],
    &["client", "multi"],
];

/// Lines that a file has before one should ask whether it is two files.
const LONG: usize = 350;

#[test]
fn no_module_uses_a_higher_layer() {
    for (file, source) in sources() {
        let Some(own) = layer(&module(&file)) else { continue };
        for used in used_modules(&source) {
            let Some(other) = layer(&used) else { continue };
            assert!(other <= own, "{} uses {used}, which stands above it", file.display());
        }
    }
}

#[test]
fn every_module_has_its_layer() {
    for (file, _) in sources() {
        let module = module(&file);
        let exempt = ["lib", "sim"].contains(&module.as_str());
        assert!(exempt || layer(&module).is_some(), "{module} stands in no layer");
    }
}

#[test]
fn only_the_wire_knows_fred() {
    for (file, source) in sources() {
        let names_it = code(&source).any(|line| line.contains("fred::"));
        assert!(!names_it || module(&file) == "wire", "{} names fred", file.display());
    }
}

#[test]
fn a_protocol_is_pure() {
    for (file, source) in sources() {
        if module(&file) == "protocol" {
            let waits = code(&source)
                .any(|line| ["async ", ".await", "tokio"].iter().any(|word| line.contains(word)));
            assert!(!waits, "{} waits", file.display());
        }
    }
}

#[test]
fn files_stay_small() {
    for (file, source) in sources() {
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
    anywhere::<redisson_lock::Error>();
    fn sendable<T: Send>(_: T) {}
    // It compiles: that is the test.
    let _ = |lock: &redisson_lock::Lock, guard: redisson_lock::LockGuard| {
        sendable(lock.lock().into_future());
        sendable(lock.try_lock().into_future());
        sendable(guard.unlock());
    };
    let _ = |lock: &redisson_lock::MultiLock, guard: redisson_lock::MultiGuard| {
        sendable(lock.lock().into_future());
        sendable(lock.try_lock().into_future());
        sendable(guard.unlock());
    };
}

#[test]
fn the_modules_a_file_uses_are_found() {
    let source = "use crate::{a::{b, c}, d, e::F};\n// crate::not\nlet x = crate::g::h();";
    assert_eq!(used_modules(source), ["a", "d", "e", "g"]);
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// Every file of `src/`, and what stands in it.
fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    files(&root().join("src"), "rs").into_iter().map(|file| {
        let source = fs::read_to_string(&file).unwrap();
        (file, source)
    })
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|other| other == ending) {
            found.push(path);
        }
    }
    found
}

/// The top module a file belongs to.
fn module(file: &Path) -> String {
    let below = file.strip_prefix(root().join("src")).unwrap();
    below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules named in `use crate::...` and in paths, unit tests aside.
fn used_modules(source: &str) -> Vec<String> {
    let code: String = code(source).collect::<Vec<_>>().join(" ");
    let mut used = Vec::new();
    for path in code.split("crate::").skip(1) {
        match path.strip_prefix('{') {
            Some(group) => used.extend(items(group).into_iter().map(first_word)),
            None => used.push(first_word(path)),
        }
    }
    used
}

/// What stands between the commas of a `use` group, groups within it left whole.
fn items(group: &str) -> Vec<&str> {
    let (mut items, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        let closes = c == '}' && depth == 0;
        if closes || (c == ',' && depth == 0) {
            items.push(&group[begin..at]);
            begin = at + 1;
        }
        match c {
            _ if closes => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

fn first_word(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The lines of a file that are no comments, up to its unit tests.
fn code(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .filter(|line| !line.trim_start().starts_with("//"))
}
