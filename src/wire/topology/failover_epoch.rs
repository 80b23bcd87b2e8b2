//! [`FailoverEpoch`]: the last failover that a sentinel has reported, and which sentinels are believed after
//! it.

use std::time::Duration;

use tokio::time::Instant;

use super::slots::View;
use crate::wire::answers::Failure;

/// Sentinels that have not heard of a failover are not believed for this long after it was last
/// reported. They tell each other every 2 s.
const CATCH_UP: Duration = Duration::from_secs(30);

/// The epoch of the last failover, and when it was last reported.
#[derive(Default)]
pub(super) struct FailoverEpoch(Option<(u64, Instant)>);

impl FailoverEpoch {
    /// Fails when all these sentinels name an older master. A client must not go back to it: it may
    /// still take itself for the master.
    pub(super) fn check(&mut self, views: &[View], now: Instant) -> Result<(), Failure> {
        let claims = views.iter().flat_map(|view| &view.claims);
        let Some(told) = claims.map(|claim| claim.epoch).max() else { return Ok(()) };
        match self.0 {
            Some((known, since)) if told < known && now < since + CATCH_UP => {
                Err(Failure::no_master("those who answer have not heard of the last failover yet"))
            }
            _ => {
                self.0 = Some((told, now));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        deployment::Address,
        topology::slots::{ALL_SLOTS, Claim, Server},
    };

    fn says(epoch: u64) -> View {
        let master = Server { address: Address::new("h", 1), id: None };
        let claim = Claim { epoch, slots: ALL_SLOTS, master };
        View { claims: vec![claim], ..View::default() }
    }

    #[test]
    fn sentinels_that_lag_behind_lead_nobody_back_to_the_old_master() {
        let (mut last, begun) = (FailoverEpoch::default(), Instant::now());
        last.check(&[says(3)], begun).unwrap();
        last.check(&[says(4)], begun).unwrap();
        last.check(&[says(3), says(3)], begun + CATCH_UP / 2).unwrap_err();
        last.check(&[says(3), says(4)], begun + CATCH_UP / 2).unwrap();
        last.check(&[View::default()], begun + CATCH_UP / 2).unwrap();
        // Sentinels that were set up anew count from the beginning.
        last.check(&[says(1)], begun + 2 * CATCH_UP).unwrap();
        last.check(&[says(4)], begun + 2 * CATCH_UP).unwrap();
    }

    /// Sentinels that are cut off lag for as long as that lasts.
    #[test]
    fn one_that_lags_is_not_believed_when_those_who_know_are_silent_for_a_moment() {
        let (mut last, begun) = (FailoverEpoch::default(), Instant::now());
        for second in 0..100 {
            last.check(&[says(3), says(4)], begun + Duration::from_secs(second)).unwrap();
        }
        last.check(&[says(3)], begun + Duration::from_secs(101)).unwrap_err();
    }
}
