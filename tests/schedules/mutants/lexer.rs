//! The tokens of a Lua script. Comments are left out.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Keyword,
    Number,
    Text,
    Sign,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'s> {
    pub(super) sort: Sort,
    pub(super) text: &'s str,
    /// Where it begins, in bytes.
    pub(super) start: usize,
    /// Counted from 0.
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is this keyword or sign, or this name.
    pub(super) fn is(&self, text: &str) -> bool {
        self.sort != Sort::Text && self.text == text
    }
}

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];
const LONG_SIGNS: [&str; 6] = ["...", "..", "==", "~=", "<=", ">="];

pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 0);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (sort, length) = match first {
            '\n' => {
                line += 1;
                at += 1;
                continue;
            }
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            _ if rest.starts_with("--") => {
                assert!(!rest.starts_with("--[["), "a long comment is not expected");
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '\'' | '"' => (Sort::Text, text(rest, first)),
            '0'..='9' => {
                (Sort::Number, run(rest, |char| char.is_ascii_alphanumeric() || char == '.'))
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let length = run(rest, |char| char.is_ascii_alphanumeric() || char == '_');
                let sort =
                    if KEYWORDS.contains(&&rest[..length]) { Sort::Keyword } else { Sort::Name };
                (sort, length)
            }
            _ => {
                let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign));
                (Sort::Sign, long.map_or(first.len_utf8(), |sign| sign.len()))
            }
        };
        tokens.push(Token { sort, text: &rest[..length], start: at, line });
        at += length;
    }
    tokens
}

/// The length of what begins here and goes on in this way.
fn run(rest: &str, goes_on: impl Fn(char) -> bool) -> usize {
    rest.find(|char| !goes_on(char)).unwrap_or(rest.len())
}

/// The length of the text in quotes that begins here.
fn text(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = rest[1..].find(|char| {
        let ends = char == quote && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    });
    end.expect("a text ends on its line") + 2
}

#[cfg(test)]
mod tests {
    use super::{Sort, tokens};

    #[test]
    fn a_script_is_cut_into_tokens() {
        let source = "-- a comment\nlocal a = x[1] .. 'it\\'s' -- another\nif a ~= -2.5 then end\n";
        let found: Vec<_> =
            tokens(source).iter().map(|token| (token.sort, token.text, token.line)).collect();
        use Sort::{Keyword, Name, Number, Sign, Text};
        let first = [
            (Keyword, "local", 1),
            (Name, "a", 1),
            (Sign, "=", 1),
            (Name, "x", 1),
            (Sign, "[", 1),
            (Number, "1", 1),
            (Sign, "]", 1),
            (Sign, "..", 1),
            (Text, "'it\\'s'", 1),
        ];
        let second = [
            (Keyword, "if", 2),
            (Name, "a", 2),
            (Sign, "~=", 2),
            (Sign, "-", 2),
            (Number, "2.5", 2),
            (Keyword, "then", 2),
            (Keyword, "end", 2),
        ];
        assert_eq!(found, [&first[..], &second[..]].concat());
    }
}
