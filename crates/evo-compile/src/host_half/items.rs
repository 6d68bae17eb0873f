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

impl SourceItem {
    pub fn is_called(&self, name: &str) -> bool {
        self.names.first().is_some_and(|own| own == name)
    }
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
    let (depths, mut items, mut at) = (depths(lines), Vec::new(), 0);
    while at < lines.tokens.len() {
        if depths[at].is_none() {
            at += 1;
        } else if let Some(next) = between(lines, at) {
            at = next;
        } else if let Some(item) = lone_macro(lines, at, macros).or_else(|| item(lines, &depths, at)) {
            at = item.tokens.end;
            items.push(item);
        } else {
            return (items, Some(at));
        }
    }
    (items, None)
}

/// How deep in brackets each token is, brackets themselves as what is around them. `None` within `#if 0`.
fn depths(lines: &SourceLines<'_>) -> Vec<Option<usize>> {
    let (mut depth, mut dead) = (0usize, 0usize);
    // Depth at the `#if` of each branch that is open: every branch starts from the same.
    let mut branches = Vec::new();
    let mut directives = lines.directives.iter().peekable();
    let of_token = |at: usize| {
        while let Some(directive) = directives.next_if(|own| own.range.start < lines.tokens[at].start) {
            match directive.word.as_str() {
                "if" | "ifdef" | "ifndef" => {
                    let text = lines.text[directive.range.clone()].trim_start_matches(['#', ' ', '\t']);
                    let never = text.split_whitespace().take(2).eq(["if", "0"]);
                    dead += usize::from(never || dead > 0);
                    branches.push(depth);
                }
                "else" | "elif" => {
                    // Only the outermost `#if 0` ends here; what is nested in it stays dead.
                    dead -= usize::from(dead == 1);
                    depth = branches.last().copied().unwrap_or(depth);
                }
                "endif" => {
                    dead = dead.saturating_sub(1);
                    branches.pop();
                }
                _ => {}
            }
        }
        if dead > 0 {
            return None;
        }
        let before = depth;
        match lines.word(at) {
            "(" | "{" => depth += 1,
            ")" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(before.min(depth))
    };
    (0..lines.tokens.len()).map(of_token).collect()
}

/// Behind what stands between declarations: braces of namespaces, lone semicolons.
fn between(lines: &SourceLines<'_>, at: usize) -> Option<usize> {
    let word = |ahead: usize| lines.word(at + ahead);
    match word(0) {
        ";" | "}" => return Some(at + 1),
        "extern" if word(1).starts_with('"') && word(2) == "{" => return Some(at + 3),
        _ if word(usize::from(word(0) == "inline")) == "namespace" => {}
        _ => return None,
    }
    let end = (at..lines.tokens.len()).find(|own| matches!(lines.word(*own), "{" | ";" | "="))?;
    (lines.word(end) == "{").then_some(end + 1)
}

fn lone_macro(lines: &SourceLines<'_>, at: usize, macros: &dyn Fn(&str) -> bool) -> Option<SourceItem> {
    let is_call = lines.is_word(at) && lines.word(at + 1) == "(" && macros(lines.word(at));
    let end = is_call.then(|| lines.closing(at + 1)).flatten()? + 1;
    // `KERNEL(name)(int n) { … }` begins a function.
    let is_alone = !matches!(lines.word(end), "(" | "{");
    is_alone.then(|| SourceItem { kind: ItemKind::Fixed, names: Vec::new(), tokens: at..end, body: end })
}

/// `None` where it does not end.
fn item(lines: &SourceLines<'_>, depths: &[Option<usize>], start: usize) -> Option<SourceItem> {
    let (mut parameters, mut assigned, mut body, mut at) = (None, false, None, start);
    while at < lines.tokens.len() {
        let before = if at > start { lines.word(at - 1) } else { "" };
        let is_function = parameters.is_some() && !assigned;
        match lines.word(at) {
            // What stands before the end of a namespace, without a semicolon.
            "}" if at > start && depths[at] < depths[start] && depths[at].is_some() => {
                return Some(SourceItem {
                    kind: ItemKind::Fixed,
                    names: Vec::new(),
                    tokens: start..at,
                    body: at,
                });
            }
            _ if depths[at] != depths[start] => {}
            "template" if lines.word(at + 1) == "<" => {
                at = past_angles(lines, at + 1);
                continue;
            }
            "(" if !ATTRIBUTES.contains(&before) => parameters = parameters.or(Some(at)),
            "=" if before != "operator" => assigned = true,
            "{" => body = body.or(Some(at)),
            ";" => return Some(named(lines, start..at + 1, body, parameters.filter(|_| !assigned))),
            "}" if is_function => return Some(named(lines, start..at + 1, body, parameters)),
            _ => {}
        }
        at += 1;
    }
    None
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

fn named(
    lines: &SourceLines<'_>,
    tokens: Range<usize>,
    body: Option<usize>,
    parameters: Option<usize>,
) -> SourceItem {
    let mut start = tokens.start;
    while lines.word(start) == "template" && lines.word(start + 1) == "<" {
        start = past_angles(lines, start + 1);
    }
    let first = lines.word(start);
    let is_using = first == "using" && lines.word(tokens.start + 1) == "namespace";
    let (kind, names) = match parameters.filter(|_| !["typedef", "using"].contains(&first)) {
        _ if is_using || first == "static_assert" => (ItemKind::Fixed, Vec::new()),
        // `void (*signal(int, void (*)(int)))(int)`: whatever it names.
        Some(open) if lines.word(open + 1) == "*" => (ItemKind::Other, words(lines, tokens.clone())),
        Some(open) => (ItemKind::Function, function_names(lines, tokens.start, open)),
        None => (ItemKind::Other, other_names(lines, start..tokens.end)),
    };
    SourceItem { kind, names, body: body.unwrap_or(tokens.end), tokens }
}

fn words(lines: &SourceLines<'_>, tokens: Range<usize>) -> Vec<String> {
    tokens.filter(|at| lines.is_word(*at)).map(|at| lines.word(at).to_string()).collect()
}

/// The name before the parameters, with the names of the namespaces or classes before it.
fn function_names(lines: &SourceLines<'_>, start: usize, parameters: usize) -> Vec<String> {
    if (start..parameters).any(|at| lines.word(at) == "operator") {
        return vec!["operator".to_string()];
    }
    let mut at = parameters;
    if at > start && lines.word(at - 1) == ">" {
        at = (start..at).rev().find(|own| lines.word(*own) == "<").unwrap_or(at);
    }
    let mut names = Vec::new();
    while at > start && lines.is_word(at - 1) {
        names.push(lines.word(at - 1).to_string());
        // `a::b(` is a's.
        if at < start + 4 || lines.word(at - 2) != ":" || lines.word(at - 3) != ":" {
            break;
        }
        at -= 3;
    }
    names
}

/// `tokens` begin behind the heads of templates.
fn other_names(lines: &SourceLines<'_>, tokens: Range<usize>) -> Vec<String> {
    // Words at the outermost level that something follows which only follows a declared name.
    let (mut depth, mut names) = (0, Vec::new());
    for at in tokens.clone() {
        match lines.word(at) {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth -= 1,
            word if depth == 0 && lines.is_word(at) => {
                if matches!(lines.word(at + 1), "=" | ";" | "," | "[" | "{" | "(") {
                    names.push(word.to_string());
                }
            }
            _ => {}
        }
    }
    let all = words(lines, tokens.clone());
    match lines.word(tokens.start) {
        "enum" => names.extend(all.iter().cloned()),
        "struct" | "class" | "union" => {
            names.extend(all[1..].iter().find(|word| !ATTRIBUTES.contains(&word.as_str())).cloned());
        }
        // An alias, or a name of another namespace.
        "using" if lines.word(tokens.start + 2) == "=" => {
            names = words(lines, tokens.start + 1..tokens.start + 2);
        }
        "using" => names = all[all.len() - 1..].to_vec(),
        "typedef" if tokens.clone().any(|at| lines.word(at) == "(") => names.extend(all.iter().cloned()),
        "typedef" => names.extend(all.last().cloned()),
        _ => {}
    }
    if names.is_empty() { all } else { names }
}
