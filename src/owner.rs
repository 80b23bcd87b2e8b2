//! Who holds: [`Owner`], the logical thread, and [`HoldId`], one hold's name on the wire.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use uuid::Uuid;

/// A logical thread: whoever may take one lock several times over.
///
/// It is to this crate what a thread is to Redisson's `RLock`. It is lent to an acquisition by
/// `&mut`, so that one owner cannot be in two acquisitions at once, and it is not `Clone`:
///
/// ```compile_fail
/// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
/// let (a, b) = (client.lock("a"), client.lock("b"));
/// let mut me = client.owner();
/// tokio::try_join!(
///     async { a.lock().by(&mut me).await },
///     async { b.lock().by(&mut me).await }, // error: `me` is lent already
/// )?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping an owner releases nothing: the guards do.
#[derive(Debug)]
#[must_use = "an owner holds nothing by itself: lend it to acquisitions, `lock.lock().by(&mut owner)`"]
pub struct Owner {
    key: OwnerId,
}

/// What a lock files an owner's hold under. Unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerId(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { key: OwnerId(NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    pub(crate) fn key(&self) -> OwnerId {
        self.key
    }
}

/// The name of one outermost hold on the wire, `<client uuid>:<n>`; never used again after it.
///
/// Redisson reads `n` as a thread id. It needs any integer that is unique within the client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct HoldId {
    text: Bytes,
    number: u64,
}

impl HoldId {
    pub(crate) fn as_bytes(&self) -> &Bytes {
        &self.text
    }

    /// No other hold of this client has the same, ever.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).expect("made of ASCII")
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No thread of Java's has an id as high as this: with such numbers we tell our waiters from
/// Redisson's.
const IN_LINE: u64 = 1 << 62;

/// Makes the ids of one client.
#[derive(Debug)]
pub(crate) struct Identity {
    client: Box<str>,
    next: AtomicU64,
}

impl Identity {
    pub(crate) fn new() -> Self {
        Self { client: Uuid::new_v4().hyphenated().to_string().into(), next: AtomicU64::new(1) }
    }

    /// The client's own id: a UUID in its 36-character form.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// An id that was never used before.
    pub(crate) fn next(&self) -> HoldId {
        self.write(0, "")
    }

    /// The same for one who stands in a fair lock's line: others must see that it is ours.
    pub(crate) fn next_in_line(&self) -> HoldId {
        self.write(IN_LINE, "")
    }

    /// The same for a writer.
    pub(crate) fn next_writer(&self) -> HoldId {
        self.write(0, ":write")
    }

    fn write(&self, above: u64, ending: &str) -> HoldId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(above + number);
        let mut id = Vec::with_capacity(self.client.len() + 1 + digits.len() + ending.len());
        for part in [&*self.client, ":", digits, ending] {
            id.extend_from_slice(part.as_bytes());
        }
        HoldId { text: id.into(), number }
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
}
