//! The commands: those that the scripts of `lua/` and of Redisson call, and those that tests send.

mod channels;
mod data;
mod hashes;
mod keys;
mod lists;
mod sorted_sets;
mod strings;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::refusal::Nature;
use crate::reply::{Answer, Refused, Reply};

pub(crate) use data::Data;
pub use data::Executed;
use data::wrong_number;

/// A command.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    name: &'static str,
    /// How many words it has, its name included; negative: at least so many.
    arity: i32,
    pub(crate) nature: Nature,
    pub(crate) deed: Deed,
}

/// What a command does.
#[derive(Clone, Copy)]
pub(crate) enum Deed {
    /// With its arguments behind the name.
    Run(fn(&mut Data, &[Vec<u8>]) -> Answer),
    Eval,
    EvalSha,
    ScriptLoad,
    ScriptExists,
    ScriptFlush,
}

/// Why there is no such command to run.
pub(crate) enum Missing {
    /// Of a container, such as PUBSUB.
    Subcommand,
    /// With a number of words that it does not have.
    Arity(&'static str),
    /// This server does not have it, though Redis may.
    Unknown(String),
}

impl Command {
    /// Finds the command that these words call.
    pub(crate) fn find(words: &[Vec<u8>]) -> Result<&'static Self, Missing> {
        let mut name = words.first().cloned().unwrap_or_default();
        name.make_ascii_lowercase();
        if matches!(&name[..], b"pubsub" | b"script") {
            let Some(sub) = words.get(1) else {
                return Err(Missing::Arity(if name == b"pubsub" { "pubsub" } else { "script" }));
            };
            name.push(b'|');
            name.extend(sub.to_ascii_lowercase());
            if !table().contains_key(&name[..]) {
                return Err(Missing::Subcommand);
            }
        }
        let Some(command) = table().get(&name[..]) else {
            return Err(Missing::Unknown(String::from_utf8_lossy(&name).into_owned()));
        };
        let (least, count) = (command.arity.unsigned_abs() as usize, words.len());
        let fits = if command.arity < 0 { count >= least } else { count == least };
        if fits { Ok(command) } else { Err(Missing::Arity(command.name)) }
    }

    /// Its arguments among the words that call it.
    pub(crate) fn arguments<'a>(&self, words: &'a [Vec<u8>]) -> &'a [Vec<u8>] {
        &words[if self.name.contains('|') { 2 } else { 1 }..]
    }
}

impl Missing {
    /// What a client is told.
    pub(crate) fn for_client(&self, data: &Data, words: &[Vec<u8>]) -> Refused {
        match self {
            Self::Unknown(name) => data.missing(format_args!("command {name}")),
            Self::Subcommand => {
                let [container, sub] =
                    [&words[0], &words[1]].map(|word| String::from_utf8_lossy(word));
                let container = container.to_uppercase();
                format!("ERR unknown subcommand '{sub}'. Try {container} HELP.").into()
            }
            Self::Arity(name) => wrong_number(name),
        }
    }

    /// What a script is told.
    pub(crate) fn for_script(&self, data: &Data) -> Refused {
        match self {
            Self::Unknown(name) => data.missing(format_args!("command {name}")),
            Self::Subcommand => "ERR Unknown Redis command called from script".into(),
            Self::Arity(_) => "ERR Wrong number of args calling Redis command from script".into(),
        }
    }
}

const READ: Nature = Nature {
    writes: false,
    needs_memory: false,
    when_stale: false,
    when_loading: false,
    is_ping: false,
};
const WRITE: Nature = Nature { writes: true, ..READ };
const GROW: Nature = Nature { needs_memory: true, ..WRITE };
const ANYTIME: Nature = Nature { when_stale: true, when_loading: true, ..READ };
/// Of EVAL, EVALSHA and SCRIPT LOAD.
pub(crate) const SCRIPTING: Nature = Nature { when_stale: true, ..READ };

