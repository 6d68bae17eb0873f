//! The command line of a mutator as words. No shell reads it: a shell would stand between evo and the program whose
//! death evo has to see.

/// Program and arguments of a command line: split at spaces, with quotes and backslashes as shells have them.
///
/// # Errors
/// The line is empty, or a quote is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("it ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a quote ({open}) is not closed"));
    }
    words.extend(word);
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err("it names no program".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let check = |line: &str, expected: &[&str]| assert_eq!(split(line).unwrap(), expected, "{line}");
        check("python3 mutate.py  --fast", &["python3", "mutate.py", "--fast"]);
        check("'a b' \"c 'd'\" e\\ f ''", &["a b", "c 'd'", "e f", ""]);
        check("x\"y z\"w '\\n'", &["xy zw", "\\n"]);
        for bad in ["", "  ", "'open", "a \"b", "a\\", "'' a"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
