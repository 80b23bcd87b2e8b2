//! [`Session`]: what one connection to a [`Port`](super::Port) asks.

use std::{collections::BTreeSet, sync::Arc};

use redis_in_process::{Channel, Message, Reply, Subscriber};
use tokio::sync::mpsc;

use super::{host::Host, resp, state::State};

type Words = Vec<Vec<u8>>;

/// The state of one connection.
pub(super) struct Session {
    host: Arc<Host>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    subscriber: Option<Subscriber>,
    channels: BTreeSet<Channel>,
    monitor: Option<u64>,
    /// The commands of a transaction.
    queued: Option<Queue>,
}

#[derive(Default)]
struct Queue {
    commands: Vec<Words>,
    /// One was refused: EXEC runs none.
    is_broken: bool,
}

/// A kind of subscription: its commands, its messages, and what it makes of a name.
struct Sort {
    subscribe: &'static str,
    unsubscribe: &'static str,
    channel: fn(Vec<u8>) -> Channel,
}

const SORTS: [Sort; 3] = [
    Sort { subscribe: "subscribe", unsubscribe: "unsubscribe", channel: Channel::Plain },
    Sort { subscribe: "ssubscribe", unsubscribe: "sunsubscribe", channel: Channel::Sharded },
    Sort { subscribe: "psubscribe", unsubscribe: "punsubscribe", channel: Channel::Pattern },
];

fn ok() -> Reply {
    Reply::Status(b"OK".to_vec())
}

fn bulk(text: impl Into<Vec<u8>>) -> Reply {
    Reply::Bulk(text.into())
}

impl Session {
    pub(super) fn new(host: Arc<Host>, out: mpsc::UnboundedSender<Vec<u8>>) -> Self {
        let channels = BTreeSet::new();
        Self { host, out, subscriber: None, channels, monitor: None, queued: None }
    }

    /// Runs a request, and queues its answer. Returns whether the connection goes on.
    pub(super) fn serve(&mut self, words: Words) -> bool {
        let Some(name) = words.first() else { return true };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let host = self.host.clone();
        // The answer is queued before others can publish.
        host.with(|state| match self.run(state, &name, words) {
            Some(reply) => self.say(&reply) && name != "quit",
            // It is lost, and with it the connection.
            None => false,
        })
    }

    fn say(&self, reply: &Reply) -> bool {
        self.out.send(resp::write(reply)).is_ok()
    }

    /// `None`: the answer is lost.
    fn run(&mut self, state: &mut State, name: &str, words: Words) -> Option<Reply> {
        let may_be_sent = |sort: &Sort| name == sort.subscribe || name == sort.unsubscribe;
        let may_be_sent = SORTS.iter().any(may_be_sent) || matches!(name, "ping" | "quit");
        if !self.channels.is_empty() && !may_be_sent {
            return Some(Reply::Error(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context"
            )));
        }
        match (name, &mut self.queued) {
            ("quit", _) => {}
            ("exec", Some(_)) => {
                let queue = self.queued.take().unwrap_or_default();
                if queue.is_broken {
                    return Some(Reply::Error(EXEC_ABORT.into()));
                }
                // All of them run, also behind one whose answer is lost.
                let replies: Vec<_> =
                    queue.commands.iter().map(|words| execute(state, words)).collect();
                return Some(Reply::Array(replies.into_iter().collect::<Option<_>>()?));
            }
            ("exec" | "discard", None) => {
                let name = name.to_ascii_uppercase();
                return Some(Reply::Error(format!("ERR {name} without MULTI")));
            }
            ("discard", Some(_)) => {
                self.queued = None;
                return Some(ok());
            }
            ("multi", Some(_)) => {
                return Some(Reply::Error("ERR MULTI calls can not be nested".into()));
            }
            (_, Some(queue)) => {
                let refusal = match about_the_server(state, name, &words) {
                    Some(Reply::Error(error)) => Some(Reply::Error(error)),
                    Some(_) => None,
                    None => state.redis.refusal_of(&words),
                };
                queue.is_broken |= refusal.is_some();
                if refusal.is_none() {
                    queue.commands.push(words);
                }
                return Some(refusal.unwrap_or_else(|| Reply::Status(b"QUEUED".to_vec())));
            }
            _ => {}
        }
        for sort in SORTS {
            if name == sort.subscribe || name == sort.unsubscribe {
                return self.subscribe(state, &sort, name, &words[1..]);
            }
        }
        Some(match name {
            "multi" => {
                self.queued = Some(Queue::default());
                ok()
            }
            "monitor" => {
                let out = self.out.clone();
                let monitor = state.monitor(Arc::new(move |now, executed| {
                    let _ = out.send(resp::write(&resp::monitored(now, executed)));
                }));
                self.monitor = Some(monitor);
                ok()
            }
            "ping" if !self.channels.is_empty() => match execute(state, &words)? {
                refusal @ Reply::Error(_) => refusal,
                _ => {
                    let text = words.get(1).cloned().unwrap_or_default();
                    Reply::Array(vec![bulk("pong"), bulk(text)])
                }
            },
            "quit" => ok(),
            _ => return execute(state, &words),
        })
    }

    /// Each channel has an answer of its own.
    fn subscribe(
        &mut self,
        state: &mut State,
        sort: &Sort,
        name: &str,
        names: &[Vec<u8>],
    ) -> Option<Reply> {
        let out = self.out.clone();
        let subscriber = *self.subscriber.get_or_insert_with(|| {
            state.listen(Arc::new(move |message| {
                let _ = out.send(resp::write(&told(message)));
            }))
        });
        let of_sort = |channel: &Channel| match (channel, (sort.channel)(Vec::new())) {
            (Channel::Plain(name), Channel::Plain(_))
            | (Channel::Sharded(name), Channel::Sharded(_))
            | (Channel::Pattern(name), Channel::Pattern(_)) => Some(name.clone()),
            _ => None,
        };
        let mut names = names.to_vec();
        if names.is_empty() && name == sort.unsubscribe {
            names = self.channels.iter().filter_map(of_sort).collect();
        }
        let mut last = Reply::Array(vec![bulk(name), Reply::Nil, Reply::Int(0)]);
        for (place, channel_name) in names.iter().enumerate() {
            let channel = (sort.channel)(channel_name.clone());
            if name == sort.subscribe {
                state.redis.subscribe(subscriber, channel.clone());
                self.channels.insert(channel);
            } else {
                state.redis.unsubscribe(subscriber, &channel);
                self.channels.remove(&channel);
            }
            let count = Reply::Int(self.channels.len() as i64);
            last = Reply::Array(vec![bulk(name), bulk(channel_name.clone()), count]);
            if place + 1 < names.len() {
                self.say(&last);
            }
        }
        Some(last)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.host.clone().with(|state| {
            if let Some(subscriber) = self.subscriber {
                state.hang_up(subscriber);
            }
            if let Some(monitor) = self.monitor {
                state.end_monitor(monitor);
            }
        });
    }
}

