//! The names of a lock's keys and channels: exactly Redisson's.
//!
//! Sharded messages change the command, not the name: see `Channels` in `wire/connection.rs`.

/// `prefix:name` if the name contains a `{`, else `prefix:{name}`. All keys of one lock then share
/// its hash slot.
pub(crate) fn tagged(prefix: &str, name: &str) -> String {
    if name.contains('{') { format!("{prefix}:{name}") } else { format!("{prefix}:{{{name}}}") }
}

/// The text of a name that was stored as bytes.
pub(crate) fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).expect("made of a str")
}

/// The channel that announces the release of a reentrant lock. A fair lock's waiters have a channel
/// each: this one, `:` and the holder id.
pub(crate) fn unlock_channel(name: &str) -> String {
    tagged("redisson_lock__channel", name)
}

/// The channel that announces the release of a plain lock. Only this crate uses it.
pub(crate) fn plain_channel(name: &str) -> String {
    tagged("redisson_lock_plain", name)
}

/// The channel of both sides of a read/write lock.
pub(crate) fn read_write_channel(name: &str) -> String {
    tagged("redisson_rwlock", name)
}

/// The list of a fair lock's waiters, the next one first.
pub(crate) fn fair_queue(name: &str) -> String {
    tagged("redisson_lock_queue", name)
}

/// The sorted set of the waiters' deadlines.
pub(crate) fn fair_deadlines(name: &str) -> String {
    tagged("redisson_lock_timeout", name)
}

/// The counter of a fenced lock's tokens.
pub(crate) fn token(name: &str) -> String {
    tagged("redisson_lock_token", name)
}

/// The channel of a semaphore's releases.
pub(crate) fn semaphore_channel(name: &str) -> String {
    tagged("redisson_sc", name)
}

/// The ids of the requests that have changed a semaphore. Not Redisson's.
pub(crate) fn semaphore_requests(name: &str) -> String {
    tagged("redisson_lock_requests", name)
}

/// The permits of an expirable semaphore that are out, and when their leases end.
pub(crate) fn permit_timeouts(name: &str) -> String {
    match name.contains('{') {
        true => format!("{name}:timeout"),
        false => format!("{{{name}}}:timeout"),
    }
}

/// The channel of a latch. Redisson puts every name in braces here.
pub(crate) fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// The ids of the requests that have changed a latch. Not Redisson's.
pub(crate) fn latch_requests(name: &str) -> String {
    format!("redisson_lock_requests:{{{name}}}")
}

/// The questions to the holders of a lock, whether they would release it, and the channel that
/// announces them. Only this crate uses them.
pub(crate) fn questions(name: &str) -> String {
    tagged("redisson_lock_asked", name)
}

/// What the names of announcements begin with.
pub(crate) const ANNOUNCEMENTS: &str = "redisson_lock_client:";

/// The hash in which a client announces itself. It has no prefix: the id of a hold leads to it,
/// whatever prefix the reader uses.
pub(crate) fn announcement(client: &str) -> String {
    format!("{ANNOUNCEMENTS}{client}")
}

/// The key that lives as long as one read hold. Redisson numbers the re-entries from this one on.
pub(crate) fn read_timeout(name: &str, holder: &str) -> String {
    format!("{}{holder}:rwlock_timeout:1", read_timeouts(name))
}

/// What the keys of a lock's read holds begin with.
pub(crate) fn read_timeouts(name: &str) -> String {
    match name.contains('{') {
        true => format!("{name}:"),
        false => format!("{{{name}}}:"),
    }
}

/// Whether Redisson computes another hash slot for this name than Redis does.
pub(crate) fn is_misread(name: &str) -> bool {
    name.find('{').is_some_and(|open| name[..open].contains('}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brace_that_closes_first_is_misread() {
        assert!(is_misread("a}b{c}d"));
        assert!(!is_misread("a{b}c}d{"));
        assert!(!is_misread("a}b"));
    }

    #[test]
    fn a_name_without_a_brace_is_wrapped_in_one() {
        assert_eq!(unlock_channel("order:42"), "redisson_lock__channel:{order:42}");
        assert_eq!(unlock_channel("a}b"), "redisson_lock__channel:{a}b}");
    }

    #[test]
    fn a_latch_has_a_channel_in_braces_whatever_its_name() {
        assert_eq!(semaphore_channel("pool"), "redisson_sc:{pool}");
        assert_eq!(semaphore_channel("{a}b"), "redisson_sc:{a}b");
        assert_eq!(semaphore_requests("pool"), "redisson_lock_requests:{pool}");
        assert_eq!(permit_timeouts("pool"), "{pool}:timeout");
        assert_eq!(permit_timeouts("{a}b"), "{a}b:timeout");
        assert_eq!(latch_channel("ready"), "redisson_countdownlatch__channel__{ready}");
        assert_eq!(latch_channel("{a}b"), "redisson_countdownlatch__channel__{{a}b}");
        assert_eq!(latch_requests("a{b"), "redisson_lock_requests:{a{b}");
    }

    #[test]
    fn a_read_hold_has_a_key_beside_the_lock() {
        assert_eq!(read_timeout("a", "u:1"), "{a}:u:1:rwlock_timeout:1");
        assert_eq!(read_timeout("a{b}", "u:1"), "a{b}:u:1:rwlock_timeout:1");
    }

    #[test]
    fn a_name_with_an_opening_brace_anywhere_is_left_alone() {
        assert_eq!(unlock_channel("{a}b"), "redisson_lock__channel:{a}b");
        assert_eq!(unlock_channel("a{b"), "redisson_lock__channel:a{b");
        assert_eq!(unlock_channel("ab{"), "redisson_lock__channel:ab{");
    }
}
