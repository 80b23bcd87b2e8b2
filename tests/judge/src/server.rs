//! [`Servers`]: the witness by lock: who held it when, who stood in line, and why holds ended.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use crate::{
    history::{Mode, Nanos},
    spans::{Span, Spans},
    witness::{Deed, Effect, Leave, Log, Taker, Witness},
};

/// Why a hold ended on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Released,
    /// Its lease was over. `early`: before that.
    Expired {
        early: bool,
    },
    Removed(Taker),
    /// The next master did not know of the grant. `synced`: it was a connected replica at the time.
    GrantLost {
        synced: bool,
    },
    /// The next master knew of the grant, but not of the last renewal.
    RenewalLost,
}

/// What a holder id held, from the grant to the end.
#[derive(Debug)]
pub(crate) struct Tenure<'a> {
    pub(crate) id: &'a str,
    pub(crate) span: Span,
    pub(crate) cause: Cause,
    /// The master that granted it, and the last one that knew of it, by number.
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// When the last of its leases would have ended, on any master.
    pub(crate) until: Nanos,
    /// When its lease was set, and the end it was given. The first is the grant.
    pub(crate) leases: Vec<(Nanos, Nanos)>,
    pub(crate) counts: Vec<(Nanos, u32)>,
    /// It had ended, and the next master did not know that: when the lease ends that it had in its data.
    pub(crate) brought_back: Option<Nanos>,
}

impl Tenure<'_> {
    /// When it was granted: old data may have brought it back since.
    pub(crate) fn granted(&self) -> Nanos {
        self.leases.first().map_or(self.span.from, |(at, _)| *at)
    }

    /// When the lease would have ended that it had at a moment.
    pub(crate) fn lease(&self, at: Nanos) -> Nanos {
        let set = self.leases.partition_point(|(when, _)| *when <= at);
        set.checked_sub(1).map_or(0, |last| self.leases[last].1)
    }

    /// The hold count at a moment.
    pub(crate) fn count(&self, at: Nanos) -> u32 {
        let set = self.counts.partition_point(|(when, _)| *when <= at);
        set.checked_sub(1).map_or(1, |last| self.counts[last].1)
    }
}

/// The time that an id stood in line.
#[derive(Debug)]
pub(crate) struct Stay<'a> {
    pub(crate) id: &'a str,
    pub(crate) span: Span,
    pub(crate) why: Option<Leave>,
    /// It had left, and the next master did not know that.
    pub(crate) brought_back: bool,
}

/// A grant, and the line at that moment.
#[derive(Debug)]
pub(crate) struct Granting<'a> {
    pub(crate) at: Nanos,
    pub(crate) id: &'a str,
    pub(crate) token: Option<u64>,
    /// Who stood in line before it.
    pub(crate) passed_over: Option<&'a str>,
    /// Who held the lock beside it, though it cannot be shared.
    pub(crate) beside: Option<&'a str>,
    /// The highest token before it, and how many times the counter had been lost.
    pub(crate) highest: Option<u64>,
    pub(crate) counter: usize,
    pub(crate) log: usize,
}

/// A holder at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) id: &'a str,
    pub(crate) mode: Mode,
    pub(crate) count: u32,
    pub(crate) until: Nanos,
}

/// The lock at a moment, up to the next state.
#[derive(Clone, Debug)]
pub(crate) struct State<'a> {
    pub(crate) span: Span,
    pub(crate) holders: Vec<Holder<'a>>,
    pub(crate) queue: Rc<Vec<&'a str>>,
    pub(crate) token: Option<u64>,
    pub(crate) spoilt: bool,
}

/// A lock on a server.
#[derive(Debug, Default)]
pub(crate) struct Lock<'a> {
    /// By their begin.
    pub(crate) tenures: Vec<Tenure<'a>>,
    pub(crate) spans: Spans,
    by_id: HashMap<&'a str, Vec<usize>>,
    pub(crate) stays: Vec<Stay<'a>>,
    pub(crate) grants: Vec<Granting<'a>>,
    /// Those of each master.
    states: Vec<Vec<State<'a>>>,
    /// What cannot be.
    pub(crate) flaws: Vec<(Nanos, String)>,
}

