//! Commands for strings.

use super::data::{Data, OVERFLOW, SYNTAX, moment, not_there};
use crate::keyspace::Value;
use crate::number::integer;
use crate::reply::{Answer, Refused, Reply};

pub(super) fn get(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(data.keys.string(&args[0])?.cloned().into())
}

pub(super) fn incr(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    add(data, &args[0], 1)
}

pub(super) fn incrby(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let by = integer(&args[1])?;
    add(data, &args[0], by)
}

pub(super) fn decr(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    add(data, &args[0], -1)
}

pub(super) fn decrby(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let by = integer(&args[1])?.checked_neg();
    add(data, &args[0], by.ok_or(Refused::Borrowed("ERR decrement would overflow"))?)
}

fn add(data: &mut Data, key: &[u8], by: i64) -> Answer {
    let Some(text) = data.keys.string(key)? else {
        data.keys.insert(key, Value::String(by.to_string().into()), None);
        return Ok(Reply::Int(by));
    };
    let number = integer(text)?.checked_add(by).ok_or(OVERFLOW)?;
    *text = number.to_string().into();
    Ok(Reply::Int(number))
}

pub(super) fn set(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, value, options @ ..] = args else { unreachable!("its arity") };
    let (mut ms, mut only_if_there) = (None, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match &option.to_ascii_lowercase()[..] {
            b"px" => ms = Some(options.next().ok_or(SYNTAX)?),
            b"nx" if only_if_there != Some(true) => only_if_there = Some(false),
            b"xx" if only_if_there != Some(false) => only_if_there = Some(true),
            b"ex" | b"exat" | b"pxat" | b"get" | b"keepttl" => {
                return Err(not_there(data, "SET", option));
            }
            _ => return Err(SYNTAX),
        }
    }
    let expires = match ms {
        None => None,
        Some(ms) => {
            let ms = integer(ms)?;
            let moment = if ms > 0 { moment(data, "set", ms)? } else { None };
            Some(moment.ok_or("ERR invalid expire time in 'set' command")?)
        }
    };
    if only_if_there.is_some_and(|there| there != data.keys.exists(key)) {
        return Ok(Reply::Nil);
    }
    data.keys.insert(key, Value::String(value.clone()), expires);
    Ok(Reply::ok())
}
