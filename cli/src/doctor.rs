//! `doctor`: whether the servers suit locks, and what to change.
//!
//! | file | content |
//! |---|---|
//! | [`finding`] | what a check has found, how bad it is, and how it is told |
//! | [`messages`] | how long a release takes to wake a waiter |

mod finding;
mod messages;

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redisson_lock::{
    Client, Error,
    servers::{ANNOUNCEMENTS, Masters, Server},
};
use tokio::time::{Instant, timeout};

use self::finding::{Finding, Verdict, in_json, is_of_rights, judge, told};
use crate::{
    args::Servers,
    connection::{config, connect},
    outcome::{Failure, Outcome, print},
};

/// A check has failed.
const UNWELL: u8 = 1;

/// A clock that is further off deserves a look, in ms.
const CLOCK_OFFSET: i64 = 1_000;

/// The lease of the locks that are tried.
const LEASE: Duration = Duration::from_secs(10);

/// Writes a key that ends by itself. Without memory it is refused before it writes.
const WRITE_WITH_TTL: &[u8] =
    b"redis.call('hset', KEYS[1], 'seen', '0') return redis.call('pexpire', KEYS[1], '1000')";

pub(crate) async fn doctor(servers: Servers, json: bool) -> Result<Outcome, Failure> {
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let mut findings = Vec::new();
    let Masters { connected, missing } = client.servers();
    for server in &connected {
        findings.extend(look_at(server).await);
    }
    findings.extend(missing.iter().map(|address| unreachable(address)));
    findings.push(rights(&client).await);
    findings.push(connection_names(&client).await);
    findings.push(announcing(&client).await);
    let name = name_for(&client, "messages");
    findings.push(messages::round_trip(&client, &config, &name).await);
    let _ = timeout(Duration::from_secs(2), client.close()).await;
    print(&if json { in_json(&findings) } else { told(&findings) })?;
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Bad);
    Ok(Outcome::new(if bad { UNWELL } else { 0 }))
}

fn unreachable(address: &str) -> Finding {
    Finding::new(address, "connection", "none").bad_if(
        true,
        "its locks cannot be used from here: look whether this master is up, and for a firewall",
    )
}

async fn look_at(server: &Server) -> Vec<Finding> {
    let at = server.address();
    let mut findings = Vec::new();
    match info(server, "server").await {
        Ok(info) => findings.push(version(at, &info)),
        Err(error) => findings.push(Finding::unknown(at, "version", &error)),
    }
    match info(server, "memory").await {
        Ok(info) => findings.push(eviction(at, &info)),
        Err(error) => findings.push(Finding::unknown(at, "eviction", &error)),
    }
    match clock(server).await {
        Ok(offset) => findings.push(Finding::new(at, "clock", format!("{offset:+} ms")).warn_if(
            offset.abs() > CLOCK_OFFSET,
            "keep the clocks by NTP, and slew them: a step of the server's clock ends leases early",
        )),
        Err(error) => findings.push(Finding::unknown(at, "clock", &error)),
    }
    match info(server, "replication").await {
        Ok(info) => findings.push(replicas(at, &info)),
        Err(error) => findings.push(Finding::unknown(at, "replicas", &error)),
    }
    findings
}

type Info = HashMap<String, String>;

async fn info(server: &Server, section: &str) -> Result<Info, Error> {
    let reply = server.command("INFO", &[section.as_bytes()]).await?;
    let text = reply.text().unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn of<'a>(info: &'a Info, name: &str) -> Option<&'a str> {
    info.get(name).map(String::as_str)
}

fn version(at: &str, info: &Info) -> Finding {
    // Valkey names the version of Redis that it stands for.
    let Some(version) = of(info, "redis_version") else {
        return Finding::not_told(at, "version");
    };
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Finding::new(at, "version", version)
        .bad_if(number < (6, 2), "use Redis 6.2 or later, or Valkey")
}