/// A message as its subscriber gets it.
fn told(message: &Message) -> Reply {
    let (channel, text) = (bulk(message.channel.clone()), bulk(message.text.clone()));
    Reply::Array(match &message.to {
        Channel::Plain(_) => vec![bulk("message"), channel, text],
        Channel::Sharded(_) => vec![bulk("smessage"), channel, text],
        Channel::Pattern(pattern) => {
            vec![bulk("pmessage"), bulk(pattern.clone()), channel, text]
        }
    })
}

/// `None`: the answer is lost.
fn execute(state: &mut State, words: &[Vec<u8>]) -> Option<Reply> {
    let name = words.first().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
    let reply = about_the_server(state, &name.unwrap_or_default(), words);
    reply.or_else(|| state.execute(words))
}

/// Answers commands that say nothing about keys. `None`: it is another command.
fn about_the_server(state: &mut State, name: &str, words: &[Vec<u8>]) -> Option<Reply> {
    let argument = words.get(1).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    Some(match (name, &argument[..]) {
        ("hello", b"" | b"2") => {
            let pairs = [("server", "redis"), ("version", VERSION), ("mode", "standalone")];
            let mut items: Vec<_> =
                pairs.into_iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect();
            items.extend([bulk("proto"), Reply::Int(2), bulk("role"), bulk("master")]);
            Reply::Array(items)
        }
        ("hello", _) => Reply::Error("NOPROTO unsupported protocol version".into()),
        ("auth", _) => Reply::Error(NO_PASSWORD.into()),
        ("select", b"0") => ok(),
        ("select", _) => Reply::Error("ERR DB index is out of range".into()),
        ("client", b"id") => Reply::Int(1),
        ("client", b"getname") => Reply::Nil,
        ("client", b"setname" | b"setinfo" | b"no-evict" | b"no-touch") => ok(),
        ("client", sub) => {
            let sub = String::from_utf8_lossy(sub);
            let text = format!("ERR the server in process has no command client {sub}");
            Reply::Error(text.replace(['\r', '\n'], " "))
        }
        ("config", b"get") | ("command", _) => Reply::Array(Vec::new()),
        ("info", _) => {
            let keys = state.redis.look_at_all().len();
            let keys = if keys == 0 { String::new() } else { format!("db0:keys={keys}\r\n") };
            bulk(format!(
                "redis_version:{VERSION}\r\nredis_mode:standalone\r\nrole:master\r\n\
                 connected_slaves:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
                 cluster_enabled:0\r\n{keys}"
            ))
        }
        // It has no replicas.
        ("wait", _) => Reply::Int(0),
        _ => return None,
    })
}

const EXEC_ABORT: &str = "EXECABORT Transaction discarded because of previous errors.";

/// What the server behaves like.
const VERSION: &str = "7.0.0";

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
