//! Lawful runs, drawn at random from a small lock service, of which the judge finds nothing; and runs with one thing changed, of which
//! it does.

use std::collections::VecDeque;

use fastrand::Rng;
use judge::{
    Answer, Bounds, Call, Check, Deed, Effect, Event, Held, History, Kind, Leave, Log, MS, Mode,
    Nanos, Place, Policy, Reign, Rule, Verdict, What, Witness, judge,
};

use crate::story::bounds;

/// A client that takes one lock after another.
struct Client {
    name: String,
    /// What it is at, and when it goes on.
    state: Doing,
    at: Nanos,
    guards: u64,
    ops: u64,
}

#[derive(Clone)]
enum Doing {
    Nothing,
    /// Its request is on its way, or it waits.
    Asks {
        guard: u64,
        lock: usize,
        id: String,
        until: Option<Nanos>,
    },
    Holds {
        guard: u64,
        lock: usize,
        id: String,
        entered: Option<u64>,
    },
    Releases {
        op: u64,
    },
    Dead,
}

/// A lock on the server.
struct Lock {
    name: String,
    kind: Kind,
    holders: Vec<(String, Mode)>,
    waiting: VecDeque<(usize, String, Mode)>,
    token: u64,
}

struct Service {
    rng: Rng,
    now: Nanos,
    clients: Vec<Client>,
    locks: Vec<Lock>,
    events: Vec<Event>,
    effects: Vec<Effect>,
}

const LEASE: Nanos = 100_000 * MS;