fn table() -> &'static HashMap<&'static [u8], Command> {
    use Deed::Run;
    const COMMANDS: &[(&str, i32, Nature, Deed)] = &[
        ("dbsize", 1, READ, Run(keys::dbsize)),
        ("del", -2, WRITE, Run(keys::del)),
        ("exists", -2, READ, Run(keys::exists)),
        ("flushall", -1, WRITE, Run(keys::flush)),
        ("flushdb", -1, WRITE, Run(keys::flush)),
        ("keys", 2, READ, Run(keys::keys)),
        ("persist", 2, WRITE, Run(keys::persist)),
        ("pexpire", -3, WRITE, Run(keys::pexpire)),
        ("pttl", 2, READ, Run(keys::pttl)),
        ("scan", -2, READ, Run(keys::scan)),
        ("type", 2, READ, Run(keys::sort)),
        ("get", 2, READ, Run(strings::get)),
        ("decr", 2, GROW, Run(strings::decr)),
        ("decrby", 3, GROW, Run(strings::decrby)),
        ("incr", 2, GROW, Run(strings::incr)),
        ("incrby", 3, GROW, Run(strings::incrby)),
        ("set", -3, GROW, Run(strings::set)),
        ("hdel", -3, WRITE, Run(hashes::hdel)),
        ("hexists", 3, READ, Run(hashes::hexists)),
        ("hget", 3, READ, Run(hashes::hget)),
        ("hgetall", 2, READ, Run(hashes::hgetall)),
        ("hincrby", 4, GROW, Run(hashes::hincrby)),
        ("hkeys", 2, READ, Run(hashes::hkeys)),
        ("hlen", 2, READ, Run(hashes::hlen)),
        ("hscan", -3, READ, Run(hashes::hscan)),
        ("hstrlen", 3, READ, Run(hashes::hstrlen)),
        ("hset", -4, GROW, Run(hashes::hset)),
        ("lindex", 3, READ, Run(lists::lindex)),
        ("llen", 2, READ, Run(lists::llen)),
        ("lpop", -2, WRITE, Run(lists::lpop)),
        ("lrange", 4, READ, Run(lists::lrange)),
        ("lrem", 4, WRITE, Run(lists::lrem)),
        ("rpush", -3, GROW, Run(lists::rpush)),
        ("zadd", -4, GROW, Run(sorted_sets::zadd)),
        ("zcard", 2, READ, Run(sorted_sets::zcard)),
        ("zcount", 4, READ, Run(sorted_sets::zcount)),
        ("zincrby", 4, GROW, Run(sorted_sets::zincrby)),
        ("zrange", -4, READ, Run(sorted_sets::zrange)),
        ("zrangebyscore", -4, READ, Run(sorted_sets::zrangebyscore)),
        ("zrem", -3, WRITE, Run(sorted_sets::zrem)),
        ("zremrangebyscore", 4, WRITE, Run(sorted_sets::zremrangebyscore)),
        ("zscore", 3, READ, Run(sorted_sets::zscore)),
        ("publish", 3, ANYTIME, Run(channels::publish)),
        ("spublish", 3, ANYTIME, Run(channels::spublish)),
        ("pubsub|channels", -2, ANYTIME, Run(channels::channels)),
        ("pubsub|numsub", -2, ANYTIME, Run(channels::numsub)),
        ("pubsub|shardchannels", -2, ANYTIME, Run(channels::shardchannels)),
        ("pubsub|shardnumsub", -2, ANYTIME, Run(channels::shardnumsub)),
        ("echo", 2, ANYTIME, Run(|_, args| Ok(Reply::bulk(args[0].clone())))),
        ("ping", -1, Nature { is_ping: true, ..READ }, Run(ping)),
        ("time", 1, ANYTIME, Run(time)),
        ("eval", -3, SCRIPTING, Deed::Eval),
        ("evalsha", -3, SCRIPTING, Deed::EvalSha),
        ("script|exists", -3, READ, Deed::ScriptExists),
        ("script|flush", -2, READ, Deed::ScriptFlush),
        ("script|load", 3, SCRIPTING, Deed::ScriptLoad),
    ];
    static TABLE: OnceLock<HashMap<&[u8], Command>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let by_name = |&(name, arity, nature, deed): &(&'static str, _, _, _)| {
            (name.as_bytes(), Command { name, arity, nature, deed })
        };
        COMMANDS.iter().map(by_name).collect()
    })
}

fn ping(_: &mut Data, args: &[Vec<u8>]) -> Answer {
    match args {
        [] => Ok(Reply::Status(b"PONG".to_vec())),
        [text] => Ok(Reply::bulk(text.clone())),
        _ => Err(wrong_number("ping")),
    }
}

fn time(data: &mut Data, _: &[Vec<u8>]) -> Answer {
    let parts = [data.now / 1_000_000, data.now % 1_000_000];
    Ok(Reply::Array(parts.map(|part| Reply::bulk(part.to_string())).into()))
}
