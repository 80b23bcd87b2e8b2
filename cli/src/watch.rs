//! `watch`: the locks that are held, again and again.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, IsTerminal},
};

use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    args::{Servers, Watch},
    connection::{config, connect},
    outcome::{Failure, Outcome, note, print},
    survey::{List, Seen, locks},
    table::{printable, row, table},
};

/// Moves to the upper left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) async fn watch(args: Watch, servers: Servers, json: bool) -> Result<Outcome, Failure> {
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let prefix = config.get_prefix();
    let screen = io::stdout().is_terminal() && !json;
    let mut ticks = interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rates = Rates::default();
    let mut looks = 0;
    let mut trouble = Trouble::default();
    loop {
        ticks.tick().await;
        let list = locks(&client, prefix, &args.pattern.pattern).await;
        looks += 1;
        let is_last = args.count == Some(looks);
        let list = match list {
            Ok(list) => list,
            Err(error) if looks == 1 => return Err(error),
            Err(error) if is_last => {
                let text = format!("the last look failed: {}", error.text);
                return Err(Failure { text, ..error });
            }
            Err(error) => {
                let words = format!("a look failed, and watch goes on: {}", error.text);
                trouble.is(Some((Vec::new(), words)), json);
                continue;
            }
        };
        let rates = rates.of(&list);
        let text = if json {
            in_json(&list, &rates, prefix)
        } else {
            format!("{}{}\n", if screen { CLEAR } else { "" }, shown(&list, &rates, prefix))
        };
        let is_read = print(&text)?;
        if !is_read || is_last {
            let _ = client.close().await;
            return Ok(if is_read { list.outcome() } else { Outcome::new(0) });
        }
        let missing = list.unreachable.iter().map(|(address, _)| address.clone()).collect();
        trouble.is(list.incomplete().map(|words| (missing, words)), json);
    }
}

/// What was wrong with the last look. It is said on stderr once for as long as it lasts.
#[derive(Debug, Default)]
struct Trouble {
    /// The addresses of the masters that could not be asked. None of them: the whole look failed.
    of: Option<Vec<String>>,
}

impl Trouble {
    /// Notes what is wrong now, with the words for it.
    fn is(&mut self, now: Option<(Vec<String>, String)>, json: bool) {
        let (of, words) = now.unzip();
        if let Some(words) = words.filter(|_| self.of != of) {
            note(words, json);
        }
        self.of = of;
    }
}

/// New holders a second, as far as they were seen.
#[derive(Debug, Default)]
struct Rates {
    before: HashMap<String, BTreeSet<String>>,
    at: Option<Instant>,
}

impl Rates {
    /// One rate for each lock. `None` at the first look.
    fn of(&mut self, list: &List) -> Vec<Option<f64>> {
        let seen = &list.locks;
        let now = Instant::now();
        let passed = self.at.replace(now).map(|at| (now - at).as_secs_f64());
        let ids = |lock: &Seen| lock.holders.iter().map(|(id, _)| id.clone()).collect();
        let holders: HashMap<String, BTreeSet<String>> =
            seen.iter().map(|lock| (lock.key.clone(), ids(lock))).collect();
        let before = std::mem::replace(&mut self.before, holders);
        let none = BTreeSet::new();
        let rate = |lock: &Seen| {
            let known = before.get(&lock.key).unwrap_or(&none);
            let new = lock.holders.iter().filter(|(id, _)| !known.contains(id)).count();
            passed.map(|passed| new as f64 / passed.max(0.001))
        };
        let rates = seen.iter().map(rate).collect();
        if !list.unreachable.is_empty() {
            // The locks of a master that is away are not new when it is back.
            for (key, holders) in before {
                self.before.entry(key).or_insert(holders);
            }
        }
        rates
    }
}

fn shown(list: &List, rates: &[Option<f64>], prefix: &str) -> String {
    let mut rows = vec![row(["NAME", "KIND", "TTL", "WAITERS", "NEW/S", "HOLDERS", "WHO"])];
    rows.extend(list.locks.iter().zip(rates).map(|(lock, rate)| {
        let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        let (waiters, ttl) = (lock.waiters.to_string(), lock.ttl_shown());
        let (holders, who) = (lock.holders_shown(), lock.who_shown());
        row([lock.name(prefix), lock.kind.name(), &ttl, &waiters, &rate, &holders, &who])
    }));
    // The next look clears what stderr says.
    let incomplete = list.incomplete().map(|words| format!("{}\n", printable(&words)));
    table(&rows) + &incomplete.unwrap_or_default()
}

fn in_json(list: &List, rates: &[Option<f64>], prefix: &str) -> String {
    let locks = list.locks.iter().zip(rates).map(|(lock, rate)| {
        let mut lock = lock.json(prefix);
        lock["new_holders_per_s"] = json!(rate);
        lock
    });
    let unreachable: Vec<_> = list.unreachable.iter().map(|(address, _)| address).collect();
    format!("{}\n", json!({ "locks": locks.collect::<Vec<_>>(), "unreachable": unreachable }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Sort;

    #[tokio::test(start_paused = true)]
    async fn a_rate_counts_new_holders() {
        let seen = |id: &str| Seen {
            key: "l".into(),
            kind: Sort::Lock,
            holders: vec![(id.to_owned(), 1)],
            ttl: None,
            waiters: 0,
            announced: Vec::new(),
        };
        let list = |id: &str| List { locks: vec![seen(id)], unreachable: Vec::new() };
        let away = ("127.0.0.1:7000".to_owned(), "no connection".to_owned());
        let mut rates = Rates::default();
        assert_eq!(rates.of(&list("a")), [None]);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!(rates.of(&list("b")), [Some(0.5)]);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!(rates.of(&list("b")), [Some(0.0)]);
        assert_eq!(rates.of(&List { locks: Vec::new(), unreachable: vec![away] }), []);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!(rates.of(&list("b")), [Some(0.0)], "its master is back");
    }
}
