//! What a holder asks while it holds a lock.

use judge::{Answer, Call, Place, Seen};

use super::{
    callers::Caller,
    guard::Holding,
    judgement::nanos,
    kind::Kind,
    plan::{Operation, Question},
    recorder::code,
};
use crate::{Error, Inspection, Remaining};

impl Caller {
    pub(super) async fn ask(&self, operation: &Operation, question: Question, held: &Holding) {
        tokio::select! {
            biased;
            _ = held.lost() => {}
            () = self.put(operation, question, held) => {}
        }
    }

    async fn put(&self, operation: &Operation, question: Question, held: &Holding) {
        let client = self.client(operation.server);
        let Operation { kind, name: number, server, .. } = *operation;
        let (name, lock) = (kind.name(number), kind.place(number, server));
        let recorder = &self.world.recorder;
        let invoke = |call| recorder.invoke(self.client, call);
        match question {
            Question::Check => {
                let asked = invoke(held.check());
                asked.done(&held.guard().check().await);
            }
            Question::IsLocked => {
                let asked = invoke(Call::IsLocked { lock });
                let locked = client.lock(name).is_locked().await;
                asked.answer(told(locked, |locked| Answer::Locked { locked }));
            }
            Question::Inspect if matches!(kind, Kind::Read | Kind::Write) => {
                // A reader whose lease is over is shown as long as others read.
                drop(client.read_write_lock(name).inspect().await);
            }
            Question::Inspect if kind == Kind::Fair => {
                let asked = invoke(Call::Inspect { lock });
                asked.answer(told(client.fair_lock(name).inspect().await, state));
            }
            Question::Inspect => {
                let lock = Place { kind: judge::Kind::Lock, ..lock };
                let asked = invoke(Call::Inspect { lock });
                asked.answer(told(client.lock(name).inspect().await, state));
            }
            Question::Remaining => {
                let asked = invoke(Call::Remaining { lock });
                let left = client.lock(name).ttl().await;
                asked.answer(told(left, |left| match left {
                    Remaining::Free => Answer::Remaining { left: None },
                    Remaining::Held(left) => Answer::Remaining { left: Some(nanos(left)) },
                    Remaining::WithoutExpiry => Answer::Remaining { left: Some(u64::MAX) },
                }));
            }
            Question::Force => {
                self.world.take_state();
                self.world.trouble();
                let lock = match lock.kind {
                    judge::Kind::Read => Place { kind: judge::Kind::Write, ..lock },
                    _ => lock,
                };
                let asked = invoke(Call::Force { lock });
                let freed = match kind {
                    Kind::Read | Kind::Write => {
                        client.read_write_lock(name).write_lock().force_unlock().await
                    }
                    Kind::Fair => client.fair_lock(name).force_unlock().await,
                    Kind::Fenced => client.fenced_lock(name).force_unlock().await,
                    _ => client.lock(name).force_unlock().await,
                };
                asked.answer(told(freed, |freed| Answer::Freed { freed }));
            }
        }
    }
}

fn told<T>(answer: Result<T, Error>, tell: impl FnOnce(T) -> Answer) -> Answer {
    match answer {
        Ok(answer) => tell(answer),
        Err(error) => Answer::Error { code: code(&error) },
    }
}

fn state(seen: Inspection) -> Answer {
    let holders = seen.holders.into_iter();
    Answer::State {
        holders: holders.map(|holder| Seen { id: holder.id, count: holder.count as u32 }).collect(),
        queue: seen.queue.into_iter().map(|waiter| waiter.id).collect(),
    }
}
