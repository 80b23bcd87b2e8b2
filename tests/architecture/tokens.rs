//! Splits Rust source into tokens. Comments are dropped, and the text of strings is emptied.

/// The tokens of `source`. An identifier, a lifetime, `::`, `->` and `=>` are one token each.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if c.is_whitespace() {
            i += 1;
        } else if c == '/' && at(i + 1) == '/' {
            i = end_of(&chars, i, |i| at(i) == '\n');
        } else if c == '/' && at(i + 1) == '*' {
            i = end_of(&chars, i + 2, |i| at(i - 2) == '*' && at(i - 1) == '/');
        } else if let Some(end) = raw_string(&chars, i) {
            tokens.push("\"\"".to_owned());
            i = end;
        } else if c == '"' {
            tokens.push("\"\"".to_owned());
            i = string(&chars, i);
        } else if is_word(c) {
            let end = end_of(&chars, i, |i| !is_word(at(i)));
            tokens.push(chars[i..end].iter().collect());
            i = end;
        } else if c == '\'' {
            i = character(&chars, i);
        } else if matches!((c, at(i + 1)), (':', ':') | ('-' | '=', '>')) {
            tokens.push(chars[i..i + 2].iter().collect());
            i += 2;
        } else {
            tokens.push(c.to_string());
            i += 1;
        }
    }
    tokens
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn end_of(chars: &[char], from: usize, ends: impl Fn(usize) -> bool) -> usize {
    (from + 1..chars.len()).find(|&i| ends(i)).unwrap_or(chars.len())
}

/// Where the string that begins at `from` ends.
fn string(chars: &[char], from: usize) -> usize {
    let mut i = from + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Where the raw string (`r"`, `br#"`) that begins at `from` ends, if one does.
fn raw_string(chars: &[char], from: usize) -> Option<usize> {
    let mut i = from;
    if chars[i] == 'b' {
        i += 1;
    }
    if chars.get(i) != Some(&'r') {
        return None;
    }
    let hashes = chars[i + 1..].iter().take_while(|&&c| c == '#').count();
    let quote = i + 1 + hashes;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let closes = |at: usize| {
        chars[at] == '"'
            && chars[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    };
    let end = (quote + 1..chars.len()).find(|&at| closes(at))?;
    Some(end + 1 + hashes)
}

/// Where the character that begins at `from` ends. After a lifetime's tick, the next character.
fn character(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => {
            let close = (from + 3..chars.len()).find(|&i| chars[i] == '\'');
            close.map_or(chars.len(), |i| i + 1)
        }
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

#[test]
fn comments_strings_and_characters_hide_what_is_in_them() {
    let source = r##"a::b // c
        /* d */ "e \" f" r#"g"# '"' '\'' b'x' &'l -> h"##;
    let expected = ["a", "::", "b", "\"\"", "\"\"", "b", "&", "l", "->", "h"];
    assert_eq!(tokens(source), expected);
}
