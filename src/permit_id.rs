//! [`PermitId`]: the name of one permit of an expirable semaphore on the server. A value, no guard:
//! dropping it returns nothing.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::{
    error::Error,
    owner::{HoldId, client_of},
};

/// The id of one permit of an [`ExpirableSemaphore`](crate::ExpirableSemaphore). Its text is that of
/// Redisson's: 32 hexadecimal digits.
///
/// On the server it has 16 bytes. Ids that one client makes begin with the same digits, as a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId([u8; Self::LENGTH]);

/// A client has this many ids for each of its requests.
const FOR_EACH_REQUEST: u32 = 10;

impl PermitId {
    /// Its bytes on the server.
    pub(crate) const LENGTH: usize = 16;

    /// The ids of the permits that a request with this id acquires. No other request has them. At
    /// most 1024.
    pub(crate) fn of_request(id: &HoldId, permits: u32) -> impl Iterator<Item = Self> + use<> {
        let (client, number) = client_of(id.as_str()).expect("made by a client");
        let client = Uuid::try_parse(client).expect("a UUID").as_u128();
        let number: u64 = number.parse().expect("a number");
        let first = client.wrapping_add(u128::from(number) << FOR_EACH_REQUEST);
        (0..permits).map(move |n| Self(first.wrapping_add(n.into()).to_be_bytes()))
    }

    /// Whether this client made it.
    pub(crate) fn is_of(self, client: &str) -> bool {
        let client = Uuid::try_parse(client).map_or(0, |client| client.as_u128());
        u128::from_be_bytes(self.0).wrapping_sub(client) < 1 << 64
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads 32 hexadecimal digits. Any other text is an [`Error::Invalid`].
impl FromStr for PermitId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_one =
            text.len() == 2 * Self::LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_one.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(|| {
            Error::Invalid(format!("{text:?} is no permit id: it has 32 hexadecimal digits"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::owner::Identity;

    #[test]
    fn no_two_permits_have_one_id() {
        let (one, other) = (Identity::new(), Identity::new());
        let ids = (0..100).flat_map(|_| [one.next(), other.next()]);
        let ids: Vec<_> = ids.flat_map(|id| PermitId::of_request(&id, 100)).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 20_000);
        let ours = ids.iter().filter(|id| id.is_of(one.client())).count();
        assert_eq!(ours, 10_000);
    }

    #[test]
    fn its_text_is_redissons() {
        let id = PermitId::from_bytes(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        let id = id.unwrap();
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(id.to_string().parse::<PermitId>().unwrap(), id);
        for wrong in
            ["", "00", "000102030405060708090a0b0c0d0e0g", "+00102030405060708090a0b0c0d0eff"]
        {
            assert!(matches!(wrong.parse::<PermitId>(), Err(Error::Invalid(_))), "{wrong}");
        }
        assert!(PermitId::from_bytes(b"short").is_none());
    }
}
