//! Everything that a report is made of: the study, and the records beside it that concern the same kernel.

use evo_journal::iterations::GateRun;
use evo_journal::iterations::Iteration;
use evo_journal::leaderboard::section;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::LeaderboardSection;

use super::change::SourcePair;
use super::loaded::LoadedStudy;
use crate::known::{KnownTime, baseline, new_bests};
use crate::standing::Standing;

/// What a report is made of.
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
    pub sources: SourcePair,
}

impl ReportMaterial {
    /// A report of a study alone.
    pub fn of(study: LoadedStudy) -> ReportMaterial {
        let why = "the sources were not looked at".to_string();
        ReportMaterial {
            section: section(&study.history),
            study,
            iterations: Vec::new(),
            gates: Vec::new(),
            peers: None,
            sources: SourcePair::Unknown { why },
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

    /// The evaluation that the winner is compared with.
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
