//! What the nemesis did, as a part of the history.

use judge::{Event, Fault, Nanos, What};

use crate::clock::now;

/// The process that faults are written down for.
const NEMESIS: &str = "nemesis";

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) events: Vec<Event>,
    faults: usize,
}

impl Journal {
    pub(crate) fn note(&mut self, process: &str, what: What) {
        self.events.push(Event { at: now(), process: process.to_owned(), what });
    }

    /// Gives the fault a name, which is needed to end it.
    pub(crate) fn begin(&mut self, fault: &str, class: Fault, target: &str) -> String {
        self.faults += 1;
        let fault = format!("{fault}#{}", self.faults);
        self.note(NEMESIS, What::Begin { fault: fault.clone(), class, target: target.to_owned() });
        fault
    }

    pub(crate) fn heal(&mut self, fault: String) {
        self.note(NEMESIS, What::Heal { fault });
    }

    /// Adds faults that are known only now.
    pub(crate) fn add<'a>(
        &mut self,
        faults: impl IntoIterator<Item = (&'a str, Fault, (Nanos, Nanos))>,
    ) {
        for (fault, class, (from, to)) in faults {
            self.faults += 1;
            let fault = format!("{fault}#{}", self.faults);
            let target = String::from("all");
            let begin = What::Begin { fault: fault.clone(), class, target };
            for (at, what) in [(from, begin), (to, What::Heal { fault })] {
                self.events.push(Event { at, process: NEMESIS.to_owned(), what });
            }
        }
    }
}
