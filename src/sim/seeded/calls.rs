//! Calls and messages of a [`Link`], and what happens to them on the way.

use std::{sync::Arc, time::Duration};

use redis_in_process::Subscriber;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    link::{Connection, Link, Rest, Weather},
    server::Listener,
};
use crate::{
    redis_error::{RedisError, RedisErrorKind},
    wire::{Event, WireError},
};

/// As `wire::node`.
const TIMEOUTS_UNTIL_RECONNECT: u32 = 3;

fn not_sent(why: &str) -> WireError {
    WireError::NotNow(RedisError::new(RedisErrorKind::Unreachable, why))
}

impl Link {
    async fn connection(&self, by: Instant) -> Result<Arc<Connection>, WireError> {
        loop {
            let back = self.back.notified();
            {
                let state = self.state();
                if state.closed {
                    return Err(not_sent("the connection is gone"));
                }
                if let Some(connection) = &state.commands {
                    return Ok(connection.clone());
                }
            }
            if timeout_at(by, back).await.is_err() {
                return Err(not_sent("there is no connection"));
            }
        }
    }

    pub(super) async fn ask<T: Send + 'static>(
        self: Arc<Self>,
        by: Option<Instant>,
        run: impl FnOnce(&Self) -> Result<T, WireError> + Send + 'static,
    ) -> Result<T, WireError> {
        let usual = Instant::now() + self.command_timeout;
        let by = by.map_or(usual, |by| by.min(usual));
        let connection = self.connection(by).await?;
        if by <= Instant::now() {
            return Err(not_sent("no time is left"));
        }
        let (answer, answered) = oneshot::channel();
        self.send(&connection, run, answer);
        let broken = connection.broken.clone();
        drop(connection);
        tokio::select! {
            biased;
            answer = answered => match answer {
                Ok(answer) => {
                    self.state().timeouts = 0;
                    answer
                }
                Err(_) => Err(WireError::unanswered("the connection is gone")),
            },
            _ = broken => Err(WireError::unanswered("the connection is gone")),
            () = sleep_until(by) => {
                self.timed_out();
                Err(WireError::unanswered("no answer in time"))
            }
        }
    }

    fn send<T: Send + 'static>(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        run: impl FnOnce(&Self) -> Result<T, WireError> + Send + 'static,
        answer: oneshot::Sender<Result<T, WireError>>,
    ) {
        let (there, back, dice, late) = {
            let mut state = self.state();
            let (there, back) = (Self::takes(&mut state), Self::takes(&mut state));
            let late = state.weather.late_by.as_micros() as u64;
            let late = Duration::from_micros(state.rng.u64(0..=late));
            (there, back, state.rng.u32(0..1000), late)
        };
        let Weather { lose_request, lose_reply, late: lates, .. } = self.state().weather;
        let (link, its) = (self.clone(), connection.clone());
        let is_current = move |link: &Self| {
            link.state().commands.as_ref().is_some_and(|current| Arc::ptr_eq(current, &its))
        };
        let down = Arc::downgrade(connection);
        let ends = connection.ends;
        connection.up.send(there, move || {
            if !link.server.is_up() || link.server.ends() != ends {
                return;
            }
            if dice < lose_request && is_current(&link) {
                return link.break_commands(Rest::Lost);
            }
            let said = run(&link);
            if (lose_request..lose_request + lose_reply).contains(&dice) && is_current(&link) {
                return link.break_commands(Rest::Runs(Duration::ZERO));
            }
            if let Some(connection) = down.upgrade() {
                connection.down.send(back, move || drop(answer.send(said)));
            }
        });
        let less = lose_request + lose_reply;
        if (less..less + lates).contains(&dice) {
            self.break_commands(Rest::Runs(late));
        }
    }

    pub(super) fn timed_out(self: &Arc<Self>) {
        let row = {
            let mut state = self.state();
            state.timeouts += 1;
            state.timeouts
        };
        if row == TIMEOUTS_UNTIL_RECONNECT {
            self.state().timeouts = 0;
            self.note("gives up", format_args!(""));
            let late = Duration::from_millis(self.state().rng.u64(0..2_000));
            self.break_all(Rest::Runs(late));
        }
    }

    // ---- Messages

    /// Does something on the server over the connection for messages, and waits for the answer.
    pub(super) async fn on_ear(
        self: Arc<Self>,
        act: impl FnOnce(&Self, Subscriber) + Send + 'static,
    ) -> Result<(), WireError> {
        let by = Instant::now() + self.command_timeout;
        let ear = loop {
            let back = self.back.notified();
            {
                let state = self.state();
                if state.closed {
                    return Err(not_sent("the connection is gone"));
                }
                if let Some(ear) = &state.ear {
                    break ear.clone();
                }
            }
            if timeout_at(by, back).await.is_err() {
                return Err(not_sent("there is no connection"));
            }
        };
        let (there, back) = {
            let mut state = self.state();
            (Self::takes(&mut state), Self::takes(&mut state))
        };
        let (done, is_done) = oneshot::channel();
        let (link, its) = (self.clone(), Arc::downgrade(&ear));
        ear.up.send(there, move || {
            let Some(ear) = its.upgrade() else { return };
            if !link.server.is_up() || link.server.ends() != ear.ends {
                return;
            }
            act(&link, ear.subscriber);
            ear.down.send(back, move || done.send(()).unwrap_or_default());
        });
        drop(ear);
        match timeout_at(by, is_done).await {
            Ok(Ok(())) => Ok(()),
            // A frozen connection drops nothing: it was ended.
            Ok(Err(_)) => Err(WireError::unanswered("the connection is gone")),
            Err(_) => Err(WireError::unanswered("no answer in time")),
        }
    }
}

impl Listener for Link {
    fn hear(self: Arc<Self>, subscriber: Subscriber, channel: String) {
        let mut state = self.state();
        let takes = Self::takes(&mut state);
        let lost = state.rng.u32(0..1000) < state.weather.lose_message;
        let Some(ear) = state.ear.as_ref().filter(|ear| ear.subscriber == subscriber) else {
            return;
        };
        let link = self.clone();
        ear.down.send(takes, move || {
            if !lost {
                link.note("hears", format_args!("{channel}"));
                link.subscriptions.on_event(Event::Message(channel));
            }
        });
    }
}
