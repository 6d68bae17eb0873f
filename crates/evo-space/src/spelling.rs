//! How a message about a file spells what to write: messages are written for TOML, in which most space files are, and
//! are respelled where the file is JSON.

/// Tables of a space file whose headers hints name.
const SECTIONS: &[&str] = &[
    "arguments",
    "check",
    "constraints",
    "diagnose",
    "goals",
    "kernel",
    "launches",
    "objective",
    "parameters",
    "peers",
    "problems",
];

/// Whether a text is JSON: no TOML file begins with a brace.
pub fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// A hint with `name = value`, `[section]` and `[[section]]` as JSON spells them.
pub fn as_json(hint: &str) -> String {
    // A member of an object stands inside it, not below it.
    let mut text = hint.replace("and below it", "with");
    for section in SECTIONS {
        text = text.replace(&format!("[[{section}]] table"), &format!("object in \"{section}\": […]"));
        text = text.replace(&format!("[[{section}]]"), &format!("\"{section}\": [{{…}}]"));
        text = text.replace(&format!("[{section}]"), &format!("\"{section}\": {{…}}"));
    }
    objects(&text)
}

/// A message about the kinds of values: what TOML calls a table is an object.
pub fn objects(message: &str) -> String {
    let words = [("a table", "an object"), ("tables", "objects"), ("table", "object")];
    keys(&words.iter().fold(message.to_string(), |text, (toml, json)| text.replace(toml, json)))
}

/// `name = ` becomes `"name": `, outside quoted texts.
fn keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    while let Some(at) = rest.find(" = ") {
        let (before, after) = rest.split_at(at);
        let word = before.len() - before.trim_end_matches(is_word).len();
        let (lead, name) = before.split_at(before.len() - word);
        let is_quoted = format!("{shown}{lead}").matches('"').count() % 2 == 1;
        shown.push_str(lead);
        if name.is_empty() || is_quoted {
            shown.push_str(name);
            shown.push_str(" = ");
        } else {
            shown.push_str(&format!("\"{name}\": "));
        }
        rest = &after[3..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_respelled() {
        let check = |hint: &str, expected: &str| assert_eq!(as_json(hint), expected);
        check("add [[problems]] with name and sizes", "add \"problems\": [{…}] with name and sizes");
        check("add an [[arguments]] table for each", "add an object in \"arguments\": […] for each");
        check("add [check] with reference = …: why", "add \"check\": {…} with \"reference\": …: why");
        check("add sizes = { N = 1024 }", "add \"sizes\": { \"N\": 1024 }");
        check("write `[parameters]` and below it `A = [1]`", "write `\"parameters\": {…}` with `\"A\": [1]`");
        check("write `require = \"A = B\"`", "write `\"require\": \"A = B\"`");
        check("a single value is a list too: `[4]`", "a single value is a list too: `[4]`");
        assert_eq!(
            objects("it is a table, expected a list of tables"),
            "it is an object, expected a list of objects"
        );
    }

    #[test]
    fn a_brace_tells_json_from_toml() {
        assert!(is_json("\u{feff} \n{\"a\": 1}"));
        assert!(!is_json("a = { b = 1 }"));
    }
}