impl Service {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let kinds = [Kind::Lock, Kind::Fair, Kind::Fenced, Kind::Read];
        let locks = (0..rng.usize(1..5)).map(|n| Lock {
            name: format!("lock{n}"),
            kind: kinds[n % kinds.len()],
            holders: Vec::new(),
            waiting: VecDeque::new(),
            token: 0,
        });
        let locks = locks.collect();
        let clients = (0..rng.usize(2..6)).map(|n| Client {
            name: format!("c{n}"),
            state: Doing::Nothing,
            at: rng.u64(1..5 * MS),
            guards: 0,
            ops: 0,
        });
        let clients: Vec<_> = clients.collect();
        let start = |client: &Client| {
            let what = What::Start {
                client: Some(client.name.clone()),
                redisson: false,
                policy: Policy::None,
            };
            Event { at: 0, process: client.name.clone(), what }
        };
        let events = clients.iter().map(start).collect();
        Self { rng, now: 0, clients, locks, events, effects: Vec::new() }
    }

    fn place(&self, lock: usize, mode: Mode) -> Place {
        let Lock { name, kind, .. } = &self.locks[lock];
        let kind = if mode == Mode::Write { Kind::Write } else { *kind };
        Place { server: String::new(), name: name.clone(), kind }
    }

    fn happens(&mut self, client: usize, what: What) {
        // No two events of a client have one time.
        self.now += 1;
        self.events.push(Event { at: self.now, process: self.clients[client].name.clone(), what });
    }

    fn does(&mut self, lock: usize, deed: Deed) {
        self.now += 1;
        self.effects.push(Effect {
            at: self.now,
            server_ms: None,
            lock: self.locks[lock].name.clone(),
            deed,
        });
    }

    fn run(mut self, turns: usize) -> (History, Witness) {
        for _ in 0..turns {
            let next = (0..self.clients.len())
                .filter(|at| !matches!(self.clients[*at].state, Doing::Dead));
            let Some(next) = next.min_by_key(|at| self.clients[*at].at) else { break };
            self.now = self.now.max(self.clients[next].at) + 1;
            self.step(next);
            let pause = self.rng.u64(1..4 * MS);
            self.clients[next].at = self.now + pause;
        }
        let reign = Reign { from: 0, until: None };
        let effects = self.effects;
        let log = Log {
            server: String::new(),
            node: "server".into(),
            reign,
            synced: Vec::new(),
            effects,
        };
        (History { events: self.events }, Witness { logs: vec![log], left: Vec::new() })
    }

    fn step(&mut self, client: usize) {
        match self.clients[client].state.clone() {
            Doing::Nothing => self.ask(client),
            Doing::Asks { guard, lock, id, until } => {
                self.ask_again(client, guard, lock, &id, until)
            }
            Doing::Holds { guard, lock, id, entered } => {
                self.hold(client, guard, lock, &id, entered)
            }
            Doing::Releases { op } => {
                self.happens(client, What::Answer { op, answer: Answer::Done });
                self.clients[client].state = Doing::Nothing;
            }
            Doing::Dead => {}
        }
    }

    fn op(&mut self, client: usize, call: impl FnOnce(u64) -> Call) -> u64 {
        self.clients[client].ops += 1;
        let op = self.clients[client].ops;
        let call = call(op);
        self.happens(client, What::Invoke { op, call });
        op
    }

    fn ask(&mut self, client: usize) {
        let lock = self.rng.usize(0..self.locks.len());
        let mode = match self.locks[lock].kind {
            Kind::Read => [Mode::Read, Mode::Read, Mode::Write][self.rng.usize(0..3)],
            _ => Mode::Whole,
        };
        if self.rng.u8(0..8) == 0 {
            let place = self.place(lock, mode);
            let op = self.op(client, |_| Call::IsLocked { lock: place });
            let locked = !self.locks[lock].holders.is_empty();
            return self.happens(client, What::Answer { op, answer: Answer::Locked { locked } });
        }
        self.clients[client].guards += 1;
        let guard = self.clients[client].guards;
        // The client's number of the operation is that of the guard, for the sake of short code.
        self.clients[client].ops = self.clients[client].ops.max(guard);
        let locks = vec![self.place(lock, mode)];
        let wait = self.rng.bool().then_some(20 * MS);
        let owner = Some("me".to_owned());
        let op = self.op(client, |guard| Call::Acquire {
            guard,
            locks,
            rule: Rule::One,
            owner,
            lease: None,
            wait,
        });
        let id = format!("{}:{op}", self.clients[client].name);
        if !self.take(client, lock, &id, op, mode) {
            let until = wait.map(|wait| self.now + wait);
            if self.locks[lock].kind == Kind::Fair {
                self.does(lock, Deed::Pushed { id: id.clone() });
            }
            self.locks[lock].waiting.push_back((client, id.clone(), mode));
            self.clients[client].state = Doing::Asks { guard: op, lock, id, until };
        }
    }

    fn is_free_for(&self, lock: usize, mode: Mode) -> bool {
        let mut holders = self.locks[lock].holders.iter();
        holders.all(|(_, held)| mode == Mode::Read && *held == Mode::Read)
    }

    fn take(&mut self, client: usize, lock: usize, id: &str, op: u64, mode: Mode) -> bool {
        let fair = self.locks[lock].kind == Kind::Fair;
        let first = self.locks[lock].waiting.front().is_none_or(|(_, first, _)| first == id);
        if !self.is_free_for(lock, mode) || fair && !first {
            return false;
        }
        if let Some(at) = self.locks[lock].waiting.iter().position(|(_, other, _)| other == id) {
            self.locks[lock].waiting.remove(at);
            if fair {
                self.does(lock, Deed::Popped { id: id.to_owned(), why: Leave::Granted });
                self.now -= 1;
            }
        }
        let token = (self.locks[lock].kind == Kind::Fenced).then(|| {
            self.locks[lock].token += 1;
            self.locks[lock].token
        });
        self.does(lock, Deed::Granted { id: id.to_owned(), mode, until: self.now + LEASE, token });
        self.locks[lock].holders.push((id.to_owned(), mode));
        let holds = vec![Held { place: 0, id: id.to_owned() }];
        let answer = Answer::Granted {
            holds,
            token,
            acknowledged: None,
            remaining: LEASE / 100 * 99,
            count: 1,
        };
        self.happens(client, What::Answer { op, answer });
        self.clients[client].state =
            Doing::Holds { guard: op, lock, id: id.to_owned(), entered: None };
        true
    }

    fn ask_again(
        &mut self,
        client: usize,
        guard: u64,
        lock: usize,
        id: &str,
        until: Option<Nanos>,
    ) {
        let mode =
            self.locks[lock].waiting.iter().find(|(_, other, _)| other == id).expect("waits").2;
        if self.take(client, lock, id, guard, mode) {
            return;
        }
        let over = until.is_some_and(|until| until <= self.now);
        let gives_up = self.rng.u8(0..20) == 0;
        if !over && !gives_up {
            return;
        }
        self.locks[lock].waiting.retain(|(_, other, _)| other != id);
        if self.locks[lock].kind == Kind::Fair {
            self.does(lock, Deed::Popped { id: id.to_owned(), why: Leave::GaveUp });
        }
        let what = if over {
            What::Answer { op: guard, answer: Answer::Refused }
        } else {
            What::Cut { op: guard }
        };
        self.happens(client, what);
        self.clients[client].state = Doing::Nothing;
    }

    fn hold(&mut self, client: usize, guard: u64, lock: usize, id: &str, entered: Option<u64>) {
        match (self.rng.u8(0..16), entered) {
            // Enters again.
            (0..4, None) if self.locks[lock].kind == Kind::Lock => {
                let locks = vec![self.place(lock, Mode::Whole)];
                let owner = Some("me".to_owned());
                let rule = Rule::One;
                let op = self.op(client, |guard| Call::Acquire {
                    guard,
                    locks,
                    rule,
                    owner,
                    lease: None,
                    wait: None,
                });
                self.does(lock, Deed::Counted { id: id.to_owned(), count: 2 });
                let holds = vec![Held { place: 0, id: id.to_owned() }];
                let answer = Answer::Granted {
                    holds,
                    token: None,
                    acknowledged: None,
                    remaining: LEASE / 2,
                    count: 2,
                };
                self.happens(client, What::Answer { op, answer });
                let entered = Some(op);
                self.clients[client].state =
                    Doing::Holds { guard, lock, id: id.to_owned(), entered };
            }
            (_, Some(inner)) => {
                let op = self.op(client, |_| Call::Unlock { guard: inner });
                self.does(lock, Deed::Counted { id: id.to_owned(), count: 1 });
                self.happens(client, What::Answer { op, answer: Answer::Done });
                self.clients[client].state =
                    Doing::Holds { guard, lock, id: id.to_owned(), entered: None };
            }
            (4..6, None) => {
                self.does(lock, Deed::Renewed { id: id.to_owned(), until: self.now + LEASE });
                self.happens(client, What::Renewed { guard, remaining: LEASE / 100 * 99 });
            }
            (6, None) => {
                self.happens(client, What::Drop { guard });
                self.release(lock, id);
                self.clients[client].state = Doing::Nothing;
            }
            (7, None) if self.rng.u8(0..10) == 0 => {
                self.happens(client, What::End);
                self.release(lock, id);
                self.clients[client].state = Doing::Dead;
            }
            (8..12, None) => {
                let token = (self.locks[lock].kind == Kind::Fenced).then(|| self.locks[lock].token);
                let op = self.op(client, |_| Call::Use { guard, token });
                self.happens(client, What::Answer { op, answer: Answer::Used { accepted: true } });
            }
            _ => {
                let op = self.op(client, |_| Call::Unlock { guard });
                self.release(lock, id);
                self.clients[client].state = Doing::Releases { op };
            }
        }
    }

    fn release(&mut self, lock: usize, id: &str) {
        self.does(lock, Deed::Released { id: id.to_owned() });
        self.locks[lock].holders.retain(|(other, _)| other != id);
    }
}

