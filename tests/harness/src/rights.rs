//! The rights of a user on a server. They are read from `docs/operations.md`, so that exactly those are tested.

use std::fs;
use std::path::Path;

use redis::{Connection, Value, cmd, from_redis_value};

/// The rules for `ACL SETUSER` that stand in this row of its table, for locks whose names begin with `name`.
///
/// # Panics
/// When there is no such row, or no rule in it.
pub fn rights(row: &str, name: &str) -> Vec<String> {
    let operations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let operations = fs::read_to_string(operations).expect("docs/operations.md");
    let rules = rules(&operations, row).unwrap_or_else(|| panic!("there is no row {row:?}"));
    assert!(!rules.is_empty(), "no rules in the row {row:?}");
    rules.into_iter().map(|rule| rule.replace("<name>", name)).collect()
}

/// Makes this user, whose password is `secret`, or changes it: it may do this and no more. Commands that the server does
/// not know are left out.
///
/// # Panics
/// When the server refuses.
pub fn set_user(server: &mut Connection, user: &str, rights: &[String]) {
    let mut known = Vec::new();
    for right in rights {
        if right.strip_prefix('+').is_none_or(|command| knows(server, first_word(command))) {
            known.push(right);
        }
    }
    let set = ["SETUSER", user, "reset", "resetchannels", "on", ">secret"];
    cmd("ACL").arg(&set).arg(known).exec(server).expect("a user");
}

/// What the server calls a command when it refuses it: Redis 6 knows no subcommands.
pub fn called<'a>(server: &mut Connection, command: &'a str) -> &'a str {
    if knows(server, command) { command } else { first_word(command) }
}

/// Whether the server has such a command.
///
/// # Panics
/// When the server does not tell.
pub fn knows(server: &mut Connection, command: &str) -> bool {
    let info: Vec<Value> =
        cmd("COMMAND").arg("INFO").arg(command).query(server).expect("what it knows");
    info.iter().any(|known| *known != Value::Nil)
}

fn first_word(command: &str) -> &str {
    command.split('|').next().unwrap_or(command)
}

/// All that stands in code and looks like a rule.
fn rules(table: &str, row: &str) -> Option<Vec<String>> {
    let start = format!("| {row} | ");
    let cell = table.lines().find_map(|line| line.strip_prefix(&start))?.replace("\\|", "|");
    let words = cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    Some(words.filter(|word| word.starts_with(['~', '&', '+'])).map(str::to_owned).collect())
}

/// What the server has refused to users since it runs: commands, keys and channels.
///
/// # Panics
/// When the server does not tell.
pub fn refused(server: &mut Connection) -> Vec<String> {
    let log: Vec<Vec<Value>> =
        cmd("ACL").arg("LOG").arg(1_000).query(server).expect("the server's ACL log");
    let object = |entry: Vec<Value>| {
        let at = entry.iter().position(|value| text(value) == "object").expect("an object") + 1;
        text(&entry[at])
    };
    log.into_iter().map(object).collect()
}

fn text(value: &Value) -> String {
    from_redis_value(value.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_in_code() {
        let table = "| a | `~x* &y +z\\|w` and `+v` if there is `Z`; see + below |\n| b | `+c` |";
        assert_eq!(rules(table, "a").unwrap(), ["~x*", "&y", "+z|w", "+v"]);
        assert_eq!(rules(table, "b").unwrap(), ["+c"]);
        assert_eq!(rules(table, "c"), None);
    }
}
