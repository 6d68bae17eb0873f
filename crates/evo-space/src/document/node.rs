//! The tree that both formats become.

use crate::span::Span;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its bytes in the file.
    pub span: Span,
    /// What it holds.
    pub data: Data,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Data {
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer that does not fit 64 bits, as its decimal digits.
    BigInt(String),
    /// A float; TOML has infinities and NaN too.
    Float(f64),
    /// A text without its quotes, escapes resolved.
    Text(String),
    /// An array.
    List(Vec<Node>),
    /// Entries in file order; no key twice.
    Table(Vec<TableEntry>),
    /// JSON's `null`.
    Null,
}

/// One key of a table.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// The key, escapes resolved.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// What stands for it.
    pub value: Node,
}

impl Node {
    /// The entries, if this is a table.
    pub fn entries(&self) -> Option<&[TableEntry]> {
        match &self.data {
            Data::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// `an integer`, `a text`, …, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::Bool(_) => "a boolean",
            Data::Int(_) | Data::BigInt(_) => "an integer",
            Data::Float(_) => "a float",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
            Data::Null => "null",
        }
    }
}
