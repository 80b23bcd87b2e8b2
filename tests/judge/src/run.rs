//! [`Run`]: the history by operations, guards, processes and faults.

use std::collections::BTreeMap;

use crate::{
    bounds::Bounds,
    history::{
        Answer, Call, Event, Fault, Held, History, Loss, Mode, Nanos, Place, Policy, Rule, What,
    },
    spans::{Span, Spans},
};

/// An operation.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    pub(crate) process: &'a str,
    pub(crate) number: u64,
    pub(crate) call: &'a Call,
    pub(crate) invoked: Nanos,
    pub(crate) outcome: Outcome<'a>,
    /// When it was over: answered, cut, or its process dead. `None`: it was under way when the run ended.
    pub(crate) over: Option<Nanos>,
    /// When its future was not polled.
    pub(crate) idle: Vec<Span>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome<'a> {
    Answered(&'a Answer),
    Cut,
    Unknown,
}

impl Op<'_> {
    pub(crate) fn is_done(&self) -> bool {
        self.outcome == Outcome::Answered(&Answer::Done)
    }

    /// Whether it asks for several locks as one.
    pub(crate) fn is_multi(&self) -> bool {
        matches!(self.call, Call::Acquire { rule: Rule::All | Rule::Majority, .. })
    }
}

/// A guard, from its grant on.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) process: &'a str,
    pub(crate) number: u64,
    pub(crate) locks: &'a [Place],
    pub(crate) rule: Rule,
    pub(crate) owner: Option<&'a str>,
    pub(crate) lease: Option<Nanos>,
    /// The acquisition.
    pub(crate) invoked: Nanos,
    pub(crate) granted: Nanos,
    /// When the acquisition was not polled.
    pub(crate) idle: Vec<Span>,
    pub(crate) holds: Vec<&'a Held>,
    pub(crate) token: Option<u64>,
    pub(crate) acknowledged: Option<u32>,
    /// When it was last seen how long it can be trusted, and the end of that.
    pub(crate) trust: Vec<(Nanos, Nanos)>,
    /// When its user was told that it is lost, and why.
    pub(crate) lost: Option<(Nanos, Loss)>,
    /// When its user gave it back, by which operation. None: by a drop.
    pub(crate) given_back: Option<(Nanos, Option<usize>)>,
    /// When its process died.
    pub(crate) died: Option<Nanos>,
    /// When the run ended.
    end: Nanos,
}

impl<'a> Guard<'a> {
    /// The first moment at which its user does not believe in it any more. At the end of the run he still may.
    pub(crate) fn believed_until(&self) -> Nanos {
        let ends = [self.lost.map(|(at, _)| at), self.given_back.map(|(at, _)| at), self.died];
        ends.into_iter().flatten().min().unwrap_or(self.end)
    }

    pub(crate) fn belief(&self) -> Span {
        Span { from: self.granted, to: self.believed_until() }
    }

    /// Whether the user knows that it is lost, and has not given it back before.
    pub(crate) fn told(&self) -> Option<(Nanos, Loss)> {
        let given_back = self.given_back.map_or(Nanos::MAX, |(at, _)| at);
        self.lost.filter(|(at, _)| *at <= given_back)
    }

    /// Whether both are the same owner's.
    pub(crate) fn is_mate_of(&self, other: &Guard<'_>) -> bool {
        self.process == other.process && self.owner.is_some() && self.owner == other.owner
    }

    pub(crate) fn is_multi(&self) -> bool {
        self.rule != Rule::One
    }

    /// Whether its hold may be that of other readers of its process, too: it has no owner, and no lease
    /// of its own.
    pub(crate) fn shares_hold(&self) -> bool {
        let reads = self.locks.iter().all(|place| place.kind.mode() == Mode::Read);
        reads && self.rule == Rule::One && self.owner.is_none() && self.lease.is_none()
    }

    /// The one hold of a guard of one lock.
    pub(crate) fn id(&self) -> &'a str {
        self.holds.first().map_or("", |hold| hold.id.as_str())
    }
}

/// A process.
#[derive(Debug, Default)]
pub(crate) struct Process<'a> {
    pub(crate) client: Option<&'a str>,
    pub(crate) redisson: bool,
    pub(crate) policy: Policy,
    pub(crate) died: Option<Nanos>,
    /// When a `close` was answered that succeeded.
    pub(crate) closed: Option<Nanos>,
    /// When a `close` was answered, however.
    pub(crate) gave_up: Option<Nanos>,
    /// When it slept, up to its first event afterwards.
    pub(crate) sleeps: Vec<Span>,
}

