//! Local readers that share a hold: one more comes in, the server is asked, a write hold becomes a read
//! hold.
//!
//! The first reader takes a read hold, or gets a hold from another local caller. While it is inside,
//! others share its hold without a word to the server, within the [budget](super::budget). A waiting
//! writer closes the door, because readers behind it stand in line. When the last reader has left, the
//! hold goes to the next in line: a read hold becomes a write hold if this process is the only reader.
//!
//! A write hold is more than readers need. When they stay, it becomes a read hold, and the readers of
//! other processes come in.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    locking::{
        baton::Home,
        handoff::Join,
        hold::{Hold, target::Target},
        share::Share,
    },
    sometimes::sometimes,
};

/// After this pause it is tried again to make a read hold of a write hold.
const PAUSE: Duration = Duration::from_millis(20);

/// Lets one more reader share the hold of those that are inside. `None`: there are none, or it has to
/// wait. If it has to wait for the server, the line is nudged after that.
pub(crate) fn join(home: &Arc<dyn Home>) -> Option<Share> {
    match home.handoff().join() {
        Join::Yes(hold) => Some(Share::of_a_reader(home.clone(), hold)),
        Join::Ask(hold) => {
            let share = Share::of_a_reader(home.clone(), hold);
            home.target().engine.janitor.spawn(ask(home.clone(), share));
            None
        }
        Join::No => None,
    }
}

/// Asks the server whether the hold is there, and who else waits.
async fn ask(home: Arc<dyn Home>, share: Share) {
    sometimes!("readers: the server is asked about the hold they share");
    let hold = share.hold();
    let others = hold.extend(false).await;
    if others.is_none() {
        // It may be lost. Nobody may join it then.
        let _ = hold.check().await;
    }
    home.handoff().answered(others);
    home.target().line.nudge();
}

/// Begins to make a read hold of a write hold, under which local readers have been inside for too long.
/// `to`: the read side of the lock. Returns whether they share a write hold.
pub(crate) fn relieve(home: Arc<dyn Home>, to: &Arc<Target>) -> bool {
    if let Some(hold) = home.handoff().overstayed() {
        let share = Share::of_a_reader(home.clone(), hold.clone());
        let janitor = &home.target().engine.janitor;
        janitor.spawn(downgrade(home.clone(), hold, share, to.clone()));
    }
    home.handoff().is_read_under_write()
}

/// `share`: keeps the hold from being released meanwhile.
async fn downgrade(home: Arc<dyn Home>, from: Arc<Hold>, share: Share, to: Arc<Target>) {
    match from.downgrade(&to).await {
        Some((hold, others)) => {
            sometimes!("readers: a write hold has become a read hold");
            home.handoff().downgraded(&from, &hold);
            home.handoff().answered(Some(others));
        }
        None => {
            drop(share);
            sleep(PAUSE).await;
            return home.handoff().answered(None);
        }
    }
    home.target().line.nudge();
    drop(share);
}
