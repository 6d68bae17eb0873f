//! Reads the journal of an earlier study. The space comes from the space file that the journal names, if the file
//! is still there and unchanged; else the recorded configurations are the space.

use evo_journal::reader;
use evo_journal::record::{FORMAT, InputRole, StudyHeader};
use evo_journal::replay::History;
use evo_kernel::catalog;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, VerdictClass};
use evo_space::genome::ContentHash;
use evo_space::space::SearchSpace;

use super::finish::{Draft, DraftRow};
use super::{Cost, Format, RecordingFault};

pub fn read(text: &str) -> Result<Draft, RecordingFault> {
    let journal = reader::parse(text.as_bytes());
    let mut notices = Vec::new();
    if journal.torn {
        notices.push("the journal's last line is torn and is left out".to_string());
    }
    if let Some(first) = journal.rejected.first() {
        let place = format!("line {}: {}", first.line, first.reason);
        notices.push(match journal.rejected.len() {
            1 => format!("1 damaged line of the journal is left out, {place}"),
            count => format!("{count} damaged lines of the journal are left out, the first is {place}"),
        });
    }
    let history = History::replay(journal);
    let Some(header) = &history.header else {
        return Err(RecordingFault::new("the journal has no readable header")
            .with_hint("a study's journal begins with one"));
    };
    if header.format > FORMAT {
        let cause = format!("the journal has format {}; this evo reads up to {FORMAT}", header.format);
        return Err(RecordingFault::new(cause).with_hint("use a newer evo"));
    }
    // Neither a failure of evo itself nor passing a variant over says anything about the variant.
    let silent = [VerdictClass::Harness, VerdictClass::PassedOver];
    let telling = |one: &&Evaluation| !silent.contains(&one.verdict.kind.class());
    let rows = history.evaluations.iter().filter(telling).map(row).collect();
    // The recorded space hash decides whether the file of today is the file of then.
    let space = space(header);
    notices.extend(space.as_ref().err().map(|why| format!("the space of the study is not available: {why}")));
    // The journal of a replay can be replayed again; its device is then named once.
    let gpu = header.device.name.trim_start_matches("replay:").to_string();
    let (kernel, problem) = (header.kernel.clone(), header.problems.join(", "));
    let (format, space) = (Format::Journal, space.ok());
    Ok(Draft { kernel, gpu, problem, format, space, exhaustive: false, repeats: true, rows, notices })
}

fn row(one: &Evaluation) -> DraftRow {
    let checks = [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability];
    let reports = one.gates.iter().filter(|report| checks.contains(&report.gate));
    // A twin copies its original's gates, which took no time a second time.
    let validate_ms = reports.map(|report| report.elapsed_ms).sum::<f64>().min(one.device_ms);
    let (compile_ms, runs_ms) = (one.compile_ms, one.device_ms - validate_ms);
    let cost = Cost { compile_ms, validate_ms, runs_ms, framework_ms: 0.0 };
    DraftRow {
        name: one.number.to_string(),
        configuration: one.configuration.clone(),
        kind: one.verdict.kind,
        // `too_slow` carries an estimate or a lower bound, which is not a measured time, unless a race measured it.
        objective_ns: one.objective_ns.filter(|_| one.is_timed()),
        cost,
    }
}

