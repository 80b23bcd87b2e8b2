//! A command that is started from a terminal becomes its foreground group, so that it can read from
//! it, and gets the signals of its keys. Not so in a pipe or a script: other programs of the
//! terminal's foreground would then be in the background.

use std::{
    io::{self, IsTerminal},
    thread,
};

use nix::{
    sys::signal::{SigSet, Signal},
    unistd::{Pid, getpgrp, getpid, tcgetpgrp, tcsetpgrp},
};

use super::group::Group;

/// The terminal, lent to a command. It is given back on drop.
#[derive(Debug)]
pub(crate) struct Lent(Pid);

impl Lent {
    /// `None`: there is no terminal, or it is not ours to lend.
    pub(crate) fn to(group: Group) -> Option<Self> {
        let ours = tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == getpgrp());
        let alone = getpgrp() == getpid() && io::stdout().is_terminal();
        let group = Pid::from_raw(group.id());
        (ours && alone && set_foreground(group)).then_some(Self(group))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A shell may have taken it meanwhile.
        if tcgetpgrp(io::stdin()).is_ok_and(|foreground| foreground == self.0) {
            set_foreground(getpgrp());
        }
    }
}

fn set_foreground(group: Pid) -> bool {
    // In a thread of its own: a process in the background is stopped for this, unless the thread
    // blocks the signal.
    let set = move || {
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        stop.thread_block().is_ok() && tcsetpgrp(io::stdin(), group).is_ok()
    };
    thread::spawn(set).join().unwrap_or(false)
}