impl<'a> Lock<'a> {
    /// The last hold of the id that began by then; that is the only one, but of Redisson's.
    pub(crate) fn tenure(&self, id: &str, by: Nanos) -> Option<&Tenure<'a>> {
        let of_id = self.by_id.get(id)?;
        of_id.iter().rev().map(|at| &self.tenures[*at]).find(|tenure| tenure.span.from <= by)
    }

    pub(crate) fn all_of(&self, id: &str) -> impl Iterator<Item = &Tenure<'a>> {
        self.by_id.get(id).into_iter().flatten().map(|at| &self.tenures[*at])
    }

    /// Whether the lock was so at some moment of the span, its ends included.
    pub(crate) fn ever(&self, span: Span, is: impl Fn(&State<'a>) -> bool) -> bool {
        self.states.iter().any(|states| {
            let first = states.partition_point(|state| state.span.to < span.from);
            states[first..].iter().take_while(|state| state.span.from <= span.to).any(&is)
        })
    }

    /// The times without any holder, each up to a grant. Some have no length.
    pub(crate) fn free(&self, end: Nanos) -> Vec<Span> {
        let mut held: Vec<Span> = self.tenures.iter().map(|tenure| tenure.span).collect();
        held.sort();
        let mut free = Vec::new();
        let mut from = 0;
        for span in held {
            free.push(Span { from, to: span.from });
            from = from.max(span.to);
        }
        free.push(Span { from, to: end });
        free
    }
}

/// All that the witness says.
#[derive(Debug)]
pub(crate) struct Servers<'a> {
    /// By server and name.
    locks: Vec<((&'a str, &'a str), Lock<'a>)>,
    index: BTreeMap<(&'a str, &'a str), usize>,
    /// Of locks that nothing was ever done to.
    untouched: Lock<'a>,
    known: BTreeMap<&'a str, Vec<&'a Log>>,
}

impl<'a> Servers<'a> {
    pub(crate) fn new(witness: &'a Witness, end: Nanos, clock_error: Nanos) -> Self {
        let mut known: BTreeMap<&str, Vec<&Log>> = BTreeMap::new();
        for log in &witness.logs {
            known.entry(&log.server).or_default().push(log);
        }
        let mut locks = Vec::new();
        for (server, logs) in &mut known {
            logs.sort_by_key(|log| log.reign.from);
            let mut by_lock: BTreeMap<&str, Vec<Vec<&Effect>>> = BTreeMap::new();
            for (number, log) in logs.iter().enumerate() {
                for effect in &log.effects {
                    let of_lock = by_lock.entry(&effect.lock).or_default();
                    of_lock.resize_with(logs.len(), Vec::new);
                    of_lock[number].push(effect);
                }
            }
            for (name, effects) in by_lock {
                locks.push(((*server, name), read_lock(logs, &effects, end, clock_error)));
            }
        }
        let states = vec![vec![State {
            span: Span { from: 0, to: Nanos::MAX },
            holders: Vec::new(),
            queue: Rc::default(),
            token: None,
            spoilt: false,
        }]];
        let index = locks.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        Self { locks, index, untouched: Lock { states, ..Lock::default() }, known }
    }

    /// The lock, if its server has a witness.
    pub(crate) fn lock(&self, (server, name): (&str, &str)) -> Option<&Lock<'a>> {
        let at = self.index.get(&(server, name)).copied();
        match at {
            Some(at) => Some(&self.locks[at].1),
            None => self.known.contains_key(server).then_some(&self.untouched),
        }
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = &((&'a str, &'a str), Lock<'a>)> {
        self.locks.iter()
    }

    /// When this master of the server began.
    pub(crate) fn reign(&self, server: &str, number: usize) -> Nanos {
        self.known[server][number].reign.from
    }
}

