//! What is told of commands. Times are milliseconds.

use judge::{Deed, MS};

use super::{Model, Names, Piece, What, chapters};
use crate::clock::Wall;

/// What is read from transactions, each with the moment at which it was seen.
fn told(transactions: &[(u64, &str)]) -> Vec<String> {
    let pieces: Vec<Piece> = transactions.iter().map(|(at, text)| piece(*at, text)).collect();
    let names = Names::new(["shop".to_owned()]);
    let chapters = chapters(&pieces, &[], Wall::in_step(), Model::new(&names, Wall::in_step()));
    let effects = chapters.into_iter().flat_map(|chapter| chapter.effects);
    effects.map(|effect| format!("{} {}", effect.at / MS, short(&effect.deed))).collect()
}

fn piece(at: u64, text: &str) -> Piece {
    let mut bytes = String::new();
    let commands = text.split("; ").map(|command| command.split(' ').collect());
    for command in [vec!["MULTI"]].into_iter().chain(commands).chain([vec!["EXEC"]]) {
        bytes += &format!("*{}\r\n", command.len());
        for word in command {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
    }
    Piece { at: at * MS, since: at * MS, what: What::Bytes(bytes.into_bytes()) }
}

fn short(deed: &Deed) -> String {
    match deed {
        Deed::Granted { id, until, .. } => format!("grants {id} until {}", until / MS),
        Deed::Counted { id, count } => format!("counts {id} {count}"),
        Deed::Renewed { id, until } => format!("renews {id} until {}", until / MS),
        Deed::Released { id } => format!("releases {id}"),
        Deed::Expired { id } => format!("expires {id}"),
        Deed::Removed { id, by } => format!("removes {id} by {by:?}"),
        deed => format!("{deed:?}"),
    }
}

#[test]
fn a_script_that_deletes_a_lock_found_it_there() {
    let grant = (10, "hset shop mode write a:1:write 1; PEXPIREAT shop 100");
    let granted = "10 grants a:1:write until 100";
    // Who has done it is decided by what users did.
    assert_eq!(told(&[grant, (99, "del shop")]), [granted, "99 removes a:1:write by Force"]);
    assert_eq!(told(&[grant, (101, "DEL shop")]), [granted, "101 expires a:1:write"]);
}

#[test]
fn an_id_that_is_used_again_at_once() {
    let again = "DEL shop; hincrby shop j:7 1; PEXPIREAT shop 230";
    let all = ["10 grants j:7 until 100", "130 expires j:7", "130 grants j:7 until 230"];
    assert_eq!(told(&[(10, "hincrby shop j:7 1; PEXPIREAT shop 100"), (130, again)]), all);
    // A re-entry.
    let reentry = "hincrby shop j:7 1; PEXPIREAT shop 190";
    let all = ["10 grants j:7 until 100", "90 counts j:7 2", "90 renews j:7 until 190"];
    assert_eq!(told(&[(10, "hincrby shop j:7 1; PEXPIREAT shop 100"), (90, reentry)]), all);
}

#[test]
fn a_reader_whose_lease_is_over_when_a_replica_hears_of_it() {
    let key = "{shop}:j:7:rwlock_timeout:1";
    let told = told(&[
        (
            10,
            "hset shop mode read; hincrby shop k:1 1; set {shop}:k:1:rwlock_timeout:1 1 PXAT 500; PEXPIREAT shop 500",
        ),
        (120, &format!("hincrby shop j:7 1; set {key} 1 PXAT 100; PEXPIREAT shop 500")),
        (130, &format!("hincrby shop j:7 -1; hdel shop j:7; del {key}; PEXPIREAT shop 500")),
    ]);
    let of_one: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains("j:7")).collect();
    assert_eq!(
        of_one,
        ["120 grants j:7 until 100", "120 renews j:7 until 130", "130 releases j:7"]
    );
}

