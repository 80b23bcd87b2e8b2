//! [`Register`]: the witness of one server: what each script and each mishap did to its locks.
//!
//! A lock is compared with what it was before: its holders, its line, its token counter. Ids are never used again, so
//! the difference says what was done.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Deed, Effect, Leave, Log, Mode, Nanos, Reign, Taker};
use redis_in_process::{Server, Value};

/// Virtual time, and how to find the server's in it.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: Nanos,
    /// The server's clock when virtual time began, in µs, as it is set now.
    pub(super) began: i64,
}

impl Clock {
    /// When a key with this expiry is gone: in the millisecond after it.
    fn gone(self, expires: u64) -> Nanos {
        let micros = (expires as i64 + 1) * 1000 - self.began;
        micros.max(0) as u64 * 1000
    }
}

/// Why a lock may be otherwise than before.
#[derive(Clone, Copy)]
pub(super) enum Cause<'a> {
    Script { name: &'a str, args: &'a [Vec<u8>] },
    Taken(Taker),
}

impl Cause<'_> {
    fn names(self, id: &str) -> bool {
        matches!(self, Self::Script { args, .. } if args.iter().any(|arg| arg == id.as_bytes()))
    }

    /// What became of a holder who is there no more.
    fn ended(self, id: &str) -> Deed {
        let id_of = id.to_owned();
        match self {
            Self::Taken(by) => Deed::Removed { id: id_of, by },
            Self::Script { name, .. } if name.contains("force") => {
                Deed::Removed { id: id_of, by: Taker::Force }
            }
            Self::Script { name, .. } => {
                let gives_back = ["release", "withdraw", "swap", "combine"];
                match gives_back.iter().any(|script| name.contains(script)) && self.names(id) {
                    true => Deed::Released { id: id_of },
                    // A script that ends the hold of somebody else.
                    false => Deed::Expired { id: id_of },
                }
            }
        }
    }
}

pub(super) struct Register {
    server: String,
    logs: Vec<Log>,
    locks: Locks,
}

type Locks = BTreeMap<String, Seen>;

/// A lock as it was seen last.
#[derive(Clone, Default)]
struct Seen {
    holders: BTreeMap<String, Holder>,
    /// Fields whose lease is over, in a hash that others keep, and the end of that.
    over: BTreeMap<String, Nanos>,
    queue: Vec<String>,
    token: Option<u64>,
}

#[derive(Clone)]
struct Holder {
    count: u32,
    /// When its lease ends, as the judge was told.
    until: Nanos,
    /// When its lease ends, as the clock is set now.
    ends: Nanos,
    /// When the key ends.
    key_ends: Nanos,
}

/// What a server that is behind knows.
pub(super) struct Mark {
    log: usize,
    effects: usize,
    locks: Locks,
}

impl Register {
    pub(super) fn new(server: String) -> Self {
        let mut register = Self { server, logs: Vec::new(), locks: Locks::new() };
        register.begin(0, Vec::new(), Vec::new());
        register
    }

    fn begin(&mut self, from: Nanos, synced: Vec<Reign>, effects: Vec<Effect>) {
        let node = format!("{}#{}", self.server, self.logs.len());
        let (server, reign) = (self.server.clone(), Reign { from, until: None });
        self.logs.push(Log { server, node, reign, synced, effects });
    }

    pub(super) fn take(&mut self) -> Vec<Log> {
        std::mem::take(&mut self.logs)
    }

    fn note(&mut self, at: Nanos, server_ms: u64, lock: &str, deed: Deed) {
        let lock = lock.to_owned();
        let log = self.logs.last_mut().expect("the first is there");
        log.effects.push(Effect { at, server_ms: Some(server_ms), lock, deed });
    }

    pub(super) fn look_at_all(&mut self, redis: &Server, clock: Clock, cause: Cause<'_>) {
        let locks: Vec<_> = self.locks.keys().cloned().collect();
        for lock in locks {
            self.look(redis, clock, &lock, cause);
        }
    }

