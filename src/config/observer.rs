//! [`Config::observer`]: who is told of acquisitions and holds.

use super::Config;
use crate::observer::{Observed, Observer};

impl Config {
    /// Sets who is told of waits, holds, losses, renewals and failed releases: see
    /// [`observer`](crate::observer). It replaces the one that was set before; a pair of observers
    /// is an observer. Default: none.
    ///
    /// serde does not write it.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Observed::by(observer));
        self
    }
}