/// A lease is longer than any of these runs.
fn patient() -> Bounds {
    Bounds { watchdog: LEASE, poll: 200 * MS, ..bounds() }
}

fn lawful(seed: u64) -> (History, Witness) {
    Service::new(seed).run(300)
}

fn judged(history: &History, witness: &Witness) -> Verdict {
    judge(history, Some(witness), &patient())
}

#[test]
fn nothing_is_found_in_lawful_runs() {
    let mut judged_at_all = [0; Check::ALL.len()];
    for seed in 0..400 {
        let (history, witness) = lawful(seed);
        let verdict = judged(&history, &witness);
        assert!(verdict.findings.is_empty(), "seed {seed}: {verdict}");
        let blind = judge(&history, None, &patient());
        assert!(blind.findings.is_empty(), "seed {seed}, without a witness: {blind}");
        for (check, count) in verdict.figures.judged {
            judged_at_all[check as usize] += count;
        }
    }
    for check in Check::ALL {
        // Nobody is lost, and there is one server.
        let never = matches!(check, Check::Alarm | Check::Majority);
        assert_eq!(judged_at_all[check as usize] == 0, never, "{check}");
    }
}

#[test]
fn the_order_of_the_lines_does_not_matter() {
    for seed in 0..20 {
        let (mut history, witness) = lawful(seed);
        let verdict = judged(&history, &witness);
        Rng::with_seed(seed).shuffle(&mut history.events);
        assert_eq!(judged(&history, &witness), verdict);
    }
}

