//! What is compared.

use std::collections::BTreeMap;

use redis_in_process::Reply;

/// How many listen in a schedule.
pub(crate) const SUBSCRIBERS: usize = 2;

/// What is compared after every step.
#[derive(PartialEq)]
pub(crate) struct Outcome {
    pub(crate) answer: Reply,
    /// By their names; `None` where a mood lets nobody look.
    pub(crate) keys: Option<BTreeMap<Vec<u8>, Reply>>,
    /// How many keys are kept, those that have expired and were not touched since included.
    pub(crate) kept: Reply,
    /// What each subscriber has heard: the pattern if there is one, the channel and the text.
    pub(crate) heard: Vec<Vec<Vec<Vec<u8>>>>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "answer {}", spoken(&self.answer))?;
        for (key, content) in self.keys.iter().flatten() {
            writeln!(f, "    {} {}", key.escape_ascii(), spoken(content))?;
        }
        writeln!(f, "    keys kept: {}", spoken(&self.kept))?;
        for (who, heard) in self.heard.iter().enumerate().filter(|(_, heard)| !heard.is_empty()) {
            let heard = heard.iter().flatten().map(|word| word.escape_ascii().to_string());
            writeln!(f, "    subscriber {who} hears {}", heard.collect::<Vec<_>>().join(" "))?;
        }
        Ok(())
    }
}

/// An answer for a reader.
pub(crate) fn spoken(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(bytes) => format!("'{}'", bytes.escape_ascii()),
        Reply::Status(text) => format!("+{}", text.escape_ascii()),
        Reply::Error(text) => format!("-{text}"),
        Reply::Array(items) => {
            format!("{{{}}}", items.iter().map(spoken).collect::<Vec<_>>().join(", "))
        }
    }
}
