//! Refusing sources that make the compiler read files of this machine.
//!
//! A generated kernel that includes `/etc/passwd` would show it in its error log, and one that includes
//! `../../harness.h` could learn what it is tested with. A reading of a text can be deceived, so what a C++ compiler
//! opens in the end is checked as well (`opened`), and what NVRTC can open is limited (`confined`). Compiler options
//! are trusted: the author of the space file writes them.

use std::collections::HashSet;

use evo_protocol::verdict::{Verdict, VerdictKind};

use super::preprocessor::{Piece, QUESTIONS, readings};

/// Refuses files by absolute path, by a path that climbs, by a computed name, and in other ways (`static_reject` with
/// the cause `include`). `own` is the name of the source's own file, of which its lines may claim to be.
pub fn check(text: &str, own: &str) -> Result<(), Box<Verdict>> {
    match readings(text).iter().find_map(|pieces| fault(pieces, own)) {
        Some(what) => Err(refusal(&what)),
        None => Ok(()),
    }
}

pub fn refusal(what: &str) -> Box<Verdict> {
    let verdict = Verdict::new(VerdictKind::StaticReject, format!("the source {what}, which is not allowed"));
    Box::new(verdict.with_cause("include"))
}

fn fault(pieces: &[Piece], own: &str) -> Option<String> {
    let signs = |text: &str| text.chars().map(Piece::Sign).collect::<Vec<Piece>>();
    let pastes = ["##", "%:%:"].iter().any(|sign| pieces.windows(sign.len()).any(|run| run == signs(sign)));
    let makers = if pastes { name_makers(pieces) } else { HashSet::new() };
    let says = |wanted: &str| {
        let in_piece = |piece: &Piece| match piece {
            Piece::Name(name) => name == wanted,
            Piece::Text(text, true) => text.contains(wanted),
            _ => false,
        };
        pieces.iter().any(in_piece)
    };
    for line in pieces.split(|piece| *piece == Piece::Line) {
        let found = match line {
            [Piece::Directive, Piece::Name(word), rest @ ..] => directive(word, rest, &makers, own),
            // A marker of a line that a preprocessor left behind.
            [Piece::Directive, Piece::Sign(_), rest @ ..] => other_file(rest, own),
            [Piece::Name(word), Piece::Sign('<') | Piece::Text(_, true), ..] if word == "import" => {
                Some("imports a header".to_string())
            }
            [Piece::Name(first), Piece::Name(word), Piece::Sign('<') | Piece::Text(_, true), ..]
                if first == "export" && word == "import" =>
            {
                Some("imports a header".to_string())
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    let dependent = ["dependency", "pch_preprocess"].iter().find(|word| says("_Pragma") && says(word));
    let pragma = dependent.map(|word| format!("uses the pragma `{word}`"));
    questions(pieces).or(pragma).or_else(|| assembler(pieces))
}

fn directive(word: &str, rest: &[Piece], makers: &HashSet<&str>, own: &str) -> Option<String> {
    match word {
        "include" | "include_next" | "import" | "embed" => match rest {
            [Piece::File { name, .. }, ..] => is_foreign(name).then(|| format!("includes `{name}`")),
            // A macro can expand to any path, so its name proves nothing.
            _ => Some(format!("includes the computed name `{}`", shown(rest))),
        },
        // Compilers quote the lines of the file that is named here.
        "line" => other_file(rest, own),
        "pragma" => {
            let words = ["dependency", "pch_preprocess", "include_alias", "module"];
            let named = |piece: &Piece| match piece {
                Piece::Name(name) => words.iter().find(|word| *word == name).copied(),
                Piece::Text(text, _) => words.iter().find(|word| text.contains(**word)).copied(),
                _ => None,
            };
            rest.iter().find_map(named).map(|word| format!("uses the pragma `{word}`"))
        }
        "if" | "elif" => {
            let made = |piece: &Piece| match piece {
                Piece::Name(name) => makers.get(name.as_str()).copied(),
                _ => None,
            };
            rest.iter()
                .find_map(made)
                .map(|name| format!("decides by `{name}`, a macro that may paste a name together"))
        }
        _ => None,
    }
}

fn other_file(rest: &[Piece], own: &str) -> Option<String> {
    let file = |piece: &Piece| match piece {
        Piece::Text(name, _) if is_own(name, own) => None,
        Piece::Text(name, _) | Piece::File { name, .. } => {
            Some(format!("claims that its lines are of `{name}`"))
        }
        Piece::Name(name) => Some(format!("computes the lines that it claims, with `{name}`")),
        _ => None,
    };
    rest.iter().find_map(file)
}

/// Rendering writes what a text in quotes cannot hold as `_`.
fn is_own(name: &str, own: &str) -> bool {
    own.chars()
        .map(|letter| if letter.is_control() || "\\\"".contains(letter) { '_' } else { letter })
        .eq(name.chars())
}

/// The macros of a source that are made of others or of arguments: where names are pasted together, those may be
/// `__has_include`.
fn name_makers(pieces: &[Piece]) -> HashSet<&str> {
    pieces
        .split(|piece| *piece == Piece::Line)
        .filter_map(|line| match line {
            [Piece::Directive, Piece::Name(word), Piece::Name(name), rest @ ..] if word == "define" => {
                let names = rest.iter().any(|piece| matches!(piece, Piece::Name(_)));
                (names && rest.contains(&Piece::Sign('('))).then_some(name.as_str())
            }
            _ => None,
        })
        .collect()
}

fn questions(pieces: &[Piece]) -> Option<String> {
    let asks = |piece: &Piece| matches!(piece, Piece::Name(name) if QUESTIONS.contains(&name.as_str()));
    for (at, _) in pieces.iter().enumerate().filter(|(_, piece)| asks(piece)) {
        // `#ifdef __has_include` and `defined(__has_include)` ask for no file.
        let before = &pieces[at.saturating_sub(2)..at];
        let tests = |piece: &Piece| matches!(piece, Piece::Name(name) if ["defined", "ifdef", "ifndef"].contains(&name.as_str()));
        match &pieces[at + 1..] {
            [Piece::Sign('('), Piece::File { name, .. }, ..] | [Piece::File { name, .. }, ..] => {
                if is_foreign(name) {
                    return Some(format!("asks for `{name}`"));
                }
            }
            _ if before.iter().any(tests) => {}
            rest => {
                return Some(format!("asks for the computed name `{}`", shown(&rest[..rest.len().min(4)])));
            }
        }
    }
    None
}

/// What the assembler reads files by, in texts that follow each other as one, or as names that a macro could quote.
fn assembler(pieces: &[Piece]) -> Option<String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(more, true) => text.push_str(more),
            Piece::Line => {}
            Piece::Name(name) if name == "incbin" => {
                return Some("uses the assembler's `.incbin`".to_string());
            }
            _ => text.clear(),
        }
        for directive in [".incbin", ".include"] {
            if names_file(&text, directive) {
                return Some(format!("uses the assembler's `{directive}`"));
            }
        }
        // A directive and its operand are near each other; all of a long text need not be searched again.
        if text.len() > 4096 {
            let mut cut = text.len() - 1024;
            while !text.is_char_boundary(cut) {
                cut += 1;
            }
            text.drain(..cut);
        }
    }
    None
}

