use super::*;
use crate::wire::{
    script::Reply,
    topology::{sentinels::read_master, slots::ALL_SLOTS},
};

const OLD: u16 = 1;
const NEW: u16 = 2;

/// In the form of a sentinel's answer.
fn says(port: u16, epoch: u64, flags: &str) -> View {
    let fields = [
        ("ip", "h".to_owned()),
        ("port", port.to_string()),
        ("flags", flags.to_owned()),
        ("config-epoch", epoch.to_string()),
    ];
    let text = |text: &str| Reply::Bytes(text.to_owned().into());
    let fields = fields.map(|(field, value)| [text(field), text(&value)]);
    let master = Reply::Array(fields.into_iter().flatten().collect());
    read_master(&master, &Reply::Array(Vec::new()), None).unwrap()
}

fn is(port: u16) -> ServerMap {
    let master = Server { address: Address::new("h", port), id: None };
    ServerMap { slots: vec![(ALL_SLOTS, master)], nodes: Vec::new() }
}

#[test]
fn a_master_is_not_trusted_while_another_is_put_in_its_place() {
    let replacing = "s_down,o_down,master,failover_in_progress";
    assert_eq!(agree(vec![says(OLD, 3, "s_down,master"), says(OLD, 3, "master")]), Ok(is(OLD)));
    agree(vec![says(OLD, 3, "master"), says(OLD, 3, replacing)]).unwrap_err();
    agree(vec![says(OLD, 4, replacing)]).unwrap_err();
    // A sentinel whose replicas do not all follow the new master knows the new epoch and names
    // the old master.
    let views = vec![says(NEW, 4, "master"), says(OLD, 4, replacing), says(OLD, 3, "master")];
    assert_eq!(agree(views), Ok(is(NEW)));
}

#[test]
fn sources_that_are_far_away_may_take_as_long_as_a_command_and_no_less_than_a_second() {
    let ms = Duration::from_millis;
    assert_eq!(next_patience(None, ms(10_000)), ms(10_000));
    assert_eq!(next_patience(Some(ms(400)), ms(10_000)), ms(1_600));
    assert_eq!(next_patience(Some(ms(9_000)), ms(10_000)), ms(10_000));
    for took in [None, Some(ms(1)), Some(ms(900))] {
        assert_eq!(next_patience(took, ms(100)), ASK_TIMEOUT);
    }
}
