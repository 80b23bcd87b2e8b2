//! The clock of the history, and that of the servers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use judge::Nanos;
use nix::time::{ClockId, clock_gettime};

/// The monotonic clock that all processes of this machine share.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a monotonic clock");
    let nanos = i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
    nanos.try_into().expect("a clock that has run for less than 500 years")
}

/// Brings times of the servers, which are those of the wall, to the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wall {
    /// The wall clock less the monotonic one.
    ahead: i128,
}

impl Wall {
    /// Nobody sets the wall clock of this machine while a run lasts.
    pub(crate) fn read() -> Self {
        // The shortest of some readings: the process may be stopped between the two clocks.
        let readings = (0..50).map(|_| {
            let before = now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            let took = now() - before;
            (took, wall.as_nanos() as i128 - i128::from(before + took / 2))
        });
        Self { ahead: readings.min().map_or(0, |(_, ahead)| ahead) }
    }

    /// One that shows the same as the monotonic clock.
    #[cfg(test)]
    pub(crate) fn in_step() -> Self {
        Self { ahead: 0 }
    }

    /// The moment of so many milliseconds since the epoch.
    pub(crate) fn moment(self, ms: u64) -> Nanos {
        (i128::from(ms) * 1_000_000 - self.ahead).clamp(0, i128::from(u64::MAX)) as Nanos
    }

    /// The same of microseconds.
    pub(crate) fn moment_of_micros(self, micros: u64) -> Nanos {
        (i128::from(micros) * 1_000 - self.ahead).clamp(0, i128::from(u64::MAX)) as Nanos
    }

    /// The milliseconds since the epoch at a moment.
    pub(crate) fn epoch_ms(self, at: Nanos) -> u64 {
        ((i128::from(at) + self.ahead) / 1_000_000).try_into().unwrap_or(0)
    }
}
