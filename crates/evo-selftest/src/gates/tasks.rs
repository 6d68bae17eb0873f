//! The tasks of the fixtures, each a space file that is put together here: what differs between them is a line or two.

use evo::cli::error::CliError;
use evo::kernel::catalog;
use evo::kernel::spec::SpaceFile;

/// With a mark for each part that tasks differ in.
const TASK: &str = include_str!("task.toml");

/// A task: arguments, sizes and rules by which a fixture is judged.
#[derive(Clone, Copy, Debug)]
pub struct FixtureTask {
    /// The kernel's entry point, which is also its reference's.
    entry: &'static str,
    arguments: &'static str,
    blocks: &'static str,
    sizes: &'static str,
    /// Small shapes; empty where they are derived.
    tiny: &'static str,
    /// Further lines of `[check]`. What the other bounds find is shown without those of single precision, which are closer.
    rules: &'static str,
    /// What a call moves, as the file has it.
    bytes: &'static str,
}

/// `y = 2 x + 1` at small sizes, which everything looks at.
pub const LINE: FixtureTask = FixtureTask {
    entry: "line",
    arguments: LINE_ARGUMENTS,
    blocks: "ceil_div(N, THREADS)",
    sizes: "N = 2048, WORK = 64",
    tiny: "{ N = 1 }, { N = 513 }",
    rules: "trusted_factor = 0",
    bytes: "8",
};
/// The same at a size that instrumented runs leave out (`worker/judge/instrumented.rs`), by a workspace that hardly anything
/// touches, and that ends inside a page.
pub const WIDE: FixtureTask = FixtureTask {
    sizes: "N = 16001, WORK = 8388608",
    tiny: "{ N = 1, WORK = 64 }, { N = 513, WORK = 64 }",
    rules: "trusted_factor = 0\nseeds = 5",
    ..LINE
};
/// The same without listed small shapes.
pub const DERIVED: FixtureTask = FixtureTask { tiny: "", ..LINE };
/// The same, held to what single precision costs the reference.
pub const STRICT: FixtureTask = FixtureTask { rules: "", ..LINE };
/// The same with one set of inputs, so that timed calls cannot take turns.
pub const SINGLE: FixtureTask = FixtureTask { rules: "trusted_factor = 0\nseeds = 1", ..LINE };
/// The same where runs may differ, and variables of the module may change.
pub const LOOSE: FixtureTask =
    FixtureTask { rules: "trusted_factor = 0\ndeterministic = false\nallow_state = true", ..LINE };
/// The same with a limit on spilled bytes.
pub const SPILLING: FixtureTask = FixtureTask { rules: "trusted_factor = 0\nspill_bytes_max = 0", ..LINE };
/// The same where the file says that a call moves more bytes than any device could.
pub const HURRIED: FixtureTask = FixtureTask { bytes: "1e15", ..LINE };
/// `y = x`.
pub const MOVED: FixtureTask = FixtureTask { entry: "moved", ..LINE };
/// The last eighth of the output is padding.
pub const PADDED: FixtureTask = FixtureTask { entry: "padded", rules: LINE.rules, ..WIDE };
/// Nearly constant, with a generous tolerance.
pub const FLAT: FixtureTask =
    FixtureTask { entry: "flat", rules: "trusted_factor = 0\nrtol = 1e-3\nfamilies = [\"normal\"]", ..LINE };
/// Infinite where the input is negative. One masked element alone would leave nothing to compare.
pub const MASKED: FixtureTask =
    FixtureTask { entry: "masked", tiny: "{ N = 127, WORK = 64 }, { N = 513, WORK = 64 }", ..LINE };
