//! The command line.

use std::time::Duration;

use redisson_lock::{Config, Error};

use crate::counter::Counters;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    redis: String,
    watchdog: Option<Duration>,
    redisson_fair_wait: Option<Duration>,
    prefix: String,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut redis = None;
        let mut watchdog = None;
        let mut redisson_fair_wait = None;
        let mut prefix = String::new();
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--redis" => redis = Some(value),
                "--watchdog-ms" => watchdog = Some(millis(&option, &value)?),
                "--fair-wait-ms" => redisson_fair_wait = Some(millis(&option, &value)?),
                "--prefix" => prefix = value,
                "--cluster" | "--sentinel" | "--master" => {
                    return Err(format!("{option} is not supported yet by redisson-lock"));
                }
                _ => return Err(format!("unknown option {option}")),
            }
        }
        Ok(Self { redis: redis.ok_or("--redis is needed")?, watchdog, redisson_fair_wait, prefix })
    }

    pub(crate) fn config(&self) -> Result<Config, Error> {
        let mut config = Config::from_url(&self.redis)?.prefix(&self.prefix);
        if let Some(watchdog) = self.watchdog {
            config = config.watchdog(watchdog);
        }
        if let Some(wait) = self.redisson_fair_wait {
            config = config.redisson_fair_wait(wait);
        }
        Ok(config)
    }

    pub(crate) fn counters(self) -> Counters {
        Counters::new(self.redis, self.prefix)
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
        let options =
            parse("--redis redis://h:1 --watchdog-ms 1500 --fair-wait-ms 4000 --prefix p:")
                .unwrap();
        assert_eq!(options.watchdog, Some(Duration::from_millis(1500)));
        assert_eq!(options.redisson_fair_wait, Some(Duration::from_millis(4000)));
        assert_eq!((options.redis.as_str(), options.prefix.as_str()), ("redis://h:1", "p:"));
    }

    #[test]
    fn nothing_is_ignored() {
        for (line, why) in [
            ("", "--redis is needed"),
            ("--redis", "needs a value"),
            ("--redis r --watchdog-ms soon", "needs a number"),
            ("--redis r --fair-wait-ms long", "needs a number"),
            ("--cluster a:1,b:2", "not supported"),
            ("--sentinel a:1 --master m", "not supported"),
            ("--redis r --colour red", "unknown option"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
