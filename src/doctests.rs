//! Texts whose pieces of code are tested.

/// Its pieces of code compile, or do not, as it says.
#[doc = include_str!("must_use.md")]
struct MustUse;

/// Its pieces of code compile.
#[doc = include_str!("../README.md")]
struct Readme;
