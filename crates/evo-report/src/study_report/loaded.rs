//! Everything that a report is made of: a study as its folder holds it, read without a lock so that a sweep that is
//! running is not disturbed, and the records beside it that concern the same kernel.

use evo_journal::error::JournalError;
use evo_journal::iterations::{GateRun, Iteration};
use evo_journal::leaderboard::section;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, Journal};
use evo_journal::record::{JournalRecord, StudyHeader};
use evo_journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::LeaderboardSection;
use evo_protocol::verdict::VerdictClass;
use evo_search::insight::Insight;
use evo_space::genome::Genome;
use evo_space::space::{Parameter, SearchSpace};
use serde_json::{Value, json};

use crate::columns::{TriedParameter, tried};
use crate::json::read_header;
use crate::known::{KnownTime, baseline, new_bests};
use crate::standing::Standing;
use crate::study::newest_profile;
use crate::study::studies::readable;

/// The file beside the journal that sums it up.
const STUDY: &str = "study.json";
/// It has some kilobytes; one with many edits has more.
const STUDY_MAX: u64 = 1 << 26;
/// Damaged lines that are named.
const NAMED: usize = 5;

#[derive(Debug)]
pub struct LoadedStudy {
    /// The newest run's.
    pub header: StudyHeader,
    pub history: History,
    /// When runs said something, UTC in RFC 3339, and what.
    pub notes: Vec<Value>,
    pub insight: Option<Insight>,
    /// What cannot be read of the journal, a line each.
    pub damage: Vec<String>,
    /// The newest profile of a candidate of this study: the object of `evo profile`.
    pub profile: Option<Value>,
}

impl LoadedStudy {
    /// Of a study that is being written, half a line is not damage, and no insight is computed: that takes too long for a
    /// page that changes each second.
    pub fn read(folder: &OwnFolder, is_live: bool) -> Result<LoadedStudy, JournalError> {
        let mut journal = reader::read_in(folder)?;
        journal.torn &= !is_live;
        let file = folder.read_at_most(STUDY, STUDY_MAX).ok().flatten().unwrap_or_default();
        let mut study = LoadedStudy::of(journal, &file, folder)?;
        study.profile = newest_profile(folder);
        let evaluations = &study.history.evaluations;
        let computed = || if is_live { None } else { computed(&study.header, evaluations) };
        study.insight = saved(&file, evaluations).or_else(computed);
        Ok(study)
    }

    /// What a journal gives, without an insight. Where it has no header, the text of `study.json` may have a copy.
    fn of(journal: Journal, file: &[u8], folder: &OwnFolder) -> Result<LoadedStudy, JournalError> {
        let damage = damage(&journal);
        let note = |record: &JournalRecord| match record {
            JournalRecord::Note { at, message, .. } => Some(json!({ "at": at, "message": message })),
            _ => None,
        };
        let notes = journal.records.iter().filter_map(note).collect();
        let history = History::replay(journal);
        let header = readable(history.header.clone().or_else(|| read_header(file)), folder)?;
        Ok(LoadedStudy { header, history, notes, insight: None, damage, profile: None })
    }
}

#[derive(Clone, Debug)]
pub struct SourceText {
    /// `the default configuration`, `evaluation 17`.
    pub name: String,
    pub text: String,
}

#[derive(Debug)]
pub struct ReportMaterial {
    pub study: LoadedStudy,
    /// The ranking that the study itself confirmed.
    pub section: Option<LeaderboardSection>,
    /// Candidates that `evo evaluate` judged, of the same kernel on the same kind of device.
    pub iterations: Vec<Iteration>,
    /// Runs of `evo gate`, likewise.
    pub gates: Vec<GateRun>,
    /// Of the newest benchmark with peers.
    pub peers: Option<Standing>,
    /// Of the baseline and of the champion, or why they are not known.
    pub sources: Result<[SourceText; 2], String>,
}

impl ReportMaterial {
    pub fn of(study: LoadedStudy) -> ReportMaterial {
        ReportMaterial {
            section: section(&study.history),
            study,
            iterations: Vec::new(),
            gates: Vec::new(),
            peers: None,
            sources: Err("the sources were not looked at".to_string()),
        }
    }

    pub fn evaluations(&self) -> &[Evaluation] {
        &self.study.history.evaluations
    }

    /// The evaluation that won: the confirmed champion's, or the best of the screening.
    pub fn winner(&self) -> Option<&Evaluation> {
        match &self.section {
            Some(section) => self.numbered(section.champion.number),
            None => new_bests(self.evaluations()).last().map(|best| best.evaluation),
        }
    }

    pub fn baseline(&self) -> Option<&Evaluation> {
        match &self.section {
            Some(section) => self.numbered(section.baseline.number),
            None => baseline(self.evaluations()),
        }
    }

    pub fn numbered(&self, number: u64) -> Option<&Evaluation> {
        self.evaluations().iter().find(|one| one.number == number)
    }

    /// The winner's screened time, nanoseconds.
    pub fn best_ns(&self) -> Option<f64> {
        self.winner().and_then(|one| KnownTime::of(one).value())
    }
}

fn damage(journal: &Journal) -> Vec<String> {
    let mut told: Vec<String> = journal
        .rejected
        .iter()
        .take(NAMED)
        .map(|one| format!("line {} of the journal is damaged and left out: {}", one.line, one.reason))
        .collect();
    if let Some(more) = journal.rejected.len().checked_sub(NAMED).filter(|more| *more > 0) {
        told.push(format!("{more} more damaged lines are left out"));
    }
    if journal.torn {
        told.push("the last line of the journal is torn and left out".to_string());
    }
    told
}

/// The insight that `study.json` holds, if it is that of these evaluations.
fn saved(file: &[u8], evaluations: &[Evaluation]) -> Option<Insight> {
    let file: Value = serde_json::from_slice(file).ok()?;
    let insight: Insight = serde_json::from_value(file.get("insight")?.clone()).ok()?;
    let telling = |evaluation: &&Evaluation| {
        !matches!(evaluation.verdict.kind.class(), VerdictClass::Harness | VerdictClass::PassedOver)
    };
    (insight.evaluations == evaluations.iter().filter(telling).count()).then_some(insight)
}

/// The insight that the evaluations themselves give; `None` without any.
///
/// A journal does not hold the space itself, so this takes the points that were tried for the space. That serves for
/// which parameters mattered and for the model's calibration; how random search would have done, and which values were
/// never tried, follow only where all valid points were tried.
fn computed(header: &StudyHeader, evaluations: &[Evaluation]) -> Option<Insight> {
    let columns = tried(header, evaluations);
    if columns.is_empty() || columns.iter().any(|column| column.values.is_empty()) {
        return None;
    }
    let genome = |evaluation: &Evaluation| -> Option<Genome> {
        let at = |column: &TriedParameter| u16::try_from(column.position(&evaluation.configuration)?).ok();
        Some(Genome::from(columns.iter().map(at).collect::<Option<Vec<u16>>>()?))
    };
    let points: Vec<Genome> = evaluations.iter().filter_map(genome).collect();
    let parameters = columns.iter().map(|column| Parameter {
        name: column.name.as_str().into(),
        values: column.values.clone(),
        default: 0,
        help: None,
    });
    let space = SearchSpace::of_points(parameters.collect(), points);
    let mut insight = Insight::of(&space, evaluations, header.seed);
    insight.untried.clear();
    if space.count().to_string() != header.valid {
        insight.random = None;
    }
    Some(insight)
}
