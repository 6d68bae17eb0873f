//! The declarations of a source at file scope, with what they name.

use std::ops::Range;

use crate::lines::SourceLines;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Function,
    Other,
    /// What stays in any case: `using namespace`, `static_assert`, a macro that stands alone.
    Fixed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SourceItem {
    pub kind: ItemKind,
    /// What others call it by.
    pub names: Vec<String>,
    pub tokens: Range<usize>,
    pub body: usize,
}

/// Words whose parentheses are not a function's parameters.
const ATTRIBUTES: [&str; 10] = [
    "__attribute__",
    "__launch_bounds__",
    "__align__",
    "__builtin_align__",
    "__declspec",
    "__cluster_dims__",
    "__maxnreg__",
    "alignas",
    "decltype",
    "noexcept",
];

/// `macros` tells whether a name is a macro that takes arguments. The second answer is the first token of a
/// declaration that does not end.
pub fn read(lines: &SourceLines<'_>, macros: &dyn Fn(&str) -> bool) -> (Vec<SourceItem>, Option<usize>) {
    let mut reader = ItemReader {
        lines,
        macros,
        items: Vec::new(),
        open: None,
        braces: 0,
        parens: 0,
        branches: Vec::new(),
        directive: 0,
        dead: 0,
    };
    let mut at = 0;
    while at < lines.tokens.len() {
        at = reader.step(at);
    }
    (reader.items, reader.open.map(|open| open.start))
}

struct ItemReader<'a> {
    lines: &'a SourceLines<'a>,
    macros: &'a dyn Fn(&str) -> bool,
    items: Vec<SourceItem>,
    open: Option<OpenItem>,
    braces: usize,
    parens: usize,
    /// Depths at the `#if` of each branch that is open: every branch starts from the same.
    branches: Vec<(usize, usize)>,
    directive: usize,
    /// How deep in `#if 0` this is.
    dead: usize,
}

struct OpenItem {
    start: usize,
    parameters: Option<usize>,
    assigned: bool,
    body: Option<usize>,
}

impl ItemReader<'_> {
    /// The answer is the next token to read.
    fn step(&mut self, at: usize) -> usize {
        self.directives(self.lines.tokens[at].start);
        if self.dead > 0 {
            return at + 1;
        }
        let word = self.lines.word(at);
        if self.open.is_none() {
            if let Some(next) = self.begins(at, word) {
                return next;
            }
            self.open = Some(OpenItem { start: at, parameters: None, assigned: false, body: None });
            (self.braces, self.parens) = (0, 0);
        }
        self.inside(at, word)
    }

    fn directives(&mut self, byte: usize) {
        while let Some(own) = self.lines.directives.get(self.directive).filter(|own| own.range.start < byte) {
            self.directive += 1;
            match own.word.as_str() {
                "if" | "ifdef" | "ifndef" => {
                    let text = self.lines.text[own.range.clone()].trim_start_matches(['#', ' ', '\t']);
                    let never = text.split_whitespace().take(2).eq(["if", "0"]);
                    self.dead += usize::from(never || self.dead > 0);
                    self.branches.push((self.braces, self.parens));
                }
                "else" | "elif" => {
                    // Only the outermost `#if 0` ends here; what is nested in it stays dead.
                    self.dead -= usize::from(self.dead == 1);
                    if let Some((braces, parens)) = self.branches.last() {
                        (self.braces, self.parens) = (*braces, *parens);
                    }
                }
                "endif" => {
                    self.dead = self.dead.saturating_sub(1);
                    self.branches.pop();
                }
                _ => {}
            }
        }
    }

    /// What stands between declarations: braces of namespaces, lone semicolons, macros that stand alone.
    fn begins(&mut self, at: usize, word: &str) -> Option<usize> {
        let next = |ahead: usize| self.lines.word(at + ahead);
        if matches!(word, ";" | "}") {
            return Some(at + 1);
        }
        if word == "extern" && next(1).starts_with('"') && next(2) == "{" {
            return Some(at + 3);
        }
        let named = usize::from(word == "inline");
        if next(named) == "namespace" || word == "namespace" {
            let open =
                (at..self.lines.tokens.len()).find(|own| matches!(self.lines.word(*own), "{" | ";" | "="))?;
            return (self.lines.word(open) == "{").then_some(open + 1);
        }
        if self.lines.is_word(at) && next(1) == "(" && (self.macros)(word) {
            let end = self.lines.closing(at + 1)? + 1;
            // `KERNEL(name)(int n) { … }` begins a function.
            if matches!(self.lines.word(end), "(" | "{") {
                return None;
            }
            self.items.push(SourceItem {
                kind: ItemKind::Fixed,
                names: Vec::new(),
                tokens: at..end,
                body: end,
            });
            return Some(end);
        }
        None
    }

    fn inside(&mut self, at: usize, word: &str) -> usize {
        let Some(open) = &mut self.open else { return at + 1 };
        let outside = self.braces == 0 && self.parens == 0;
        match word {
            "template" if outside && self.lines.word(at + 1) == "<" => {
                return past_angles(self.lines, at + 1);
            }
            "(" => {
                let before = at.checked_sub(1).filter(|own| *own >= open.start);
                let before = before.map_or("", |own| self.lines.word(own));
                if outside && open.parameters.is_none() && !ATTRIBUTES.contains(&before) {
                    open.parameters = Some(at);
                }
                self.parens += 1;
            }
            ")" => self.parens = self.parens.saturating_sub(1),
            "=" if outside && self.lines.word(at.wrapping_sub(1)) != "operator" => open.assigned = true,
            "{" => {
                if outside && open.body.is_none() {
                    open.body = Some(at);
                }
                self.braces += 1;
            }
            "}" => {
                self.braces = self.braces.saturating_sub(1);
                let is_function = open.parameters.is_some() && !open.assigned;
                if self.braces == 0 && self.parens == 0 && is_function {
                    self.finish(at + 1);
                }
            }
            ";" if outside => self.finish(at + 1),
            _ => {}
        }
        at + 1
    }

    fn finish(&mut self, end: usize) {
        let Some(open) = self.open.take() else { return };
        let own = ItemNames { lines: self.lines, start: open.start, end };
        let body = open.body.unwrap_or(end);
        let first = self.lines.word(own.behind_template());
        let function = open.parameters.filter(|_| !open.assigned && first != "typedef" && first != "using");
        let (kind, names) = match function {
            _ if first == "static_assert" => (ItemKind::Fixed, Vec::new()),
            _ if first == "using" && self.lines.word(open.start + 1) == "namespace" => {
                (ItemKind::Fixed, Vec::new())
            }
            // `void (*signal(int, void (*)(int)))(int)`: whatever it names.
            Some(parameters) if self.lines.word(parameters + 1) == "*" => (ItemKind::Other, own.of_all()),
            Some(parameters) => (ItemKind::Function, own.of_function(parameters)),
            None => (ItemKind::Other, own.of_others()),
        };
        self.items.push(SourceItem { kind, names, tokens: open.start..end, body });
    }
}

