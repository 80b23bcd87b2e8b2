//! Commands for hashes.

use super::data::{Data, OVERFLOW, SYNTAX, wrong_number};
use crate::keyspace::Fields;
use crate::number::{integer, strict};
use crate::reply::{Answer, Refused, Reply};

pub(super) fn hdel(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, names @ ..] = args else { unreachable!("its arity") };
    let deleted = data.keys.change(key, |fields: &mut Fields| {
        let before = fields.len();
        fields.retain(|(name, _)| !names.contains(name));
        before - fields.len()
    })?;
    Ok(Reply::count(deleted.unwrap_or(0)))
}

pub(super) fn hexists(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(get(data, &args[0], &args[1])?.is_some().into())
}

pub(super) fn hget(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(get(data, &args[0], &args[1])?.into())
}

pub(super) fn hgetall(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let fields = data.keys.read::<Fields>(&args[0])?.into_iter().flatten();
    Ok(Reply::bulks(fields.flat_map(|(name, value)| [name, value])))
}

pub(super) fn hincrby(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, name, by] = args else { unreachable!("its arity") };
    let by = integer(by)?;
    let number = data.keys.extend(key, |fields: &mut Fields| {
        let had = fields.iter().find(|(field, _)| field == name).map(|(_, value)| strict(value));
        let had = had.map_or(Ok(0), |number| number.ok_or("ERR hash value is not an integer"))?;
        let number = had.checked_add(by).ok_or(OVERFLOW)?;
        put(fields, name, number.to_string().into_bytes());
        Ok(number)
    })?;
    Ok(Reply::Int(number))
}

pub(super) fn hkeys(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let fields = data.keys.read::<Fields>(&args[0])?.into_iter().flatten();
    Ok(Reply::bulks(fields.map(|(name, _)| name)))
}

pub(super) fn hlen(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.keys.read::<Fields>(&args[0])?.map_or(0, Vec::len)))
}

pub(super) fn hstrlen(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(get(data, &args[0], &args[1])?.map_or(0, |value| value.len())))
}

/// All fields come at once, as from a real server where the hash is small.
pub(super) fn hscan(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, cursor, options @ ..] = args else { unreachable!("its arity") };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|text| text.parse::<u64>().ok());
    cursor.ok_or("ERR invalid cursor")?;
    let Some(fields) = data.keys.read::<Fields>(key)? else {
        return Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]));
    };
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(SYNTAX) };
        if !name.eq_ignore_ascii_case(b"count") || integer(value)? < 1 {
            return Err(SYNTAX);
        }
    }
    let fields = Reply::bulks(fields.iter().flat_map(|(name, value)| [name, value]));
    Ok(Reply::Array(vec![Reply::bulk("0"), fields]))
}

pub(super) fn hset(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, pairs @ ..] = args else { unreachable!("its arity") };
    if pairs.len() % 2 == 1 {
        return Err(wrong_number("hset"));
    }
    let added = data.keys.extend(key, |fields: &mut Fields| {
        Ok(pairs.chunks(2).filter(|pair| put(fields, &pair[0], pair[1].clone())).count())
    })?;
    Ok(Reply::count(added))
}

fn get(data: &mut Data, key: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
    let mut fields = data.keys.read::<Fields>(key)?.into_iter().flatten();
    Ok(fields.find(|(field, _)| field == name).map(|(_, value)| value.clone()))
}

/// Whether the field is a new one.
fn put(fields: &mut Fields, name: &[u8], value: Vec<u8>) -> bool {
    match fields.iter_mut().find(|(field, _)| field == name) {
        Some((_, had)) => {
            *had = value;
            false
        }
        None => {
            fields.push((name.to_vec(), value));
            true
        }
    }
}
