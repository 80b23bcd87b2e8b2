//! [`ClientName`]: the one name of all connections of a client, and whether it is sent.
//! `set_name` sends it.
//!
//! An operator sees the name in `CLIENT LIST`. Nothing depends on it.
//!
//! If the server refuses `CLIENT SETNAME`, the client does not send it again. A proxy may instead
//! close a connection on a command that it does not know. After [`MOST_CLOSED`] connections that ended
//! so, the client sends no name any more.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use super::{
    answers::{Answer, Failure, FailureKind},
    script::Arg,
};
use crate::redis_error::RedisErrorKind;

/// After this many connections in a row that ended before the answer, no name is sent any more.
const MOST_CLOSED: u32 = 3;

/// The longest name of a connection.
const LONGEST: usize = 128;

/// The name of the connections of one client.
#[derive(Clone)]
pub(super) struct ClientName {
    pub(super) name: Arg,
    /// How many connections in a row have ended before the answer. [`u32::MAX`]: it was refused.
    closed: Arc<AtomicU32>,
}

impl ClientName {
    pub(super) fn new(name: &str) -> Self {
        // Redis refuses all other characters.
        let cleaned = name.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' });
        let name: String = cleaned.take(LONGEST).collect();
        Self { name: Arg::Bytes(name.into()), closed: Arc::default() }
    }

    /// Whether a new connection is to get the name.
    pub(super) fn is_wanted(&self) -> bool {
        self.closed.load(Ordering::Relaxed) < MOST_CLOSED
    }

    /// Notes what became of it.
    pub(super) fn note(&self, answer: &Answer) {
        match answer {
            Ok(_) => self.closed.store(0, Ordering::Relaxed),
            Err(error) if is_final(error) => {
                // Not in the server's words. After AUTH, they may repeat a password.
                log!(debug, why = ?error.error_kind(), "connections have no name");
                self.closed.store(u32::MAX, Ordering::Relaxed);
            }
            Err(error) if error.kind == FailureKind::Gone => {
                let more = |closed: u32| Some(closed.saturating_add(1));
                let _ = self.closed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            }
            Err(_) => {}
        }
    }
}

/// Whether it is refused for ever. A server that is busy or loads its data takes it later. So does one
/// that was asked after a SUBSCRIBE: on the next connection.
fn is_final(error: &Failure) -> bool {
    let kinds = [RedisErrorKind::NoPermission, RedisErrorKind::Refused];
    error.kind == FailureKind::Refused
        && kinds.contains(&error.error_kind())
        && !error.text.contains(" allowed in this context")
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::{Debug, Write},
        sync::Mutex,
    };

    use tracing::{Event, Metadata, Subscriber, field::Field, span};

    use super::*;
    use crate::wire::script::Reply;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            event.record(&mut |field: &Field, value: &dyn Debug| {
                let _ = writeln!(self.0.lock().unwrap(), "{field}: {value:?}");
            });
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    /// The command follows AUTH. A second answer to AUTH may repeat the password.
    #[test]
    fn the_words_of_a_refusal_are_not_logged() {
        let log = Log::default();
        let _here = tracing::subscriber::set_default(log.clone());
        // Another test may have come to this place first, and found nobody interested.
        tracing::callsite::rebuild_interest_cache();
        ClientName::new("n").note(&Err(Failure::refused("ERR syntax error near 'secret'")));
        let logged = log.0.lock().unwrap();
        assert!(logged.contains("have no name") && !logged.contains("secret"), "{logged}");
    }

    #[test]
    fn a_name_has_no_character_that_redis_refuses() {
        let name = |name: &str| match ClientName::new(name).name {
            Arg::Bytes(name) => String::from_utf8(name.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(name("redisson-lock:u:orders"), "redisson-lock:u:orders");
        assert_eq!(name("or ders\n2\u{e9}"), "or_ders_2_");
        assert_eq!(name(&"a".repeat(1000)).len(), LONGEST);
    }

    #[test]
    fn a_name_that_is_refused_or_ends_connections_is_not_sent_again() {
        let client_name = ClientName::new("n");
        client_name.note(&Err(Failure::refused("BUSY Redis is busy running a script")));
        client_name.note(&Err(Failure::refused("LOADING Redis is loading the dataset in memory")));
        // The words of Redis 5, 6.2 and 7.
        for words in
            ["only", "Can't execute 'client': only", "Can't execute 'client|setname': only"]
        {
            let words = format!("ERR {words} (P|S)SUBSCRIBE / PING are allowed in this context");
            client_name.note(&Err(Failure::refused(words)));
        }
        assert!(client_name.is_wanted());
        client_name.note(&Err(Failure::refused("NOPERM this user has no permissions")));
        assert!(!client_name.is_wanted());
        let client_name = ClientName::new("n");
        client_name.note(&Err(Failure::refused("ERR unknown command 'CLIENT'")));
        assert!(!client_name.clone().is_wanted());
        let client_name = ClientName::new("n");
        for _ in 1..MOST_CLOSED {
            client_name.note(&Err(Failure::gone()));
        }
        client_name.note(&Ok(Reply::Nil));
        for _ in 0..MOST_CLOSED {
            assert!(client_name.is_wanted());
            client_name.note(&Err(Failure::timed_out()));
            client_name.note(&Err(Failure::gone()));
        }
        assert!(!client_name.is_wanted());
    }
}
