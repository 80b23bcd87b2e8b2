//! Patterns of names, as KEYS and PSUBSCRIBE have them.

/// Whether the name matches the pattern: `*`, `?`, `[abc]`, `[^a-z]`, and `\` before a character that means itself.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], name) => name.is_empty(),
        ([b'*', rest @ ..], name) => (0..=name.len()).any(|n| matches(rest, &name[n..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, after @ ..]) => matches(rest, after),
        ([b'\\', literal, rest @ ..], [first, after @ ..]) => {
            literal == first && matches(rest, after)
        }
        ([b'[', rest @ ..], [first, after @ ..]) => {
            let (is_in, rest) = class(rest, *first);
            is_in && matches(rest, after)
        }
        ([literal, rest @ ..], [first, after @ ..]) => literal == first && matches(rest, after),
    }
}

/// Whether the byte is in the class that begins here, and what stands behind the class.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (not, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', literal, after @ ..] => {
                is_in |= *literal == byte;
                after
            }
            [one, b'-', other, after @ ..] => {
                is_in |= (*one.min(other)..=*one.max(other)).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                is_in |= *literal == byte;
                after
            }
        };
    }
    (is_in != not, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let is_match = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in [
            ("*", ""),
            ("*", "lock"),
            ("lock*", "lock:1"),
            ("*:1", "lock:1"),
            ("l?ck", "lock"),
            ("l[aeiou]ck", "lock"),
            ("l[a-z]ck", "lock"),
            ("l[^xyz]ck", "lock"),
            (r"\{lock\}*", "{lock}:a"),
            (r"a\*", "a*"),
        ] {
            assert!(is_match(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "lock"), ("lock", "locks"), ("l?ck", "lck"), ("l[^o]ck", "lock"), (r"a\*", "ab")]
        {
            assert!(!is_match(pattern, name), "{pattern} {name}");
        }
    }
}
