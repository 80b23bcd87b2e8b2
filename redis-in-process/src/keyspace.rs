//! The keys, what is in them, and when they expire.

use std::collections::BTreeMap;

use crate::reply::Refused;

const WRONG_TYPE: Refused =
    Refused::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value");

/// What is in a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// The fields of a hash with their values, in the order in which they were added.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// The items of a list.
    List(Vec<Vec<u8>>),
    /// The members of a sorted set with their scores, in their order.
    SortedSet(Vec<(Vec<u8>, f64)>),
}

impl Value {
    /// What TYPE says.
    pub fn sort(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::SortedSet(members) => members.is_empty(),
        }
    }
}

/// A key as a server keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What is in it.
    pub value: Value,
    /// Server time in ms past which it is gone; `None` is never.
    pub expires: Option<u64>,
}

/// A sort of value, with what a key of it begins with.
pub(crate) trait Sort: Sized {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn empty() -> Value;
}

/// The fields of a hash.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;
/// The items of a list.
pub(crate) type Items = Vec<Vec<u8>>;
/// The members of a sorted set.
pub(crate) type Members = Vec<(Vec<u8>, f64)>;

macro_rules! sort {
    ($sort:ty, $variant:ident) => {
        impl Sort for $sort {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$variant(inner) = value { Some(inner) } else { None }
            }

            fn empty() -> Value {
                Value::$variant(Default::default())
            }
        }
    };
}

sort!(Fields, Hash);
sort!(Items, List);
sort!(Members, SortedSet);

/// All keys, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Server time in ms.
    now: u64,
    /// A replica leaves it to its master to delete what has expired, and hides it until then.
    pub(crate) only_hides: bool,
}

impl Keyspace {
    pub(crate) fn set_now(&mut self, ms: u64) {
        self.now = ms;
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// In its very last millisecond a key is still there.
    fn is_over(&self, entry: &Entry) -> bool {
        entry.expires.is_some_and(|expires| expires < self.now)
    }

    /// The keys that have not expired. Unlike a command, this deletes none that have.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.entries.iter().filter(|(_, entry)| !self.is_over(entry))
    }

    /// One of them.
    pub(crate) fn look(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| !self.is_over(entry))
    }

    /// How many keys there are, those that have expired and were not touched since included.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Deletes all that have expired.
    pub(crate) fn sweep(&mut self) {
        let now = self.now;
        self.entries.retain(|_, entry| entry.expires.is_none_or(|expires| expires >= now));
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// All keys, those that have expired and were not touched since included.
    pub(crate) fn all(&self) -> &BTreeMap<Vec<u8>, Entry> {
        &self.entries
    }

    pub(crate) fn replace(&mut self, all: BTreeMap<Vec<u8>, Entry>) {
        self.entries = all;
    }

    /// The key, which is deleted here if it has expired.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        if self.entries.get(key).is_some_and(|entry| self.is_over(entry)) {
            if !self.only_hides {
                self.entries.remove(key);
            }
            return None;
        }
        self.entries.get_mut(key)
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some()
    }

    /// What is in a key that is of this sort, if it is of any.
    pub(crate) fn read<S: Sort>(&mut self, key: &[u8]) -> Result<Option<&S>, Refused> {
        match self.entry(key) {
            None => Ok(None),
            Some(entry) => S::of(&entry.value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// The same, to change it. A key that is empty after that is deleted; one that is absent stays absent.
    pub(crate) fn change<S: Sort, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut S) -> R,
    ) -> Result<Option<R>, Refused> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let changed = change(S::of_mut(&mut entry.value).ok_or(WRONG_TYPE)?);
        if entry.value.is_empty() {
            self.entries.remove(key);
        }
        Ok(Some(changed))
    }

    /// The same, of a key that is made when it is absent. A change that is refused leaves a key that is absent absent.
    pub(crate) fn extend<S: Sort, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut S) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        if self.entry(key).is_none() {
            self.insert(key, S::empty(), None);
        }
        self.change(key, change)?.expect("it is there")
    }

    pub(crate) fn string(&mut self, key: &[u8]) -> Result<Option<&mut Vec<u8>>, Refused> {
        match self.entry(key).map(|entry| &mut entry.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    pub(crate) fn insert(&mut self, key: &[u8], value: Value, expires: Option<u64>) {
        self.entries.insert(key.to_vec(), Entry { value, expires });
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.exists(key) && self.entries.remove(key).is_some()
    }
}
