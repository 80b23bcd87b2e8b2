//! The keys of the locks on one server, as its commands leave them.

use std::collections::{BTreeMap, BTreeSet};

use harness::{queue_key, token_key};
use judge::{Effect, Nanos, Taker};

use super::commands::Command;
use super::deeds;
use super::state::{Marks, State};
use crate::clock::Wall;

/// The locks of a run, and what else has to be known to read the commands on them.
#[derive(Debug)]
pub(crate) struct Names {
    locks: Vec<String>,
    /// By key: of which lock it is, and what.
    keys: BTreeMap<String, (usize, Part)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Lock,
    Queue,
    Token,
}

/// All locks of one server.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    names: &'a Names,
    wall: Wall,
    states: Vec<State>,
}

impl Names {
    /// Of all locks of a run.
    pub(crate) fn new(locks: impl IntoIterator<Item = String>) -> Self {
        let locks: BTreeSet<String> = locks.into_iter().collect();
        let locks: Vec<String> = locks.into_iter().collect();
        let keys = locks.iter().enumerate().flat_map(|(at, name)| {
            [
                (name.clone(), (at, Part::Lock)),
                (queue_key(name), (at, Part::Queue)),
                (token_key(name), (at, Part::Token)),
            ]
        });
        Self { keys: keys.collect(), locks }
    }

    fn reader<'k>(&self, key: &'k str) -> Option<(usize, &'k str, &'k str)> {
        let (lock, rest) = key.strip_prefix('{')?.split_once("}:")?;
        let (id, number) = rest.split_once(":rwlock_timeout:")?;
        let (lock, _) = *self.keys.get(lock)?;
        Some((lock, id, number))
    }
}

impl<'a> Model<'a> {
    pub(crate) fn new(names: &'a Names, wall: Wall) -> Self {
        Self { states: vec![State::default(); names.locks.len()], names, wall }
    }

    /// Begins anew without a word.
    pub(crate) fn forget(&mut self) {
        self.states.fill(State::default());
    }

    /// What a server finds that starts with these data: what is over is gone.
    pub(crate) fn found(&mut self, at: Nanos) -> Vec<Effect> {
        let now = self.wall.epoch_ms(at);
        for state in self.states.iter_mut().filter(|it| it.until.is_some_and(|end| end <= now)) {
            state.holders.clear();
            (state.until, state.has_mode) = (None, false);
        }
        let (none, marks) = (State::default(), Marks::default());
        (0..self.states.len()).flat_map(|lock| self.effects(lock, &none, &marks, at)).collect()
    }

    /// All is gone.
    pub(crate) fn wipe(&mut self, at: Nanos, by: Taker) -> Vec<Effect> {
        let before = self.states.clone();
        self.forget();
        let marks = Marks { wiped: Some(by), ..Marks::default() };
        let effects = before.iter().enumerate();
        effects.flat_map(|(lock, before)| self.effects(lock, before, &marks, at)).collect()
    }

    /// Commands that took effect at once.
    pub(crate) fn apply(
        &mut self,
        commands: &[Command],
        at: Nanos,
        caller: Option<&[String]>,
    ) -> Vec<Effect> {
        let wipes = |command: &Command| {
            matches!(command[0].to_ascii_uppercase().as_str(), "FLUSHALL" | "FLUSHDB")
        };
        if commands.iter().any(wipes) {
            return self.wipe(at, Taker::Operator);
        }
        let mut touched: BTreeMap<usize, (State, Marks)> = BTreeMap::new();
        for command in commands {
            // The server's own DEL names one key, those of scripts may name several.
            for lock in self.named(command) {
                let marks = || Marks { caller: caller.map(<[_]>::to_vec), ..Marks::default() };
                let before = || (self.states[lock].clone(), marks());
                let (_, marks) = touched.entry(lock).or_insert_with(before);
                do_one(self.names, &mut self.states[lock], lock, command, marks);
            }
        }
        let effects = touched.iter();
        effects.flat_map(|(lock, (before, marks))| self.effects(*lock, before, marks, at)).collect()
    }

    fn effects(&self, lock: usize, before: &State, marks: &Marks, at: Nanos) -> Vec<Effect> {
        let name = &self.names.locks[lock];
        let moment = |ms| self.wall.moment(ms);
        let after = &self.states[lock];
        let outlived = deeds::outlived(before, after, marks, at, moment).into_iter();
        let deeds = deeds::between(before, after, marks, at, moment);
        outlived
            .chain(deeds.into_iter().map(|deed| (at, deed)))
            .map(|(at, deed)| Effect { at, server_ms: None, lock: name.clone(), deed })
            .collect()
    }

