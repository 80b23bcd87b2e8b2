//! The server's state of the lock, as it was last shown.

use std::collections::BTreeMap;

use super::call::Id;
use crate::LOCK;
use crate::model::{Ms, Server};

const MODE: &str = "mode";

/// The hash and the timeout keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Kept {
    /// `None`: free, or a lock of another kind.
    pub(super) mode: Option<String>,
    pub(super) holders: BTreeMap<Id, u32>,
    /// When the hash expires; 0 when there is none.
    pub(super) until: Ms,
    /// When the last of a hold's timeout keys expires.
    pub(super) lasts: BTreeMap<Id, Ms>,
}

impl Kept {
    pub(super) fn on(server: &Server) -> Self {
        let Some(seen) = server.seen(LOCK) else { return Self::default() };
        let mut fields = seen.fields.clone();
        let mode = fields.remove(MODE);
        let holders: BTreeMap<Id, u32> = fields
            .iter()
            .map(|(id, count)| (id.parse().expect("a holder"), count.parse().expect("a count")))
            .collect();
        let mut lasts = BTreeMap::new();
        for (key, seen) in server.all_seen() {
            let Some((id, number)) = timeout_of(key) else { continue };
            if holders.get(&id).is_some_and(|count| number <= *count) {
                let last: &mut Ms = lasts.entry(id).or_default();
                *last = (*last).max(seen.until.unwrap_or(Ms::MAX));
            }
        }
        Self { mode, holders, until: seen.until.unwrap_or(Ms::MAX), lasts }
    }

    pub(super) fn is_free(&self) -> bool {
        self.mode.is_none() && self.holders.is_empty()
    }

    pub(super) fn is_written(&self) -> bool {
        self.mode.as_deref() == Some("write")
    }

    pub(super) fn is_read(&self) -> bool {
        self.mode.as_deref() == Some("read")
    }

    pub(super) fn shown(&self) -> String {
        if self.is_free() {
            return "free".into();
        }
        let holder = |(id, count): (&Id, &u32)| {
            let last = self.lasts.get(id).map(|last| format!(" ({last})")).unwrap_or_default();
            format!("{id} x{count}{last}")
        };
        let holders: Vec<_> = self.holders.iter().map(holder).collect();
        let mode = self.mode.as_deref().unwrap_or("plain");
        format!("{mode}, {} until {}", holders.join(", "), self.until)
    }
}

/// The hold that a timeout key keeps alive, and the key's number.
pub(super) fn timeout_of(key: &str) -> Option<(Id, u32)> {
    let (id, number) = key.strip_prefix(&format!("{{{LOCK}}}:"))?.split_once(":rwlock_timeout:")?;
    Some((id.parse().expect("a holder"), number.parse().expect("a number")))
}
