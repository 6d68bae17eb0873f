//! The tasks of the fixtures, each a space file that is put together here: `tasks.toml` has what differs between them, a line
//! or two.

use std::sync::LazyLock;

use evo::cli::error::CliError;
use evo::kernel::catalog;
use evo::kernel::spec::SpaceFile;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Node};

/// With a mark for each part that tasks differ in.
const TASK: &str = include_str!("task.toml");

static TASKS: LazyLock<Node> = LazyLock::new(|| {
    document::parse(include_str!("tasks.toml"), &mut Diagnostics::default()).expect("tables of tasks")
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixtureTask(&'static str);

impl FixtureTask {
    pub fn named(name: &'static str) -> Option<FixtureTask> {
        TASKS.get(name).map(|_| FixtureTask(name))
    }

    /// What the task says itself, or else the one that it is like.
    fn part(self, key: &str) -> &'static str {
        let task = TASKS.get(self.0);
        let like = || task.and_then(|task| task.text("like")).map(|like| FixtureTask(like).part(key));
        task.and_then(|task| task.text(key)).or_else(like).unwrap_or_default()
    }

    /// The arguments as a space file declares them.
    fn declared(self) -> String {
        let declared = self.part("arguments").split("; ").map(|argument| {
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
    pub fn open(self, fixture: &str) -> Result<SpaceFile, CliError> {
        let [entry, blocks, sizes, tiny, rules, bytes] =
            ["entry", "blocks", "sizes", "tiny", "rules", "bytes"].map(|key| self.part(key));
        let values = if fixture == "none" { "\"none\"".into() } else { format!("\"none\", \"{fixture}\"") };
        let grid = blocks.replace("THREADS", "64");
        let reference = match entry {
            "row_norm" => "\"rmsnorm\"".to_string(),
            _ => format!(
                "{{ source = \"gates_naive.cu\", entry = \"{entry}\", grid = [\"{grid}\"], block = [64] }}"
            ),
        };
        let tiny = if tiny.is_empty() { String::new() } else { format!("tiny = [{tiny}]") };
        let is_line = self.part("arguments") == FixtureTask("line").part("arguments");
        let lost = if is_line { "max(1, N // THREADS)" } else { blocks };
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
        for row in super::super::rows::ROWS.iter() {
            let file = row.task.open("any").unwrap_or_else(|error| panic!("{row:?}: {error}"));
            assert_eq!(file.space.count(), 2, "{row:?}");
        }
    }
}
