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

pub(super) fn zcount(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, min, max] = args else { unreachable!("its arity") };
    let within = Scores::read(min, max)?;
    let members = data.keys.read::<Members>(key)?.map_or(&[][..], Vec::as_slice);
    Ok(Reply::count(members.iter().filter(|(_, score)| within.contain(*score)).count()))
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

pub(super) fn zrangebyscore(data: &mut Data, args: &[Vec<u8>]) -> Answer {
    let [key, min, max, options @ ..] = args else { unreachable!("its arity") };
    let (mut with_scores, mut skip, mut most) = (false, 0, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match &option.to_ascii_lowercase()[..] {
            b"withscores" => with_scores = true,
            b"limit" => {
                let [Some(offset), Some(count)] = [options.next(), options.next()] else {
                    return Err(SYNTAX);
                };
                skip = integer(offset)?;
                // A negative number: all of them.
                most = usize::try_from(integer(count)?).ok();
            }
            _ => return Err(SYNTAX),
        }
    }
    let within = Scores::read(min, max)?;
    let members = data.keys.read::<Members>(key)?.map_or(&[][..], Vec::as_slice);
    let members = members.iter().filter(|(_, score)| within.contain(*score));
    let mut answers = Vec::new();
    // From a negative offset there is nothing.
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    for (name, score) in members.skip(skip).take(most.unwrap_or(usize::MAX)) {
        answers.push(Reply::bulk(name.clone()));
        if with_scores {
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
    let within = Scores::read(min, max)?;
    let removed = data.keys.change(key, |members: &mut Members| {
        let before = members.len();
        members.retain(|(_, score)| !within.contain(*score));
        before - members.len()
    })?;
    Ok(Reply::count(removed.unwrap_or(0)))
}

/// A range of scores.
struct Scores {
    min: f64,
    above: bool,
    max: f64,
    below: bool,
}

impl Scores {
    fn read(min: &[u8], max: &[u8]) -> Result<Self, Refused> {
        let ((min, above), (max, below)) = (bound(min)?, bound(max)?);
        Ok(Self { min, above, max, below })
    }

    fn contain(&self, score: f64) -> bool {
        let too_low = if self.above { score <= self.min } else { score < self.min };
        let too_high = if self.below { score >= self.max } else { score > self.max };
        !too_low && !too_high
    }
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
