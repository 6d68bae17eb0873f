//! The tasks of the fixtures, each a space file that is put together here: what differs between them is a line or two.

use crate::cli::error::CliError;
use crate::kernel::catalog;
use crate::kernel::spec::SpaceFile;

/// A task: arguments, sizes and rules by which a fixture is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FixtureTask {
    /// `y = 2 x + 1` at small sizes, which everything looks at.
    Line,
    /// The same at a size that instrumented runs leave out, and that ends inside a page.
    Wide,
    /// The same without listed small shapes.
    Derived,
    /// The same, held to what single precision costs the reference.
    Strict,
    /// The same with one set of inputs, so that timed calls cannot take turns.
    Single,
    /// The same where runs may differ, and variables of the module may change.
    Loose,
    /// The same with a limit on spilled bytes.
    Spilling,
    /// The same where the file says that a call moves more bytes than any device could.
    Hurried,
    /// `y = x`.
    Moved,
    /// The last eighth of the output is padding.
    Padded,
    /// Nearly constant, with a generous tolerance.
    Flat,
    /// Infinite where the input is negative.
    Masked,
    /// The reference gives no number.
    Undefined,
    /// 32-bit integers.
    Integers,
    /// One buffer is changed in place; variables of the module may change.
    InPlace,
    /// The only launch never takes place.
    Idle,
    /// Rows of 64 elements.
    Rows,
    /// Rows that are normalized, beside a trusted computation.
    Norm,
}

const LINE: &str = concat!(
    buffer!("x", "f32", "\"N\"", "input"),
    buffer!("y", "f32", "\"N\"", "output"),
    buffer!("w", "f32", "\"1125899906842624 if FIXTURE == 'vast' and N > 1000 else WORK\"", "scratch"),
    count!("n", "N"),
);

const INTEGERS: &str =
    concat!(buffer!("a", "i32", "\"N\"", "input"), buffer!("b", "i32", "\"N\"", "output"), count!("n", "N"),);

const IN_PLACE: &str = concat!(buffer!("y", "f32", "\"N\"", "inout"), count!("n", "N"));

const ROWS: &str = concat!(
    buffer!("x", "f32", "\"ROWS\", \"COLS\"", "input"),
    buffer!("y", "f32", "\"ROWS\", \"COLS\"", "output"),
    count!("m", "ROWS"),
    count!("n", "COLS"),
);

const NORM: &str = concat!(
    buffer!("x", "f32", "\"ROWS\", \"COLS\"", "input"),
    buffer!("w", "f32", "\"COLS\"", "input"),
    buffer!("y", "f32", "\"ROWS\", \"COLS\"", "output"),
    count!("m", "ROWS"),
    count!("n", "COLS"),
);

/// Beyond what instrumented runs take (`worker/judge/instrumented.rs`), by a workspace that hardly anything touches.
const WORK: &str = "8388608";

/// What the arguments of a task decide: their text, a thread's share, the problem's sizes, the small shapes.
struct TaskShape {
    arguments: &'static str,
    blocks: &'static str,
    sizes: String,
    tiny: &'static str,
}