fn past_angles(lines: &SourceLines<'_>, open: usize) -> usize {
    let (mut depth, mut parens) = (0, 0);
    for at in open..lines.tokens.len() {
        match lines.word(at) {
            "(" => parens += 1,
            ")" => parens -= 1,
            "<" if parens == 0 => depth += 1,
            ">" if parens == 0 => depth -= 1,
            // Angle brackets that are signs of comparison.
            ";" | "{" => return open + 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    open + 1
}

struct ItemNames<'a> {
    lines: &'a SourceLines<'a>,
    start: usize,
    end: usize,
}

impl ItemNames<'_> {
    fn behind_template(&self) -> usize {
        let mut at = self.start;
        while self.lines.word(at) == "template" && self.lines.word(at + 1) == "<" {
            at = past_angles(self.lines, at + 1);
        }
        at
    }

    fn of_all(&self) -> Vec<String> {
        let words = (self.start..self.end).filter(|at| self.lines.is_word(*at));
        words.map(|at| self.lines.word(at).to_string()).collect()
    }

    /// The name before the parameters, with the names of the namespaces or classes before it.
    fn of_function(&self, parameters: usize) -> Vec<String> {
        if (self.start..parameters).any(|at| self.lines.word(at) == "operator") {
            return vec!["operator".to_string()];
        }
        let mut at = parameters;
        if at > self.start && self.lines.word(at - 1) == ">" {
            at = (self.start..at).rev().find(|own| self.lines.word(*own) == "<").unwrap_or(at);
        }
        let mut names = Vec::new();
        while at > self.start && self.lines.is_word(at - 1) {
            names.push(self.lines.word(at - 1).to_string());
            // `a::b(` is a's.
            if at < self.start + 4 || self.lines.word(at - 2) != ":" || self.lines.word(at - 3) != ":" {
                break;
            }
            at -= 3;
        }
        names
    }

    fn of_others(&self) -> Vec<String> {
        let start = self.behind_template();
        let words = |range: Range<usize>| {
            range.filter(|at| self.lines.is_word(*at)).map(|at| self.lines.word(at).to_string())
        };
        let mut names: Vec<String> = self.declared(start);
        match self.lines.word(start) {
            "enum" => names.extend(words(start..self.end)),
            "struct" | "class" | "union" => {
                let is_name =
                    |at: &usize| self.lines.is_word(*at) && !ATTRIBUTES.contains(&self.lines.word(*at));
                names.extend((start + 1..self.end).find(is_name).map(|at| self.lines.word(at).to_string()));
            }
            // An alias, or a name of another namespace.
            "using" if self.lines.word(start + 2) == "=" => names = words(start + 1..start + 2).collect(),
            "using" => names = words(start..self.end).next_back().into_iter().collect(),
            "typedef" if (start..self.end).any(|at| self.lines.word(at) == "(") => {
                names.extend(words(start..self.end));
            }
            "typedef" => names.extend(words(start..self.end).next_back()),
            _ => {}
        }
        if names.is_empty() {
            names.extend(words(start..self.end));
        }
        names
    }

    /// Words at the outermost level that something follows which only follows a declared name.
    fn declared(&self, start: usize) -> Vec<String> {
        let (mut depth, mut names) = (0, Vec::new());
        for at in start..self.end {
            match self.lines.word(at) {
                "(" | "{" | "[" => depth += 1,
                ")" | "}" | "]" => depth -= 1,
                word if depth == 0 && self.lines.is_word(at) => {
                    if matches!(self.lines.word(at + 1), "=" | ";" | "," | "[" | "{" | "(") {
                        names.push(word.to_string());
                    }
                }
                _ => {}
            }
        }
        names
    }
}