/// Reads the effects on one lock, of all masters one after another.
fn read_lock<'a>(
    logs: &[&'a Log],
    effects: &[Vec<&'a Effect>],
    end: Nanos,
    error: Nanos,
) -> Lock<'a> {
    let mut lock = Lock::default();
    let mut counter = 0;
    for (number, log) in logs.iter().enumerate() {
        let next = logs.get(number + 1);
        let given_up = log.reign.until.unwrap_or(Nanos::MAX);
        // Where nobody was the master for a while, nothing could be granted.
        let until = next.map_or(given_up, |next| given_up.max(next.reign.from));
        let from = if number == 0 { 0 } else { log.reign.from };
        let mut replay = Replay {
            number,
            from,
            end: end.min(until),
            error,
            holders: Vec::new(),
            queue: Rc::default(),
            token: None,
            spoilt: false,
            left: None,
            counter,
            ended: Vec::new(),
            stays: Vec::new(),
            standing: HashMap::new(),
            states: Vec::new(),
            grants: Vec::new(),
            flaws: Vec::new(),
        };
        replay.note(from);
        for effect in &effects[number] {
            replay.apply(effect);
        }
        counter = replay.finish();
        take_over(&mut lock, replay, until, next.copied());
    }
    // The last master's word counts where nobody came after it.
    lock.tenures.sort_by_key(|tenure| tenure.span);
    let spans = lock.tenures.iter().enumerate().map(|(at, tenure)| (tenure.span, at));
    lock.spans = Spans::new(spans.collect());
    for (at, tenure) in lock.tenures.iter().enumerate() {
        lock.by_id.entry(tenure.id).or_default().push(at);
    }
    lock
}

/// Adds what one master did to what the masters before it did.
fn take_over<'a>(lock: &mut Lock<'a>, replay: Replay<'a>, until: Nanos, next: Option<&Log>) {
    let (number, from) = (replay.number, replay.from);
    let mut seen;
    for raw in replay.ended {
        let inherited = raw.span.from < from;
        // It was held when the master before it ended; or both were masters for a while, and what was done to the
        // hold was done on the next one, so that the one before saw its lease end.
        let before = lock.tenures.iter().rposition(|tenure| {
            let lasted = match tenure.cause {
                Cause::GrantLost { .. } => true,
                Cause::Expired { .. } => tenure.span.to >= from,
                _ => false,
            };
            inherited && lasted && tenure.id == raw.id && tenure.last + 1 == number
        });
        let lost = (raw.span.to > until).then_some(());
        let to = raw.span.to.min(until);
        match before {
            Some(at) => {
                seen = at;
                let tenure = &mut lock.tenures[at];
                let was = tenure.until;
                tenure.cause = match raw.cause {
                    Cause::Expired { early: false } if was > raw.until => Cause::RenewalLost,
                    cause => cause,
                };
                tenure.span.to = match raw.cause {
                    Cause::Released | Cause::Removed(_) => to,
                    // The master before may have gone on with it.
                    _ => tenure.span.to.max(to),
                };
                tenure.last = number;
                tenure.until = was.max(raw.until);
                let back = tenure.brought_back.is_some().then(|| raw.lease(from));
                tenure.brought_back = tenure.brought_back.max(back);
                tenure.leases.extend(raw.leases.iter().filter(|(at, _)| *at >= from));
                // It may know of an earlier count.
                tenure.counts.retain(|(at, _)| *at < from);
                tenure.counts.push((from, raw.count(from)));
                tenure.counts.extend(raw.counts.iter().filter(|(at, _)| *at > from));
            }
            None if raw.span.to <= from => continue,
            None => {
                let span = Span { from: raw.span.from.max(from), to };
                seen = lock.tenures.len();
                let brought_back = inherited.then(|| raw.lease(from));
                lock.tenures.push(Tenure { span, brought_back, ..raw });
            }
        }
        if lost.is_some()
            && let Some(next) = next
        {
            let granted = lock.tenures[seen].span.from;
            let synced = next
                .synced
                .iter()
                .any(|span| span.from <= granted && span.until.is_none_or(|until| granted < until));
            lock.tenures[seen].cause = Cause::GrantLost { synced };
        }
    }
    // Who has left the line before is known from the master before.
    let stays = replay.stays.into_iter().filter(|stay| number == 0 || stay.span.to > from);
    let stays: Vec<_> = stays
        .map(|mut stay| {
            let stood =
                lock.stays.iter().any(|before| before.id == stay.id && before.why.is_none());
            stay.brought_back = stay.span.from < from && !stood;
            stay.span.from = stay.span.from.max(from);
            stay
        })
        .collect();
    lock.stays.extend(stays);
    lock.grants.extend(replay.grants);
    lock.states.push(replay.states);
    lock.flaws.extend(replay.flaws);
}

