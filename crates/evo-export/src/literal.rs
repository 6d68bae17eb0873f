//! Values and texts as literals of C++ and Python.

use evo_space::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++17, with `exact.hpp`.
    Cpp,
    /// Python 3.9, with `exact.py`.
    Python,
}

/// A value as a literal. Negative numbers stand in brackets.
pub fn value(language: Language, value: &Value) -> String {
    match value {
        Value::Bool(own) => match (language, own) {
            (Language::Cpp, own) => own.to_string(),
            (Language::Python, true) => "True".to_string(),
            (Language::Python, false) => "False".to_string(),
        },
        // C++ has no literal of its own for the least number: `-9223372036854775808` negates one that does not fit.
        Value::Int(i64::MIN) if language == Language::Cpp => "INT64_MIN".to_string(),
        Value::Int(own) if *own < 0 => format!("({own})"),
        Value::Int(own) => own.to_string(),
        // `Debug` writes the shortest text that is read back as the same number, and keeps `4.0` a float.
        Value::Float(own) if own.is_sign_negative() => format!("({own:?})"),
        Value::Float(own) => format!("{own:?}"),
        Value::Text(own) => match language {
            Language::Cpp => format!("std::string_view({}, {})", text(language, own), own.len()),
            Language::Python => text(language, own),
        },
    }
}

pub fn text(language: Language, text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // `?` could begin a trigraph.
            ' '..='~' if letter != '?' || language == Language::Python => quoted.push(letter),
            _ if language == Language::Cpp => {
                let mut bytes = [0; 4];
                let bytes = letter.encode_utf8(&mut bytes).bytes();
                bytes.for_each(|byte| quoted.push_str(&format!("\\{byte:03o}")));
            }
            _ => quoted.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_ascii_and_end_where_they_should() {
        assert_eq!(text(Language::Cpp, "a\"b\\ é?\n"), r#""a\"b\\ \303\251\077\012""#);
        assert_eq!(text(Language::Python, "a\"b\\ é?\n"), r#""a\"b\\ \U000000e9?\U0000000a""#);
        assert_eq!(value(Language::Cpp, &Value::text("a\0b")), r#"std::string_view("a\000b", 3)"#);
        assert_eq!(value(Language::Cpp, &Value::Int(i64::MIN)), "INT64_MIN");
        assert_eq!(value(Language::Python, &Value::Bool(true)), "True");
        assert_eq!(value(Language::Python, &Value::Float(4.0)), "4.0");
        assert_eq!(value(Language::Cpp, &Value::Float(-0.5)), "(-0.5)");
    }
}
