//! Names of entry points as people write them: `scale`, `ns::scale<float, 4>`, `scale(float*, int)`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryName<'a> {
    /// With namespaces and template arguments, as C++ text.
    pub function: &'a str,
    /// The types of the parameters, which choose among overloads; `None` where the name says none.
    pub parameters: Option<&'a str>,
}

impl<'a> EntryName<'a> {
    /// Reads a name; nothing if it could not be one. It is pasted into C++ text, so nothing passes that could end the
    /// expression around it.
    pub fn parse(text: &'a str) -> Option<EntryName<'a>> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_:<>, *&()+-".contains(c);
        let starts = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':');
        if !text.starts_with(starts) || !text.chars().all(allowed) || !is_balanced(text) {
            return None;
        }
        let open = text.ends_with(')').then(|| last_group(text)).flatten();
        let (function, parameters) = match open {
            Some(open) => (text[..open].trim_end(), Some(text[open + 1..text.len() - 1].trim())),
            None => (text, None),
        };
        let behind = function.split('<').next().unwrap_or(function).trim_end();
        let named = behind.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
        let whole = behind.len() == function.len() || function.ends_with('>');
        (named && whole && !base(text).is_empty()).then_some(EntryName { function, parameters })
    }

    pub fn expression(&self) -> String {
        match self.parameters {
            Some(parameters) => format!("static_cast<void (*)({parameters})>(&{})", self.function),
            None => format!("&{}", self.function),
        }
    }

    pub fn is_qualified(&self) -> bool {
        self.parameters.is_some() || self.function.contains([':', '<'])
    }
}

/// The plain name in an entry's or a function's name: `ns::scale<float, 4>` and `void scale(int)` give `scale`.
pub fn base(name: &str) -> &str {
    let name = name.split(['<', '(']).next().unwrap_or(name).trim();
    name.rsplit([' ', ':']).next().unwrap_or(name)
}

/// Where the parenthesis opens that the text ends with.
fn last_group(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().rev().find_map(|(at, letter)| {
        match letter {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Whether every bracket that opens closes, in order. Angle brackets in parentheses may be signs of comparison.
fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    for letter in text.chars() {
        let matches = match letter {
            '(' | '<' if letter == '(' || open.last() != Some(&'(') => {
                open.push(letter);
                true
            }
            ')' => open.pop() == Some('('),
            '>' if open.last() == Some(&'<') => open.pop().is_some(),
            '>' => open.last() == Some(&'('),
            _ => true,
        };
        if !matches {
            return false;
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_their_parts_and_what_could_end_an_expression_is_none() {
        let names = "scale|a::b::f<float, 2 * N>|h(float*, int)|f<4>(const float *)|f<(N > 4)>|h()";
        let others = "|4f|f; x|f\"|f<4|f)|f(int|f>|f g|f(int) x|f{}|<f>|()|f<4> g";
        let told = names.split('|').chain(others.split('|')).map(|text| {
            let name = EntryName::parse(text);
            format!("{text}: {name:?} {:?}", name.map(|name| name.expression()))
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
        let plain = ["a::b::f<c::d>", "h(std::size_t)", "k", "void ns::k<4, float>(float *)", ""].map(base);
        assert_eq!(plain, ["f", "h", "k", "k", ""]);
    }
}
