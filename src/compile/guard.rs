//! Refusing sources that make the compiler read files of this machine.
//!
//! A generated kernel that includes `/etc/passwd` would show it in its error log, and one that includes
//! `../../harness.h` could learn what it is tested with. This is a fence, not a sandbox: it checks the
//! source and trusts the compiler options, which the author of the space file writes.

use evo_protocol::verdict::{Verdict, VerdictKind};

use super::directives::{include_operand, joined};

/// Assembler directives that read files.
const ASSEMBLER: &[&str] = &[".incbin", ".include"];

/// Refuses a source that includes by absolute path, by a path that climbs, or by a name that it computes
/// (`static_reject` with the cause `include`).
pub fn check(text: &str) -> Result<(), Box<Verdict>> {
    let refuse = |what: String| {
        let verdict =
            Verdict::new(VerdictKind::StaticReject, format!("the source {what}, which is not allowed"));
        Err(Box::new(verdict.with_cause("include")))
    };
    let text = joined(text);
    for line in text.lines() {
        let Some(operand) = include_operand(line) else { continue };
        let Some(name) = operand.strip_prefix(['<', '"']) else {
            // A macro can expand to any path, so its name proves nothing.
            return refuse(format!("includes the computed name `{operand}`"));
        };
        let name = name.split(['>', '"']).next().unwrap_or_default();
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return refuse(format!("includes `{name}`"));
        }
    }
    match ASSEMBLER.iter().find(|directive| names_file(&text, directive)) {
        Some(directive) => refuse(format!("uses the assembler's `{directive}`")),
        None => Ok(()),
    }
}

/// Whether the directive is followed by a file's name in quotes; a member called `include` is not.
fn names_file(text: &str, directive: &str) -> bool {
    let followed = |rest: &str| rest.trim_start().starts_with(['"', '\\']);
    text.match_indices(directive).any(|(position, _)| followed(&text[position + directive.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(text: &str, expected: Option<&str>) {
        let message = check(text).err().map(|verdict| {
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
}
