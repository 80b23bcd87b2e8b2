//! [`Fields`]: the hash of a lock, read in parts. Another program's hash may be of any size.

use std::collections::BTreeMap;

use futures::try_join;
use redisson_lock::{
    Error,
    servers::{Server, Value},
};

/// A hash with more fields is no lock, and is not read.
const MOST: i64 = 100_000;

/// How many fields are looked at first, without their values: so many in any case, some of them more than
/// once. An array of three or four could be taken for a message.
const SAMPLE: &[u8] = b"-10";

/// How many fields a call reads, about. It bounds how long the server serves no other client.
const PAGE: &[u8] = b"1000";

/// The fields of a lock.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// Of a read/write lock.
    pub(crate) mode: Option<String>,
    /// Ids and hold counts.
    pub(crate) holders: BTreeMap<String, u64>,
}

/// What is under the name of a lock.
#[derive(Debug)]
pub(crate) enum Found {
    /// A lock that is held.
    Lock(Fields),
    /// Nothing, or a lock without a holder.
    Free,
    /// The hash of another program.
    Foreign,
}

/// Reads a hash. Of one of another program, as good as always a few fields are read, and no value.
pub(crate) async fn read(server: &Server, key: &[u8]) -> Result<Found, Error> {
    let (length, some) = ([key], [key, SAMPLE]);
    let (length, some) =
        try_join!(server.command("HLEN", &length), server.command("HRANDFIELD", &some))?;
    let are_known = some.parts().iter().all(|field| field.text().is_some_and(|it| is_known(&it)));
    let length = length.int().unwrap_or(0);
    if length == 0 {
        return Ok(Found::Free);
    }
    if length > MOST || !are_known {
        return Ok(Found::Foreign);
    }
    let mut fields = Fields::default();
    let mut cursor = "0".to_owned();
    loop {
        let reply = server.command("HSCAN", &[key, cursor.as_bytes(), b"COUNT", PAGE]).await?;
        let [next, page] = reply.parts() else { return Ok(Found::Foreign) };
        if fields.add(page).is_none() || fields.holders.len() as i64 > MOST {
            return Ok(Found::Foreign);
        }
        cursor = next.text().unwrap_or_default();
        if cursor == "0" || cursor.is_empty() {
            let is_free = fields.holders.is_empty();
            return Ok(if is_free { Found::Free } else { Found::Lock(fields) });
        }
    }
}

impl Fields {
    /// Adds fields and their values. HSCAN may name a field twice. `None`: they are not a lock's.
    fn add(&mut self, page: &Value) -> Option<()> {
        for pair in page.parts().chunks(2) {
            let (field, value) = (pair[0].text()?, pair.get(1)?.text()?);
            if field == "mode" && ["read", "write"].contains(&&*value) {
                self.mode = Some(value);
            } else if is_holder(&field) {
                self.holders.insert(field, value.parse().ok()?);
            } else {
                return None;
            }
        }
        Some(())
    }
}

/// Whether the hash of a lock may have this field.
fn is_known(field: &str) -> bool {
    field == "mode" || is_holder(field)
}

/// Whether it has the form of a holder id: a UUID and a number, and perhaps `:write`.
pub(crate) fn is_holder(text: &str) -> bool {
    let Some((client, n)) = text.strip_suffix(":write").unwrap_or(text).rsplit_once(':') else {
        return false;
    };
    let is_uuid = client.len() == 36
        && client.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    // Redisson's lockAsync takes any number for a thread's id.
    let n = n.strip_prefix('-').unwrap_or(n);
    is_uuid && !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";

    fn read(pairs: &[(&str, &str)]) -> Option<Fields> {
        let text = |text: &str| Value::Bytes(text.to_owned().into());
        let fields = pairs.iter().flat_map(|(field, value)| [text(field), text(value)]);
        let mut read = Fields::default();
        read.add(&Value::Array(fields.collect())).map(|()| read)
    }

    #[test]
    fn only_the_hash_of_a_lock_is_read_as_one() {
        let one = |id: &str, count| BTreeMap::from([(id.to_owned(), count)]);
        let writer = format!("{ID}:write");
        let lock = read(&[(ID, "2")]).unwrap();
        assert_eq!((lock.mode, lock.holders), (None, one(ID, 2)));
        for number in ["-1", "-9223372036854775808"] {
            let id = format!("{}:{number}", &ID[..36]);
            assert_eq!(read(&[(&id, "1")]).expect("a lock").holders, one(&id, 1));
        }
        let lock = read(&[("mode", "write"), (&writer, "1")]).unwrap();
        assert_eq!((lock.mode.as_deref(), lock.holders.len()), (Some("write"), 1));
        for other in [
            [("name", "x"), (ID, "1")],
            [(ID, "1"), (ID, "x")],
            [(ID, "1"), ("a:1", "1")],
            [(ID, "1"), (&*format!("{}:-", &ID[..36]), "1")],
            [(ID, "1"), ("mode", "fast")],
        ] {
            assert!(read(&other).is_none(), "{other:?}");
        }
    }
}
