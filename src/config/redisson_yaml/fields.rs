//! [`Fields`]: the fields of one section, each read as the type that Redisson gives it.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use super::{
    document::{Entry, Node, Place, Value},
    names::Section,
    variables::first_left,
};
use crate::{
    config::settings::{Limits, within},
    error::Error,
};

/// The fields of a section that have not been read yet.
pub(super) struct Fields {
    /// The file as it is written: what is not in it came from a variable.
    file: Rc<str>,
    /// The name of the section and a dot. Empty at the top level.
    path: String,
    entries: BTreeMap<String, Entry>,
}

/// A text, and where it stands.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) place: Place,
}

impl Fields {
    /// The fields of this section. Of a field that is given twice, Redisson takes the last.
    pub(super) fn of(node: Node, path: &str, file: Rc<str>) -> Result<Self, Error> {
        let Value::Map(map) = node.value else {
            let section = if path.is_empty() { "the file" } else { path.trim_end_matches('.') };
            return Err(node.place.error(format_args!("{section} must consist of fields")));
        };
        let entries = map.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        Ok(Self { file, path: path.into(), entries })
    }

    /// The fields of a section within this one.
    pub(super) fn section(&self, node: Node, path: &str) -> Result<Self, Error> {
        Self::of(node, path, self.file.clone())
    }

    /// Takes a field out. `null` is as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<Node> {
        self.entries.remove(name).map(|entry| entry.node).filter(|node| !node.is_null())
    }

    /// Where the value of a field stands.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.entries.get(name).map(|entry| entry.node.place)
    }

    /// The name of a field with that of its section.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<Text>, Error> {
        let Some(node) = self.take(name) else { return Ok(None) };
        self.text_of(node, name).map(Some)
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<Text>, Error> {
        let Some(node) = self.take(name) else { return Ok(Vec::new()) };
        let Value::List(list) = node.value else {
            return Err(self.wrong(node.place, name, "must be a list"));
        };
        list.into_iter().map(|node| self.text_of(node, name)).collect()
    }

    /// Names and their texts.
    pub(super) fn pairs(&mut self, name: &str) -> Result<Vec<(String, Text)>, Error> {
        let Some(node) = self.take(name) else { return Ok(Vec::new()) };
        let Value::Map(map) = node.value else {
            return Err(self.wrong(node.place, name, "must consist of names and values"));
        };
        let pair = |Entry { name: key, node, .. }| Ok((key, self.text_of(node, name)?));
        map.into_iter().map(pair).collect()
    }

    fn text_of(&self, node: Node, name: &str) -> Result<Text, Error> {
        let Value::Text { text, .. } = node.value else {
            return Err(self.wrong(node.place, name, "must be a text"));
        };
        if let Some(variable) = first_left(&text, &self.file) {
            let why = format!("needs the environment variable {variable}, which has no value");
            return Err(self.wrong(node.place, name, &why));
        }
        Ok(Text { text, place: node.place })
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Error> {
        let Some(Text { text, place }) = self.text(name)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(Some(true)),
            "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(self.wrong(place, name, "must be true or false")),
        }
    }

    /// A number of milliseconds, as all of Redisson's times are.
    pub(super) fn time(&mut self, name: &str, limits: Limits) -> Result<Option<Duration>, Error> {
        let Some((ms, place)) = self.whole(name)? else { return Ok(None) };
        let time = within(Duration::from_millis(ms), limits);
        time.map(Some).map_err(|why| self.wrong(place, name, &why))
    }

    /// A whole number of 0 or more, and where it stands.
    pub(super) fn whole(&mut self, name: &str) -> Result<Option<(u64, Place)>, Error> {
        let Some(node) = self.entries.remove(name).map(|entry| entry.node) else {
            return Ok(None);
        };
        let is_plain = matches!(node.value, Value::Text { is_plain: true, .. });
        let Text { text, place } = self.text_of(node, name)?;
        match whole(&text, is_plain) {
            Some(number) => Ok(Some((number, place))),
            None => Err(self.wrong(place, name, "must be a whole number, 0 or more")),
        }
    }

    /// Refuses the first field that this section does not have.
    pub(super) fn refuse_unknown(&self, section: Section) -> Result<(), Error> {
        let unknown = self.entries.values().filter(|entry| !section.has(&entry.name));
        match unknown.min_by_key(|entry| entry.place.order()) {
            None => Ok(()),
            Some(entry) => Err(self.unknown(entry, &section.hint(&entry.name))),
        }
    }

    /// Takes out what this crate has no use for, and refuses what is left: Redisson has no such
    /// field.
    pub(super) fn finish(mut self, unused: &[&str], told: &mut Vec<String>) -> Result<(), Error> {
        for name in unused {
            if self.entries.remove(*name).is_some() {
                told.push(self.named(name));
            }
        }
        match self.entries.values().min_by_key(|entry| entry.place.order()) {
            None => Ok(()),
            Some(entry) => Err(self.unknown(entry, "")),
        }
    }

    /// The error about a field that Redisson does not have.
    fn unknown(&self, Entry { name, place, .. }: &Entry, hint: &str) -> Error {
        // The rest of a value with a line break may be a secret.
        if !self.file.contains(&**name) {
            return place
                .error(format_args!("Redisson has no field {}that a variable names", self.path));
        }
        place.error(format_args!("Redisson has no field {}{name}{hint}", self.path))
    }

    /// The error about a field that is read.
    pub(super) fn wrong(&self, place: Place, name: &str, why: &str) -> Error {
        place.error(format_args!("{}{name} {why}", self.path))
    }
}

/// A whole number of YAML 1.1. Quoted, it is read as a decimal number.
fn whole(text: &str, is_plain: bool) -> Option<u64> {
    if !is_plain {
        return text.parse().ok();
    }
    let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let of = |digits, radix| u64::from_str_radix(digits, radix).ok();
    if let Some(digits) = digits.strip_prefix("0x") {
        return of(digits, 16);
    }
    if let Some(digits) = digits.strip_prefix("0b") {
        return of(digits, 2);
    }
    if digits.contains(':') {
        // Base 60: `1:30` is 90.
        return digits
            .split(':')
            .try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(of(part, 10)?));
    }
    let is_octal = digits.len() > 1 && digits.starts_with('0');
    of(&digits, if is_octal { 8 } else { 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen with Redisson 4.7.0.
    #[test]
    fn numbers_are_those_of_yaml_1_1() {
        for (text, number) in [
            ("3000", Some(3000)),
            ("3_000", Some(3000)),
            ("0", Some(0)),
            ("03000", Some(1536)),
            ("0x10", Some(16)),
            ("1:30", Some(90)),
            ("3000.0", None),
            ("PT3S", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(whole(text, true), number, "{text}");
        }
        assert_eq!(whole("3000", false), Some(3000));
        assert_eq!(whole("3_000", false), None);
    }
}
