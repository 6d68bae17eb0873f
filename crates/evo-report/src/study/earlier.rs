//! Results of the other studies in the evidence folder, for a run that may take them over.
//!
//! Only studies of the same kernel on the same kind of device are read, the newest first, and no more bytes than a
//! run can afford before its first verdict. Of a journal only those lines are decoded that hold a result under this
//! run's conditions. What is damaged or foreign is left out and said: somebody else's file stops no sweep.

use evo_protocol::evaluation::Evaluation;

use super::studies::{StudyFolder, studies};
use evo_journal::line;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::JOURNAL;
use evo_journal::record::{FORMAT, JournalRecord, StudyHeader};

#[derive(Clone, Copy, Debug)]
pub struct EarlierLimits {
    pub folders: usize,
    /// Bytes of journals, together: results of several thousand variants.
    pub bytes: u64,
}

impl Default for EarlierLimits {
    fn default() -> EarlierLimits {
        EarlierLimits { folders: 1000, bytes: 64 << 20 }
    }
}

/// Studies that a message names.
const NAMED: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct EarlierResult {
    pub study: String,
    /// When the run began that measured it: UTC, RFC 3339.
    pub at: String,
    pub evaluation: Evaluation,
}

impl EarlierResult {
    pub fn new(study: &str, at: &str, mut evaluation: Evaluation) -> EarlierResult {
        // Samples stay with the study that took them, and so does what they took.
        evaluation.measurements.iter_mut().for_each(|timed| timed.raw_ns.clear());
        EarlierResult { study: study.to_string(), at: at.to_string(), evaluation }
    }
}

/// What other studies measured under the conditions of this run.
#[derive(Clone, Debug, Default)]
pub struct EarlierResults {
    /// The newest study first, each in the order of its journal.
    pub results: Vec<EarlierResult>,
    /// Results under other conditions, or of before measurement keys were kept.
    pub elsewhere: u64,
    /// What is different, of the newest of those studies.
    pub differences: Vec<String>,
    pub notices: Vec<String>,
}

impl EarlierResults {
    pub fn beside(out: &OwnFolder, own: &StudyHeader, limits: EarlierLimits) -> EarlierResults {
        let mut found = EarlierResults::default();
        let Some(conditions) = &own.conditions else { return found };
        let hash = conditions.hash();
        let mut left = limits.bytes;
        let (mut unread, mut unreadable) = (Vec::new(), Vec::new());
        let others = studies(out).unwrap_or_default().into_iter().filter(|study| study.name != own.study);
        for study in others.take(limits.folders) {
            let header = study.first_header().filter(|header| header.format <= FORMAT);
            let StudyFolder { name, folder, journal_bytes, .. } = study;
            let Some(header) = header else {
                unreadable.push(name);
                continue;
            };
            if header.kernel != own.kernel || header.device.kind != own.device.kind {
                continue;
            }
            match folder.read_at_most(JOURNAL, left) {
                Ok(Some(journal)) => {
                    left = left.saturating_sub(journal_bytes);
                    found.add(&name, &journal, own, hash.as_str());
                }
                Ok(None) => unread.push(name),
                Err(_) => unreadable.push(name),
            }
        }
        let limit = limits.bytes >> 20;
        found.leave_out(unread, &format!("more than {limit} MiB of journals are not read"));
        found.leave_out(unreadable, "no journal of this evo can be read there");
        found
    }

    fn leave_out(&mut self, mut names: Vec<String>, why: &str) {
        names.sort();
        if !names.is_empty() {
            self.notices.push(format!("results of {} are not looked at: {why}", listed(&names)));
        }
    }

    fn add(&mut self, name: &str, journal: &[u8], own: &StudyHeader, conditions: &str) {
        let mut at = String::new();
        let mut damaged = 0u64;
        let (results, elsewhere) = (self.results.len(), self.elsewhere);
        let mut last = None;
        // A run that goes on beside this one may be writing its last line.
        let end = journal.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        for line in journal[..end].split(|byte| *byte == b'\n') {
            // Decoding takes far longer than a search for a text, and most lines of most folders are of no use here.
            let Ok(text) = std::str::from_utf8(line) else {
                damaged += u64::from(!line.is_empty());
                continue;
            };
            let is_result = text.contains(r#""record":{"kind":"evaluation""#);
            if is_result && !text.contains(conditions) {
                self.elsewhere += 1;
            } else if is_result || text.contains(r#""record":{"kind":"study""#) {
                match line::decode(line) {
                    Ok(JournalRecord::Study(header)) => {
                        at.clone_from(&header.started_at);
                        last = Some(header);
                    }
                    Ok(JournalRecord::Evaluation(evaluation)) if is_under(&evaluation, conditions) => {
                        self.results.push(EarlierResult::new(name, &at, *evaluation));
                    }
                    Ok(_) => {}
                    Err(_) => damaged += 1,
                }
            }
        }
        if damaged > 0 {
            self.notices.push(match damaged {
                1 => format!("1 damaged line of study `{name}` is left out"),
                _ => format!("{damaged} damaged lines of study `{name}` are left out"),
            });
        }
        let is_first = self.differences.is_empty() && self.results.len() == results;
        if is_first && self.elsewhere > elsewhere {
            let conditions = last.as_ref().and_then(|header| header.conditions.as_ref());
            let changes = conditions.zip(own.conditions.as_ref()).map(|(before, now)| before.changes(now));
            self.differences = changes
                .filter(|changes| !changes.is_empty())
                .unwrap_or_else(|| vec!["an older evo measured them".to_string()]);
        }
    }
}

/// Whether it is the key that names the conditions, and not a text of the variant's, and whether the rest fits
/// together: a time of 0 would be the incumbent of the whole search.
fn is_under(evaluation: &Evaluation, conditions: &str) -> bool {
    let is_time = |time: f64| time.is_finite() && time > 0.0;
    evaluation.key.as_ref().is_some_and(|key| key.conditions.as_str() == conditions)
        && evaluation.configuration.hash() == evaluation.configuration_hash
        && evaluation.objective_ns.map_or(!evaluation.verdict.is_pass(), is_time)
        && evaluation.measurements.iter().all(|timed| is_time(timed.p50_ns))
}

/// `` `a`, `b` and 2 more studies ``.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more studies", shown.join(", ")),
    }
}