/// Changes one thing in each of many runs, and says which checks found it, and in how many of them none did.
fn changed(
    change: impl Fn(&mut Rng, &mut History, &mut Witness) -> bool,
) -> (Vec<Check>, usize, usize) {
    let (mut checks, mut missed, mut changed) = (Vec::new(), 0, 0);
    for seed in 0..300 {
        let (mut history, mut witness) = lawful(seed);
        if !change(&mut Rng::with_seed(seed), &mut history, &mut witness) {
            continue;
        }
        changed += 1;
        let verdict = judged(&history, &witness);
        missed += usize::from(verdict.is_clean());
        checks.extend(verdict.violations().map(|finding| finding.check));
    }
    checks.sort();
    checks.dedup();
    (checks, missed, changed)
}

fn one_of<T>(rng: &mut Rng, things: &[T], is: impl Fn(&T) -> bool) -> Option<usize> {
    let fitting: Vec<_> = (0..things.len()).filter(|at| is(&things[*at])).collect();
    rng.choice(fitting)
}

#[test]
fn a_lost_line_of_the_history_is_found() {
    let (checks, missed, changed) = changed(|rng, history, _| {
        let is = |event: &Event| match &event.what {
            What::Invoke { call, .. } => !matches!(call, Call::Use { .. } | Call::IsLocked { .. }),
            What::Answer { answer, .. } => matches!(answer, Answer::Granted { .. }),
            _ => false,
        };
        let end = history.events.len().saturating_sub(40);
        let lost = one_of(rng, &history.events[..end], is);
        lost.map(|at| history.events.remove(at)).is_some()
    });
    assert_eq!(missed, 0);
    assert!(changed > 250, "{changed}");
    assert!(checks.contains(&Check::Form), "{checks:?}");
}

#[test]
fn a_lost_line_of_the_witness_is_found() {
    let (checks, missed, changed) = changed(|rng, _, witness| {
        let effects = &mut witness.logs[0].effects;
        let is =
            |effect: &Effect| !matches!(effect.deed, Deed::Renewed { .. } | Deed::Counted { .. });
        let end = effects.len().saturating_sub(30);
        let lost = one_of(rng, &effects[..end], is);
        lost.map(|at| effects.remove(at)).is_some()
    });
    assert_eq!(missed, 0);
    assert!(changed > 250, "{changed}");
    for check in [Check::Form, Check::Exclusion, Check::Once, Check::Order] {
        assert!(checks.contains(&check), "{check}: {checks:?}");
    }
}

#[test]
fn a_release_that_is_told_too_late_is_found() {
    let (checks, missed, changed) = changed(|rng, history, _| {
        let is =
            |event: &Event| matches!(event.what, What::Invoke { call: Call::Unlock { .. }, .. });
        let Some(at) = one_of(rng, &history.events, is) else { return false };
        let What::Invoke { op, .. } = history.events[at].what else { unreachable!("is one") };
        let process = history.events[at].process.clone();
        let answer = history.events.iter().position(|event| {
            event.process == process && event.what == What::Answer { op, answer: Answer::Done }
        });
        let Some(answer) = answer else { return false };
        history.events[at].at = history.events[answer].at;
        // The event itself, not the one of the same time.
        let event = history.events.remove(at);
        history.events.insert(answer - 1, event);
        true
    });
    // The count of one who had entered twice is set before his release: nothing ends.
    assert!(missed * 10 < changed, "{missed} of {changed}");
    assert!(changed > 250, "{changed}");
    assert!(checks.contains(&Check::Belief), "{checks:?}");
}

