//! [`collapse_ids`]: the default label of a lock.

/// Replaces what looks like an id in the name of a lock by `*`: the default label.
///
/// A name is read word by word, where a word consists of letters and digits. These become `*`:
/// - a UUID with its hyphens;
/// - a word of digits;
/// - a word of 8 or more hexadecimal digits, of which one is a decimal digit;
/// - a word of 16 or more characters with a digit in it, such as a ULID;
/// - 3 or more digits in a row within any other word.
///
/// ```
/// use redisson_lock::metrics::collapse_ids;
///
/// assert_eq!(collapse_ids("order:550e8400-e29b-41d4-a716-446655440000"), "order:*");
/// assert_eq!(collapse_ids("user:42:v2"), "user:*:v2");
/// assert_eq!(collapse_ids("blob:9f86d081884c7d65/part-7"), "blob:*/part-*");
/// assert_eq!(collapse_ids("customer00042"), "customer*");
/// ```
#[must_use]
pub fn collapse_ids(lock: &str) -> String {
    let mut label = String::with_capacity(lock.len());
    let mut rest = lock;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric();
        if !is_word(first) {
            label.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if let Some(after) = after_uuid(rest).filter(|after| !after.starts_with(is_word)) {
            label.push('*');
            rest = after;
            continue;
        }
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        push_word(&mut label, word);
        rest = after;
    }
    label
}

/// What follows a UUID at the beginning of a text.
fn after_uuid(text: &str) -> Option<&str> {
    let (uuid, after) = text.split_at_checked(36)?;
    let fits = uuid.bytes().enumerate().all(|(i, byte)| match i {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(after)
}

fn push_word(label: &mut String, word: &str) {
    let digit = |c: char| c.is_ascii_digit();
    let is_long = word.chars().count() >= 16;
    let is_hex = word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if word.chars().all(digit) || ((is_hex || is_long) && word.contains(digit)) {
        return label.push('*');
    }
    let mut rest = word;
    while let Some(at) = rest.find(digit) {
        let (before, from) = rest.split_at(at);
        let (digits, after) = from.split_at(from.find(|c| !digit(c)).unwrap_or(from.len()));
        label.push_str(before);
        label.push_str(if digits.len() >= 3 { "*" } else { digits });
        rest = after;
    }
    label.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_collapsed_and_words_stay() {
        for (lock, label) in [
            ("", ""),
            ("nightly", "nightly"),
            ("app:{tenant7}:v2", "app:{tenant7}:v2"),
            ("order:42", "order:*"),
            ("42", "*"),
            ("job-2026-11-23", "job-*-*-*"),
            ("feedface", "feedface"),
            ("feedfac1", "*"),
            ("deadbeef-cafe", "deadbeef-cafe"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "*"),
            ("user12", "user12"),
            ("user123", "user*"),
            ("x1234y567", "x*y*"),
            ("straße:é9:1234", "straße:é9:*"),
            ("ÄÖÜÄÖÜÄÖ1", "ÄÖÜÄÖÜÄÖ1"),
            ("x550e8400-e29b-41d4", "x*e*-e29b-41d4"),
        ] {
            assert_eq!(collapse_ids(lock), label, "{lock}");
        }
    }
}