/// Whether the directive is followed by a file's name; `.incbin` has no other meaning.
fn names_file(text: &str, directive: &str) -> bool {
    let followed = |rest: &str| rest.trim_start().starts_with(['"', '\\', '\'']);
    let mut places = text.match_indices(directive);
    places.any(|(at, _)| directive == ".incbin" || followed(&text[at + directive.len()..]))
}

fn is_foreign(name: &str) -> bool {
    name.starts_with(['/', '~']) || name.contains('\\') || name.split('/').any(|part| part.trim() == "..")
}

fn shown(pieces: &[Piece]) -> String {
    let show = |piece: &Piece| match piece {
        Piece::Name(text) | Piece::Text(text, _) | Piece::File { name: text, .. } => text.clone(),
        Piece::Sign(sign) => sign.to_string(),
        Piece::Line | Piece::Directive => String::new(),
    };
    pieces.iter().take_while(|piece| **piece != Piece::Line).map(show).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(text: &str, expected: Option<&str>) {
        let message = check(text, "own.cu").err().map(|verdict| {
            assert_eq!(verdict.label(), "static_reject:include");
            verdict.message
        });
        let expected = expected.map(|what| format!("the source {what}, which is not allowed"));
        assert_eq!(message, expected, "{text}");
    }

    #[test]
    fn library_headers_pass_and_files_do_not() {
        check_one("#include <cuda_fp16.h>\n#include \"crt/mma.h\"\nint x; // #include \"/etc/passwd\"", None);
        check_one("/* \n#include \"/etc/passwd\"\n*/", None);
        check_one("const char* s = \"/* \"; // */\n#include <cuda_bf16.h>", None);
        check_one("#include \"/etc/passwd\"", Some("includes `/etc/passwd`"));
        check_one("  # include </etc/shadow>", Some("includes `/etc/shadow`"));
        check_one("#inc\\\nlude \"../x.h\"", Some("includes `../x.h`"));
        check_one("/* a */ #/**/include/**/\"a/../b.h\"", Some("includes `a/../b.h`"));
        check_one("%:include \"/x\"", Some("includes `/x`"));
        check_one("#define F \"/x\"\n#include F", Some("includes the computed name `F`"));
        check_one("asm(\".incbin \\\"/etc/passwd\\\"\");", Some("uses the assembler's `.incbin`"));
        check_one("struct { int include; } a; a.include = 1;", None);
    }

    const PASSWD: Option<&str> = Some("includes `/etc/passwd`");

    #[test]
    fn nothing_that_only_looks_like_a_comment_hides_a_directive() {
        let include = "#include \"/etc/passwd\"\n";
        // A raw string that ends later than its first quote, and one whose mark is needed to end it.
        check_one(&format!("auto s = R\"x(\" /* )x\";\n{include}// */"), PASSWD);
        check_one(&format!("auto s = R\"(/*)\";\n{include}/* */"), PASSWD);
        check_one(&format!("auto s = u8R\"a()\" /*)a\";\n{include}/* */"), PASSWD);
        // A quote as a character opens no text.
        check_one(&format!("auto c = '\"'; auto s = \"/*\";\n{include}/* */"), PASSWD);
        // Quotes between digits open none either, or do, by the standard that an option names.
        check_one(&format!("int n = 1'0; auto s = \"'/*\";\n{include}/* */"), PASSWD);
        check_one(&format!("int n = 1'0 /*'; */\n{include}/* */"), PASSWD);
        // The name of a header holds what elsewhere opens a comment.
        check_one(&format!("#if __has_include(<a/*b>)\n#endif\n{include}/* */"), PASSWD);
        check_one(&format!("#if 0\n#include <a//*>\n#endif\n{include}/* */"), PASSWD);
    }

    #[test]
    fn directives_are_seen_in_every_spelling() {
        for text in [
            "#inc\\ \t\nlude \"/etc/passwd\"",
            "??=include \"/etc/passwd\"",
            "#inc??/\nlude \"/etc/passwd\"",
            "%:in\\\r\nclude \"/etc/passwd\"",
            "int x;\r#include \"/etc/passwd\"",
            "#\x0b include \x0c\"/etc/passwd\"",
            "#include_next \"/etc/passwd\"",
            "#import \"/etc/passwd\"",
            "const unsigned char a[] = {\n#embed \"/etc/passwd\"\n};",
            "#include \"/etc/pass\\\nwd\"",
        ] {
            check_one(text, PASSWD);
        }
        check_one("#include \"..\\secret\"", Some("includes `..\\secret`"));
        check_one("#include \"a\" \"b\"", None);
        check_one("import <x>;", Some("imports a header"));
        check_one("export import \"x\";", Some("imports a header"));
    }

    #[test]
    fn asking_for_a_file_is_including_it() {
        check_one("#if __has_include(\"/etc/shadow\")\n#endif", Some("asks for `/etc/shadow`"));
        check_one("#if __has_\\\ninclude ( </etc/shadow> )\n#endif", Some("asks for `/etc/shadow`"));
        check_one("#define F </x>\n#if __has_include(F)\n#endif", Some("asks for the computed name `( F )`"));
        check_one("#define H __has_include\n#if H(</x>)\n#endif", Some("asks for the computed name ``"));
        check_one("#if __has_embed(\"/x\")\n#endif", Some("asks for `/x`"));
        let pasted = "#define P(a, b) a##b\n#if P(__has_,include)(\"/x\")\n#endif";
        check_one(pasted, Some("decides by `P`, a macro that may paste a name together"));
        check_one("#ifdef __has_include\n#if __has_include(<cuda_fp16.h>)\n#endif\n#endif", None);
        check_one("#if defined(__has_include) && defined __has_embed\n#endif", None);
        check_one("#define CAT(a, b) a##b\n#define BLOCK 128\n#if BLOCK > 64\nint CAT(x, y);\n#endif", None);
    }

    #[test]
    fn what_compilers_quote_or_date_is_reading_too() {
        check_one("#line 1 \"/etc/passwd\"", Some("claims that its lines are of `/etc/passwd`"));
        check_one("# 1 \"/etc/passwd\" 2", Some("claims that its lines are of `/etc/passwd`"));
        check_one("#line N", Some("computes the lines that it claims, with `N`"));
        check_one("#line 12", None);
        check_one("#line 12 \"own.cu\"\n# 3 \"own.cu\"", None);
        check_one("#pragma GCC dependency \"/etc/passwd\"", Some("uses the pragma `dependency`"));
        check_one("_Pragma(\"GCC dependency \\\"/x\\\"\")", Some("uses the pragma `dependency`"));
        check_one("#define D(x) _Pragma(#x)\nD(GCC dependency \"/x\")", Some("uses the pragma `dependency`"));
        check_one("#pragma unroll 4\n#pragma once", None);
    }

    #[test]
    fn assembler_directives_are_found_behind_escapes_and_splices() {
        let found = Some("uses the assembler's `.incbin`");
        check_one("asm(\".inc\" \"bin \\\"/etc/passwd\\\"\");", found);
        check_one("asm(\".\\x69ncbin 'x'\");", found);
        check_one("asm(\".\\151nc\"\n  \"bin x\");", found);
        check_one("asm(\".inc\\\nbin x\");", found);
        check_one("asm(R\"(.incbin \"x\")\");", found);
        check_one("#define S(x) #x\nasm(S(.incbin) \" x\");", found);
        check_one("asm(\".include \\\"x\\\"\");", Some("uses the assembler's `.include`"));
        check_one("asm volatile(\"cp.async.wait_group %0;\\n\" :: \"n\"(1));", None);
    }
}
