//! The kinds of lock that callers want.

use judge::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Plain,
    Spin,
    Fenced,
    Fair,
    NonReentrant,
    NonReentrantFair,
    Read,
    Write,
    All,
    Majority,
}

impl Kind {
    pub(super) const EACH: [Self; 10] = [
        Self::Plain,
        Self::Spin,
        Self::Fenced,
        Self::Fair,
        Self::NonReentrant,
        Self::NonReentrantFair,
        Self::Read,
        Self::Write,
        Self::All,
        Self::Majority,
    ];

    /// The name of a lock.
    pub(super) fn name(self, number: usize) -> String {
        let letter = match self {
            Kind::Plain | Kind::Spin | Kind::All => 'p',
            Kind::Fenced => 'f',
            Kind::Fair => 'q',
            Kind::NonReentrant => 'n',
            Kind::NonReentrantFair => 'm',
            Kind::Read | Kind::Write => 'w',
            Kind::Majority => 'j',
        };
        format!("{letter}{number}")
    }

    /// A lock on a server, as the judge knows it.
    pub(super) fn place(self, number: usize, server: usize) -> Place {
        let kind = match self {
            Kind::Plain | Kind::All | Kind::Majority => judge::Kind::Lock,
            Kind::Spin => judge::Kind::Spin,
            Kind::Fenced => judge::Kind::Fenced,
            Kind::Fair => judge::Kind::Fair,
            Kind::NonReentrant => judge::Kind::NonReentrant,
            Kind::NonReentrantFair => judge::Kind::NonReentrantFair,
            Kind::Read => judge::Kind::Read,
            Kind::Write => judge::Kind::Write,
        };
        Place { server: format!("s{server}"), name: self.name(number), kind }
    }
}
