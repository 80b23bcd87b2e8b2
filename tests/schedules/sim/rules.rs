//! The rules that a client and its scripts keep, to be left out one by one.

/// All rules but one, or all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<R> {
    without: Option<R>,
}

impl<R: PartialEq> Rules<R> {
    pub(crate) fn all() -> Self {
        Self { without: None }
    }

    pub(crate) fn without(rule: R) -> Self {
        Self { without: Some(rule) }
    }

    pub(crate) fn are_all_kept(&self) -> bool {
        self.without.is_none()
    }

    pub(crate) fn keep(&self, rule: R) -> bool {
        self.without != Some(rule)
    }
}
