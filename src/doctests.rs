//! Markdown whose code blocks run as doc tests.

/// Each code block compiles, or does not, as it says.
#[doc = include_str!("must_use.md")]
struct MustUse;

/// Its code blocks compile.
#[doc = include_str!("../README.md")]
struct Readme;
