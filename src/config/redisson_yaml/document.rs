//! [`Node`]: a YAML document as a tree of texts, each with its place. Which type a text has depends
//! on the field it is for.

use std::{collections::HashMap, fmt};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use crate::error::Error;

/// Redisson's files have a depth of 5.
const MOST_DEPTH: usize = 32;

/// An alias repeats a node. This bounds what a few aliases of aliases become.
const MOST_NODES: usize = 10_000;

/// A place in the file. Both count from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    /// Of the file as a whole.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    fn of(span: Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }

    pub(super) fn order(self) -> (usize, usize) {
        (self.line, self.column)
    }

    /// The error that `why` at this place is.
    pub(super) fn error(self, why: impl fmt::Display) -> Error {
        let Self { line, column } = self;
        Error::Config(format!("Redisson's YAML, line {line}, column {column}: {why}"))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    /// Without `!` and `!<>`.
    pub(super) tag: Option<String>,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text { text: String, is_plain: bool },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) node: Node,
}

impl Node {
    /// Reads a file. An empty one is `None`.
    pub(super) fn read(text: &str) -> Result<Option<Self>, Error> {
        let mut reader =
            Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
        let mut document = None;
        loop {
            match reader.next()? {
                (Event::StreamEnd, _) => return Ok(document),
                (Event::DocumentStart(_), span) if document.is_some() => {
                    return Err(Place::of(span).error("a second document begins here"));
                }
                (Event::DocumentStart(_), _) => document = Some(reader.node(0)?),
                _ => {}
            }
        }
    }

    pub(super) fn is_null(&self) -> bool {
        let nulls = ["", "~", "null", "Null", "NULL"];
        matches!(&self.value, Value::Text { text, is_plain: true } if nulls.contains(&&**text))
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Error> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let place = error.marker();
                let place = Place { line: place.line(), column: place.col() + 1 };
                Err(place.error(format_args!("this is not YAML: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Error> {
        let (event, span) = self.next()?;
        self.node_of(event, span, depth)
    }

    fn node_of(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Error> {
        let place = Place::of(span);
        self.nodes += 1;
        if depth > MOST_DEPTH || self.nodes > MOST_NODES {
            return Err(place.error("the file is too deep or too large"));
        }
        let (anchor, tag, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                (anchor, tag, Value::Text { text: text.into_owned(), is_plain })
            }
            Event::SequenceStart(anchor, tag) => (anchor, tag, Value::List(self.list(depth)?)),
            Event::MappingStart(anchor, tag) => (anchor, tag, Value::Map(self.map(depth)?)),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| place.error("the alias has no anchor"))?;
                self.nodes += node.count();
                return Ok(node);
            }
            _ => return Err(place.error("a value is missing")),
        };
        let tag = tag.map(|tag| name_of(&tag));
        let node = Node { place, tag, value };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Error> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(list),
                (event, span) => list.push(self.node_of(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Error> {
        let mut map = Vec::new();
        loop {
            let (name, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(map),
                (Event::Scalar(name, ..), span) => (name.into_owned(), span),
                (_, span) => return Err(Place::of(span).error("a field must be a name")),
            };
            map.push(Entry { name, place: Place::of(span), node: self.node(depth + 1)? });
        }
    }
}

impl Node {
    fn count(&self) -> usize {
        1 + match &self.value {
            Value::Text { .. } => 0,
            Value::List(list) => list.iter().map(Self::count).sum(),
            Value::Map(map) => map.iter().map(|entry| entry.node.count()).sum(),
        }
    }
}

/// The class of `!<class>` and of `!!class`, which mean the same to Redisson.
fn name_of(tag: &Tag) -> String {
    let name = format!("{}{}", tag.handle, tag.suffix);
    let name = name.strip_prefix("tag:yaml.org,2002:").unwrap_or(&name);
    name.trim_start_matches('!').to_owned()
}
