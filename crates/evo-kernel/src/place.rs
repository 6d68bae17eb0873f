//! Where things stand in a space file, for messages that point at them later.

use evo_space::diagnostic::{Diagnostics, place};
use evo_space::document;

/// The line, from 1, on which a problem has its name.
pub fn problem_line(text: &str, problem: &str) -> Option<u32> {
    let root = document::parse(text, &mut Diagnostics::default())?;
    let mut names = root.get("problems")?.items()?.iter().filter(|item| item.text("name") == Some(problem));
    Some(place(text, names.next()?.get("name")?.span.start).0)
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
