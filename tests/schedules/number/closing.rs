//! The end of a schedule: all give back what they have.

use super::{Action, Closing, Number, World};

impl Number {
    pub(super) fn next_to_close(&self, _world: &World<'_>) -> Option<Closing<Action>> {
        for client in &self.clients {
            if client.request.is_some() {
                return Some(Closing::Act(Action::Abandon(client.name)));
            }
            if !client.permits.is_empty() {
                return Some(Closing::Act(Action::Return(client.name)));
            }
        }
        for thread in &self.threads {
            if thread.pending.is_some() {
                return Some(Closing::Act(Action::TheirLoss(thread.name)));
            }
            if !thread.permits.is_empty() {
                return Some(Closing::Act(Action::TheirReturn(thread.name)));
            }
        }
        None
    }
}