    /// Notes what has changed at a lock.
    pub(super) fn look(&mut self, redis: &Server, clock: Clock, lock: &str, cause: Cause<'_>) {
        let mut seen = self.locks.remove(lock).unwrap_or_default();
        let now = clock.now;
        let mut deeds = Vec::new();
        seen.expire(now, &mut deeds);
        let there = There::look(redis, clock, lock);
        seen.over.retain(|id, key_ends| {
            let was_there = *key_ends > now;
            *key_ends = there.holders.get(id).map_or(0, |(_, holder)| holder.key_ends);
            was_there && *key_ends > 0
        });
        // Those who hold no more.
        let ended: Vec<_> =
            seen.holders.keys().filter(|id| !there.holders.contains_key(*id)).cloned().collect();
        for id in ended {
            seen.holders.remove(&id);
            deeds.push((now, cause.ended(&id)));
        }
        let known = |id: &&String| seen.holders.contains_key(*id) || seen.over.contains_key(*id);
        let new: BTreeSet<_> = there.holders.keys().filter(|id| !known(id)).cloned().collect();
        // Those who left the line.
        for id in seen.queue.iter().filter(|id| !there.queue.contains(id)) {
            let why = match () {
                () if new.contains(id) => Leave::Granted,
                () if cause.names(id) => Leave::GaveUp,
                () => Leave::Dropped,
            };
            deeds.push((now, Deed::Popped { id: id.clone(), why }));
        }
        if there.token < seen.token {
            deeds.push((now, Deed::CounterLost));
        }
        for (id, (mode, holder)) in &there.holders {
            if new.contains(id) {
                // A clock that was set back brings one back whose lease was over.
                let token = there.token.filter(|_| cause.names(id));
                let until = holder.until;
                deeds.push((now, Deed::Granted { id: id.clone(), mode: *mode, until, token }));
                seen.holders.insert(id.clone(), Holder { count: 1, ..holder.clone() });
            }
            let Some(known) = seen.holders.get_mut(id) else { continue };
            if known.count != holder.count {
                deeds.push((now, Deed::Counted { id: id.clone(), count: holder.count }));
                known.count = holder.count;
            }
            // A read under a write prolongs the key, but not the write.
            let prolonged = match mode {
                Mode::Write => cause.names(id) && known.until != holder.ends,
                _ => known.ends != holder.ends,
            };
            if prolonged {
                deeds.push((now, Deed::Renewed { id: id.clone(), until: holder.ends }));
                known.until = holder.ends;
            }
            (known.ends, known.key_ends) = (holder.ends, holder.key_ends);
        }
        for id in there.queue.iter().filter(|id| !seen.queue.contains(id)) {
            deeds.push((now, Deed::Pushed { id: id.clone() }));
        }
        (seen.queue, seen.token) = (there.queue, there.token);
        self.locks.insert(lock.to_owned(), seen);
        for (at, deed) in deeds {
            self.note(at, redis.now() / 1000, lock, deed);
        }
    }

    /// The clock was set. What ends earlier now is told when it ends.
    pub(super) fn clock_was_set(&mut self, redis: &Server, clock: Clock) {
        let mut told = Vec::new();
        for (lock, seen) in &mut self.locks {
            let there = There::look(redis, clock, lock);
            for (id, holder) in &mut seen.holders {
                let there = there.holders.get(id).map(|(_, holder)| (holder.ends, holder.key_ends));
                let (ends, key_ends) = there.unwrap_or((clock.now, clock.now));
                holder.key_ends = key_ends;
                // The judge knows of an end that has passed.
                let is_over = holder.until <= clock.now;
                holder.ends = if is_over { ends.min(holder.until) } else { ends };
                if holder.ends > holder.until {
                    holder.until = holder.ends;
                    told.push((lock.clone(), id.clone(), holder.until));
                }
            }
        }
        for (lock, id, until) in told {
            self.note(clock.now, redis.now() / 1000, &lock, Deed::Renewed { id, until });
        }
    }