/// One master's effects on one lock, one after another.
struct Replay<'a> {
    number: usize,
    from: Nanos,
    end: Nanos,
    error: Nanos,
    /// Those who hold, and what becomes of their tenure.
    holders: Vec<(Holder<'a>, Tenure<'a>)>,
    queue: Rc<Vec<&'a str>>,
    token: Option<u64>,
    spoilt: bool,
    /// Who left the line last as its first, having the lock, and when.
    left: Option<(&'a str, Nanos)>,
    counter: usize,
    ended: Vec<Tenure<'a>>,
    stays: Vec<Stay<'a>>,
    standing: HashMap<&'a str, Nanos>,
    states: Vec<State<'a>>,
    grants: Vec<Granting<'a>>,
    flaws: Vec<(Nanos, String)>,
}

impl<'a> Replay<'a> {
    fn apply(&mut self, effect: &'a Effect) {
        let at = effect.at;
        // What the master before did comes late, and says by itself what it had ended.
        if at >= self.from {
            self.expire(at);
        }
        match &effect.deed {
            Deed::Granted { id, mode, until, token } => self.grant(at, id, *mode, *until, *token),
            Deed::Counted { id, count } => {
                if let Some((holder, tenure)) = self.holder(at, id) {
                    holder.count = *count;
                    tenure.counts.push((at, *count));
                }
            }
            Deed::Renewed { id, until } => {
                if let Some((holder, tenure)) = self.holder(at, id) {
                    (holder.until, tenure.until, tenure.span.to) = (*until, *until, *until);
                    tenure.leases.push((at, *until));
                }
            }
            Deed::Released { id } => {
                if self.holder(at, id).is_some() {
                    self.ends(id, at, Cause::Released);
                }
            }
            Deed::Removed { id, by } => {
                if self.holder(at, id).is_some() {
                    self.ends(id, at, Cause::Removed(*by));
                }
            }
            // The server may say so late, and we may have known.
            Deed::Expired { id } => {
                if let Some((holder, _)) = self.holders.iter().find(|(holder, _)| holder.id == id) {
                    let early = at.saturating_add(self.error) < holder.until;
                    self.ends(id, at.min(holder.until), Cause::Expired { early });
                }
            }
            Deed::Pushed { id } => {
                if self.standing.insert(id, at).is_some() {
                    self.flaws.push((at, format!("{id} stands in line twice")));
                }
                Rc::make_mut(&mut self.queue).push(id);
            }
            Deed::Popped { id, why } => self.pop(at, id, *why),
            Deed::CounterLost => {
                self.token = None;
                self.counter += 1;
            }
            Deed::Spoilt => self.spoilt = true,
        }
        self.note(at);
    }

    fn holder(&mut self, at: Nanos, id: &str) -> Option<(&mut Holder<'a>, &mut Tenure<'a>)> {
        match self.holders.iter().position(|(holder, _)| holder.id == id) {
            Some(found) => {
                let (holder, tenure) = &mut self.holders[found];
                Some((holder, tenure))
            }
            None => {
                self.flaws.push((at, format!("{id} is no holder")));
                None
            }
        }
    }

