//! The sorts of lock.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Reentrant,
    Fenced,
    Plain,
}
