//! The mutants of a script: each has one small change, such as a developer makes by mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use super::lexer::{Sort, Token, tokens};

/// A script with one change.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    /// Such as `fair/acquire`.
    pub(crate) script: String,
    /// The line of the change, counted from 1.
    pub(crate) line: usize,
    pub(crate) change: Change,
    /// The whole script with the change.
    pub(crate) text: String,
}

/// A change by the lines it touches: it stays the same when other lines of the script change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) was: String,
    pub(crate) is: String,
    /// Of equal changes in one script: which, counted from 1.
    pub(crate) nth: usize,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { script, line, change: Change { was, is, nth }, .. } = self;
        let which = if *nth > 1 { format!(" {nth}") } else { String::new() };
        write!(f, "{script}{which}  (line {line})\n- {was}\n+ {is}")
    }
}

/// All mutants of a script.
pub(crate) fn mutants(script: &str, source: &str) -> Vec<Mutant> {
    let mut edits = Edits { tokens: tokens(source), found: Vec::new() };
    edits.collect();
    let mut texts = BTreeSet::from([source.to_owned()]);
    let mut seen = BTreeMap::new();
    let mut mutants = Vec::new();
    edits.found.sort_by_key(|(range, _)| (range.start, range.end));
    for (range, with) in edits.found {
        let text = format!("{}{with}{}", &source[..range.start], &source[range.end..]);
        if !texts.insert(text.clone()) {
            continue;
        }
        let begin = source[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = source[range.end..].find('\n').map_or(source.len(), |at| range.end + at);
        let line = source[..range.start].matches('\n').count() + 1;
        let was = words(&source[begin..end]);
        let is = words(&text[begin..text.len() - (source.len() - end)]);
        let nth = seen.entry((was.clone(), is.clone())).or_insert(0);
        *nth += 1;
        let change = Change { was, is, nth: *nth };
        mutants.push(Mutant { script: script.into(), line, change, text });
    }
    mutants
}

fn words(lines: &str) -> String {
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Edits<'s> {
    tokens: Vec<Token<'s>>,
    found: Vec<(Range<usize>, String)>,
}

impl Edits<'_> {
    fn collect(&mut self) {
        let blocks = self.blocks();
        for (at, block) in blocks.into_iter().enumerate() {
            self.swap_sign(at);
            self.shift_number(at);
            self.decide_condition(at);
            self.drop_statement(at);
            self.change_return(at, block);
        }
    }

    fn edit(&mut self, tokens: Range<usize>, with: impl Into<String>) {
        let bytes = self.tokens[tokens.start].start..self.tokens[tokens.end - 1].end();
        self.found.push((bytes, with.into()));
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    /// The keyword that opens the innermost block around each token.
    fn blocks(&self) -> Vec<Option<&'static str>> {
        let mut open = Vec::new();
        let around = self.tokens.iter().map(|token| {
            let innermost = open.last().copied();
            let opens = ["function", "if", "for", "while"].into_iter().find(|word| token.is(word));
            open.extend(opens);
            if token.is("end") {
                open.pop();
            }
            innermost
        });
        around.collect()
    }

    /// Another operator, function, constant or command in the place of this one.
    fn swap_sign(&mut self, at: usize) {
        const SWAPS: [(&str, &[&str]); 21] = [
            ("==", &["~="]),
            ("~=", &["=="]),
            ("<", &["<=", ">="]),
            ("<=", &["<", ">"]),
            (">", &[">=", "<="]),
            (">=", &[">", "<"]),
            ("and", &["or"]),
            ("or", &["and"]),
            ("not", &[""]),
            ("+", &["-"]),
            ("-", &["+"]),
            ("*", &["/"]),
            ("/", &["*"]),
            ("%", &["/"]),
            ("true", &["false"]),
            ("false", &["true"]),
            ("max", &["min"]),
            ("min", &["max"]),
            ("floor", &["ceil"]),
            ("ceil", &["floor"]),
            ("break", &[""]),
        ];
        let token = self.tokens[at];
        if token.is("-") && self.is_negative_sign(at) {
            return;
        }
        if let Some((_, others)) = SWAPS.iter().find(|(text, _)| token.is(text)) {
            for other in *others {
                self.edit(at..at + 1, *other);
            }
        }
        let texts = [("'0'", "'1'"), ("'1'", "'0'"), ("'read'", "'write'"), ("'write'", "'read'")];
        if let Some((_, other)) = texts.iter().find(|(text, _)| token.text == *text) {
            self.edit(at..at + 1, *other);
        }
        if token.is("pcall") && at > 0 && self.is(at - 1, ".") {
            self.edit(at..at + 1, "call");
        }
    }

    /// Whether the minus at this place belongs to a number.
    fn is_negative_sign(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.tokens[before]) else { return true };
        match before.sort {
            Sort::Name | Sort::Number | Sort::Text => false,
            Sort::Keyword => !before.is("end"),
            Sort::Sign => !matches!(before.text, ")" | "]" | "}"),
        }
    }

    /// One more and one less; of a large number the double.
    fn shift_number(&mut self, at: usize) {
        if self.tokens[at].sort != Sort::Number || self.is_index_of_argument(at) {
            return;
        }
        let number: i64 = self.tokens[at].text.parse().expect("no script has a fraction");
        let is_negative = at > 0 && self.is(at - 1, "-") && self.is_negative_sign(at - 1);
        let (begin, number) = if is_negative { (at - 1, -number) } else { (at, number) };
        let others =
            if number.abs() < 10 { vec![number + 1, number - 1] } else { vec![number * 2] };
        for other in others {
            self.edit(begin..at + 1, other.to_string());
        }
    }

    /// Whether it stands as in `ARGV[2]`: another argument is another word, and no small mistake.
    fn is_index_of_argument(&self, at: usize) -> bool {
        at >= 2
            && self.is(at - 1, "[")
            && self.is(at + 1, "]")
            && ["KEYS", "ARGV"].iter().any(|name| self.is(at - 2, name))
    }

    /// A condition that is always or never so.
    fn decide_condition(&mut self, at: usize) {
        let (end, decisions) = match self.tokens[at].text {
            "if" | "elseif" => ("then", &["true", "false"][..]),
            // A loop that never ends shows nothing.
            "while" => ("do", &["false"][..]),
            _ => return,
        };
        let length = self.tokens[at..].iter().position(|token| token.is(end));
        let end = at + length.expect("a condition ends");
        for decision in decisions {
            self.edit(at + 1..end, *decision);
        }
    }

    /// A call or an assignment that is not made.
    fn drop_statement(&mut self, at: usize) {
        let first = self.tokens[at];
        let begins = first.sort == Sort::Name && (at == 0 || self.tokens[at - 1].line < first.line);
        if !begins || self.is_inside(at) {
            return;
        }
        let end = self.end_of_statement(at);
        self.edit(at..end, "");
    }

    /// Whether the line goes on with what an earlier one began: a list, a condition, an expression.
    fn is_inside(&self, at: usize) -> bool {
        let (mut depth, mut is_condition) = (0, false);
        for token in &self.tokens[..at] {
            match token.text {
                _ if token.sort == Sort::Text => {}
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth -= 1,
                "if" | "elseif" | "while" => is_condition = true,
                "then" | "do" => is_condition = false,
                _ => {}
            }
        }
        let wants_more =
            at.checked_sub(1).map(|before| self.tokens[before]).is_some_and(|before| {
                let closes = matches!(before.text, ")" | "}" | "]");
                let words = ["and", "or", "not", "return", "in", "local"];
                before.sort == Sort::Sign && !closes || words.iter().any(|word| before.is(word))
            });
        depth > 0 || is_condition || wants_more
    }

    /// One past the last token of the statement that begins here: the scripts have one on a line, but for what stands in brackets.
    fn end_of_statement(&self, at: usize) -> usize {
        let mut depth = 0;
        for (n, token) in self.tokens.iter().enumerate().skip(at) {
            match token.text {
                "(" | "{" | "[" if token.sort == Sort::Sign => depth += 1,
                ")" | "}" | "]" if token.sort == Sort::Sign => depth -= 1,
                _ => {}
            }
            let goes_on = self.tokens.get(n + 1).is_some_and(|next| next.line == token.line);
            if depth == 0 && !goes_on {
                return n + 1;
            }
        }
        self.tokens.len()
    }

    /// Another value, or no return at all.
    fn change_return(&mut self, at: usize, block: Option<&str>) {
        if !self.is(at, "return") {
            return;
        }
        let end = self.end_of_statement(at);
        assert!(end > at + 1, "each return of a script has a value");
        let is_last_of_function = matches!(block, None | Some("function"));
        let value = self.tokens[at + 1..end].iter().map(|token| token.text).collect::<String>();
        let other = match value.as_str() {
            "0" => "1",
            "1" => "0",
            "nil" | "false" => "0",
            _ => "nil",
        };
        self.edit(at + 1..end, other);
        if !is_last_of_function {
            self.edit(at..end, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mutants;

    /// What the lines become.
    fn changes(source: &str) -> Vec<String> {
        mutants("script", source).into_iter().map(|mutant| mutant.change.is).collect()
    }

    #[test]
    fn an_operator_becomes_another() {
        assert_eq!(changes("local a = b <= c"), ["local a = b < c", "local a = b > c"]);
        assert_eq!(changes("local a = not b"), ["local a = b"]);
        assert_eq!(changes("local a = b - c"), ["local a = b + c"]);
    }

    #[test]
    fn a_number_is_shifted_with_its_sign() {
        assert_eq!(changes("local a = -2"), ["local a = -1", "local a = -3"]);
        assert_eq!(changes("local a = 64"), ["local a = 128"]);
        assert_eq!(changes("local a = ARGV[1]"), Vec::<String>::new());
    }

    #[test]
    fn a_condition_is_decided() {
        let source = "if a\n  and b\nthen\n  return 1\nend";
        let lines = changes(source);
        for line in ["if true", "if false", "or b"] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
    }

    #[test]
    fn a_statement_is_dropped() {
        assert_eq!(changes("redis.call(\n  'del',\n  KEYS[1]\n)\n"), [""]);
        assert_eq!(changes("local a\na, b = c, d\n"), [""]);
    }

    #[test]
    fn a_return_has_another_value_or_is_left_out() {
        assert_eq!(changes("return x"), ["return nil"]);
        let lines = changes("if a then\n  return 1\nend\nreturn 0");
        for line in ["", "return 0", "return 2", "return 1", "return -1"] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
    }

    #[test]
    fn equal_changes_are_counted() {
        let nths: Vec<_> = mutants("script", "a = b\na = b\n")
            .into_iter()
            .map(|mutant| (mutant.line, mutant.change.nth))
            .collect();
        assert_eq!(nths, [(1, 1), (2, 2)]);
    }
}
