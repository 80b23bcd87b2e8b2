//! The known circles of files.

/// The files of each circle. This list only shrinks: a circle that becomes smaller or disappears is changed or struck out here.
pub(crate) const KNOWN_CIRCLES: &[&[&str]] = &[];
