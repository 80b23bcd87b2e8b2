//! What a holder asks while it holds a lock.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    callers::Caller,
    guard::Guard,
    kind::Kind,
    plan::{Operation, Question},
};

impl Caller {
    pub(super) async fn ask(&self, operation: &Operation, question: Question, guard: &Guard) {
        let client = self.client(operation.server);
        let name = operation.kind.name(operation.name);
        let begun = Instant::now();
        let question = async {
            match question {
                Question::Check => drop(guard.check().await),
                Question::IsLocked => drop(client.lock(name).is_locked().await),
                Question::Inspect => match operation.kind {
                    Kind::Fair => drop(client.fair_lock(name).inspect().await),
                    Kind::Read | Kind::Write => {
                        drop(client.read_write_lock(name).inspect().await);
                    }
                    _ => drop(client.lock(name).inspect().await),
                },
                Question::Remaining => drop(client.lock(name).remaining().await),
                Question::Force => {
                    self.world.take_state(operation.server);
                    let _ = match operation.kind {
                        Kind::Read | Kind::Write => {
                            client.read_write_lock(name).write_lock().force_unlock().await
                        }
                        Kind::Fair => client.fair_lock(name).force_unlock().await,
                        Kind::Fenced => client.fenced_lock(name).force_unlock().await,
                        _ => client.lock(name).force_unlock().await,
                    };
                    self.world.take_state(operation.server);
                }
            }
        };
        tokio::select! {
            biased;
            _ = guard.lost() => {}
            () = question => {
                let most = self.world.options.command_timeout + Duration::from_millis(100);
                let took = begun.elapsed();
                if took > 2 * most + self.world.blocked_since(begun) {
                    self.find(&format!("bound: a question took {took:?} of {most:?}"));
                }
            }
        }
    }
}
