//! Where things stand in a space file, for messages that point at them later.

use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Data};

/// The line, from 1, on which a problem has its name.
pub fn problem_line(text: &str, problem: &str) -> Option<u32> {
    let root = document::parse(text, &mut Diagnostics::default())?;
    let Data::List(items) = &root.get("problems")?.data else { return None };
    let names = items.iter().filter_map(|item| item.get("name"));
    let own = names.into_iter().find(|name| matches!(&name.data, Data::Text(own) if own == problem))?;
    let before = text.get(..own.span.start)?;
    Some(before.matches('\n').count() as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_found_by_its_name() {
        let text = "[[problems]]\nname = \"a\"\n\n[[problems]]\nsizes = { N = 1 }\nname = \"b\"\n";
        assert_eq!((problem_line(text, "a"), problem_line(text, "b")), (Some(2), Some(6)));
        assert_eq!((problem_line(text, "c"), problem_line("[", "a")), (None, None));
        assert_eq!(problem_line("{\"problems\": [\n{\"name\": \"a\"}]}", "a"), Some(2));
    }
}