    // ---- Other masters

    /// What is known now.
    pub(super) fn mark(&mut self, redis: &Server, clock: Clock) -> Mark {
        let nothing = Cause::Script { name: "", args: &[] };
        self.look_at_all(redis, clock, nothing);
        let log = self.logs.len() - 1;
        Mark { log, effects: self.logs[log].effects.len(), locks: self.locks.clone() }
    }

    /// Ends the time of the master.
    pub(super) fn step_down(&mut self, redis: &Server, clock: Clock) {
        self.mark(redis, clock);
        let log = self.logs.last_mut().expect("the first is there");
        log.reign.until = Some(clock.now);
    }

    /// The next master knows what the mark says. `synced`: its master knew it to be connected.
    pub(super) fn take_over(&mut self, redis: &Server, clock: Clock, mark: &Mark, synced: bool) {
        let effects = self.logs[mark.log].effects[..mark.effects].to_vec();
        let until = effects.last().map_or(0, |effect| effect.at) + 1;
        let synced = if synced { vec![Reign { from: 0, until: Some(until) }] } else { Vec::new() };
        self.begin(clock.now, synced, effects);
        self.locks = mark.locks.clone();
        self.clock_was_set(redis, clock);
    }
}

impl Seen {
    /// Those whose lease is over. The judge knows it, unless it came early.
    fn expire(&mut self, now: Nanos, deeds: &mut Vec<(Nanos, Deed)>) {
        let is_over = |holder: &Holder| holder.ends.min(holder.until) <= now;
        let mut over: Vec<_> = self.holders.iter().filter(|(_, holder)| is_over(holder)).collect();
        over.sort_by_key(|(_, holder)| (holder.ends, holder.until));
        let over: Vec<_> = over.into_iter().map(|(id, _)| id.clone()).collect();
        for id in over {
            let holder = self.holders.remove(&id).expect("is there");
            if holder.ends < holder.until {
                deeds.push((holder.ends, Deed::Expired { id: id.clone() }));
            }
            self.over.insert(id, holder.key_ends);
        }
    }
}

/// A lock as it is on the server.
#[derive(Default)]
struct There {
    holders: BTreeMap<String, (Mode, Holder)>,
    queue: Vec<String>,
    token: Option<u64>,
}

impl There {
    fn look(redis: &Server, clock: Clock, lock: &str) -> Self {
        let mut there = Self::default();
        if let Some(Value::List(ids)) =
            redis.look(format!("redisson_lock_queue:{{{lock}}}")).map(|entry| entry.value)
        {
            there.queue = ids.iter().map(|id| text(id)).collect();
        }
        if let Some(Value::String(token)) =
            redis.look(format!("redisson_lock_token:{{{lock}}}")).map(|entry| entry.value)
        {
            there.token = text(&token).parse().ok();
        }
        let Some(entry) = redis.look(lock) else { return there };
        let Value::Hash(fields) = entry.value else { return there };
        let key_ends = entry.expires.map_or(Nanos::MAX, |expires| clock.gone(expires));
        let shared = fields.iter().any(|(field, _)| field == b"mode");
        for (field, count) in fields.iter().filter(|(field, _)| field != b"mode") {
            let id = text(field);
            let mode = match () {
                () if !shared => Mode::Whole,
                () if id.ends_with(":write") => Mode::Write,
                () => Mode::Read,
            };
            let mut ends = key_ends;
            if mode == Mode::Read {
                let own = redis.look(format!("{{{lock}}}:{id}:rwlock_timeout:1"));
                let own = own.and_then(|entry| entry.expires).map(|expires| clock.gone(expires));
                // Without a lease of its own it is there as long as the others are.
                ends = own.map_or(clock.now, |own| own.min(key_ends));
            }
            let count = text(count).parse().unwrap_or(0);
            there.holders.insert(id, (mode, Holder { count, until: ends, ends, key_ends }));
        }
        there
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
