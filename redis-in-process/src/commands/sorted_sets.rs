//! Commands for sorted sets.

use super::data::{Data, SYNTAX, not_there, range};
use crate::keyspace::Members;
use crate::number::{double, integer, precise};
use crate::reply::{Answer, Refused, Reply};

pub(super) fn zadd(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, pairs @ ..] = args else { unreachable!("its arity") };
    if matches!(&pairs[0].to_ascii_lowercase()[..], b"nx" | b"xx" | b"gt" | b"lt" | b"ch" | b"incr")
    {
        return Err(not_there(data, "ZADD", &pairs[0]));
    }
    if pairs.len() % 2 == 1 {
        return Err(SYNTAX);
    }
    let scores: Vec<f64> =
        pairs.chunks(2).map(|pair| double(&pair[0])).collect::<Result<_, _>>()?;
    let added = data.keys.extend(key, |members: &mut Members| {
        let new = pairs.chunks(2).zip(scores);
        Ok(new.filter(|(pair, score)| put(members, &pair[1], *score)).count())
    })?;
    Ok(Reply::count(added))
}

pub(super) fn zcard(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(data.keys.read::<Members>(&args[0])?.map_or(0, Vec::len)))
}

pub(super) fn zincrby(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, by, name] = args else { unreachable!("its arity") };
    let by = double(by)?;
    let score = data.keys.extend(key, |members: &mut Members| {
        let score = score_of(members, name).unwrap_or(0.0) + by;
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        put(members, name, score);
        Ok(score)
    })?;
    Ok(Reply::bulk(precise(score)))
}

pub(super) fn zrange(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, start, stop, options @ ..] = args else { unreachable!("its arity") };
    for option in options {
        match &option.to_ascii_lowercase()[..] {
            b"withscores" => {}
            b"byscore" | b"bylex" | b"rev" | b"limit" => {
                return Err(not_there(data, "ZRANGE", option));
            }
            _ => return Err(SYNTAX),
        }
    }
    let (start, stop) = (integer(start)?, integer(stop)?);
    let members = data.keys.read::<Members>(key)?.map_or(&[][..], Vec::as_slice);
    let mut answers = Vec::new();
    for (name, score) in &members[range(start, stop, members.len())] {
        answers.push(Reply::bulk(name.clone()));
        if !options.is_empty() {
            answers.push(Reply::bulk(precise(*score)));
        }
    }
    Ok(Reply::Array(answers))
}

pub(super) fn zrem(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, names @ ..] = args else { unreachable!("its arity") };
    let removed = data.keys.change(key, |members: &mut Members| {
        let before = members.len();
        members.retain(|(name, _)| !names.contains(name));
        before - members.len()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

pub(super) fn zremrangebyscore(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, min, max] = args else { unreachable!("its arity") };
    let ((min, above), (max, below)) = (bound(min)?, bound(max)?);
    let removed = data.keys.change(key, |members: &mut Members| {
        let before = members.len();
        members.retain(|(_, score)| {
            let too_low = if above { *score <= min } else { *score < min };
            let too_high = if below { *score >= max } else { *score > max };
            too_low || too_high
        });
        before - members.len()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

/// One end of a range of scores, and whether it is outside of the range.
fn bound(text: &[u8]) -> Result<(f64, bool), Refused> {
    let (text, outside) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    let number = double(text).map_err(|_| Refused::from("ERR min or max is not a float"))?;
    Ok((number, outside))
}

pub(super) fn zscore(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let score =
        data.keys.read::<Members>(&args[0])?.and_then(|members| score_of(members, &args[1]));
    Ok(score.map_or(Reply::Nil, |score| Reply::bulk(precise(score))))
}

fn score_of(members: &Members, name: &[u8]) -> Option<f64> {
    members.iter().find(|(member, _)| member == name).map(|(_, score)| *score)
}

/// Whether the member is a new one.
fn put(members: &mut Members, name: &[u8], score: f64) -> bool {
    let before = members.len();
    members.retain(|(member, _)| member != name);
    let is_new = members.len() == before;
    // By score, and by name where scores are equal.
    let is_less = |(member, had): &(Vec<u8>, f64)| (*had, &member[..]) < (score, name);
    let place = members.partition_point(is_less);
    members.insert(place, (name.to_vec(), score));
    is_new
}