/// The reference gives no number.
pub const UNDEFINED: FixtureTask = FixtureTask { entry: "undefined", ..LINE };
/// 32-bit integers.
pub const INTEGERS: FixtureTask = FixtureTask {
    entry: "integers",
    arguments: "a i32 N input; b i32 N output; n N",
    sizes: "N = 2048",
    tiny: "{ N = 513 }",
    ..LINE
};
/// One buffer is changed in place; variables of the module may change.
pub const IN_PLACE: FixtureTask = FixtureTask {
    entry: "in_place",
    arguments: "y f32 N inout; n N",
    sizes: "N = 2048",
    tiny: "{ N = 129 }",
    rules: "trusted_factor = 0\nallow_state = true",
    ..LINE
};
/// The only launch never takes place.
pub const IDLE: FixtureTask = FixtureTask { entry: "idle", rules: LINE.rules, ..IN_PLACE };
/// Rows of 64 elements.
pub const ROWS: FixtureTask = FixtureTask {
    entry: "rows",
    arguments: "x f32 ROWS,COLS input; y f32 ROWS,COLS output; m ROWS; n COLS",
    blocks: "ceil_div(ROWS * COLS, THREADS)",
    sizes: "ROWS = 64, COLS = 64",
    tiny: "{ ROWS = 3, COLS = 17 }",
    ..LINE
};
/// Rows that are normalized, beside a trusted computation.
pub const NORM: FixtureTask = FixtureTask {
    entry: "row_norm",
    arguments: "x f32 ROWS,COLS input; w f32 COLS input; y f32 ROWS,COLS output; m ROWS; n COLS",
    blocks: "ceil_div(ROWS, THREADS)",
    sizes: "ROWS = 16, COLS = 1024",
    rules: "",
    ..ROWS
};

/// Buffers by name, data type, shape and role, and numbers of elements by name and value.
const LINE_ARGUMENTS: &str = "x f32 N input; y f32 N output; w f32 (1125899906842624 if FIXTURE == 'vast' and N > 1000 else WORK) scratch; n N";

impl FixtureTask {
    /// The arguments as a space file declares them.
    fn declared(&self) -> String {
        let declared = self.arguments.split("; ").map(|argument| {
            let (name, rest) = argument.split_once(' ').unwrap_or((argument, ""));
            let dtype_and_role = rest.split_once(' ').zip(rest.rsplit_once(' '));
            match dtype_and_role {
                Some(((dtype, _), (_, role))) => {
                    let shape = rest[dtype.len()..rest.len() - role.len()].trim().replace(',', "\", \"");
                    format!(
                        "name = \"{name}\"\ndtype = \"{dtype}\"\nshape = [\"{shape}\"]\nrole = \"{role}\"\n"
                    )
                }
                None => format!("name = \"{name}\"\ndtype = \"i32\"\nvalue = \"{rest}\"\n"),
            }
        });
        declared.map(|lines| format!("[[arguments]]\n{lines}")).collect()
    }

    /// Opens the task with a fixture beside the honest kernel.
    pub fn open(&self, fixture: &str) -> Result<SpaceFile, CliError> {
        let FixtureTask { entry, blocks, sizes, tiny, rules, bytes, .. } = self;
        let values = if fixture == "none" { "\"none\"".into() } else { format!("\"none\", \"{fixture}\"") };
        let grid = blocks.replace("THREADS", "64");
        let reference = match *entry {
            "row_norm" => "\"rmsnorm\"".to_string(),
            _ => format!(
                "{{ source = \"gates_naive.cu\", entry = \"{entry}\", grid = [\"{grid}\"], block = [64] }}"
            ),
        };
        let tiny = if tiny.is_empty() { String::new() } else { format!("tiny = [{tiny}]") };
        let lost = if self.arguments == LINE_ARGUMENTS { "max(1, N // THREADS)" } else { blocks };
        let parts: [(&str, &str); 10] = [
            ("@entry@", entry),
            ("@values@", &values),
            ("@arguments@", &self.declared()),
            ("@lost@", lost),
            ("@blocks@", blocks),
            ("@sizes@", sizes),
            ("@reference@", &reference),
            ("@tiny@", &tiny),
            ("@rules@", rules),
            ("@bytes@", bytes),
        ];
        let text = parts.iter().fold(TASK.to_string(), |text, (mark, part)| text.replace(mark, part));
        Ok(catalog::from_text(&format!("gates ({entry}, {fixture})"), text)?)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_task_is_a_space_file() {
        for row in super::super::rows::ROWS {
            let file = row.task.open("any").unwrap_or_else(|error| panic!("{row:?}: {error}"));
            assert_eq!(file.space.count(), 2, "{row:?}");
        }
    }
}
