//! The constructors of a [`Lease`]: of a hold on a lock, or of permits of a semaphore.

use std::{
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{Lease, PresentCaller, State, renewal::period, trust};
use crate::{
    broken::broken,
    engine::turns::Turns,
    owner::HoldId,
    protocol::{Protocol, Renew},
    wire::Script,
};

impl Lease {
    /// A hold whose request was sent at `sent` and was granted.
    pub(crate) fn new(
        protocol: &dyn Protocol,
        id: HoldId,
        sent: Instant,
        lease: Duration,
        watchdog: Duration,
        under: Option<Arc<Lease>>,
    ) -> Self {
        let renew = Renew { key: protocol.key().clone(), id, members: None };
        let lease = Self::renewed_by(renew, protocol.renewal(), sent, lease, watchdog);
        Self { upheld: protocol.is_upheld(), under, ..lease }
    }

    /// A hold, or permits, that this script renews. The request was sent at `sent` and was granted.
    pub(crate) fn renewed_by(
        renew: Renew,
        script: &'static Script,
        sent: Instant,
        lease: Duration,
        watchdog: Duration,
    ) -> Self {
        let trusted = if broken("trust-from-answer") { Instant::now() } else { sent };
        Self {
            renew,
            script,
            upheld: false,
            watchdog_ms: watchdog.as_millis() as u32,
            under: None,
            shares: AtomicU32::new(0),
            turns: Turns::default(),
            state: Mutex::new(State {
                trusted_until: trusted + trust(lease),
                confirmed: sent,
                leased_until: sent + lease,
                longest: lease,
                requested: sent,
                loss: None,
                ended: None,
                is_between_callers: false,
                may_be_replaced: false,
                watched: 0,
                due: sent + period(watchdog),
                renewing: false,
                scheduled: None,
                caller: PresentCaller::first(sent),
            }),
            changed: Notify::new(),
        }
    }
}
