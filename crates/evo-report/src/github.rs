//! Annotations that GitHub shows beside the lines of a file: workflow commands on stdout, escaped as GitHub's runner reads
//! them (`actions/toolkit`, `packages/core/src/command.ts`).

/// Annotations that are printed; GitHub shows ten errors and ten warnings of a step.
const ANNOTATIONS: usize = 10;

#[derive(Clone, Debug, PartialEq)]
pub struct GithubAnnotation {
    /// An error; a warning otherwise.
    pub is_error: bool,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub title: String,
    pub message: String,
    /// How bad it is; the worst are shown.
    pub weight: f64,
}

impl GithubAnnotation {
    /// The workflow command, without its newline.
    pub fn command(&self) -> String {
        let mut properties = Vec::new();
        properties.extend(self.file.as_ref().map(|file| format!("file={}", property(file))));
        properties.extend(self.line.filter(|_| self.file.is_some()).map(|line| format!("line={line}")));
        properties.push(format!("title={}", property(&self.title)));
        let word = if self.is_error { "error" } else { "warning" };
        format!("::{word} {}::{}", properties.join(","), data(&self.message))
    }
}

/// The workflow commands of the worst: errors first, the heaviest first.
pub fn commands(mut all: Vec<GithubAnnotation>) -> Vec<String> {
    all.sort_by(|a, b| b.is_error.cmp(&a.is_error).then(b.weight.total_cmp(&a.weight)));
    all.iter().take(ANNOTATIONS).map(GithubAnnotation::command).collect()
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(is_error: bool, weight: f64) -> GithubAnnotation {
        let title = format!("{weight}");
        GithubAnnotation { is_error, file: None, line: Some(3), title, message: String::new(), weight }
    }

    #[test]
    fn what_a_runner_would_read_otherwise_is_escaped() {
        let own = GithubAnnotation {
            is_error: true,
            file: Some("a,b:c%.toml".into()),
            line: Some(7),
            title: "evo gate: p\n".into(),
            message: "+4 %, slower:\r\n::error::x".into(),
            weight: 0.0,
        };
        let expected =
            "::error file=a%2Cb%3Ac%25.toml,line=7,title=evo gate%3A p%0A::+4 %25, slower:%0D%0A::error::x";
        assert_eq!(own.command(), expected);
        // A line without its file says nothing.
        assert_eq!(one(false, 1.0).command(), "::warning title=1::");
    }

    #[test]
    fn the_ten_worst_are_shown() {
        let all: Vec<GithubAnnotation> =
            (0..12).map(|at| one(false, f64::from(at))).chain([one(true, 0.5), one(true, 0.7)]).collect();
        let commands = commands(all);
        assert_eq!(commands.len(), 10);
        assert_eq!(commands[..3], ["::error title=0.7::", "::error title=0.5::", "::warning title=11::"]);
    }
}
