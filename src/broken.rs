//! [`broken`]: whether this client breaks a rule on purpose. Always `false`, but in a build with
//! `--cfg redisson_lock_break`, which shows that the chaos runs find a client that does.

/// The rule is the one that the environment variable `PEER_BREAK` names.
#[cfg(redisson_lock_break)]
pub(crate) fn broken(rule: &str) -> bool {
    static BROKEN: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("PEER_BREAK").unwrap_or_default());
    *BROKEN == rule
}

#[cfg(not(redisson_lock_break))]
#[inline(always)]
pub(crate) const fn broken(_rule: &str) -> bool {
    false
}
