//! The circles of files that are still there.

/// The files of each circle. This list only shrinks: a circle that becomes smaller or disappears is changed or struck out here.
pub(crate) const KNOWN_CIRCLES: &[&[&str]] = &[
    &["src/acquire.rs", "src/lock.rs"],
    &[
        "src/engine/mod.rs",
        "src/engine/releases.rs",
        "src/engine/wakeups/worker.rs",
        "src/engine/wakeups.rs",
        "src/engine/watchdog.rs",
    ],
    &[
        "src/locking/handoff.rs",
        "src/locking/hold/mod.rs",
        "src/locking/line/head.rs",
        "src/locking/line/mod.rs",
        "src/locking/registry.rs",
        "src/locking/share.rs",
    ],
    &["src/multi/all.rs", "src/multi/majority.rs", "src/multi/mod.rs"],
    &["src/protocol/mod.rs", "src/protocol/read_write.rs", "src/protocol/reentrant.rs"],
    &["src/sim/mod.rs", "src/sim/network.rs"],
];
