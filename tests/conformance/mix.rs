//! The languages of the two roles.

use std::fmt;

use harness::Lang;

/// Who plays A and who plays B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) a: Lang,
    pub(crate) b: Lang,
}

impl Mix {
    pub(crate) const ALL: [Self; 4] = [
        Self { a: Lang::Java, b: Lang::Java },
        Self { a: Lang::Rust, b: Lang::Rust },
        Self { a: Lang::Rust, b: Lang::Java },
        Self { a: Lang::Java, b: Lang::Rust },
    ];
    /// Where Redisson in the role of A is known to do worse.
    pub(crate) const A_IS_RUST: &[Self] =
        &[Self { a: Lang::Rust, b: Lang::Rust }, Self { a: Lang::Rust, b: Lang::Java }];
    /// What Redisson in the role of A is known for.
    pub(crate) const A_IS_JAVA: &[Self] =
        &[Self { a: Lang::Java, b: Lang::Java }, Self { a: Lang::Java, b: Lang::Rust }];
    /// Where Redisson in any role is known to do worse.
    pub(crate) const ALL_RUST: &[Self] = &[Self { a: Lang::Rust, b: Lang::Rust }];
    /// Where Redisson in the role of B is known to do worse.
    pub(crate) const B_IS_RUST: &[Self] =
        &[Self { a: Lang::Rust, b: Lang::Rust }, Self { a: Lang::Java, b: Lang::Rust }];
    /// Where Redisson is asked.
    pub(crate) const JAVA_RUST: &[Self] = &[Self { a: Lang::Java, b: Lang::Rust }];
    /// Where there is somebody to ask who knows the question.
    pub(crate) const WITH_RUST: &[Self] = &[
        Self { a: Lang::Rust, b: Lang::Rust },
        Self { a: Lang::Rust, b: Lang::Java },
        Self { a: Lang::Java, b: Lang::Rust },
    ];

    pub(crate) fn needs(self, lang: Lang) -> bool {
        self.a == lang || self.b == lang
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.a, self.b)
    }
}
