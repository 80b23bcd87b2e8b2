//! What was done to a lock, by its states before and after.

use judge::{Deed, Leave, Mode, Nanos, Taker};

use super::state::{Marks, State};

/// The server's clock is one of milliseconds, and the log is seen a little later.
const CLOCK: Nanos = 3 * judge::MS;

pub(crate) fn between(
    before: &State,
    after: &State,
    marks: &Marks,
    at: Nanos,
    moment: impl Fn(u64) -> Nanos,
) -> Vec<Deed> {
    let mut deeds = Vec::new();
    let until = |state: &State, id: &str| state.ends(id).map_or(Nanos::MAX, &moment);
    // Redisson's ids are used again, perhaps at the moment at which the lease before ends.
    let stays = |id: &str| before.holders.contains_key(id) && !marks.gone.contains(id);
    let granted = |id: &str| after.holders.contains_key(id) && !stays(id);
    let is_over = |id: &str| !after.holders.contains_key(id) || !stays(id);

    let stayed = stayed(before, after);
    for id in before.queue.iter().filter(|id| !stayed.contains(id) && !granted(id)) {
        let gave_up = marks.gave_up.contains(id);
        let why = if gave_up { Leave::GaveUp } else { Leave::Dropped };
        deeds.push(Deed::Popped { id: id.clone(), why });
    }
    for id in before.holders.keys().filter(|id| is_over(id)) {
        // A script that deletes the lock finds none whose lease is over, but readers.
        let by_hand = marks.deleted && !marks.ended && marks.let_go.is_empty();
        let over = match until(before, id) {
            _ if by_hand && before.mode(id) != Mode::Read => false,
            end if by_hand => end + CLOCK <= at,
            end => end <= at + CLOCK,
        };
        deeds.push(ended(id, marks, over));
    }
    if before.token.is_some() && after.token.is_none_or(|token| Some(token) < before.token) {
        deeds.push(Deed::CounterLost);
    }
    for (id, count) in after.holders.iter().filter(|(id, _)| granted(id)) {
        if before.queue.contains(id) && !after.queue.contains(id) {
            deeds.push(Deed::Popped { id: id.clone(), why: Leave::Granted });
        }
        let token = after.token.filter(|_| after.token != before.token);
        let (id, until) = (id.clone(), until(after, id));
        deeds.push(Deed::Granted { id: id.clone(), mode: after.mode(&id), until, token });
        if *count != 1 {
            deeds.push(Deed::Counted { id, count: *count });
        }
    }
    for (id, count) in after.holders.iter().filter(|(id, _)| !granted(id)) {
        if before.holders[id] != *count {
            deeds.push(Deed::Counted { id: id.clone(), count: *count });
        }
        // A reader whose own key has ended stays for as long as the lock is there: see `outlived`.
        let end = until(after, id);
        // Data that a server has loaded may have readers whose own keys had ended. Others renew the lock then.
        let had_ended = after.mode(id) == Mode::Read && !after.readers.contains_key(id);
        let is_for_others = had_ended && end > until(before, id);
        if before.ends(id) != after.ends(id) && end > at && !is_for_others {
            deeds.push(Deed::Renewed { id: id.clone(), until: end });
        }
    }
    for id in &after.queue[stayed.len()..] {
        deeds.push(Deed::Pushed { id: id.clone() });
    }
    deeds
}

/// The waiters who stayed in line: the longest beginning of the line that stood in this order before. Whoever
/// is dropped may stand at the end again by the same script.
fn stayed<'a>(before: &State, after: &'a State) -> &'a [String] {
    let mut stood = before.queue.iter();
    let count = after.queue.iter().take_while(|id| stood.any(|other| other == *id)).count();
    &after.queue[..count]
}

/// Readers whose own keys had ended, and who were there nevertheless, for the lock had not: when their keys ended, and
/// that the holds lasted until now.
pub(crate) fn outlived(
    before: &State,
    after: &State,
    marks: &Marks,
    at: Nanos,
    moment: impl Fn(u64) -> Nanos,
) -> Vec<(Nanos, Deed)> {
    let seen = |id: &String| {
        marks.let_go.contains(id)
            || after.holders.contains_key(id)
                && (after.ends(id) != before.ends(id) || after.holders[id] != before.holders[id])
    };
    let readers = before.holders.keys().filter(|id| before.mode(id) == Mode::Read && seen(id));
    readers
        .filter_map(|id| {
            let ended = moment(before.ends(id)?);
            (ended < at).then(|| (ended, Deed::Renewed { id: id.clone(), until: at }))
        })
        .collect()
}

/// Why a holder is no longer there.
fn ended(id: &str, marks: &Marks, over: bool) -> Deed {
    let id = id.to_owned();
    match () {
        () if over && !marks.let_go.contains(&id) => Deed::Expired { id },
        () if marks.wiped.is_some() => {
            Deed::Removed { id, by: marks.wiped.unwrap_or(Taker::Operator) }
        }
        () if marks.let_go.contains(&id) => Deed::Released { id },
        () if marks.ended => Deed::Removed { id, by: Taker::Eviction },
        // Those beside a reader who was the last one alive.
        () if marks.deleted && !marks.let_go.is_empty() => Deed::Expired { id },
        // By its writer's release, which deletes it, too. `Forced` tells which, where it is not known who called.
        () if marks.names(&id) == Some(true) => Deed::Released { id },
        () => Deed::Removed { id, by: Taker::Force },
    }
}
