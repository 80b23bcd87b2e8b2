//! Redisson's names for the keys and channels of a lock.

/// The channel on which a plain or fenced lock of this name tells that it is free; with `:` and a waiter's id behind it,
/// that of one waiter for a fair lock.
pub fn lock_channel(name: &str) -> String {
    tagged("redisson_lock__channel", name)
}

/// The channel of a read/write lock of this name.
pub fn read_write_channel(name: &str) -> String {
    tagged("redisson_rwlock", name)
}

/// The list of those who wait for a fair lock of this name.
pub fn queue_key(name: &str) -> String {
    tagged("redisson_lock_queue", name)
}

/// The sorted set of the times until which they keep their places.
pub fn deadlines_key(name: &str) -> String {
    tagged("redisson_lock_timeout", name)
}

/// The counter of a fenced lock of this name.
pub fn token_key(name: &str) -> String {
    tagged("redisson_lock_token", name)
}

/// The key that lives as long as the `n`th read hold of a holder.
pub fn read_hold_key(name: &str, holder: &str, n: u64) -> String {
    let name = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
    format!("{name}:{holder}:rwlock_timeout:{n}")
}

/// The permits of an expirable semaphore of this name that are out.
pub fn permit_timeouts(name: &str) -> String {
    if name.contains('{') { format!("{name}:timeout") } else { format!("{{{name}}}:timeout") }
}

/// The channel of a semaphore of this name.
pub fn semaphore_channel(name: &str) -> String {
    tagged("redisson_sc", name)
}

/// The channel of a count-down latch of this name.
pub fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

fn tagged(prefix: &str, name: &str) -> String {
    if name.contains('{') { format!("{prefix}:{name}") } else { format!("{prefix}:{{{name}}}") }
}

/// The three locks that one of several is made of, where a test says no more than a name.
pub fn member_names(name: &str) -> [String; 3] {
    [1, 2, 3].map(|i| format!("{name}:{i}"))
}
