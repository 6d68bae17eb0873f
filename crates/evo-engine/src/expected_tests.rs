//! What a strategy expected travels with the variant into the journal and the table.

use evo_search::registry::{StrategyOptions, create};
use evo_search::strategy::{Expectation, Outcome, Proposal, Strategy};

use super::fake::all_pass;
use super::fake_study::TestStudy;
use evo_journal::record::JournalRecord;
use evo_journal::replay::History;
use evo_journal::{line, reader};

/// Expects `1000 ns` of everything but the second proposal, of which it expects nothing that a file can hold.
struct Oracle<'a> {
    inner: Box<dyn Strategy + 'a>,
    asked: usize,
}

impl Strategy for Oracle<'_> {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = self.inner.ask(n);
        for proposal in &mut proposals {
            self.asked += 1;
            let objective_ns = if self.asked == 2 { f64::NAN } else { 1000.0 };
            let expected = Expectation { objective_ns, low_ns: 900.0, high_ns: 1100.0, risk: 0.25 };
            proposal.expected = Some(expected);
        }
        proposals
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.inner.tell(outcome);
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

#[test]
fn what_was_expected_is_journaled_beside_what_came() {
    // `A=6` does not compile and `A=7` is refused before: both say what was expected all the same.
    let bench = TestStudy::new("[parameters]\nA = [0, 1, 6, 7]\n");
    let options = StrategyOptions { seed: 1, population: 4 };
    let inner = create("exhaustive", &bench.space, options).unwrap();
    bench.run_strategy(Box::new(Oracle { inner, asked: 0 }), |_| all_pass()).unwrap();
    let journal = reader::read(&bench.journal()).unwrap();
    assert!(journal.rejected.is_empty(), "{:?}", journal.rejected);
    let evaluations = History::replay(journal).evaluations;
    let expected: Vec<_> =
        evaluations.iter().map(|one| (one.number, one.expected.map(|expected| expected.risk))).collect();
    let numbered = |number| expected.iter().find(|(own, _)| *own == number).unwrap().1;
    assert_eq!([0, 1, 2, 3].map(numbered), [Some(0.25), None, Some(0.25), Some(0.25)]);
    let table = std::fs::read_to_string(bench.out.path().join("s/results.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains("expected_ns,expected_low_ns"), "{table}");
    assert!(table.lines().nth(1).unwrap().contains("1000,900,1100,0.25"), "{table}");
}

#[test]
fn journals_of_before_there_were_expectations_are_read() {
    let bench = TestStudy::new("[parameters]\nA = [0, 1]\n");
    bench.run(all_pass());
    let text = std::fs::read_to_string(bench.journal()).unwrap();
    assert!(!text.contains("\"expected\""), "nothing is written where nothing was expected");
    let evaluations = text.lines().filter_map(|text| match line::decode(text.as_bytes()) {
        Ok(JournalRecord::Evaluation(one)) => Some(one),
        _ => None,
    });
    assert!(evaluations.map(|one| one.expected).eq([None, None]));
}
