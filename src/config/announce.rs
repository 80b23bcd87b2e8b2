//! What a [`Config`] says about the program, for operators who ask who holds a lock.

use std::{env, fs, process};

use super::Config;
use crate::error::Error;

/// The most characters of each text.
const LONGEST: usize = 128;

/// What a client announces about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) app: String,
    pub(crate) host: Option<String>,
    pub(crate) pid: u32,
    pub(crate) version: Option<String>,
}

impl Config {
    /// Announces who the client is: a name for the program, which
    /// [`Lock::inspect`](crate::Lock::inspect) and the command line show for each lock that the
    /// client holds. From 1 to 128 characters, none of them a control character. Default: nothing is
    /// announced.
    ///
    /// The client then writes one key, `redisson_lock_client:` and its [id](crate::Client::id): a
    /// hash of the name, the host, the process id, the version, and since when the client is
    /// connected. It is renewed in the background, and removed by
    /// [`Client::close`](crate::Client::close) if the server answers within 1 s and no guard lives. Otherwise, and
    /// when the process dies, it ends by its TTL. Holds that are older than a third of
    /// [`watchdog`](Self::watchdog) follow, with their [notes](crate::LockGuard::note), unless the
    /// lock's key has more than 1,024 bytes. Acquiring and releasing send nothing more.
    ///
    /// It is a hint: no lock depends on it, and it may be late or missing. `docs/operations.md`
    /// lists the rights. Without them there is one warning in the log, and nothing else.
    ///
    /// # Errors
    /// [`Error::Config`] when the name cannot be used.
    ///
    /// # Examples
    /// ```
    /// # use redisson_lock::Config;
    /// let config = Config::from_url("redis://127.0.0.1:6379")?.announce("orders")?;
    /// # Ok::<(), redisson_lock::Error>(())
    /// ```
    pub fn announce(mut self, app: impl Into<String>) -> Result<Self, Error> {
        let app = app.into();
        check("announce", &app)?;
        self.announce = Some(app);
        Ok(self)
    }

    /// Sets the program's version, which is announced beside the version of this crate. As long as a
    /// name may be. Without [`announce`](Self::announce) it is not used.
    ///
    /// # Errors
    /// [`Error::Config`] when it cannot be used.
    pub fn announce_version(mut self, version: impl Into<String>) -> Result<Self, Error> {
        let version = version.into();
        check("announce_version", &version)?;
        self.announce_version = Some(version);
        Ok(self)
    }

    /// Sets the host to announce, such as the name of a pod. As long as a name may be. Default: the
    /// machine's host name, as far as it is known. Without [`announce`](Self::announce) it is not
    /// used.
    ///
    /// # Errors
    /// [`Error::Config`] when it cannot be used.
    pub fn announce_host(mut self, host: impl Into<String>) -> Result<Self, Error> {
        let host = host.into();
        check("announce_host", &host)?;
        self.announce_host = Some(host);
        Ok(self)
    }

    /// What is to be announced. Also checks what serde has read.
    pub(super) fn about(&self) -> Result<Option<About>, Error> {
        for (what, text) in [
            ("announce", &self.announce),
            ("announce_version", &self.announce_version),
            ("announce_host", &self.announce_host),
        ] {
            text.as_ref().map_or(Ok(()), |text| check(what, text))?;
        }
        Ok(self.announce.clone().map(|app| About {
            app,
            host: self.announce_host.clone().or_else(host),
            pid: process::id(),
            version: self.announce_version.clone(),
        }))
    }
}

fn check(what: &str, text: &str) -> Result<(), Error> {
    let length = text.chars().count();
    let wrong = |why: &str| Err(Error::Config(format!("{what} {why}")));
    match text {
        text if text.trim().is_empty() => wrong("is empty"),
        _ if length > LONGEST => {
            wrong(&format!("has {length} characters, but may have {LONGEST} at most"))
        }
        text if text.chars().any(char::is_control) => wrong("contains a control character"),
        _ => Ok(()),
    }
}

/// The name of this machine, where the system tells it.
fn host() -> Option<String> {
    let file = |path: &str| fs::read_to_string(path).ok();
    let names = [
        file("/proc/sys/kernel/hostname"),
        env::var("HOSTNAME").ok(),
        env::var("COMPUTERNAME").ok(),
        file("/etc/hostname"),
    ];
    let mut names = names.into_iter().flatten().map(|name| name.trim().to_owned());
    names.find(|name| check("host", name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_at_once() {
        let long = "a".repeat(LONGEST + 1);
        for (name, why) in
            [("", "is empty"), (" ", "is empty"), ("a\nb", "control"), (&*long, "129 characters")]
        {
            for refused in [
                Config::default().announce(name),
                Config::default().announce_version(name),
                Config::default().announce_host(name),
            ] {
                let Err(Error::Config(error)) = refused else { panic!("{name:?}: {refused:?}") };
                assert!(error.starts_with("announce") && error.contains(why), "{error}");
            }
            let read: Config =
                serde_json::from_value(serde_json::json!({ "announce": name })).unwrap();
            assert!(matches!(read.into_settings(), Err(Error::Config(_))), "{name:?}");
        }
        let longest = "\u{e9}".repeat(LONGEST);
        assert!(Config::default().announce(longest).is_ok());
    }

    #[test]
    fn the_process_is_described() {
        assert_eq!(Config::default().about().unwrap(), None);
        let config = Config::default().announce("orders").unwrap();
        let about = config.clone().about().unwrap().unwrap();
        assert_eq!((&*about.app, about.pid, about.version), ("orders", process::id(), None));
        assert_eq!(about.host, host());
        let config = config.announce_host("pod-1").unwrap().announce_version("1.2").unwrap();
        let written = serde_json::to_string(&config).unwrap();
        let config: Config = serde_json::from_str(&written).unwrap();
        let about = config.about().unwrap().unwrap();
        assert_eq!((about.host.as_deref(), about.version.as_deref()), (Some("pod-1"), Some("1.2")));
    }
}