    /// The locks whose keys a command names.
    fn named(&self, command: &Command) -> BTreeSet<usize> {
        let deletes = matches!(command[0].to_ascii_uppercase().as_str(), "DEL" | "UNLINK");
        let keys = command.iter().skip(1).take(if deletes { usize::MAX } else { 1 });
        keys.filter_map(|key| {
            let known = self.names.keys.get(key).map(|(lock, _)| *lock);
            known.or_else(|| self.names.reader(key).map(|(lock, ..)| lock))
        })
        .collect()
    }
}

fn do_one(names: &Names, state: &mut State, lock: usize, command: &Command, marks: &mut Marks) {
    let name = command[0].to_ascii_lowercase();
    if matches!(name.as_str(), "del" | "unlink") {
        for key in &command[1..] {
            let by_script = command[0] == "del";
            delete(names, state, lock, key, by_script, marks);
        }
        return;
    }
    let (key, words) = (&command[1], &command[2..]);
    if let Some((_, id, number)) = names.reader(key) {
        let ends = match name.as_str() {
            "set" => option(words, "pxat"),
            "pexpireat" => words.first().and_then(|ms| ms.parse().ok()),
            _ => None,
        };
        let ends = ends.unwrap_or(u64::MAX);
        state.readers.entry(id.into()).or_default().insert(number.into(), ends);
        return;
    }
    match names.keys.get(key) {
        Some((_, Part::Lock)) => {
            on_lock(state, &name, words, marks);
            if name == "hdel" {
                state.readers.retain(|id, _| state.holders.contains_key(id));
            }
        }
        Some((_, Part::Queue)) => on_queue(&mut state.queue, &name, words, marks),
        Some((_, Part::Token)) => match name.as_str() {
            "incr" => state.token = Some(state.token.unwrap_or(0) + 1),
            "set" => state.token = words.first().and_then(|token| token.parse().ok()),
            _ => {}
        },
        None => {}
    }
}

fn delete(
    names: &Names,
    state: &mut State,
    lock: usize,
    key: &str,
    by_script: bool,
    marks: &mut Marks,
) {
    if let Some((of, id, number)) = names.reader(key).filter(|(of, ..)| *of == lock) {
        debug_assert_eq!(of, lock);
        // One that has run out says until when the hold lasted.
        if let Some(keys) = state.readers.get_mut(id).filter(|_| by_script) {
            keys.remove(number);
        }
        return;
    }
    match names.keys.get(key).filter(|(of, _)| *of == lock) {
        Some((_, Part::Lock)) => {
            marks.gone.extend(std::mem::take(&mut state.holders).into_keys());
            state.readers.clear();
            (state.until, state.has_mode) = (None, false);
            if by_script { marks.deleted = true } else { marks.ended = true }
        }
        Some((_, Part::Queue)) => state.queue.clear(),
        Some((_, Part::Token)) => state.token = None,
        None => {}
    }
}

fn on_lock(state: &mut State, name: &str, words: &[String], marks: &mut Marks) {
    match name {
        "hset" | "hmset" => {
            for pair in words.chunks_exact(2) {
                if pair[0] == "mode" {
                    state.has_mode = true;
                } else {
                    state.holders.insert(pair[0].clone(), pair[1].parse().unwrap_or(0));
                }
            }
        }
        "hincrby" => {
            let more: i64 = words[1].parse().unwrap_or(0);
            let count = i64::from(*state.holders.get(&words[0]).unwrap_or(&0)) + more;
            state.holders.insert(words[0].clone(), count.try_into().unwrap_or(0));
            if count <= 0 {
                marks.let_go.insert(words[0].clone());
            }
        }
        "hdel" => {
            // A release takes out readers whose own keys have ended, and then the one that it is about.
            if state.has_mode {
                marks.let_go.clear();
            }
            for id in words {
                state.holders.remove(id);
                marks.let_go.insert(id.clone());
            }
        }
        "pexpireat" => state.until = words[0].parse().ok(),
        "persist" => state.until = None,
        _ => {}
    }
    if name == "hdel" && state.holders.is_empty() {
        (state.until, state.has_mode) = (None, false);
    }
}

fn on_queue(queue: &mut Vec<String>, name: &str, words: &[String], marks: &mut Marks) {
    match name {
        "rpush" => queue.extend(words.iter().cloned()),
        "lpop" if !queue.is_empty() => drop(queue.remove(0)),
        "lrem" => {
            queue.retain(|id| *id != words[1]);
            marks.gave_up.insert(words[1].clone());
        }
        _ => {}
    }
}

/// The number after a word.
fn option(words: &[String], name: &str) -> Option<u64> {
    let at = words.iter().position(|word| word.eq_ignore_ascii_case(name))?;
    words.get(at + 1)?.parse().ok()
}
