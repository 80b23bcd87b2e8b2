//! An example, as a test and for the judge of mutants.

use super::scene::Scene;
use crate::model::Replacement;

/// What a script does in one situation.
pub(crate) struct Example {
    /// Such as `fair/acquire`.
    pub(crate) script: &'static str,
    pub(crate) name: &'static str,
    pub(super) tell: fn(&mut Scene),
}

impl Example {
    /// Panics when it is otherwise.
    pub(crate) fn run(&self, replacement: Option<&Replacement>) {
        (self.tell)(&mut Scene::new(replacement));
    }
}

/// Of each script its examples; each becomes a test.
macro_rules! examples {
    ($($script:literal: $($name:ident),* $(,)?;)*) => {
        pub(super) const EXAMPLES: &[super::example::Example] = &[$($(
            super::example::Example { script: $script, name: stringify!($name), tell: $name },
        )*)*];

        mod tests {
            $($(#[test]
            fn $name() {
                let found = super::EXAMPLES.iter().find(|example| example.name == stringify!($name));
                found.expect("it is among them").run(None);
            })*)*
        }
    };
}

pub(super) use examples;
