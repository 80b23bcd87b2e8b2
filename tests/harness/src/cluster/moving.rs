//! Moves a slot from one master to another.

use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, cmd};

use super::{RedisCluster, View};
use crate::slots::slot;
use crate::wait::{PATIENCE, blocking};

/// After so long nodes may never agree by themselves: a claim of the source, with a later epoch than the target's, was
/// under way while they were told, and counts for those who heard it afterwards.
const STUBBORN: Duration = Duration::from_secs(3);

impl RedisCluster {
    /// Moves the slot of this key to another master, with all its keys; comes back when all nodes know.
    ///
    /// # Panics
    /// When a node refuses its part in it.
    pub fn move_slot_of(&self, key: &str, to: usize) {
        let slot = slot(key);
        self.try_move(slot, self.master_of(key), to)
            .unwrap_or_else(|error| panic!("slot {slot} cannot be moved to {to}: {error}"));
        let (mut told, mut why) = (Instant::now(), String::new());
        let moved = || {
            if told.elapsed() > STUBBORN {
                told = Instant::now();
                self.tell_again(slot, to);
            }
            match self.agreed() {
                Ok(view) if view.master_of(slot) == Some(self.nodes[to].port()) => return Some(()),
                Ok(_) => why = "all name another master".into(),
                Err(error) => why = error,
            }
            None
        };
        let moved = blocking(PATIENCE, moved);
        moved.unwrap_or_else(|| panic!("not all know that {slot} has moved to {to}: {why}"));
    }

    /// Tells all masters once more who has the slot now. What they refuse they know better.
    fn tell_again(&self, slot: u16, to: usize) {
        let mut target = self.nodes[to].client();
        let Ok(view) = View::of(&mut target) else { return };
        let id = view.id_of(self.nodes[to].port()).expect("a node of the cluster");
        let _ = set_slot(&mut target, slot, "NODE", id);
        let _ = cmd("CLUSTER").arg("BUMPEPOCH").query::<String>(&mut target);
        for other in self.masters().into_iter().filter(|&node| node != to) {
            let _ = set_slot(&mut self.nodes[other].client(), slot, "NODE", id);
        }
    }

    /// Begins with it and moves no key: new ones are made over there, for those who are sent there (`ASK`).
    ///
    /// # Panics
    /// When a node refuses its part in it.
    pub fn begin_to_move_slot_of(&self, key: &str, to: usize) {
        let slot = slot(key);
        self.begin_to_move(slot, self.master_of(key), to)
            .unwrap_or_else(|error| panic!("slot {slot} cannot be moved to {to}: {error}"));
    }

    /// Ends it: what is over there already comes back, and the slot stays where it was. Meanwhile, for some
    /// milliseconds, such keys are missing to all: no server sends anybody there then.
    ///
    /// # Panics
    /// When a node refuses its part in it.
    pub fn move_back_slot_of(&self, key: &str, to: usize) {
        let slot = slot(key);
        self.try_move_back(slot, self.master_of(key), to)
            .unwrap_or_else(|error| panic!("slot {slot} cannot be brought back: {error}"));
    }

    /// Moves these keys, of a slot that is on its way, and no others.
    ///
    /// # Panics
    /// When a node refuses its part in it.
    pub fn move_keys(&self, keys: &[&str], to: usize) {
        let from = self.master_of(keys.first().expect("a key"));
        let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.migrate(&mut self.nodes[from].client(), to, keys)
            .unwrap_or_else(|error| panic!("keys cannot be moved to {to}: {error}"));
    }

    fn migrate(&self, source: &mut Connection, to: usize, keys: Vec<Vec<u8>>) -> RedisResult<()> {
        self.migrate_with(&[], source, to, keys)
    }

    fn migrate_with(
        &self,
        options: &[&str],
        source: &mut Connection,
        to: usize,
        keys: Vec<Vec<u8>>,
    ) -> RedisResult<()> {
        cmd("MIGRATE")
            .arg("127.0.0.1")
            .arg(self.nodes[to].port_for_servers())
            .arg("")
            .arg(0)
            .arg(5_000)
            .arg(options)
            .arg("KEYS")
            .arg(keys)
            .exec(source)
    }

    /// The id of the node it goes to.
    fn begin_to_move(&self, slot: u16, from: usize, to: usize) -> RedisResult<String> {
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        let view = View::of(&mut source)?;
        let [source_id, target_id] = [from, to]
            .map(|node| view.id_of(self.nodes[node].port()).expect("a node of the cluster"));
        set_slot(&mut target, slot, "IMPORTING", source_id)?;
        set_slot(&mut source, slot, "MIGRATING", target_id)?;
        Ok(target_id.to_owned())
    }

    fn try_move_back(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        let stable = |node: &mut Connection| {
            cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("STABLE").exec(node)
        };
        stable(&mut source)?;
        loop {
            let keys = keys_in(&mut target, slot)?;
            if keys.is_empty() {
                return stable(&mut target);
            }
            // A waiter may have made one of them anew while it was missing: the older one counts.
            self.migrate_with(&["REPLACE"], &mut target, from, keys)?;
        }
    }

    fn migrate_all(&self, slot: u16, source: &mut Connection, to: usize) -> RedisResult<()> {
        loop {
            let keys = keys_in(source, slot)?;
            if keys.is_empty() {
                return Ok(());
            }
            self.migrate(source, to, keys)?;
        }
    }

    fn try_move(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        let target_id = &self.begin_to_move(slot, from, to)?;
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        self.migrate_all(slot, &mut source, to)?;
        set_slot(&mut target, slot, "NODE", target_id)?;
        set_slot(&mut source, slot, "NODE", target_id)?;
        for other in self.masters().into_iter().filter(|&node| node != from && node != to) {
            set_slot(&mut self.nodes[other].client(), slot, "NODE", target_id)?;
        }
        Ok(())
    }
}

fn keys_in(node: &mut Connection, slot: u16) -> RedisResult<Vec<Vec<u8>>> {
    cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(100).query(node)
}

fn set_slot(node: &mut Connection, slot: u16, what: &str, id: &str) -> RedisResult<()> {
    cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(what).arg(id).exec(node)
}
