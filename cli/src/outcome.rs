//! [`Outcome`]: how the program ends: its exit code, and its words on stderr.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::mpsc,
    thread,
    time::Duration,
};

use redisson_lock::Error;
use serde_json::json;

use crate::table::printable;

/// The command line makes no sense. (EX_USAGE of sysexits.h, as those below.)
pub(crate) const USAGE: u8 = 64;
/// The key is not a lock of this kind.
pub(crate) const WRONG_KIND: u8 = 65;
/// Redis cannot be reached or refuses, or too few replicas confirmed the lock.
pub(crate) const NO_REDIS: u8 = 69;
/// Something that should not happen.
pub(crate) const INTERNAL: u8 = 70;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 74;
/// The lock was not got in time: another holds it.
pub(crate) const NOT_GOT: u8 = 75;
/// The configuration cannot be used.
pub(crate) const CONFIG: u8 = 78;

/// How long writing to stderr may take.
const TELLING: Duration = Duration::from_secs(3);

/// Why something was not done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(INTERNAL, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Config(_) => CONFIG,
            Error::Invalid(_) => USAGE,
            Error::WrongKind { .. } => WRONG_KIND,
            Error::NotHeld { .. } => LOST,
            // Nobody else holds it: 75 would tell wrappers that the command runs elsewhere.
            Error::Redis(_) | Error::NotReplicated { .. } => NO_REDIS,
            _ => INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

/// How the program ends.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) code: u8,
    /// Sentences for stderr.
    pub(crate) words: Vec<String>,
    json: bool,
}

impl Outcome {
    pub(crate) fn new(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    pub(crate) fn with(mut self, words: impl Into<String>) -> Self {
        self.words.push(words.into());
        self
    }

    pub(crate) fn in_json(self, json: bool) -> Self {
        Self { json, ..self }
    }

    /// Tells it. What nobody reads is no failure.
    pub(crate) fn end(self) -> ExitCode {
        let lines = self.lines();
        if !lines.is_empty() {
            say(lines);
        }
        ExitCode::from(self.code)
    }

    /// One line for each sentence. What others wrote may be in it.
    fn lines(&self) -> String {
        let mut lines = String::new();
        for words in &self.words {
            lines.push_str(&if self.json {
                json!({ "message": words, "code": self.code }).to_string()
            } else {
                format!("redisson-lock: {}", printable(words))
            });
            lines.push('\n');
        }
        lines
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::new(failure.code).with(failure.text)
    }
}

/// Writes a sentence to stderr while the program goes on. Nothing waits for it: perhaps nobody reads it.
pub(crate) fn note(words: String, is_json: bool) {
    let line = noted(&words, is_json);
    // A command that uses up the threads of its user does not end the library's task that wanted to say something.
    let _ = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(line.as_bytes());
    });
}

fn noted(words: &str, is_json: bool) -> String {
    match is_json {
        true => format!("{}\n", json!({ "message": words })),
        false => format!("redisson-lock: {}\n", printable(words)),
    }
}

/// Writes to stderr, for a while: perhaps nobody reads it.
fn say(lines: String) {
    let (done, told) = mpsc::channel();
    let saying = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(lines.as_bytes());
        let _ = done.send(());
    });
    if saying.is_ok() {
        let _ = told.recv_timeout(TELLING);
    }
}

/// Writes to stdout. `false`: nobody reads it any more, which is no failure.
pub(crate) fn print(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::internal(format!("stdout cannot be written: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "held by 1\u{1b}[2J\r\nredisson-lock: \u{202e}fake";
    const SHOWN: &str = "redisson-lock: held by 1\\u{1b}[2J\\r\\nredisson-lock: \\u{202e}fake\n";

    #[test]
    fn what_others_wrote_cannot_command_the_terminal() {
        assert_eq!(noted(HOSTILE, false), SHOWN);
        assert_eq!(Outcome::new(1).with(HOSTILE).lines(), SHOWN);
        for line in [noted(HOSTILE, true), Outcome::new(1).with(HOSTILE).in_json(true).lines()] {
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["message"], HOSTILE);
        }
    }
}
