//! Commands for lists.

use super::data::{Data, not_there, range};
use crate::keyspace::Items;
use crate::number::integer;
use crate::reply::{Answer, Reply};

pub(super) fn lindex(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    // The key is looked up before the place is read.
    let Some(items) = data.keys.read::<Items>(&args[0])? else { return Ok(Reply::Nil) };
    let place = integer(&args[1])?;
    let place = if place < 0 { place.saturating_add(items.len() as i64) } else { place };
    let item = usize::try_from(place).ok().and_then(|place| items.get(place));
    Ok(item.cloned().into())
}

pub(super) fn llen(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.keys.read::<Items>(&args[0])?.map_or(0, Vec::len)))
}

pub(super) fn lpop(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, count @ ..] = args else { unreachable!("its arity") };
    if let Some(count) = count.first() {
        return Err(not_there(data, "LPOP", count));
    }
    Ok(data.keys.change(key, |items: &mut Items| items.remove(0))?.into())
}

pub(super) fn lrange(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let (start, stop) = (integer(&args[1])?, integer(&args[2])?);
    let items = data.keys.read::<Items>(&args[0])?.map_or(&[][..], Vec::as_slice);
    Ok(Reply::bulks(&items[range(start, stop, items.len())]))
}

pub(super) fn lrem(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, count, item] = args else { unreachable!("its arity") };
    let count = integer(count)?;
    let removed = data.keys.change(key, |items: &mut Items| {
        let limit = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let mut removed = 0;
        let mut stays = |one: &Vec<u8>| {
            let goes = one == item && removed < limit;
            removed += u64::from(goes);
            !goes
        };
        if count < 0 {
            // The last ones first.
            items.reverse();
            items.retain(&mut stays);
            items.reverse();
        } else {
            items.retain(&mut stays);
        }
        removed
    })?;
    Ok(Reply::Int(removed.unwrap_or(0).cast_signed()))
}

pub(super) fn rpush(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, new @ ..] = args else { unreachable!("its arity") };
    let length = data.keys.extend(key, |items: &mut Items| {
        items.extend(new.iter().cloned());
        Ok(items.len())
    })?;
    Ok(Reply::count(length))
}
