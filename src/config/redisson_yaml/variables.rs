//! Environment variables in the text of a file, as Redisson replaces them: before YAML is read.

/// Replaces `${NAME}` and `${NAME:-default}`. A name has letters, digits, `_` and `.`. A default
/// ends at the first `}`. What has neither a value nor a default stays.
pub(super) fn replaced(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        replaced.push_str(&rest[..start]);
        rest = &rest[start..];
        let found = variable(rest);
        let read = found.as_ref().map_or(2, |variable| variable.length);
        let new = found.and_then(|Variable { name, default, .. }| {
            value(name).or_else(|| default.map(str::to_owned))
        });
        replaced.push_str(new.as_deref().unwrap_or(&rest[..read]));
        rest = &rest[read..];
    }
    replaced + rest
}

/// The name of the first variable of the file's own text that was not replaced. What looks like one
/// in the value of another is none, and may be a secret.
pub(super) fn first_left<'a>(text: &'a str, file: &str) -> Option<&'a str> {
    let mut names =
        text.match_indices("${").filter_map(|(at, _)| Some(variable(&text[at..])?.name));
    names.find(|name| ["}", ":"].iter().any(|end| file.contains(&format!("${{{name}{end}"))))
}

struct Variable<'a> {
    name: &'a str,
    default: Option<&'a str>,
    length: usize,
}

/// Reads the variable at the beginning of the text, which is `${`.
fn variable(text: &str) -> Option<Variable<'_>> {
    let end = text.find('}')?;
    let inner = &text[2..end];
    let (name, default) = match inner.split_once(":-") {
        // Redisson does not take such a default.
        Some((_, default)) if default.contains(":-") => return None,
        Some((name, default)) if !default.is_empty() => (name, Some(default)),
        Some(_) => return None,
        None => (inner, None),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (!name.is_empty() && name.chars().all(is_name)).then_some(Variable {
        name,
        default,
        length: end + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> String {
        replaced(text, |name| match name {
            "SET" | "a.b_1" => Some("value".into()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${SET}".into()),
            _ => None,
        })
    }

    /// Seen with Redisson 4.7.0.
    #[test]
    fn variables_are_replaced_as_redisson_replaces_them() {
        for (text, expected) in [
            ("x: ${SET}", "x: value"),
            ("${SET}${SET} ${a.b_1}", "valuevalue value"),
            ("x: ${SET:-other}", "x: value"),
            ("x: ${UNSET:-other}", "x: other"),
            ("x: ${UNSET:-a:b}", "x: a:b"),
            ("x: ${EMPTY:-other}", "x: "),
            ("$${SET}", "$value"),
            // Values are not replaced again.
            ("${NESTED}", "${SET}"),
            // These are no variables, or have no value.
            ("${UNSET}", "${UNSET}"),
            ("${UNSET:-}", "${UNSET:-}"),
            ("${SET-x} ${SET:x} ${ SET } ${S-T}", "${SET-x} ${SET:x} ${ SET } ${S-T}"),
            ("${UNSET:-a:-b}", "${UNSET:-a:-b}"),
            ("${SET", "${SET"),
            ("${", "${"),
            ("${}", "${}"),
        ] {
            assert_eq!(with(text), expected, "{text}");
        }
    }

    #[test]
    fn a_variable_without_a_value_is_found() {
        let text = "redis://${HOST}:${PORT}";
        assert_eq!(first_left(text, text), Some("HOST"));
        assert_eq!(first_left(text, "redis://${VALUE}:${PORT}"), Some("PORT"));
        assert_eq!(first_left(text, "${VALUE}"), None);
        for text in ["", "x", "${", "${}", "${ A }", "$A", "${A-b}"] {
            assert_eq!(first_left(text, text), None, "{text}");
        }
    }
}
