//! The command line.

use std::time::Duration;

use redisson_lock::{Config, Error, Replicas};

use crate::counter::Counters;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// One server, a cluster or sentinels.
    url: String,
    counters: Option<String>,
    watchdog: Option<Duration>,
    command_timeout: Option<Duration>,
    retry_timeout: Option<Duration>,
    own_fair_wait: Option<Duration>,
    redisson_fair_wait: Option<Duration>,
    threads: Option<usize>,
    replicas: Option<Replicas>,
    prefix: String,
    reuse_holds: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let [mut redis, mut cluster, mut sentinel, mut master, mut counters] = [const { None }; 5];
        let mut watchdog = None;
        let [mut command_timeout, mut retry_timeout] = [None; 2];
        let [mut own_fair_wait, mut redisson_fair_wait] = [None; 2];
        let mut threads = None;
        let mut replicas = None;
        let mut prefix = String::new();
        // For the tests that are to hold without it as well.
        let mut reuse_holds = std::env::var("REUSE_HOLDS").map_or(true, |word| word != "off");
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--redis" => redis = Some(value),
                "--cluster" => cluster = Some(value),
                "--sentinel" => sentinel = Some(value),
                "--master" => master = Some(value),
                "--counters" => counters = Some(value),
                "--watchdog-ms" => watchdog = Some(millis(&option, &value)?),
                "--command-timeout-ms" => command_timeout = Some(millis(&option, &value)?),
                "--retry-timeout-ms" => retry_timeout = Some(millis(&option, &value)?),
                "--own-fair-wait-ms" => own_fair_wait = Some(millis(&option, &value)?),
                "--threads" => {
                    let number = value.parse().ok().filter(|number| *number > 0);
                    threads = Some(number.ok_or_else(|| format!("{option} needs a number"))?);
                }
                "--fair-wait-ms" => redisson_fair_wait = Some(millis(&option, &value)?),
                "--replicas" => replicas = Some(how_many(&value)?),
                "--prefix" => prefix = value,
                "--reuse-holds" => reuse_holds = value != "off",
                _ => return Err(format!("unknown option {option}")),
            }
        }
        counters = counters.or(redis.clone());
        let url = match (redis, cluster, sentinel) {
            (Some(url), None, None) => url,
            (None, Some(nodes), None) => cluster_url(&nodes),
            (None, None, Some(nodes)) => {
                sentinel_url(&nodes, &master.ok_or("--sentinel needs --master")?)
            }
            (None, None, None) => {
                return Err("one of --redis, --cluster, --sentinel is needed".into());
            }
            _ => return Err("--redis, --cluster and --sentinel exclude each other".into()),
        };
        Ok(Self {
            url,
            counters,
            watchdog,
            command_timeout,
            retry_timeout,
            own_fair_wait,
            redisson_fair_wait,
            threads,
            replicas,
            prefix,
            reuse_holds,
        })
    }

    pub(crate) fn config(&self) -> Result<Config, Error> {
        let mut config = Config::from_url(&self.url)?.prefix(&self.prefix);
        if let Some(watchdog) = self.watchdog {
            config = config.watchdog(watchdog);
        }
        if let Some(timeout) = self.command_timeout {
            config = config.command_timeout(timeout);
        }
        if let Some(timeout) = self.retry_timeout {
            config = config.retry_timeout(timeout);
        }
        if let Some(wait) = self.own_fair_wait {
            config = config.fair_wait(wait);
        }
        if let Some(wait) = self.redisson_fair_wait {
            config = config.redisson_fair_wait(wait);
        }
        if let Some(replicas) = self.replicas {
            config = config.replicas(replicas);
        }
        Ok(config.reuse_holds(self.reuse_holds))
    }

    /// How many threads the runtime has.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads
    }

    pub(crate) fn counters(self) -> Counters {
        Counters::new(self.counters, self.prefix)
    }
}

/// `redis-cluster://host:port?node=host:port&…`
fn cluster_url(nodes: &str) -> String {
    url("redis-cluster", nodes, None)
}

/// `redis-sentinel://host:port?node=host:port&…&sentinelServiceName=name`
fn sentinel_url(nodes: &str, master: &str) -> String {
    url("redis-sentinel", nodes, Some(format!("sentinelServiceName={master}")))
}

/// The first node stands for all, the others are parameters.
fn url(scheme: &str, nodes: &str, parameter: Option<String>) -> String {
    let mut nodes = nodes.split(',');
    let first = nodes.next().unwrap_or_default();
    let parameters: Vec<_> = nodes.map(|node| format!("node={node}")).chain(parameter).collect();
    match parameters.is_empty() {
        true => format!("{scheme}://{first}"),
        false => format!("{scheme}://{first}?{}", parameters.join("&")),
    }
}

fn how_many(replicas: &str) -> Result<Replicas, String> {
    match replicas {
        "none" => Ok(Replicas::None),
        "all" => Ok(Replicas::All),
        other => other
            .parse()
            .map(Replicas::AtLeast)
            .map_err(|_| format!("--replicas needs none, all or a number, not {other}")),
    }
}

fn millis(option: &str, value: &str) -> Result<Duration, String> {
    let number = value.parse().map_err(|_| format!("{option} needs a number, not {value}"))?;
    Ok(Duration::from_millis(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let options = parse(
            "--redis redis://h:1 --watchdog-ms 1500 --fair-wait-ms 4000 --prefix p: --replicas all --reuse-holds off",
        )
        .unwrap();
        assert_eq!((options.replicas, options.reuse_holds), (Some(Replicas::All), false));
        assert_eq!(options.watchdog, Some(Duration::from_millis(1500)));
        assert_eq!(options.redisson_fair_wait, Some(Duration::from_millis(4000)));
        assert_eq!((options.url.as_str(), options.prefix.as_str()), ("redis://h:1", "p:"));
        assert_eq!(options.counters.as_deref(), Some("redis://h:1"));
    }

    #[test]
    fn many_servers_are_one_url() {
        let cluster = parse("--cluster a:1,b:2,c:3 --counters redis://h:1").unwrap();
        assert_eq!(cluster.url, "redis-cluster://a:1?node=b:2&node=c:3");
        assert_eq!(cluster.counters.as_deref(), Some("redis://h:1"));
        let sentinel = parse("--sentinel a:1,b:2 --master m").unwrap();
        assert_eq!(sentinel.url, "redis-sentinel://a:1?node=b:2&sentinelServiceName=m");
        assert_eq!(sentinel.counters, None);
        assert_eq!(parse("--cluster a:1").unwrap().url, "redis-cluster://a:1");
    }

    #[test]
    fn nothing_is_ignored() {
        for (line, why) in [
            ("", "one of --redis, --cluster, --sentinel is needed"),
            ("--redis", "needs a value"),
            ("--redis r --watchdog-ms soon", "needs a number"),
            ("--redis r --fair-wait-ms long", "needs a number"),
            ("--redis r --replicas some", "needs none, all or a number"),
            ("--redis r --cluster a:1", "exclude each other"),
            ("--sentinel a:1", "needs --master"),
            ("--redis r --colour red", "unknown option"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