fn eviction(at: &str, info: &Info) -> Finding {
    let (evicting, full) = (
        "set maxmemory-policy noeviction before maxmemory is ever set",
        "set maxmemory-policy noeviction: this server may evict locks",
    );
    let found = |value| Finding::new(at, "eviction", value);
    match (of(info, "maxmemory_policy"), of(info, "maxmemory")) {
        (Some(policy), Some("0")) => {
            found(format!("{policy}, no maxmemory")).warn_if(policy != "noeviction", evicting)
        }
        // Whether memory is bounded is of no interest then.
        (Some("noeviction"), _) => found("noeviction".to_owned()),
        (Some(policy), Some(_)) => found(policy.to_owned()).bad_if(true, full),
        _ => Finding::not_told(at, "eviction"),
    }
}

fn replicas(at: &str, info: &Info) -> Finding {
    let (role, count) = match (of(info, "role"), of(info, "connected_slaves")) {
        (Some(role), Some(count)) => (role, count),
        (Some("slave"), None) => ("slave", "unknown"),
        _ => return Finding::not_told(at, "replicas"),
    };
    let lag = (0..16).filter_map(|n| {
        let replica = info.get(&format!("slave{n}"))?;
        replica.split(',').find_map(|pair| pair.strip_prefix("lag="))?.parse::<i64>().ok()
    });
    let lag = lag.max();
    let value = match lag {
        Some(lag) => format!("{role}, {count} replicas, lag {lag} s"),
        None => format!("{role}, {count} replicas"),
    };
    Finding::new(at, "replicas", value)
        .warn_if(count == "0", "without a replica a crash of the server may lose all locks")
        .warn_if(lag.is_some_and(|lag| lag > 5), "a replica is behind: a failover would lose locks")
        .bad_if(role == "slave", "this is a replica, which takes no writes: name the master")
}

/// How far the server's clock is ahead of this machine's, in ms.
async fn clock(server: &Server) -> Result<i64, Error> {
    let begun = Instant::now();
    let reply = server.command("TIME", &[]).await?;
    let half = begun.elapsed() / 2;
    let here =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(half);
    let part = |n: usize| reply.parts().get(n).and_then(|part| part.int()).unwrap_or(0);
    Ok(part(0) * 1_000 + part(1) / 1_000 - here.as_millis() as i64)
}

/// A name that nobody else uses.
fn name_for(client: &Client, what: &str) -> String {
    format!("redisson-lock-doctor:{}:{what}", client.id())
}

/// Tries what the kinds of lock need.
async fn rights(client: &Client) -> Finding {
    let (reentrant, fair) =
        (client.lock(name_for(client, "lock")), client.fair_lock(name_for(client, "fair")));
    let sides = client.read_write_lock(name_for(client, "sides"));
    let (read, write) = (sides.read_lock().clone(), sides.write_lock().clone());
    let (mut able, mut unable) = (Vec::new(), Vec::new());
    for (kind, lock) in [("lock", reentrant), ("fair", fair), ("read", read), ("write", write)] {
        let tried = async {
            let guard = lock.lock().lease(LEASE).await?;
            guard.unlock().await
        };
        match tried.await {
            Ok(()) => able.push(kind),
            Err(error) => {
                let is_of_rights = is_of_rights(&error);
                unable.push((kind, error));
                if !is_of_rights {
                    // The others would wait for the same server.
                    break;
                }
            }
        }
    }
    let Some((kind, error)) = unable.first() else {
        return Finding::new("all", "rights", able.join(", "));
    };
    let (verdict, advice) = judge(error);
    // Reentrant locks are all that many users need.
    let verdict =
        if able.contains(&"lock") && is_of_rights(error) { Verdict::Warning } else { verdict };
    let kinds: Vec<_> = unable.iter().map(|(kind, _)| *kind).collect();
    let value = match kinds.len() {
        1 => format!("{kind}: {error}"),
        _ => format!("{}: {error}", kinds.join(", ")),
    };
    Finding::new("all", "rights", value).judged(true, verdict, advice)
}

