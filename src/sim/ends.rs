//! [`Ends`]: an observer that notes how the holds of one client end.

use std::sync::{Arc, Mutex};

use crate::observer::{HoldEnd, HoldEnded, Observer};

/// How the holds of one client ended.
#[derive(Clone, Default)]
pub(crate) struct Ends(Arc<Mutex<Vec<HoldEnd>>>);

impl Ends {
    pub(crate) fn so_far(&self) -> Vec<HoldEnd> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Ends {
    fn hold_ended(&self, hold: &HoldEnded<'_>) {
        self.0.lock().unwrap().push(hold.end);
    }
}
