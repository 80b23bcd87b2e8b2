use super::*;
use crate::engine::scripted::{Scripted, engine};

#[tokio::test]
async fn a_lock_is_known_while_it_is_in_use_and_all_kinds_of_a_name_share_its_owners() {
    let engine = engine(&Arc::default());
    let registry = Arc::new(Registry::default());
    let lock = |kind, name| registry.lock(&engine, kind, name).unwrap();
    let known = || (registry.locks.len(), registry.owners.len());
    let (one, again) = (lock(LockKind::Reentrant, "a"), lock(LockKind::Reentrant, "a"));
    assert!(Arc::ptr_eq(&one, &again));
    let (fair, other) = (lock(LockKind::Fair, "a"), lock(LockKind::Reentrant, "b"));
    assert!(Arc::ptr_eq(&one.owners, &fair.owners) && !Arc::ptr_eq(&one.owners, &other.owners));
    assert_eq!((one.name(), known()), ("a", (3, 2)));
    drop(one);
    assert_eq!(known(), (3, 2), "it is still in use");
    drop(again);
    assert_eq!(known(), (2, 2));
    drop((fair, other));
    assert_eq!(known(), (0, 0));
    assert!(matches!(registry.lock(&engine, LockKind::Fair, ""), Err(Error::Invalid(_))));
}

/// The slot of one key is another than that of all others.
fn slot(key: &[u8]) -> u16 {
    u16::from(key == b"apart")
}

#[tokio::test]
async fn in_a_cluster_the_keys_of_a_lock_share_a_slot_that_redisson_computes_too() {
    let (alone, cluster) = (Scripted::default(), Scripted { slot: Some(slot), ..<_>::default() });
    for (transport, is_cluster) in [(alone, false), (cluster, true)] {
        let engine = engine(&Arc::new(transport));
        let registry = Arc::new(Registry::default());
        for (name, suits) in [("together", true), ("apart", false), ("a}{b}", false)] {
            let lock = registry.lock(&engine, LockKind::Reentrant, name);
            match suits || !is_cluster {
                true => assert_eq!(lock.unwrap().name(), name),
                false => assert!(matches!(lock, Err(Error::Invalid(_))), "{name}: {lock:?}"),
            }
        }
    }
}
