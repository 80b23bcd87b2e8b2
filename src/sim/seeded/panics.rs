//! Panics of a run, those in tasks that nobody awaits included.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// From now on the panics of this thread are noted. Those of a plan do not call the hook.
pub(super) fn note() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            SEEN.with_borrow_mut(|seen| seen.push(info.to_string()));
            before(info);
        }));
    });
    SEEN.take();
}

pub(super) fn take() -> impl Iterator<Item = String> {
    SEEN.take().into_iter()
}
