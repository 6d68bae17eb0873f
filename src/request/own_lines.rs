//! A compiler's errors at the candidate's own lines. A rendered template has other lines than the template, and a log
//! names files of this machine that are none of the candidate's author's business.

use evo_protocol::binary::HEADER_END;

/// What a candidate's own file is called in a compiler's log.
const OWN_NAME: &str = "candidate.cu";
/// Errors that are told: the first ones cause the others.
const TOLD: usize = 3;
/// Letters of an error's text.
const TEXT_MAX: usize = 400;

/// A candidate's text as it came and as the compiler got it.
#[derive(Clone, Copy, Debug)]
pub struct CandidateText<'a> {
    pub own: &'a str,
    /// With evo's header.
    pub rendered: &'a str,
    /// Whether `own` is a template, whose lines are not those of `rendered`.
    pub is_template: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerHint {
    /// From 1, in the candidate's own text; absent where it cannot be told.
    pub line: Option<usize>,
    /// Without paths.
    pub text: String,
}

/// The first errors of a log that lie in the candidate's own text.
pub fn errors(log: &str, text: Option<CandidateText<'_>>) -> Vec<CompilerHint> {
    let mut found: Vec<CompilerHint> = Vec::new();
    for (line, message) in log.lines().filter_map(own_error) {
        let line = match text {
            Some(text) if text.is_template => {
                let (body, before) = body(text.rendered);
                template_line(body, text.own, line.saturating_sub(before))
            }
            _ => Some(line),
        };
        let hint = CompilerHint { line, text: without_paths(message).chars().take(TEXT_MAX).collect() };
        if !found.contains(&hint) {
            found.push(hint);
        }
        if found.len() == TOLD {
            break;
        }
    }
    found
}

/// Line and text of an error in the candidate's own file: `candidate.cu:3:5: error: …` or `candidate.cu(3): error: …`.
fn own_error(line: &str) -> Option<(usize, &str)> {
    let at = line.find(OWN_NAME)?;
    let rest = &line[at + OWN_NAME.len()..];
    let digits = rest.trim_start_matches([':', '(']);
    let end = digits.find(|letter: char| !letter.is_ascii_digit())?;
    let number = digits[..end].parse().ok()?;
    let message = digits[end..].find("error").map(|from| &digits[end + from..])?;
    Some((number, message.trim()))
}

/// The part of a rendered source that is the candidate's, and how many lines the compiler counts before it.
fn body(rendered: &str) -> (&str, usize) {
    let own = rendered.split_once(HEADER_END).map_or(rendered, |(_, own)| own);
    let Some((first, rest)) = own.split_once('\n').filter(|(first, _)| first.starts_with("#line ")) else {
        return (own, rendered[..rendered.len() - own.len()].matches('\n').count());
    };
    let number = first.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok());
    (rest, number.unwrap_or(1).saturating_sub(1))
}

/// The line of a template that became line `number` of what was rendered: the line of the same text, else the one that
/// stands as far behind such a line. `None` where no line of the template survived before it.
fn template_line(rendered: &str, template: &str, number: usize) -> Option<usize> {
    let rendered: Vec<&str> = rendered.lines().collect();
    let template: Vec<&str> = template.lines().collect();
    let same = |at: usize| {
        let text = rendered.get(at)?;
        let mut places = (0..template.len()).filter(|own| template[*own] == *text);
        let first = places.next()?;
        // A text that stands more than once is told apart by order, where no copy was added or left out.
        let others: Vec<usize> = std::iter::once(first).chain(places).collect();
        let copies: Vec<usize> = (0..rendered.len()).filter(|own| rendered[*own] == *text).collect();
        let nth = copies.iter().position(|own| *own == at)?;
        (copies.len() == others.len() && !text.trim().is_empty()).then(|| others[nth])
    };
    let at = number.checked_sub(1)?;
    (0..=at.min(rendered.len())).rev().find_map(|before| {
        let line = same(before)? + (at - before);
        Some(line.min(template.len().saturating_sub(1)) + 1)
    })
}

/// A text in which every path of several parts is cut to its last part.
pub fn without_paths(text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || "._-+~/".contains(letter);
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('/') {
        let start = rest[..at]
            .rfind(|letter: char| !is_part(letter))
            .map_or(0, |before| before + rest[before..].chars().next().map_or(1, char::len_utf8));
        let end = rest[at..].find(|letter: char| !is_part(letter)).map_or(rest.len(), |end| at + end);
        let path = &rest[start..end];
        out += &rest[..start];
        // `a / b` and `//` are not paths.
        let is_path = path.len() > 2 && (path.starts_with(['/', '.', '~']) || path.matches('/').count() > 1);
        out += if is_path { path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("") } else { path };
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_lie_at_the_lines_of_the_candidate() {
        let log = "In file included from b.h:3:\ncandidate.cu:4:7: error: 'foo' was not declared in ./y/k.h\n\
                   candidate.cu(9): error: expected a \";\"\nother.cu:1:1: error: no\ncandidate.cu:12: note: here\n";
        let told = errors(log, None);
        let expected =
            [(Some(4), "error: 'foo' was not declared in k.h"), (Some(9), "error: expected a \";\"")];
        let told: Vec<_> = told.iter().map(|one| (one.line, one.text.as_str())).collect();
        assert_eq!(told, expected);
        assert_eq!(errors("nothing", None), []);
    }

    #[test]
    fn lines_of_a_template_are_found_again() {
        let template = "<% for i in range(3) %>\na<{ i }> = 1;\n<% endfor %>\nint x;\nbad <{ N }>;\nend\n";
        let rendered = "\na0 = 1;\n\na1 = 1;\n\na2 = 1;\n\nint x;\nbad 7;\nend\n";
        assert_eq!(template_line(rendered, template, 8), Some(4));
        assert_eq!(template_line(rendered, template, 9), Some(5), "the line behind one that is known");
        assert_eq!(template_line(rendered, template, 10), Some(6));
        assert_eq!(template_line(rendered, template, 2), None, "nothing before it survived");
    }

    #[test]
    fn paths_lose_their_folders() {
        let check = |text: &str, expected: &str| assert_eq!(without_paths(text), expected);
        check("in ./include/x.h:3 and ../a/b.cu.", "in x.h:3 and b.cu.");
        check("a / b, // c, 1/2", "a / b, // c, 1/2");
        check("a/b/c é/ü/z", "c z");
    }
}