#[test]
fn a_reader_whose_leases_are_over_leaves_one_of_its_holds() {
    let key = |number: u32| format!("{{shop}}:j:7:rwlock_timeout:{number}");
    let enters = |number: u32, until: u32| {
        format!("hincrby shop j:7 1; set {} 1 PXAT {until}; PEXPIREAT shop 500", key(number))
    };
    let leaves = format!("hincrby shop j:7 -1; del {}; PEXPIREAT shop 500", key(1));
    let told = told(&[
        (
            10,
            "hset shop mode read; hincrby shop k:1 1; set {shop}:k:1:rwlock_timeout:1 1 PXAT 500; PEXPIREAT shop 500",
        ),
        (20, &enters(1, 100)),
        (30, &enters(2, 110)),
        (130, &leaves),
    ]);
    let of_one: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains("j:7")).collect();
    let all = [
        "20 grants j:7 until 100",
        "30 counts j:7 2",
        "30 renews j:7 until 110",
        "110 renews j:7 until 130",
        "130 counts j:7 1",
    ];
    assert_eq!(of_one, all);
}

#[test]
fn a_reader_outlives_its_own_key_beside_another() {
    let key = |id: &str, number: u32| format!("{{shop}}:{id}:rwlock_timeout:{number}");
    let reads = |id: &str, number: u32, until: u64| {
        format!("hincrby shop {id} 1; set {} 1 PXAT {until}; PEXPIREAT shop 500", key(id, number))
    };
    let leaves = format!("hincrby shop j:7 -1; del {}; PEXPIREAT shop 500", key("j:7", 2));
    let done =
        format!("hincrby shop j:7 -1; hdel shop j:7; del {}; PEXPIREAT shop 500", key("j:7", 1));
    let told = told(&[
        (10, &format!("hset shop mode read; {}", reads("j:7", 1, 100))),
        (20, &reads("k:1", 1, 500)),
        (130, &reads("j:7", 2, 230)),
        (140, &leaves),
        (150, &done),
    ]);
    let of_one: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains("j:7")).collect();
    assert_eq!(
        of_one,
        [
            "10 grants j:7 until 100",
            "100 renews j:7 until 130",
            "100 renews j:7 until 150",
            "130 counts j:7 2",
            "130 renews j:7 until 230",
            "140 counts j:7 1",
            "150 releases j:7",
        ]
    );
}

#[test]
fn a_waiter_who_is_dropped_and_stands_in_line_again_by_one_script() {
    let queue = harness::queue_key("shop");
    let fill = format!("rpush {queue} a b c");
    let again = format!("lpop {queue}; rpush {queue} a");
    let pushed = |at: u64, id: &str| format!("{at} Pushed {{ id: {id:?} }}");
    let popped = r#"20 Popped { id: "a", why: Dropped }"#;
    let all = told(&[(10, &fill), (20, &again)]);
    let expected: Vec<_> = ["a", "b", "c"].map(|id| pushed(10, id)).into();
    assert_eq!(all, [expected, vec![popped.to_owned(), pushed(20, "a")]].concat());
    // Others leave, and nobody else moves.
    let left = told(&[(10, &fill), (20, &format!("lrem {queue} 0 b"))]);
    assert_eq!(left[3..], [r#"20 Popped { id: "b", why: GaveUp }"#]);
}

#[test]
fn a_reader_whose_own_key_was_not_loaded_is_not_renewed_by_others() {
    let own = |until: u32| format!("set {{shop}}:k:1:rwlock_timeout:1 1 PXAT {until}");
    let all = told(&[
        (10, "HMSET shop mode read j:7 1 k:1 1"),
        (11, "PEXPIREAT shop 300"),
        (12, &own(300)),
        (20, &format!("{}; PEXPIREAT shop 400", own(400))),
    ]);
    let ends = |id: &str| format!("11 renews {id} until 300");
    assert_eq!(all[2..], [ends("j:7"), ends("k:1"), "20 renews k:1 until 400".into()]);
}

#[test]
fn a_reader_whose_own_key_has_ended_is_taken_out_by_the_release_of_another() {
    let key = |id: &str| format!("{{shop}}:{id}:rwlock_timeout:1");
    let reads = |id: &str, until: u64| {
        format!("hset shop {id} 1; set {} 1 PXAT {until}; PEXPIREAT shop 500", key(id))
    };
    let told = told(&[
        (10, &format!("hset shop mode read; {}", reads("j:7", 100))),
        (20, &reads("k:1", 500)),
        (150, &format!("hdel shop j:7; hdel shop k:1; del {}; del shop", key("k:1"))),
    ]);
    assert_eq!(
        told,
        [
            "10 grants j:7 until 100",
            "20 grants k:1 until 500",
            "150 expires j:7",
            "150 releases k:1"
        ]
    );
}
