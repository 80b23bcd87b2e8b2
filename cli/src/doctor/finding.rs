//! [`Finding`]: what a check has found, and what to do.

use redisson_lock::{Error, RedisErrorKind};
use serde_json::json;

use crate::table::{row, table};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Warning,
    Bad,
}

#[derive(Debug)]
pub(super) struct Finding {
    /// A server, or all of them.
    server: String,
    check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) value: String,
    advice: &'static str,
}

impl Finding {
    pub(super) fn new(server: &str, check: &'static str, value: impl Into<String>) -> Self {
        let verdict = Verdict::Good;
        Self { server: server.to_owned(), check, verdict, value: value.into(), advice: "" }
    }

    pub(super) fn warn_if(self, it_is: bool, advice: &'static str) -> Self {
        self.judged(it_is, Verdict::Warning, advice)
    }

    pub(super) fn bad_if(self, it_is: bool, advice: &'static str) -> Self {
        self.judged(it_is, Verdict::Bad, advice)
    }

    pub(super) fn judged(self, it_is: bool, verdict: Verdict, advice: &'static str) -> Self {
        if it_is { Self { verdict, advice, ..self } } else { self }
    }

    /// What the server does not tell, although it answers.
    pub(super) fn not_told(server: &str, check: &'static str) -> Self {
        let advice = "the server does not tell it in INFO: check it by hand";
        Self::new(server, check, "unknown").warn_if(true, advice)
    }

    /// What cannot be asked.
    pub(super) fn unknown(server: &str, check: &'static str, error: &Error) -> Self {
        let advice = match check {
            // Without the right to `TIME` there would be no client.
            "clock" => "every lock needs the server's time: the error says why it is not known",
            _ if is_of_rights(error) => {
                "the user may not ask this, which locks do not need: check it by hand"
            }
            _ => "not known: the error says why. Locks do not need it: check it by hand",
        };
        Self::new(server, check, error.to_string()).warn_if(true, advice)
    }
}

pub(super) fn is_of_rights(error: &Error) -> bool {
    matches!(error, Error::Redis(error) if error.kind() == RedisErrorKind::NoPermission)
}

/// What an error of a lock means for this server, and what to do.
pub(super) fn judge(error: &Error) -> (Verdict, &'static str) {
    let Error::Redis(error) = error else {
        return (Verdict::Bad, "no lock can be taken here: the error says why");
    };
    let said = error.to_string();
    let advice = match error.kind() {
        // Redis does not say which. The keys of this check are others than those of the services.
        RedisErrorKind::NoPermission if [" key", "channel"].iter().any(|it| said.contains(it)) => {
            let advice = "not known: the user may not use the keys or channels of this check, redisson-lock-doctor:*; \
                          compare its rights with docs/operations.md";
            return (Verdict::Warning, advice);
        }
        RedisErrorKind::NoPermission => {
            "grant the rights that docs/operations.md lists for this kind of lock"
        }
        RedisErrorKind::OutOfMemory => "the server is full: give it more memory, or remove data",
        RedisErrorKind::ReadOnly => "this server is a replica: name the master, or sentinels",
        RedisErrorKind::CannotSave => "the server cannot save: look at its disk and its log",
        RedisErrorKind::NoReplicas => "replicas are missing: see min-replicas-to-write",
        RedisErrorKind::TooManyClients => "the server takes no more clients: see maxclients",
        RedisErrorKind::Moved => "use a redis-cluster:// URL",
        _ => "no lock can be taken here: the error says why",
    };
    (Verdict::Bad, advice)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Warning => "warning",
        Verdict::Bad => "BAD",
    }
}

pub(super) fn told(findings: &[Finding]) -> String {
    let mut rows = vec![row(["SERVER", "CHECK", "", "VALUE", "ADVICE"])];
    rows.extend(
        findings
            .iter()
            .map(|it| row([&it.server, it.check, word(it.verdict), &it.value, it.advice])),
    );
    table(&rows)
}

pub(super) fn in_json(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|it| {
        let line = json!({
            "server": it.server,
            "check": it.check,
            "verdict": word(it.verdict).to_lowercase(),
            "value": it.value,
            "advice": it.advice,
        });
        format!("{line}\n")
    });
    lines.collect()
}