impl FixtureTask {
    /// The kernel's entry point, which is also its reference's.
    fn entry(self) -> &'static str {
        match self {
            FixtureTask::Line | FixtureTask::Wide | FixtureTask::Derived | FixtureTask::Single => "line",
            FixtureTask::Loose | FixtureTask::Spilling | FixtureTask::Hurried | FixtureTask::Strict => "line",
            FixtureTask::Moved => "moved",
            FixtureTask::Padded => "padded",
            FixtureTask::Flat => "flat",
            FixtureTask::Masked => "masked",
            FixtureTask::Undefined => "undefined",
            FixtureTask::Integers => "integers",
            FixtureTask::InPlace => "in_place",
            FixtureTask::Idle => "idle",
            FixtureTask::Rows => "rows",
            FixtureTask::Norm => "row_norm",
        }
    }

    fn shape(self) -> TaskShape {
        let (blocks, line) = ("ceil_div(N, THREADS)", "{ N = 1 }, { N = 513 }");
        let plain = |arguments, tiny| TaskShape { arguments, blocks, sizes: "N = 2048".into(), tiny };
        let small = "N = 2048, WORK = 64".to_string();
        match self {
            // One masked element alone would leave nothing to compare.
            FixtureTask::Masked => TaskShape {
                tiny: "{ N = 127, WORK = 64 }, { N = 513, WORK = 64 }",
                sizes: small,
                ..plain(LINE, "")
            },
            FixtureTask::Wide | FixtureTask::Padded => TaskShape {
                arguments: LINE,
                blocks,
                sizes: format!("N = 16001, WORK = {WORK}"),
                tiny: "{ N = 1, WORK = 64 }, { N = 513, WORK = 64 }",
            },
            FixtureTask::Integers => plain(INTEGERS, "{ N = 513 }"),
            FixtureTask::InPlace => plain(IN_PLACE, "{ N = 129 }"),
            FixtureTask::Idle => plain(IN_PLACE, "{ N = 129 }"),
            FixtureTask::Rows => TaskShape {
                arguments: ROWS,
                blocks: "ceil_div(ROWS * COLS, THREADS)",
                sizes: "ROWS = 64, COLS = 64".into(),
                tiny: "{ ROWS = 3, COLS = 17 }",
            },
            FixtureTask::Norm => TaskShape {
                arguments: NORM,
                blocks: "ceil_div(ROWS, THREADS)",
                sizes: "ROWS = 16, COLS = 1024".into(),
                tiny: "{ ROWS = 3, COLS = 17 }",
            },
            _ => TaskShape { arguments: LINE, blocks, sizes: small, tiny: line },
        }
    }

    /// Further lines of `[check]`.
    fn rules(self) -> &'static str {
        match self {
            FixtureTask::Wide => "seeds = 5",
            FixtureTask::Single => "seeds = 1",
            FixtureTask::Loose => "deterministic = false\nallow_state = true",
            FixtureTask::InPlace => "allow_state = true",
            FixtureTask::Spilling => "spill_bytes_max = 0",
            FixtureTask::Flat => "rtol = 1e-3\nfamilies = [\"normal\"]",
            _ => "",
        }
    }

    /// Opens the task with a fixture beside the honest kernel.
    pub fn open(self, fixture: &str) -> Result<SpaceFile, CliError> {
        let (entry, shape) = (self.entry(), self.shape());
        let TaskShape { arguments, blocks, sizes, tiny } = shape;
        let values = if fixture == "none" { "\"none\"".into() } else { format!("\"none\", \"{fixture}\"") };
        let reference = match self {
            FixtureTask::Norm => "\"rmsnorm\"".to_string(),
            _ => {
                let grid = blocks.replace("THREADS", "64");
                format!(
                    "{{ source = \"gates_naive.cu\", entry = \"{entry}\", grid = [\"{grid}\"], block = [64] }}"
                )
            }
        };
        let tiny = if self == FixtureTask::Derived { String::new() } else { format!("tiny = [{tiny}]") };
        // What the other bounds find is shown without those of single precision, which are closer.
        let strict = matches!(self, FixtureTask::Strict | FixtureTask::Norm);
        let factor = if strict { "" } else { "trusted_factor = 0" };
        let bytes = if self == FixtureTask::Hurried { "1e15" } else { "8" };
        let text = format!(
            r#"[kernel]
name = "gates_{entry}"
template = "gates.cu.j2"
[parameters]
FIXTURE = {{ values = [{values}], default = "none" }}
TASK = {{ values = ["{entry}"], default = "{entry}" }}
THREADS = {{ values = [128], default = 128 }}
{arguments}
[[launches]]
entry = "{entry}"
when = "'{entry}' != 'idle'"
{LAUNCH}
grid = ["{lost} if FIXTURE == 'lost_tail' else {MANY_BLOCKS} if FIXTURE == 'cooperative' else {blocks}", "65536 if FIXTURE == 'wide_grid' else 1"]
[[problems]]
name = "full"
sizes = {{ {sizes} }}
[check]
reference = {reference}
{tiny}
{rules}
{factor}
[objective]
ranking = "hot"
bytes = "{bytes}"
"#,
            lost = if arguments == LINE { "max(1, N // THREADS)" } else { blocks },
            rules = self.rules(),
        );
        Ok(catalog::from_text(&format!("gates ({self:?}, {fixture})"), text)?)
    }
}

/// More blocks than a host has cores for, which is how many run together there.
const MANY_BLOCKS: u32 = 2048;

/// What fixtures of the static checks ask for.
const LAUNCH: &str = r#"block = ["2048 if FIXTURE == 'many_threads' else THREADS"]
shared_bytes = "1048576 if FIXTURE == 'much_shared' else 4 * THREADS"
cluster = ["16 if FIXTURE == 'wide_cluster' else 1"]
cooperative = "FIXTURE == 'cooperative'""#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_a_space_file() {
        let all = [
            FixtureTask::Line,
            FixtureTask::Wide,
            FixtureTask::Derived,
            FixtureTask::Single,
            FixtureTask::Loose,
            FixtureTask::Spilling,
            FixtureTask::Strict,
            FixtureTask::Hurried,
            FixtureTask::Moved,
            FixtureTask::Padded,
            FixtureTask::Flat,
            FixtureTask::Masked,
            FixtureTask::Undefined,
            FixtureTask::Integers,
            FixtureTask::InPlace,
            FixtureTask::Idle,
            FixtureTask::Rows,
            FixtureTask::Norm,
        ];
        for task in all {
            let file = task.open("any").unwrap_or_else(|error| panic!("{task:?}: {error}"));
            assert_eq!(file.space.count(), 2, "{task:?}");
        }
    }
}
