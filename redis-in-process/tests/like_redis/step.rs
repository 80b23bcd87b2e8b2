//! What is done to both servers.

use redis_in_process::{Channel, Refusal};

pub(crate) type Words = Vec<Vec<u8>>;

/// One step of a schedule. It says all it does, so that any step can be left out.
#[derive(Clone, PartialEq)]
pub(crate) enum Step {
    /// The clock, in µs.
    SetClock(u64),
    Command(Words),
    /// By the name of the script, how many of the words are keys, and the words.
    Script(&'static str, usize, Words),
    FlushScripts,
    Subscribe(usize, Channel),
    Unsubscribe(usize, Channel),
    /// A mood begins.
    Refuse(Refusal),
    /// It ends.
    Accept(Refusal),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SetClock(micros) => write!(f, "the clock shows {micros} µs"),
            Self::Command(words) => write!(f, "{}", spoken(words)),
            Self::Script(name, keys, words) => {
                write!(f, "{name}: {} | {}", spoken(&words[..*keys]), spoken(&words[*keys..]))
            }
            Self::FlushScripts => write!(f, "SCRIPT FLUSH"),
            Self::Subscribe(who, channel) => write!(f, "subscriber {who} to {channel:?}"),
            Self::Unsubscribe(who, channel) => write!(f, "subscriber {who} no more to {channel:?}"),
            Self::Refuse(why) => write!(f, "{why:?} begins"),
            Self::Accept(why) => write!(f, "{why:?} ends"),
        }
    }
}

fn spoken(words: &[Vec<u8>]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.escape_ascii())).collect();
    words.join(" ")
}