/// A fault, from its begin to its end.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) span: Span,
    pub(crate) class: Fault,
}

/// Something that is wrong with the history itself.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) at: Nanos,
    pub(crate) process: String,
    pub(crate) what: String,
}

/// The whole history, read once.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) ops: Vec<Op<'a>>,
    pub(crate) guards: Vec<Guard<'a>>,
    pub(crate) processes: BTreeMap<&'a str, Process<'a>>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) flaws: Vec<Flaw>,
    pub(crate) end: Nanos,
    /// Acquisitions by process and lock.
    attempts: BTreeMap<(&'a str, &'a str, &'a str), usize>,
    spans: Vec<Spans>,
    by_client: BTreeMap<&'a str, &'a str>,
    /// Guards by process and number.
    numbers: BTreeMap<(&'a str, u64), usize>,
    /// Guards by process and owner.
    pub(crate) owned: BTreeMap<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(history: &'a History, bounds: &Bounds) -> Self {
        let mut events: Vec<&Event> = history.events.iter().collect();
        // Stable: events of one moment are in the order in which they were written.
        events.sort_by_key(|event| event.at);
        let end = events.last().map_or(0, |event| event.at);
        let mut reader = Reader::new(end, bounds.wake);
        for event in events {
            reader.read(event);
        }
        reader.finish()
    }

    /// The process that made a holder id, if a process has said so.
    pub(crate) fn maker(&self, id: &str) -> Option<(&'a str, &Process<'a>)> {
        let (client, _) = id.split_once(':')?;
        let name = self.by_client.get(client)?;
        Some((name, &self.processes[name]))
    }

    pub(crate) fn process(&self, name: &str) -> &Process<'a> {
        &self.processes[name]
    }

    pub(crate) fn guard(&self, process: &str, number: u64) -> Option<&Guard<'a>> {
        self.numbers.get(&(process, number)).map(|at| &self.guards[*at])
    }

    /// The pieces of a span in which the process was awake.
    pub(crate) fn awake(&self, process: &str, span: Span) -> Vec<Span> {
        span.without(&self.processes[process].sleeps)
    }

    /// The pieces of a span in which the operation could go on: its process was awake, and it was polled.
    pub(crate) fn polled(&self, op: &Op<'a>, span: Span) -> Vec<Span> {
        let awake = self.awake(op.process, span);
        awake.into_iter().flat_map(|piece| piece.without(&op.idle)).collect()
    }

    /// Whether the process has an acquisition of the lock under way at some moment of the span.
    pub(crate) fn tries(&self, process: &str, place: (&str, &str), span: Span) -> bool {
        self.attempts(process, place, span).next().is_some()
    }

    /// The process's acquisitions of the lock that were under way at some moment of the span.
    pub(crate) fn attempts(
        &self,
        process: &str,
        (server, name): (&str, &str),
        span: Span,
    ) -> impl Iterator<Item = &Op<'a>> {
        let spans = self.attempts.get(&(process, server, name)).map(|at| &self.spans[*at]);
        spans.into_iter().flat_map(move |spans| spans.touching(span)).map(|(_, at)| &self.ops[at])
    }

    /// When so much time has passed since `from` in one piece without a fault, its aftermath included.
    pub(crate) fn calm_after(&self, from: Nanos, length: Nanos, recovery: Nanos) -> Nanos {
        let mut deadline = from.saturating_add(length);
        for trouble in &self.troubles {
            let felt =
                Span { from: trouble.span.from, to: trouble.span.to.saturating_add(recovery) };
            if felt.from < deadline && felt.to > from {
                deadline = deadline.max(felt.to.saturating_add(length));
            }
        }
        deadline
    }

    /// Whether there is no fault, and no aftermath of one, in the whole span.
    pub(crate) fn is_calm(&self, span: Span, recovery: Nanos) -> bool {
        self.troubles.iter().all(|trouble| {
            span.to < trouble.span.from || trouble.span.to.saturating_add(recovery) < span.from
        })
    }

    /// Whether a fault delays calls, or their answers, in this span.
    pub(crate) fn is_delayed(&self, span: Span, recovery: Nanos) -> bool {
        self.troubles.iter().filter(|trouble| trouble.class == Fault::Delay).any(|trouble| {
            trouble.span.from <= span.to && span.from <= trouble.span.to.saturating_add(recovery)
        })
    }

    /// Whether a fault of this class began within the span.
    pub(crate) fn begins(&self, class: Fault, span: Span) -> Option<Nanos> {
        let begins = self.troubles.iter().filter(|trouble| trouble.class == class);
        begins
            .map(|trouble| trouble.span.from)
            .filter(|at| span.from <= *at && *at <= span.to)
            .max()
    }
}