fn space(header: &StudyHeader) -> Result<SearchSpace, String> {
    let name = &header.space;
    let file = catalog::open(name).map_err(|_| format!("`{name}` is not there"))?;
    let source = file.kernel.as_ref().map_or("", |kernel| kernel.source.text.as_str());
    let is_same = match header.inputs.is_empty() {
        true => ContentHash::of_parts([file.text.as_bytes(), source.as_bytes()]) == header.space_hash,
        // Other inputs decide times and verdicts, not which points there are.
        false => header.inputs.iter().all(|input| match input.role {
            InputRole::Space => input.hash == ContentHash::of(file.text.as_bytes()),
            InputRole::Kernel => input.hash == ContentHash::of(source.as_bytes()),
            _ => true,
        }),
    };
    if !is_same {
        return Err(format!("`{name}` has changed since the study was made"));
    }
    Ok(file.space)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use evo_protocol::verdict::{GateReport, Verdict, VerdictKind};

    use super::*;
    use crate::replay::Recording;
    use evo_journal::example::{self, header};
    use evo_journal::line;
    use evo_journal::record::JournalRecord;

    const SPACE: &str =
        "[parameters]\nA = [1, 2, 4]\nB = [1, 2]\n[[constraints]]\nrequire = \"A * B <= 4\"\n";

    fn evaluation(number: u64, a: i64, b: i64, kind: VerdictKind) -> Evaluation {
        let pairs = vec![("A".into(), a.into()), ("B".into(), b.into())];
        let configuration = evo_space::genome::Configuration::new(pairs);
        let launch = GateReport { elapsed_ms: 3.0, ..GateReport::not_run(Gate::Launch, "") };
        Evaluation {
            gates: vec![launch],
            objective_ns: Some(100.0 * number as f64 + 100.0),
            compile_ms: 50.0,
            device_ms: 10.0,
            ..example::evaluation(number, configuration, "random", Verdict::new(kind, ""))
        }
    }

    fn study(folder: &Path) -> String {
        let path = folder.join("space.toml");
        std::fs::write(&path, SPACE).unwrap();
        let mut header = header();
        header.space = path.display().to_string();
        header.space_hash = ContentHash::of_parts([SPACE.as_bytes(), b""]);
        let evaluations = [
            evaluation(0, 4, 1, VerdictKind::Pass),
            evaluation(1, 1, 1, VerdictKind::TooSlow),
            evaluation(2, 1, 2, VerdictKind::HarnessError),
            evaluation(3, 2, 2, VerdictKind::CrashTrap),
        ];
        let records = evaluations.map(|one| JournalRecord::Evaluation(Box::new(one)));
        let all = std::iter::once(JournalRecord::Study(Box::new(header))).chain(records);
        all.map(|record| line::encode(&record).unwrap()).collect()
    }

    #[test]
    fn a_race_has_measured_a_time_and_a_screening_has_not() {
        let mut one = evaluation(1, 1, 1, VerdictKind::TooSlow);
        assert_eq!(row(&one).objective_ns, None);
        one.verdict = one.verdict.with(Verdict::RACED, true);
        assert_eq!(row(&one).objective_ns, Some(200.0));
    }

    #[test]
    fn the_space_file_is_used_while_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let journal = study(folder.path());
        std::fs::write(folder.path().join("journal.jsonl"), &journal).unwrap();
        let recording = Recording::open(folder.path()).unwrap();
        assert_eq!((recording.space.count(), recording.rows().len()), (5, 3));
        assert!(recording.notices.is_empty(), "{:?}", recording.notices);
        let kinds: Vec<VerdictKind> = recording.rows().iter().map(|row| row.kind).collect();
        assert_eq!(kinds, [VerdictKind::Pass, VerdictKind::TooSlow, VerdictKind::CrashTrap]);
        let first = &recording.rows()[0];
        assert_eq!(first.cost, Cost { compile_ms: 50.0, validate_ms: 3.0, runs_ms: 7.0, framework_ms: 0.0 });
        assert_eq!((first.objective_ns, recording.rows()[1].objective_ns), (Some(100.0), None));
        assert_eq!(recording.genome(0).positions(), [2, 0]);

        std::fs::write(folder.path().join("space.toml"), SPACE.replace("4]", "4, 8]")).unwrap();
        let recording = Recording::open(folder.path()).unwrap();
        assert_eq!(recording.space.count(), 3);
        assert!(recording.notices[0].contains("has changed since the study was made"));
        std::fs::remove_file(folder.path().join("space.toml")).unwrap();
        let recording = Recording::open(folder.path()).unwrap();
        assert!(recording.notices[0].contains("is not there"), "{:?}", recording.notices);
    }

    #[test]
    fn damage_is_told_and_the_rest_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = study(folder.path());
        let damaged = journal.replacen("\"number\":1,", "\"number\":7,", 1);
        std::fs::write(&path, &damaged[..damaged.len() - 9]).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.rows().len(), 1);
        assert_eq!(recording.notices[0], "the journal's last line is torn and is left out");
        assert!(recording.notices[1].starts_with("1 damaged line of the journal is left out, line 3"));
        let headless = journal.split_once('\n').unwrap().1;
        std::fs::write(&path, headless).unwrap();
        let error = Recording::open(&path).unwrap_err().to_string();
        assert!(error.contains("the journal has no readable header"), "{error}");
    }
}
