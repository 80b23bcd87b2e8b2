//! PUBLISH and PUBSUB.

use super::data::{Data, wrong_number};
use crate::glob;
use crate::pubsub::Channel;
use crate::reply::{Answer, Reply};

pub(super) fn publish(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.pubsub.publish(&args[0], &args[1])))
}

pub(super) fn spublish(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.pubsub.publish_sharded(&args[0], &args[1])))
}

pub(super) fn numsub(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(counts(data, args, Channel::Plain))
}

pub(super) fn shardnumsub(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(counts(data, args, Channel::Sharded))
}

fn counts(data: &Data, names: &[Vec<u8>], channel: fn(Vec<u8>) -> Channel) -> Reply {
    let count = |name: &Vec<u8>| Reply::count(data.pubsub.count(&channel(name.clone())));
    let pair = |name: &Vec<u8>| [Reply::bulk(name.clone()), count(name)];
    Reply::Array(names.iter().flat_map(pair).collect())
}

pub(super) fn channels(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let plain = |channel: &Channel| match channel {
        Channel::Plain(name) => Some(name.clone()),
        _ => None,
    };
    list(data, "pubsub|channels", args, plain)
}

pub(super) fn shardchannels(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let sharded = |channel: &Channel| match channel {
        Channel::Sharded(name) => Some(name.clone()),
        _ => None,
    };
    list(data, "pubsub|shardchannels", args, sharded)
}

fn list(
    data: &Data,
    command: &str,
    args: &[Vec<u8>],
    name: fn(&Channel) -> Option<Vec<u8>>,
) -> Answer {
    let pattern = match args {
        [] => &b"*"[..],
        [pattern] => &pattern[..],
        _ => return Err(wrong_number(command)),
    };
    let names = data.pubsub.channels().into_iter().filter_map(name);
    let names: Vec<_> = names.filter(|name| glob::matches(pattern, name)).collect();
    Ok(Reply::bulks(&names))
}