#[test]
fn holders_that_are_swapped_are_found() {
    let (checks, missed, changed) = changed(|rng, history, _| {
        let granted = |event: &Event| {
            matches!(event.what, What::Answer { answer: Answer::Granted { .. }, .. })
        };
        let Some(one) = one_of(rng, &history.events, granted) else { return false };
        let id = |event: &Event| match &event.what {
            What::Answer { answer: Answer::Granted { holds, .. }, .. } => Some(holds[0].id.clone()),
            _ => None,
        };
        let mine = id(&history.events[one]);
        let Some(other) = one_of(rng, &history.events, |event| granted(event) && id(event) != mine)
        else {
            return false;
        };
        let ids = [one, other].map(|at| id(&history.events[at]).expect("is a grant"));
        for (at, id) in [one, other].into_iter().zip(ids.into_iter().rev()) {
            if let What::Answer { answer: Answer::Granted { holds, .. }, .. } =
                &mut history.events[at].what
            {
                holds[0].id = id;
            }
        }
        true
    });
    assert_eq!(missed, 0);
    assert!(changed > 250, "{changed}");
    assert!(checks.contains(&Check::Once), "{checks:?}");
}

#[test]
fn a_token_that_is_lowered_is_found() {
    let (checks, missed, changed) = changed(|rng, history, _| {
        let is = |event: &Event| {
            matches!(
                event.what,
                What::Answer { answer: Answer::Granted { token: Some(2..), .. }, .. }
            )
        };
        let Some(at) = one_of(rng, &history.events, is) else { return false };
        if let What::Answer { answer: Answer::Granted { token: Some(token), .. }, .. } =
            &mut history.events[at].what
        {
            *token -= 1;
        }
        true
    });
    assert_eq!(missed, 0);
    assert!(changed > 50, "{changed}");
    assert_eq!(checks, [Check::Token]);
}

#[test]
fn an_answer_that_is_turned_round_is_found() {
    let (checks, missed, changed) = changed(|rng, history, _| {
        let is = |event: &Event| {
            matches!(event.what, What::Answer { answer: Answer::Locked { .. }, .. })
        };
        let Some(at) = one_of(rng, &history.events, is) else { return false };
        if let What::Answer { answer: Answer::Locked { locked }, .. } = &mut history.events[at].what
        {
            *locked = !*locked;
        }
        true
    });
    assert_eq!(missed, 0);
    assert!(changed > 200, "{changed}");
    assert_eq!(checks, [Check::Answer]);
}

#[test]
fn a_count_that_is_not_set_back_is_found() {
    let (checks, missed, changed) = changed(|rng, _, witness| {
        let is = |effect: &Effect| matches!(effect.deed, Deed::Counted { count: 1, .. });
        let effects = &mut witness.logs[0].effects;
        let end = effects.len().saturating_sub(20);
        one_of(rng, &effects[..end], is).map(|at| effects.remove(at)).is_some()
    });
    // Where the owner entered again at once, or dropped it, nothing was at rest.
    assert!(missed * 2 < changed, "{missed} of {changed}");
    assert!(changed > 150, "{changed}");
    assert_eq!(checks, [Check::Once]);
}

#[test]
fn a_long_run_is_judged_quickly() {
    let run = |turns| {
        let (history, witness) = Service::new(7).run(turns);
        let begun = std::time::Instant::now();
        assert!(judged(&history, &witness).findings.is_empty());
        begun.elapsed()
    };
    let (short, long) = (run(5_000), run(80_000));
    // Sixteen times as long; a square of that would be 256.
    assert!(long < short * 100, "{short:?}, {long:?}");
}
