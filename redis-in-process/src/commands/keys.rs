//! Commands for keys of every sort.

use super::data::{Data, SYNTAX, moment, not_there};
use crate::glob;
use crate::number::integer;
use crate::reply::{Answer, Reply};

pub(super) fn dbsize(data: &mut Data, _: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.keys.count()))
}

pub(super) fn del(data: &mut Data, keys: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(keys.iter().filter(|key| data.keys.remove(key)).count()))
}

pub(super) fn exists(data: &mut Data, keys: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(keys.iter().filter(|key| data.keys.exists(key)).count()))
}

pub(super) fn flush(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    if let Some(option) = args.first() {
        return Err(not_there(data, "FLUSHDB", option));
    }
    data.keys.clear();
    Ok(Reply::ok())
}

pub(super) fn keys(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let names = data.keys.seen().map(|(key, _)| key);
    Ok(Reply::bulks(names.filter(|key| glob::matches(&args[0], key))))
}

pub(super) fn persist(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let entry = data.keys.entry(&args[0]);
    Ok(entry.is_some_and(|entry| entry.expires.take().is_some()).into())
}

pub(super) fn pexpire(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, ms, options @ ..] = args else { unreachable!("its arity") };
    if let Some(option) = options.iter().find(|option| !option.eq_ignore_ascii_case(b"gt")) {
        return Err(not_there(data, "PEXPIRE", option));
    }
    let expires = moment(data, "pexpire", integer(ms)?)?;
    let Some(entry) = data.keys.entry(key) else { return Ok(false.into()) };
    // With GT, what has no TTL counts as endless.
    if !options.is_empty() && entry.expires.is_none_or(|now| expires.is_none_or(|new| new <= now)) {
        return Ok(false.into());
    }
    match expires {
        Some(moment) if moment > data.keys.now() => {
            data.keys.entry(key).expect("it is there").expires = Some(moment);
        }
        // A time that is not to come deletes the key.
        _ => drop(data.keys.remove(key)),
    }
    Ok(true.into())
}

pub(super) fn pttl(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let now = data.keys.now();
    let entry = data.keys.entry(&args[0]);
    Ok(Reply::Int(entry.map_or(-2, |entry| {
        entry.expires.map_or(-1, |expires| expires.saturating_sub(now).cast_signed())
    })))
}

/// All keys at once, whatever COUNT says: the cursor is 0 again.
pub(super) fn scan(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [cursor, options @ ..] = args else { unreachable!("its arity") };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|text| text.parse::<u64>().ok());
    cursor.ok_or("ERR invalid cursor")?;
    let (mut pattern, mut sort) = (None, None);
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(SYNTAX) };
        match &name.to_ascii_lowercase()[..] {
            b"match" => pattern = Some(value),
            b"type" => sort = Some(value),
            b"count" if integer(value)? >= 1 => {}
            _ => return Err(SYNTAX),
        }
    }
    let keys = data.keys.seen().filter(|(key, entry)| {
        pattern.is_none_or(|pattern| glob::matches(pattern, key))
            && sort.is_none_or(|sort| sort.eq_ignore_ascii_case(entry.value.sort().as_bytes()))
    });
    let keys = Reply::bulks(keys.map(|(key, _)| key));
    Ok(Reply::Array(vec![Reply::bulk("0"), keys]))
}

pub(super) fn sort(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let sort = data.keys.entry(&args[0]).map_or("none", |entry| entry.value.sort());
    Ok(Reply::Status(sort.into()))
}
