//! The modules of one file: which it declares, which paths it names, which items it defines.

use crate::tokens::is_word;

/// A path, as it is written.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings into scope.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// `*` for all names below the path.
    pub(crate) name: String,
    /// Whether other modules see the name here.
    pub(crate) exported: bool,
}

/// One module: a file, or a `mod x { ... }` within one. Unit tests within the file are left out.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) imports: Vec<Import>,
    /// Paths outside of `use`. A path of one word is a name that may have been imported.
    pub(crate) paths: Vec<Path>,
    pub(crate) defined: Vec<String>,
    /// `mod x;`
    pub(crate) files: Vec<String>,
    /// `mod x { ... }`
    pub(crate) inline: Vec<(String, Items)>,
}

const DEFINING: [&str; 9] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

impl Items {
    pub(crate) fn read(tokens: &[String]) -> Self {
        let mut items = Self::default();
        let mut i = 0;
        while i < tokens.len() {
            i = items.read_one(tokens, i);
        }
        items
    }

    /// Reads what begins at `i`, and returns where it ends.
    fn read_one(&mut self, tokens: &[String], i: usize) -> usize {
        let at = |i: usize| tokens.get(i).map_or("", String::as_str);
        let before = |n: usize| i.checked_sub(n).map_or("", |i| at(i));
        match at(i) {
            "#" if is_test_only(&tokens[i..]) => self.skip_test_only(tokens, i),
            "use" if before(1) != "." && at(i + 1) != "<" => {
                let exported = matches!(before(1), "pub" | ")");
                let end = i + tokens[i..].iter().take_while(|token| *token != ";").count();
                self.read_tree(&tokens[i + 1..end], Vec::new(), exported);
                end
            }
            "mod" if at(i + 2) == ";" => {
                self.files.push(at(i + 1).to_owned());
                i + 3
            }
            "mod" if at(i + 2) == "{" => {
                let end = block_end(tokens, i + 2);
                let within = Self::read(&tokens[i + 3..end - 1]);
                self.inline.push((at(i + 1).to_owned(), within));
                end
            }
            word if DEFINING.contains(&word) => {
                let name = if word == "macro_rules" { at(i + 2) } else { at(i + 1) };
                self.defined.push(name.to_owned());
                i + 1
            }
            word if word.starts_with(is_word) && !matches!(before(1), "." | "::") => {
                self.read_path(tokens, i)
            }
            _ => i + 1,
        }
    }

    fn read_path(&mut self, tokens: &[String], i: usize) -> usize {
        let mut path = vec![tokens[i].clone()];
        let mut end = i + 1;
        while tokens.get(end).is_some_and(|token| token == "::")
            && tokens.get(end + 1).is_some_and(|token| token.starts_with(is_word))
        {
            path.push(tokens[end + 1].clone());
            end += 2;
        }
        self.paths.push(path);
        end
    }

    /// Reads a `use` tree below `prefix`.
    fn read_tree(&mut self, tree: &[String], prefix: Path, exported: bool) {
        let mut path = prefix;
        for (i, token) in tree.iter().enumerate() {
            match token.as_str() {
                "::" => {}
                "{" => {
                    for item in split(&tree[i + 1..tree.len() - 1]) {
                        self.read_tree(item, path.clone(), exported);
                    }
                    return;
                }
                "*" => return self.imports.push(Import { path, name: "*".to_owned(), exported }),
                "as" => {
                    let name = tree[i + 1].clone();
                    return self.imports.push(Import { path, name, exported });
                }
                "self" if !path.is_empty() => {}
                _ => path.push(token.clone()),
            }
        }
        if let Some(name) = path.last().cloned() {
            self.imports.push(Import { path, name, exported });
        }
    }

    /// Skips an item under `#[cfg(test)]`. Of it only `mod x;` is kept: the file is read as one of its own.
    fn skip_test_only(&mut self, tokens: &[String], i: usize) -> usize {
        let at = |i: usize| tokens.get(i).map_or("", String::as_str);
        let mut i = i;
        while at(i) == "#" {
            i = block_end(tokens, i + 1);
        }
        if at(i) == "pub" {
            i = if at(i + 1) == "(" { block_end(tokens, i + 1) } else { i + 1 };
        }
        if at(i) == "mod" && at(i + 2) == ";" {
            self.files.push(at(i + 1).to_owned());
        }
        let is_field = at(i + 1) == ":";
        let ends_at_block = !matches!(at(i), "use" | "static" | "type");
        while i < tokens.len() {
            match at(i) {
                ";" => return i + 1,
                "," if is_field => return i + 1,
                "}" => return i,
                "{" if ends_at_block => return block_end(tokens, i),
                "{" | "(" | "[" => i = block_end(tokens, i),
                _ => i += 1,
            }
        }
        i
    }
}

fn is_test_only(tokens: &[String]) -> bool {
    tokens.len() > 7 && tokens[..7].concat() == "#[cfg(test)]"
}

/// Behind the bracket that closes the one at `open`.
fn block_end(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// The items of a group between its commas. Groups within it stay whole.
fn split(group: &[String]) -> Vec<&[String]> {
    let (mut items, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (i, token) in group.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                items.push(&group[begin..i]);
                begin = i + 1;
            }
            _ => {}
        }
    }
    items.push(&group[begin..]);
    items.retain(|item| !item.is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn read(source: &str) -> Items {
        Items::read(&tokens(source))
    }

    #[test]
    fn every_name_of_a_use_is_found() {
        let items = read("use a::{self, b::{c, d as e}, f::*}; pub(crate) use super::g;");
        let found: Vec<_> = items
            .imports
            .iter()
            .map(|import| (import.path.join("::"), import.name.as_str(), import.exported))
            .collect();
        let expected = [
            ("a", "a", false),
            ("a::b::c", "c", false),
            ("a::b::d", "e", false),
            ("a::f", "*", false),
            ("super::g", "g", true),
        ];
        assert_eq!(found, expected.map(|(path, name, own)| (path.to_owned(), name, own)));
    }

    #[test]
    fn unit_tests_are_left_out_but_their_files_are_not() {
        let items = read(
            "struct A { #[cfg(test)] b: crate::B, c: crate::C } #[cfg(test)] use crate::{d}; \
             #[cfg(test)] mod e; #[cfg(test)] mod f { use crate::g; } mod h { use crate::i; }",
        );
        let paths: Vec<_> = items.paths.iter().filter(|path| path.len() > 1).collect();
        assert_eq!(paths, [&["crate", "C"]]);
        assert!(items.imports.is_empty());
        assert_eq!(items.files, ["e"]);
        assert_eq!(items.inline.len(), 1);
    }
}