/// Whether connections may have a name.
async fn connection_names(client: &Client) -> Finding {
    let (check, name) = ("names", format!("redisson-lock:{}", client.id()));
    for server in client.servers().connected {
        if let Err(error) = server.command("CLIENT", &[b"SETNAME", name.as_bytes()]).await {
            let advice = match is_of_rights(&error) {
                true => "grant +client|setname: CLIENT LIST then shows whose each connection is",
                false => "CLIENT LIST does not show whose each connection is: the error says why",
            };
            return Finding::new(server.address(), check, error.to_string()).warn_if(true, advice);
        }
    }
    Finding::new("all", check, name)
}

/// Whether clients may announce themselves.
async fn announcing(client: &Client) -> Finding {
    let check = "announcing";
    let advice =
        "grant the rights that docs/operations.md lists for announcing, to see who holds a lock";
    let key = format!("{ANNOUNCEMENTS}{}", client.id());
    let Some(server) = client.server_of(&key) else {
        let advice = "not known: the master that this check needs cannot be reached";
        return Finding::new("all", check, "no server").warn_if(true, advice);
    };
    let key = key.as_bytes();
    let tried = async {
        // Nothing is there yet. Without these rights nothing is written, which would stay.
        server.command("PEXPIRE", &[key, b"1000"]).await?;
        server.command("DEL", &[key]).await?;
        server.command("HGET", &[key, b"seen"]).await?;
        server.command("EVAL", &[WRITE_WITH_TTL, b"1", key]).await
    };
    let tried = tried.await;
    // Also where no answer came: it may have been written.
    let deleted = server.command("DEL", &[key]).await;
    match tried.and(deleted) {
        Ok(_) => Finding::new("all", check, "allowed"),
        Err(error) => {
            let (verdict, advice) =
                if is_of_rights(&error) { (Verdict::Warning, advice) } else { judge(&error) };
            Finding::new("all", check, error.to_string()).judged(true, verdict, advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> Info {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let verdict = |text| version("s", &info(&[("redis_version", text)])).verdict;
        assert_eq!(verdict("10.0.1"), Verdict::Good);
        assert_eq!(verdict("6.2.0"), Verdict::Good);
        assert_eq!(verdict("6.0.16"), Verdict::Bad);
        assert_eq!(version("s", &info(&[])).verdict, Verdict::Warning);
    }

    #[test]
    fn a_server_that_may_evict_locks_is_unwell() {
        let verdict = |max, policy| {
            eviction("s", &info(&[("maxmemory", max), ("maxmemory_policy", policy)])).verdict
        };
        assert_eq!(verdict("0", "noeviction"), Verdict::Good);
        assert_eq!(verdict("100", "noeviction"), Verdict::Good);
        assert_eq!(verdict("0", "allkeys-lru"), Verdict::Warning);
        assert_eq!(verdict("100", "volatile-ttl"), Verdict::Bad);
        // What a server does not tell is not known.
        for told in [&[("maxmemory_policy", "allkeys-lru")][..], &[("maxmemory", "100")], &[]] {
            assert_eq!(eviction("s", &info(told)).verdict, Verdict::Warning, "{told:?}");
            assert_eq!(eviction("s", &info(told)).value, "unknown", "{told:?}");
        }
        let harmless = info(&[("maxmemory_policy", "noeviction")]);
        assert_eq!(eviction("s", &harmless).verdict, Verdict::Good);
    }

    #[test]
    fn a_replica_is_no_server_for_locks() {
        let judged = |role, count| {
            replicas("s", &info(&[("role", role), ("connected_slaves", count)])).verdict
        };
        assert_eq!(judged("master", "0"), Verdict::Warning);
        assert_eq!(judged("master", "2"), Verdict::Good);
        assert_eq!(judged("slave", "0"), Verdict::Bad);
        assert_eq!(replicas("s", &info(&[])).verdict, Verdict::Warning);
        assert_eq!(replicas("s", &info(&[("role", "slave")])).verdict, Verdict::Bad);
    }
}
