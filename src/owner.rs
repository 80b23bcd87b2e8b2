//! [`Owner`], who can re-enter a lock, and [`HoldId`], the name of one hold on the server.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use crate::{broken::broken, determinism};

/// A caller that can re-enter its locks: what a thread is to Redisson's `RLock`.
/// [`Client::owner`](crate::Client::owner) makes it.
///
/// An acquisition borrows its owner by `&mut`, and an owner is not `Clone`. One owner can therefore
/// not be in two acquisitions at once:
///
/// ```compile_fail
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let (a, b) = (client.lock("a"), client.lock("b"));
/// let mut me = client.owner();
/// tokio::try_join!(
///     async { a.lock().by(&mut me).await },
///     async { b.lock().by(&mut me).await }, // error: `me` is borrowed already
/// )?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping an owner releases nothing. Its guards release.
#[derive(Debug)]
#[must_use = "an owner holds nothing by itself: lend it to acquisitions, `lock.lock().by(&mut owner)`"]
pub struct Owner {
    id: OwnerId,
}

/// The id of an owner. Unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerId(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: OwnerId(NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// The owner that the calling OS thread is, for all clients. No thread that comes later gets the
    /// same.
    #[cfg(feature = "blocking")]
    pub(crate) fn of_this_thread() -> Self {
        thread_local! {
            static ID: OwnerId = Owner::new().id;
        }
        Self { id: ID.with(|id| *id) }
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }
}

/// The id of one outermost hold on the server, `<client uuid>:<n>`. It is never used again.
///
/// Redisson reads `n` as a thread id. Any integer works that is unique within the client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HoldId {
    text: Bytes,
    number: u64,
}

impl HoldId {
    /// Reads the id of a hold of any client, as the server has it: `<client>:<n>`, a writer's with
    /// `:write` at its end.
    pub(crate) fn read(text: &str) -> Option<Self> {
        client_of(text).and_then(|_| Self::token(text))
    }

    /// The token of a plain lock, which any program may have chosen.
    pub(crate) fn token(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self { text: text.to_owned().into(), number: NOT_OURS })
    }

    /// Whether it is the id of a writer of a read/write lock.
    pub(crate) fn is_writer(&self) -> bool {
        is_writer(self.as_str())
    }

    pub(crate) fn as_bytes(&self) -> &Bytes {
        &self.text
    }

    /// Unique among all holds of this client, for ever.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).expect("made of text")
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Splits the id of a hold into that of its client, and the rest: `<n>` or `<n>:write`.
pub(crate) fn client_of(id: &str) -> Option<(&str, &str)> {
    let (client, n) = id.strip_suffix(WRITER).unwrap_or(id).rsplit_once(':')?;
    // Redisson's `lockAsync` takes any number for the id of a thread.
    let digits = n.strip_prefix('-').unwrap_or(n);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !client.is_empty()).then(|| (client, &id[client.len() + 1..]))
}

/// The end of a writer's id.
const WRITER: &str = ":write";

/// Whether the id of a holder, of any client, is one of a writer.
pub(crate) fn is_writer(id: &str) -> bool {
    id.ends_with(WRITER)
}

/// The number of a hold that another client made. Its own holds count from 1.
const NOT_OURS: u64 = 0;

/// Java's thread ids stay below this number. Scripts tell this crate's waiters from Redisson's by
/// it.
const IN_LINE: u64 = 1 << 62;

/// Makes the hold ids of one client.
#[derive(Debug)]
pub(crate) struct Identity {
    client: Box<str>,
    next: AtomicU64,
}

impl Identity {
    pub(crate) fn new() -> Self {
        Self {
            client: determinism::uuid().hyphenated().to_string().into(),
            next: AtomicU64::new(1),
        }
    }

    /// The client's id: a UUID of 36 characters.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// A new id.
    pub(crate) fn next(&self) -> HoldId {
        self.write(0, "")
    }

    /// A new id for a waiter in a fair lock's line. Scripts must see that it is this crate's.
    pub(crate) fn next_in_line(&self) -> HoldId {
        self.write(IN_LINE, "")
    }

    /// A new id for a writer.
    pub(crate) fn next_writer(&self) -> HoldId {
        self.write(0, WRITER)
    }

    fn write(&self, above: u64, ending: &str) -> HoldId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let shown = if broken("reuse-ids") { number % 2 } else { number };
        let mut digits = itoa::Buffer::new();
        let mut id = Text { bytes: [0; LONGEST_ID], len: 0 };
        for part in [&*self.client, ":", digits.format(above + shown), ending] {
            id.bytes[id.len..id.len + part.len()].copy_from_slice(part.as_bytes());
            id.len += part.len();
        }
        HoldId { text: Bytes::from_owner(id), number }
    }
}

/// A UUID, a colon, 20 digits, and `:write`.
const LONGEST_ID: usize = 36 + 1 + 20 + 6;

/// The text of an id, which `Bytes` keeps beside its reference count. A `Vec` would be a second
/// allocation.
struct Text {
    bytes: [u8; LONGEST_ID],
    len: usize,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_clients_uuid_and_a_number_and_is_never_given_twice() {
        let identity = Identity::new();
        let (one, two) = (identity.next(), identity.next());
        assert_ne!(one, two);
        let (client, n) = one.as_str().rsplit_once(':').unwrap();
        assert_eq!(client, identity.client());
        assert_eq!(client.len(), 36);
        assert!(n.parse::<i64>().unwrap() > 0);
        let waiter = identity.next_in_line();
        let (_, n) = waiter.as_str().rsplit_once(':').unwrap();
        assert!(n.parse::<i64>().unwrap() > 1 << 62);
        assert!(identity.next_writer().as_str().ends_with(":write"));
    }

    #[test]
    fn the_id_of_another_client_is_read() {
        let id = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";
        assert_eq!(HoldId::read(id).unwrap().as_str(), id);
        let writer = format!("{id}:write");
        assert!(HoldId::read(&writer).unwrap().is_writer());
        assert!(!HoldId::read(id).unwrap().is_writer());
        assert!(HoldId::read("u:-1").is_some(), "of a number that a Java program made up");
        for wrong in
            ["", "mode", "u", "u:", ":1", "u:x", "u:1x", "u:-", "u:--1", ":write", "u:write"]
        {
            assert!(HoldId::read(wrong).is_none(), "{wrong:?}");
        }
    }
}