#[derive(Debug)]
struct Reader<'a> {
    run: Run<'a>,
    wake: Nanos,
    under_way: BTreeMap<(&'a str, u64), usize>,
    guards: BTreeMap<(&'a str, u64), usize>,
    used: BTreeMap<(&'a str, u64), ()>,
    paused: BTreeMap<&'a str, Nanos>,
    /// When it was paused, and when it went on.
    waking: BTreeMap<&'a str, (Nanos, Nanos)>,
    faults: BTreeMap<&'a str, usize>,
}

impl<'a> Reader<'a> {
    fn new(end: Nanos, wake: Nanos) -> Self {
        let run = Run {
            ops: Vec::new(),
            guards: Vec::new(),
            processes: BTreeMap::new(),
            troubles: Vec::new(),
            flaws: Vec::new(),
            end,
            attempts: BTreeMap::new(),
            spans: Vec::new(),
            by_client: BTreeMap::new(),
            numbers: BTreeMap::new(),
            owned: BTreeMap::new(),
        };
        Self {
            run,
            wake,
            under_way: BTreeMap::new(),
            guards: BTreeMap::new(),
            used: BTreeMap::new(),
            paused: BTreeMap::new(),
            waking: BTreeMap::new(),
            faults: BTreeMap::new(),
        }
    }

    fn flaw(&mut self, event: &Event, what: impl Into<String>) {
        let flaw = Flaw { at: event.at, process: event.process.clone(), what: what.into() };
        self.run.flaws.push(flaw);
    }

    fn read(&mut self, event: &'a Event) {
        let name = event.process.as_str();
        match &event.what {
            What::Begin { fault, class, .. } => return self.begin(event, fault, *class),
            What::Heal { fault } => return self.heal(event, fault),
            _ => {}
        }
        let process = self.run.processes.entry(name).or_default();
        if process.died.is_some() {
            return self.flaw(event, "an event of a dead process");
        }
        match &event.what {
            What::Pause => {
                self.wakes(name, event.at);
                if self.paused.insert(name, event.at).is_some() {
                    self.flaw(event, "paused twice");
                }
                return;
            }
            What::Resume => {
                match self.paused.remove(name) {
                    Some(since) => drop(self.waking.insert(name, (since, event.at))),
                    None => self.flaw(event, "resumed, but not paused"),
                }
                return;
            }
            What::End => return self.dies(name, event.at),
            _ => self.wakes(name, event.at),
        }
        match &event.what {
            What::Start { client, redisson, policy } => {
                let process = self.run.processes.entry(name).or_default();
                (process.redisson, process.policy) = (*redisson, *policy);
                process.client = client.as_deref();
                if let Some(client) = client
                    && self.run.by_client.insert(client, name).is_some()
                {
                    self.flaw(event, "two clients of one id");
                }
            }
            What::Invoke { op, call } => self.invoke(event, *op, call),
            What::Answer { op, answer } => match self.under_way.remove(&(name, *op)) {
                Some(index) => self.answer(event, index, answer),
                None => self.flaw(event, format!("an answer to #{op}, which is not under way")),
            },
            What::Idle { op } | What::Polled { op } => match self.under_way.get(&(name, *op)) {
                Some(&index) if matches!(event.what, What::Polled { .. }) => {
                    self.polled(index, event.at);
                }
                Some(&index) => {
                    let span = Span { from: event.at, to: self.run.end };
                    self.run.ops[index].idle.push(span);
                }
                None => self.flaw(event, format!("#{op} is not polled, and not under way")),
            },
            What::Cut { op } => match self.under_way.remove(&(name, *op)) {
                Some(index) => {
                    self.polled(index, event.at);
                    self.run.ops[index].over = Some(event.at);
                    self.run.ops[index].outcome = Outcome::Cut;
                }
                None => self.flaw(event, format!("#{op} is cut, which is not under way")),
            },
            What::Drop { guard } => {
                self.give_back(event, *guard, None);
            }
            What::Renewed { guard, remaining } => {
                if let Some(guard) = self.guard(event, *guard) {
                    guard.trust.push((event.at, event.at.saturating_add(*remaining)));
                }
            }
            What::Joined { guard, hold } => {
                if let Some(guard) = self.guard(event, *guard) {
                    guard.holds.push(hold);
                }
            }
            What::Lost { guard, why } => {
                if let Some(guard) = self.guard(event, *guard) {
                    guard.lost.get_or_insert((event.at, *why));
                }
            }
            What::Pause | What::Resume | What::End | What::Begin { .. } | What::Heal { .. } => {
                unreachable!("seen to above")
            }
        }
    }

    fn begin(&mut self, event: &'a Event, fault: &'a str, class: Fault) {
        let span = Span { from: event.at, to: self.run.end };
        self.run.troubles.push(Trouble { span, class });
        if self.faults.insert(fault, self.run.troubles.len() - 1).is_some() {
            self.flaw(event, format!("the fault {fault} begins twice"));
        }
    }

    fn heal(&mut self, event: &'a Event, fault: &str) {
        match self.faults.remove(fault) {
            Some(index) => self.run.troubles[index].span.to = event.at,
            None => self.flaw(event, format!("the fault {fault} ends, but has not begun")),
        }
    }

    /// The process has been seen to run.
    fn wakes(&mut self, name: &'a str, at: Nanos) {
        if let Some((since, resumed)) = self.waking.remove(name) {
            let to = at.min(resumed.saturating_add(self.wake));
            self.sleep(name, Span { from: since, to });
        }
    }

    fn sleep(&mut self, name: &'a str, span: Span) {
        self.run.processes.entry(name).or_default().sleeps.push(span);
    }

    fn dies(&mut self, name: &'a str, at: Nanos) {
        self.wakes(name, at);
        if let Some(since) = self.paused.remove(name) {
            self.sleep(name, Span { from: since, to: at });
        }
        self.run.processes.entry(name).or_default().died = Some(at);
        let first = (name, 0);
        let lost: Vec<_> =
            self.under_way.range(first..=(name, u64::MAX)).map(|(key, _)| *key).collect();
        for key in lost {
            let index = self.under_way.remove(&key).expect("is there");
            self.polled(index, at);
            self.run.ops[index].over = Some(at);
        }
        for (_, index) in self.guards.range(first..=(name, u64::MAX)) {
            self.run.guards[*index].died = Some(at);
        }
    }

    fn invoke(&mut self, event: &'a Event, number: u64, call: &'a Call) {
        let process = event.process.as_str();
        let (invoked, outcome) = (event.at, Outcome::Unknown);
        let op = Op { process, number, call, invoked, outcome, over: None, idle: Vec::new() };
        self.run.ops.push(op);
        let index = self.run.ops.len() - 1;
        if self.used.insert((process, number), ()).is_some() {
            return self.flaw(event, format!("#{number} is used twice"));
        }
        self.under_way.insert((process, number), index);
        match call {
            Call::Unlock { guard } => self.give_back(event, *guard, Some(index)),
            Call::Check { guard } | Call::Use { guard, .. } => drop(self.guard(event, *guard)),
            _ => {}
        }
    }

    /// The operation is polled again, if it was not.
    fn polled(&mut self, index: usize, at: Nanos) {
        let end = self.run.end;
        if let Some(idle) = self.run.ops[index].idle.last_mut() {
            idle.to = if idle.to == end { at } else { idle.to };
        }
    }

    fn guard(&mut self, event: &Event, number: u64) -> Option<&mut Guard<'a>> {
        let Some(index) = self.guards.get(&(event.process.as_str(), number)) else {
            self.flaw(event, format!("there is no guard {number}"));
            return None;
        };
        Some(&mut self.run.guards[*index])
    }

    fn give_back(&mut self, event: &'a Event, number: u64, op: Option<usize>) {
        let Some(guard) = self.guard(event, number) else { return };
        if guard.given_back.is_some() {
            return self.flaw(event, format!("the guard {number} is given back twice"));
        }
        guard.given_back = Some((event.at, op));
    }

    fn answer(&mut self, event: &'a Event, index: usize, answer: &'a Answer) {
        let (at, end) = (event.at, self.run.end);
        self.polled(index, at);
        let op = &mut self.run.ops[index];
        (op.over, op.outcome) = (Some(at), Outcome::Answered(answer));
        let (process, invoked, call) = (op.process, op.invoked, op.call);
        if !fits(call, answer) {
            return self.flaw(event, "an answer to something else");
        }
        match (call, answer) {
            (
                Call::Acquire { guard: number, locks, rule, owner, lease, .. },
                Answer::Granted { holds, token, acknowledged, remaining, .. },
            ) => {
                let guard = Guard {
                    process,
                    number: *number,
                    locks,
                    rule: *rule,
                    owner: owner.as_deref(),
                    lease: *lease,
                    invoked,
                    granted: at,
                    idle: self.run.ops[index].idle.clone(),
                    holds: holds.iter().collect(),
                    token: *token,
                    acknowledged: *acknowledged,
                    trust: vec![(at, at.saturating_add(*remaining))],
                    lost: None,
                    given_back: None,
                    died: None,
                    end,
                };
                let places = holds.iter().filter(|hold| hold.place < locks.len()).count();
                if places != holds.len() || places < rule.quorum(locks.len()) || places == 0 {
                    self.flaw(event, "a grant of other locks than were asked for");
                }
                self.run.guards.push(guard);
                let known = self.guards.insert((process, *number), self.run.guards.len() - 1);
                if known.is_some() {
                    self.flaw(event, format!("the guard {number} is granted twice"));
                }
            }
            (Call::Check { guard }, Answer::NotHeld { why }) => {
                if let Some(guard) = self.guard(event, *guard) {
                    guard.lost.get_or_insert((at, *why));
                }
            }
            (Call::Close, answer) => {
                let process = self.run.processes.entry(process).or_default();
                process.gave_up = Some(at);
                if *answer == Answer::Done {
                    process.closed = Some(at);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Run<'a> {
        let end = self.run.end;
        let asleep: Vec<_> = self.paused.iter().map(|(name, since)| (*name, *since)).collect();
        for (name, since) in asleep {
            self.sleep(name, Span { from: since, to: end });
        }
        let waking: Vec<_> = self.waking.keys().copied().collect();
        for name in waking {
            self.wakes(name, end);
        }
        for (index, guard) in self.run.guards.iter().enumerate() {
            if let Some(owner) = guard.owner {
                self.run.owned.entry((guard.process, owner)).or_default().push(index);
            }
        }
        self.run.numbers = self.guards;
        let mut attempts: BTreeMap<_, Vec<(Span, usize)>> = BTreeMap::new();
        for (index, op) in self.run.ops.iter().enumerate() {
            if let Call::Acquire { locks, .. } = op.call {
                let span = Span { from: op.invoked, to: op.over.unwrap_or(end) };
                for place in locks {
                    let key = (op.process, place.server.as_str(), place.name.as_str());
                    attempts.entry(key).or_default().push((span, index));
                }
            }
        }
        for (key, spans) in attempts {
            self.run.attempts.insert(key, self.run.spans.len());
            self.run.spans.push(Spans::new(spans));
        }
        self.run
    }
}

/// Whether the answer can be one to the call.
fn fits(call: &Call, answer: &Answer) -> bool {
    use Answer as A;
    match call {
        Call::Acquire { .. } => matches!(answer, A::Granted { .. } | A::Refused | A::Error { .. }),
        Call::Unlock { .. } | Call::Check { .. } => {
            matches!(answer, A::Done | A::NotHeld { .. } | A::Error { .. })
        }
        Call::Force { .. } => matches!(answer, A::Freed { .. } | A::Error { .. }),
        Call::IsLocked { .. } => matches!(answer, A::Locked { .. } | A::Error { .. }),
        Call::Inspect { .. } => matches!(answer, A::State { .. } | A::Error { .. }),
        Call::Remaining { .. } => matches!(answer, A::Remaining { .. } | A::Error { .. }),
        Call::Token { .. } => matches!(answer, A::Token { .. } | A::Error { .. }),
        Call::Use { .. } => matches!(answer, A::Used { .. } | A::Error { .. }),
        Call::Connect | Call::Close => matches!(answer, A::Done | A::Error { .. }),
    }
}
