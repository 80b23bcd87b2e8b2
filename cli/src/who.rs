//! `who`: the holders and the waiters of one lock.

use redisson_lock::{Access, Client, Config, Error, Inspection, RedisErrorKind, Remaining};
use serde_json::json;

use crate::{
    args::Name,
    args::Servers,
    connection::{config, connect},
    duration::shown,
    outcome::{Failure, Outcome, print},
    survey::{Look, Sort, look},
    table::{row, table},
    whois,
};

pub(crate) async fn who(
    Name { name }: Name,
    servers: Servers,
    json: bool,
) -> Result<Outcome, Failure> {
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let seen = seen(&client, &config, &name).await?.lock();
    let kind = seen.as_ref().map(|seen| seen.kind);
    let lock = match kind {
        Some(Sort::Read | Sort::Write) => client.read_write_lock(&name).inspect().await?,
        Some(Sort::Lock | Sort::Fenced) => client.lock(&name).inspect().await?,
        // Also the line of a lock that is free.
        Some(Sort::Fair) | None => match client.fair_lock(&name).inspect().await {
            // What has the name of its line may be none, or its slot moves and the lock has gone ahead. A lock is
            // shown without it.
            Err(error) if is_without_line(&error) => client.lock(&name).inspect().await?,
            lock => lock?,
        },
    };
    let kind = kind.unwrap_or(Sort::Lock);
    let waiters = seen.as_ref().map_or(0, |seen| seen.waiters);
    let _ = client.close().await;
    print(&if json {
        in_json(&name, kind, &lock, waiters)
    } else {
        told(&name, kind, &lock, waiters)
    })?;
    Ok(Outcome::new(0))
}

fn is_without_line(error: &Error) -> bool {
    match error {
        Error::WrongKind { .. } => true,
        Error::Redis(error) => error.kind() == RedisErrorKind::Moved,
        _ => false,
    }
}

/// What is under this name.
pub(crate) async fn seen(client: &Client, config: &Config, name: &str) -> Result<Look, Failure> {
    look(client, &format!("{}{name}", config.get_prefix())).await
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Shared => "shared",
        Access::Exclusive => "exclusive",
    }
}

fn told(name: &str, kind: Sort, lock: &Inspection, listeners: u64) -> String {
    let left = match lock.remaining {
        Remaining::Free => "free".to_owned(),
        Remaining::Held(ttl) => format!("held, for {} if it is not renewed", shown(ttl)),
        Remaining::WithoutExpiry => "held, without an end".to_owned(),
    };
    let name = crate::table::printable(name);
    let mut text = format!("{name}: {} ({})\n", left, kind.name());
    let mut rows = Vec::new();
    for holder in &lock.holders {
        let (count, who) = (format!("x{}", holder.count), whois::told(holder.announced.as_ref()));
        rows.push(row(["holder", &holder.id, word(holder.access), &count, &who]));
    }
    for (place, waiter) in (1..).zip(&lock.queue) {
        let kept = waiter.kept_for.map_or_else(|| "no end".to_owned(), shown);
        rows.push(row([&format!("waiter {place}"), &waiter.id, "place kept for", &kept]));
    }
    text.push_str(&table(&rows));
    for (more, what) in [(lock.more_holders, "holders"), (lock.more_waiters, "waiters")] {
        if more > 0 {
            text.push_str(&format!("and {more} more {what}\n"));
        }
    }
    if lock.queue.is_empty() && listeners > 0 {
        text.push_str(&format!("processes that wait: {listeners}\n"));
    }
    text
}

fn in_json(name: &str, kind: Sort, lock: &Inspection, waiters: u64) -> String {
    let holders = lock.holders.iter().map(|holder| {
        json!({
            "id": holder.id,
            "count": holder.count,
            "access": word(holder.access),
            "announced": whois::in_json(holder.announced.as_ref()),
        })
    });
    let queue = lock.queue.iter().map(|waiter| {
        let kept = waiter.kept_for.map(|kept| kept.as_millis() as u64);
        json!({ "id": waiter.id, "kept_for_ms": kept })
    });
    let ttl = match lock.remaining {
        Remaining::Held(ttl) => Some(ttl.as_millis() as u64),
        _ => None,
    };
    let value = json!({
        "name": name,
        "kind": kind.name(),
        "held": lock.is_locked(),
        "ttl_ms": ttl,
        "waiters": waiters,
        "holders": holders.collect::<Vec<_>>(),
        "more_holders": lock.more_holders,
        "more_waiters": lock.more_waiters,
        "queue": queue.collect::<Vec<_>>(),
    });
    format!("{value}\n")
}
