//! The topologies of the scenarios: one server, a cluster, a master with replicas and sentinels, or a server in process.

use harness::{RedisCluster, RedisServer, Sentinel, Servers};

use crate::in_process::InProcess;
use crate::mix::Mix;

/// How the servers stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    Standalone,
    Cluster,
    Sentinel,
    /// The server of the module `test_util`.
    InProcess,
}

/// What is run on all of them: what a script does is the same everywhere, but not which node it is sent to, who is told
/// by which kind of message, and what is waited for behind it. `CONFORMANCE_EVERYWHERE=1` runs all the others too.
const EVERYWHERE: &[&str] = &[
    "exclusion_with_a_counter",
    "locks_of_other_names_are_free",
    "a_hold_is_counted_where_the_other_side_sees_it",
    "the_questions_have_the_same_answers_on_both_sides",
    "a_forced_unlock_wakes_a_waiter_and_fails_the_holders",
    "a_waiter_is_woken_by_the_unlock",
    "a_waiter_is_woken_by_a_message_alone",
    "only_the_last_unlock_is_told_and_once",
    "a_try_with_a_wait_is_refused_when_it_is_over",
    "a_cancelled_waiter_leaves_nothing",
    "exclusion_with_fixed_leases",
    "a_killed_holders_lock_is_inherited_when_its_ttl_ends",
    "odd_names_meet_on_one_key_and_one_channel",
    "a_prefix_stands_before_the_name",
    "waiters_are_served_in_the_order_of_their_arrival",
    "a_release_tells_the_head_alone",
    "readers_of_both_sides_share",
    "a_write_release_lets_all_waiting_readers_in",
    "a_watchdog_keeps_a_reader_alive",
    "tokens_grow_from_hold_to_hold_across_languages",
    "the_counter_outlives_the_lock_for_ever",
    "a_re_entry_is_refused_and_changes_nothing",
    "a_spin_lock_and_a_plain_lock_of_one_name_are_one_lock",
    "the_bytes_and_messages_of_a_semaphore_are_the_same",
    "no_more_permits_are_out_than_there_are",
    "a_waiter_for_permits_is_woken_by_a_release",
    "a_waiter_for_permits_is_granted_within_its_time_or_refused_when_it_is_over",
    "waiters_for_permits_are_served_in_fifty_turns_to_and_fro",
    "the_bytes_and_messages_of_an_expirable_semaphore_are_the_same",
    "a_waiter_for_leased_permits_is_woken_by_a_release",
    "a_waiter_is_granted_when_the_lease_of_a_dead_holder_ends",
    "a_prefix_stands_before_the_names_of_all_keys_of_leased_permits",
    "the_bytes_and_messages_of_a_latch_are_the_same",
    "all_waiters_of_a_latch_are_woken_by_its_zero",
    "a_latch_that_is_set_again_is_waited_for_again",
    "a_holder_that_is_asked_gives_the_lock_to_a_waiter",
    "a_jvm_that_holds_the_lock_hears_no_question",
];

/// What is not run on a cluster, and why.
const NOT_ON_A_CLUSTER: &[(&str, &str)] = &[
    (
        "a_watchdog_keeps_a_hold_alive",
        "Redisson renews one slot after the other: on a busy machine that takes longer than so short a watchdog allows; \
         the topology tests have it with a longer one",
    ),
    (
        "readers_see_no_writer_at_work",
        "a Redisson writer that is not asleep yet misses the release and waits for 30 s, the likelier the longer a \
         subscription takes",
    ),
];

impl Topology {
    pub(crate) const ALL: [Self; 4] =
        [Self::Standalone, Self::Cluster, Self::Sentinel, Self::InProcess];

    /// What stands before the names of its tests.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Standalone => "",
            Self::Cluster => "cluster/",
            Self::Sentinel => "sentinel/",
            Self::InProcess => "in_process/",
        }
    }

    /// Whether a scenario is run on it.
    pub(crate) fn is_for(self, scenario: &str) -> bool {
        let is = |name: &&str| *name == scenario;
        let is_excluded = NOT_ON_A_CLUSTER.iter().map(|(name, _)| name).any(is);
        match self {
            Self::Standalone | Self::InProcess => true,
            Self::Cluster if is_excluded => false,
            Self::Cluster | Self::Sentinel => is_everywhere() || EVERYWHERE.iter().any(is),
        }
    }

    /// The mixes for which it is: a server in process is for tests of Rust programs.
    pub(crate) fn mixes(self) -> &'static [Mix] {
        if self == Self::InProcess { Mix::ALL_RUST } else { &Mix::ALL }
    }

    pub(crate) fn start(self) -> Box<dyn Servers> {
        match self {
            Self::Standalone => Box::new(RedisServer::start()),
            Self::Cluster => Box::new(RedisCluster::start()),
            Self::Sentinel => Box::new(Sentinel::start()),
            Self::InProcess => Box::new(InProcess::start()),
        }
    }
}

/// So that none is left out because it has been renamed.
///
/// # Panics
/// When a scenario is named that there is not.
pub(crate) fn check(scenarios: impl Iterator<Item = &'static str>) {
    let names: Vec<_> = scenarios.collect();
    for name in EVERYWHERE.iter().chain(NOT_ON_A_CLUSTER.iter().map(|(name, _)| name)) {
        assert!(names.contains(name), "there is no scenario {name}");
    }
}

fn is_everywhere() -> bool {
    std::env::var("CONFORMANCE_EVERYWHERE").is_ok_and(|value| value == "1")
}