    fn grant(&mut self, at: Nanos, id: &'a str, mode: Mode, until: Nanos, token: Option<u64>) {
        // The end of a lease is not known exactly. Who is in the way of a grant has come to it.
        let excludes = |holder: &Holder<'_>| mode != Mode::Read || holder.mode == Mode::Whole;
        let due =
            |holder: &Holder<'_>| excludes(holder) && holder.until <= at.saturating_add(self.error);
        let over: Vec<_> = self
            .holders
            .iter()
            .filter(|(holder, _)| due(holder))
            .map(|(holder, _)| holder.id)
            .collect();
        for id in over {
            self.ends(id, at, Cause::Expired { early: false });
        }
        let beside =
            self.holders.iter().find(|(other, _)| mode != Mode::Read || other.mode == Mode::Whole);
        let beside = beside.map(|(other, _)| other.id);
        let first = self.queue.first().copied();
        let in_turn = first.is_none_or(|first| first == id) || self.left == Some((id, at));
        if at >= self.from {
            self.grants.push(Granting {
                at,
                id,
                token,
                passed_over: first.filter(|_| !in_turn),
                beside,
                highest: self.token,
                counter: self.counter,
                log: self.number,
            });
        }
        if token.is_some() {
            self.token = self.token.max(token);
        }
        self.spoilt = false;
        if beside == Some(id) {
            return;
        }
        let holder = Holder { id, mode, count: 1, until };
        let tenure = Tenure {
            id,
            span: Span { from: at, to: until },
            cause: Cause::Expired { early: false },
            first: self.number,
            last: self.number,
            until,
            leases: vec![(at, until)],
            counts: Vec::new(),
            brought_back: None,
        };
        self.holders.push((holder, tenure));
    }

    fn pop(&mut self, at: Nanos, id: &'a str, why: Leave) {
        let Some(from) = self.standing.remove(id) else {
            return self.flaws.push((at, format!("{id} does not stand in line")));
        };
        let span = Span { from, to: at };
        self.stays.push(Stay { id, span, why: Some(why), brought_back: false });
        if why == Leave::Granted && self.queue.first() == Some(&id) {
            self.left = Some((id, at));
        }
        Rc::make_mut(&mut self.queue).retain(|other| *other != id);
    }

    fn ends(&mut self, id: &str, at: Nanos, cause: Cause) {
        let found = self.holders.iter().position(|(holder, _)| holder.id == id);
        let (_, mut tenure) = self.holders.remove(found.expect("is a holder"));
        tenure.span.to = at;
        tenure.cause = cause;
        self.ended.push(tenure);
    }

    /// Ends what has run out by now, though the server has not said so.
    fn expire(&mut self, now: Nanos) {
        loop {
            let due = self
                .holders
                .iter()
                .filter(|(holder, _)| holder.until.saturating_add(self.error) < now);
            let Some((until, id)) = due.map(|(holder, _)| (holder.until, holder.id)).min() else {
                return;
            };
            self.ends(id, until, Cause::Expired { early: false });
            self.note(until);
        }
    }

    /// Remembers how the lock is from now on.
    fn note(&mut self, at: Nanos) {
        if at < self.from {
            self.states.clear();
        }
        let at = at.max(self.from);
        if let Some(last) = self.states.last_mut() {
            last.span.to = at;
        }
        self.states.push(State {
            span: Span { from: at, to: Nanos::MAX },
            holders: self.holders.iter().map(|(holder, _)| holder.clone()).collect(),
            queue: self.queue.clone(),
            token: self.token,
            spoilt: self.spoilt,
        });
    }

    /// Ends all, and says how many times the counter was lost.
    fn finish(&mut self) -> usize {
        self.expire(self.end);
        if let Some(last) = self.states.last_mut() {
            last.span.to = last.span.from.max(self.end);
        }
        self.ended.extend(self.holders.drain(..).map(|(_, tenure)| tenure));
        let standing = std::mem::take(&mut self.standing);
        let mut standing: Vec<_> = standing.into_iter().collect();
        standing.sort();
        let to = self.end;
        let stays = standing.into_iter().map(|(id, from)| {
            let span = Span { from, to };
            Stay { id, span, why: None, brought_back: false }
        });
        self.stays.extend(stays);
        self.ended.sort_by_key(|tenure| (tenure.span, tenure.id));
        self.counter
    }
}
