//! [`is_installed`]: whether the crate `metrics` has a recorder.

use std::{
    hash::{Hash, Hasher},
    ptr,
    sync::OnceLock,
    thread,
};

use ::metrics::with_recorder;

/// What the crate `metrics` has in place of a recorder, on a thread without one. It is a constant of
/// the process. `None`: it is not known, or the process has a recorder.
static PLACEHOLDER: OnceLock<Option<Identity>> = OnceLock::new();

/// Whether the process or this thread has a recorder.
///
/// The first call without one starts a thread for a moment.
pub(super) fn is_installed() -> bool {
    let Some(identity) = maybe_placeholder() else { return true };
    // A new thread has no recorder of its own.
    let first = || thread::Builder::new().spawn(maybe_placeholder).ok()?.join().ok()?;
    *PLACEHOLDER.get_or_init(first) != Some(identity)
}

/// The identity of the current recorder, if it may be the placeholder. That one is a static without
/// a size. A recorder of the process without a size has the address of an empty box.
///
/// A function by itself, so that the placeholder always has the same vtable.
#[inline(never)]
fn maybe_placeholder() -> Option<Identity> {
    with_recorder(|recorder| {
        let address = ptr::from_ref(recorder).addr();
        if size_of_val(recorder) != 0 || address == align_of_val(recorder) {
            return None;
        }
        let mut identity = Identity::default();
        ptr::from_ref(recorder).hash(&mut identity);
        Some(identity)
    })
}

/// The address and the vtable of a recorder. `std` tells the vtable to a hasher only.
///
/// Two recorders without a size, of different types, may have one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Identity(u128);

impl Hasher for Identity {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u128::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        with_local_recorder,
    };
    use metrics_util::debugging::DebuggingRecorder;

    use super::*;

    /// A recorder without a size, as one that records to statics.
    struct Sizeless;

    impl Recorder for Sizeless {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            unreachable!()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            unreachable!()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            unreachable!()
        }
    }

    #[test]
    fn the_recorder_of_a_thread_is_seen_while_it_is_there() {
        static STATIC: Sizeless = Sizeless;
        let (sized, boxed, local) = (DebuggingRecorder::new(), Box::new(Sizeless), Sizeless);
        for recorder in [&sized as &dyn Recorder, &STATIC, &*boxed, &local, &Sizeless] {
            assert!(!is_installed());
            assert!(with_local_recorder(recorder, is_installed));
        }
        assert!(!is_installed());
    }
}
