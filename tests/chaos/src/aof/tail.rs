//! Reads the append-only files of the servers while they are written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use judge::Nanos;

use crate::clock::now;

/// How often it is looked for new bytes, and, of these looks, how often for new files.
const PERIOD: Duration = Duration::from_micros(500);
const LOOKS: u64 = 20;

/// Something that appeared in the files of a server, or was done to them.
#[derive(Debug)]
pub(crate) struct Piece {
    /// When it was seen, right after it was written, and when it was not there yet.
    pub(crate) at: Nanos,
    pub(crate) since: Nanos,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Bytes(Vec<u8>),
    Mark(Mark),
}

/// What may become of the data of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The last command was not whole, and was cut off.
    Torn,
    /// From now on a server that was down may run again.
    Started,
    /// All was removed, and it begins anew.
    Emptied,
    /// A master has sent others.
    Resynced,
    /// Old ones take its place, which are read from their begin up to `Live`.
    Replaced,
    /// From now on the server changes them.
    Live,
}

/// A thread that reads.
#[derive(Debug)]
pub(crate) struct Tail {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    nodes: Mutex<Vec<Node>>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Node {
    directory: PathBuf,
    files: BTreeMap<Name, Open>,
    pieces: Vec<Piece>,
    /// When it was looked at last.
    looked: Nanos,
}

/// Its number, and what a file of that number begins with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    number: u64,
    is_increment: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    read: u64,
}

impl Tail {
    /// Of the servers with these directories.
    pub(crate) fn start(directories: Vec<PathBuf>) -> Self {
        let node = |directory: PathBuf| Node {
            directory: directory.join("appendonlydir"),
            files: BTreeMap::new(),
            pieces: Vec::new(),
            looked: now(),
        };
        let nodes = Mutex::new(directories.into_iter().map(node).collect());
        let shared = Arc::new(Shared { nodes, over: AtomicBool::new(false) });
        let reader = shared.clone();
        let thread = Some(thread::spawn(move || reader.read()));
        Self { shared, thread }
    }

    /// Reads all there is of a server whose process is dead, and notes what is done to its data.
    pub(crate) fn mark(&self, node: usize, mark: Mark) {
        let mut nodes = self.shared.nodes();
        let node = &mut nodes[node];
        node.look();
        node.read();
        node.push(What::Mark(mark));
        if matches!(mark, Mark::Emptied | Mark::Replaced) {
            node.files.clear();
        }
    }

    /// Reads all that is there now.
    pub(crate) fn catch_up(&self, node: usize) {
        let mut nodes = self.shared.nodes();
        nodes[node].look();
        nodes[node].read();
    }

    /// What each server wrote.
    pub(crate) fn stop(mut self) -> Vec<Vec<Piece>> {
        self.shared.over.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("the reader of the files");
        let mut nodes = self.shared.nodes();
        nodes.iter_mut().map(|node| std::mem::take(&mut node.pieces)).collect()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().expect("the nodes")
    }

    fn read(&self) {
        hurry();
        for look in 0.. {
            let over = self.over.load(Ordering::Relaxed);
            for node in self.nodes().iter_mut() {
                if over || look % LOOKS == 0 {
                    node.look();
                }
                node.read();
            }
            if over {
                return;
            }
            thread::sleep(PERIOD);
        }
    }
}

/// What is seen late is known less exactly, so this thread goes before all others, where it may.
fn hurry() {
    let thread = nix::unistd::gettid().to_string();
    let done = |program: &str, arguments: &[&str]| {
        let asked = Command::new(program).args(arguments).arg(&thread).output();
        asked.is_ok_and(|output| output.status.success())
    };
    // Without either the run is as good, and its measured lag larger.
    let _ = done("chrt", &["--rr", "--pid", "10"]) || done("renice", &["-n", "-15", "-p"]);
}

impl Node {
    fn push(&mut self, what: What) {
        let at = now();
        self.pieces.push(Piece { at, since: at, what });
    }

    /// Opens files that have appeared.
    fn look(&mut self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let known = self.files.keys().map(|name| name.number).max().unwrap_or(0);
        let mut replaced = false;
        for entry in entries.flatten() {
            let Some(name) = Name::of(&entry.file_name().to_string_lossy()) else { continue };
            // Those that were replaced are there for a while.
            if self.files.contains_key(&name) || name.number < known {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            // A server rewrites its data by itself only when it has got them from a master.
            replaced |= name.number > 1 && !name.is_increment;
            self.files.insert(name, Open { file, read: 0 });
        }
        if replaced {
            let newest = self.files.keys().map(|name| name.number).max().unwrap_or(0);
            self.files.retain(|name, _| name.number == newest);
            self.push(What::Mark(Mark::Resynced));
        }
    }

    fn read(&mut self) {
        let before = self.looked;
        for open in self.files.values_mut() {
            let Ok(length) = open.file.metadata().map(|data| data.len()) else { continue };
            if length < open.read {
                open.read = length;
                self.pieces.push(Piece { at: now(), since: before, what: What::Mark(Mark::Torn) });
            }
            if length == open.read {
                continue;
            }
            let mut bytes = Vec::new();
            let read = open.file.seek(SeekFrom::Start(open.read));
            if read.and_then(|_| open.file.read_to_end(&mut bytes)).is_err() {
                continue;
            }
            open.read += bytes.len() as u64;
            self.pieces.push(Piece { at: now(), since: before, what: What::Bytes(bytes) });
        }
        self.looked = now();
    }
}

impl Name {
    /// `appendonly.aof.3.incr.aof`
    fn of(file: &str) -> Option<Self> {
        let mut parts = file.strip_prefix("appendonly.aof.")?.split('.');
        let number = parts.next()?.parse().ok()?;
        match (parts.next()?, parts.next()?, parts.next()) {
            ("incr", "aof", None) => Some(Self { number, is_increment: true }),
            ("base", "aof", None) => Some(Self { number, is_increment: false }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_replaced_are_not_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("appendonlydir");
        fs::create_dir_all(&data).unwrap();
        let write =
            |name: &str| fs::write(data.join(format!("appendonly.aof.{name}.aof")), name).unwrap();
        let mut node =
            Node { directory: data.clone(), files: BTreeMap::new(), pieces: Vec::new(), looked: 0 };
        for files in [["1.base", "1.incr"], ["2.base", "2.incr"], ["3.base", "3.incr"]] {
            files.into_iter().for_each(write);
            // The server deletes the ones before when it has time.
            for _ in 0..3 {
                node.look();
                node.read();
            }
        }
        let seen: Vec<String> = node
            .pieces
            .iter()
            .map(|piece| match &piece.what {
                What::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                What::Mark(mark) => format!("{mark:?}"),
            })
            .collect();
        let all =
            ["1.base", "1.incr", "Resynced", "2.base", "2.incr", "Resynced", "3.base", "3.incr"];
        assert_eq!(seen, all);
    }
}
