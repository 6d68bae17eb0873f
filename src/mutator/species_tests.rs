//! Rounds with a judge and a proposer that are played: no source is compiled, and a text says how fast it is.

use std::collections::VecDeque;
use std::sync::Arc;

use evo_protocol::mutator::MutatorEdit;
use evo_space::space::Parameter;
use evo_space::value;
use serde_json::json;

use super::*;

const SOURCE: &str = "// evo: begin body\nslow\n// evo: end body\n";

/// One parameter, `BLOCK`; 128 is the fastest for every source.
fn space() -> SearchSpace {
    let values = [32, 64, 128, 256, 512].map(value::Value::Int).to_vec();
    let block = Parameter { name: Arc::from("BLOCK"), values, default: 0, help: None };
    SearchSpace::new(vec![block], Vec::new())
}

fn block(size: i64) -> Configuration {
    serde_json::from_value(json!({ "BLOCK": size })).unwrap()
}

/// What the others saw, in order.
type PlayedSteps = std::rc::Rc<std::cell::RefCell<Vec<String>>>;

/// A judge that reads the time in the source: `slow`, `fast`, `faster`; `broken` compiles nowhere, and `fragile` passes
/// a screening only.
struct PlayedJudge {
    seen: PlayedSteps,
    best: f64,
    losing: bool,
}

impl PlayedJudge {
    fn new(seen: &PlayedSteps) -> PlayedJudge {
        PlayedJudge { seen: seen.clone(), best: 100.0, losing: false }
    }

    fn time(candidate: &SpeciesCandidate) -> Option<f64> {
        let text = candidate.source.as_deref().unwrap_or(SOURCE);
        let own = [("broken", None), ("faster", Some(20.0)), ("fast", Some(50.0)), ("fragile", Some(10.0))];
        let own = own.iter().find(|(word, _)| text.contains(word)).map_or(Some(125.0), |(_, time)| *time);
        let size = serde_json::to_value(&candidate.configuration).unwrap()["BLOCK"].as_f64().unwrap();
        Some(own? * (1.0 + (size - 128.0).abs() / 512.0))
    }

    fn verdict(time: Option<f64>) -> SpeciesVerdict {
        let verdict = if time.is_some() { "pass" } else { "compile_error" };
        let message = if time.is_some() { "" } else { "no such word" };
        SpeciesVerdict {
            verdict: verdict.into(),
            message: message.into(),
            objective_ns: time,
            log_tail: message.into(),
            ..SpeciesVerdict::default()
        }
    }
}

impl SpeciesJudge for PlayedJudge {
    fn screen(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict {
        self.seen.borrow_mut().push(format!("screen {}", candidate.configuration));
        // A source that says so uses tensor cores, and takes as long as one that does not.
        let is_tensor = candidate.source.as_deref().is_some_and(|text| text.contains("tensor"));
        let resources = json!({ "arithmetic": if is_tensor { "mma" } else { "fma" } });
        SpeciesVerdict { resources, ..PlayedJudge::verdict(PlayedJudge::time(candidate)) }
    }

    fn confirm(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict {
        self.seen.borrow_mut().push("confirm".to_string());
        let is_fragile = candidate.source.as_deref().is_some_and(|text| text.contains("fragile"));
        let time = PlayedJudge::time(candidate).filter(|_| !is_fragile);
        let accepted = time.is_some_and(|time| time < self.best * 0.97);
        let speedup = time.map(|time| self.best / time);
        self.best = if accepted { time.unwrap() } else { self.best };
        let number = accepted.then_some(7);
        SpeciesVerdict { accepted, speedup, number, ..PlayedJudge::verdict(time) }
    }

    fn rest(&mut self) {
        self.seen.borrow_mut().push("rest".to_string());
    }

    fn is_lost(&self) -> bool {
        self.losing && self.seen.borrow().len() > 1
    }
}

/// A proposer with its answers beforehand.
struct PlayedProposer {
    seen: PlayedSteps,
    answers: VecDeque<Vec<MutatorProposal>>,
    orders: Vec<MutatorOrder>,
    told: Vec<MutatorResult>,
    gives_up: bool,
}

impl PlayedProposer {
    fn new(seen: &PlayedSteps, answers: Vec<Vec<MutatorProposal>>) -> PlayedProposer {
        let (orders, told) = (Vec::new(), Vec::new());
        PlayedProposer { seen: seen.clone(), answers: answers.into(), orders, told, gives_up: false }
    }
}

impl Proposer for PlayedProposer {
    fn propose(
        &mut self,
        order: &MutatorOrder,
        _records: &mut MutatorRecords,
    ) -> Option<(u64, Vec<MutatorProposal>)> {
        self.seen.borrow_mut().push("propose".to_string());
        self.orders.push(order.clone());
        let answer = self.answers.pop_front();
        let none = if self.gives_up { None } else { Some(Vec::new()) };
        Some((self.orders.len() as u64, answer.or(none)?))
    }

    fn tell(&mut self, result: &MutatorResult, _records: &mut MutatorRecords) {
        self.told.push(result.clone());
    }

    fn end(&mut self, _records: &mut MutatorRecords) -> Option<String> {
        self.gives_up.then(|| "it was given up".to_string())
    }
}

fn named(name: &str) -> MutatorProposal {
    MutatorProposal { name: name.to_string(), ..MutatorProposal::default() }
}

/// A proposal that puts a word in the place of `slow`.
fn word(word: &str) -> MutatorProposal {
    let edit = MutatorEdit { search: "slow".into(), replace: word.to_string() };
    MutatorProposal { edits: Some(vec![edit]), ..named(word) }
}

/// Plays answers from the champion's 64 on; what came of it, with the proposer and what was done in order.
fn play(answers: Vec<Vec<MutatorProposal>>) -> (SpeciesOutcome, PlayedProposer, Vec<String>) {
    let seen = PlayedSteps::default();
    let (mut judge, mut proposer) = (PlayedJudge::new(&seen), PlayedProposer::new(&seen, answers));
    let outcome = play_with(&mut judge, &mut proposer, 5, Duration::from_secs(600));
    let seen = seen.borrow().clone();
    (outcome, proposer, seen)
}

fn play_with(
    judge: &mut PlayedJudge,
    proposer: &mut PlayedProposer,
    rounds: u32,
    time: Duration,
) -> SpeciesOutcome {
    let (space, start) = (space(), block(64));
    let until = Instant::now() + time;
    let bounds = SpeciesBounds { rounds, proposals: 4, deadline: Duration::from_secs(1), until };
    let task = SpeciesTask { space: &space, source: SOURCE, start: &start, bounds };
    run(&task, proposer, judge, &mut MutatorRecords::default())
}

#[test]
fn the_fastest_is_tuned_and_accepted() {
    let (outcome, proposer, seen) = play(vec![vec![word("slower"), word("fast"), word("broken")]]);
    let winner = outcome.winner().unwrap();
    assert_eq!((winner.result.name.as_str(), winner.number), ("fast", Some(7)));
    // A tiny budget finds 64 and its neighbor; the search from there finds nothing better.
    assert_eq!(winner.result.configuration, Some(block(128)));
    assert!(winner.result.tried > FIRST && winner.result.tried <= FIRST + FURTHER, "{winner:?}");
    assert_eq!(seen.iter().filter(|one| *one == "confirm").count(), 1);
    // Two failures in a row are enough.
    let broken = outcome.rows.iter().find(|row| row.result.name == "broken").unwrap();
    assert_eq!((broken.result.verdict.as_str(), broken.result.tried), ("compile_error", FAILURES_MAX));
    assert_eq!(broken.result.objective_ns, None);
    // All are told, in the order of the answer, before the next question, which names what failed.
    let told: Vec<&str> = proposer.told.iter().map(|own| own.proposal.as_str()).collect();
    assert_eq!(told, ["1.1", "1.2", "1.3"]);
    let next = &proposer.orders[1];
    let failed = MutatorFailure {
        id: "1.3".into(),
        name: "broken".into(),
        verdict: "compile_error".into(),
        lesson: "no such word".into(),
    };
    assert_eq!((next.failures.clone(), next.operator), (vec![failed], MutatorOperator::Mutate));
    assert_eq!((next.parents[0].id.as_str(), next.parents[0].source.contains("fast")), ("1.2", true));
    assert!(outcome.why.contains("nothing more"), "{}", outcome.why);
}

#[test]
fn who_thinks_does_not_hold_the_device() {
    let (_, _, seen) = play(vec![vec![word("fast")], vec![word("faster")]]);
    for (at, _) in seen.iter().enumerate().filter(|(_, one)| *one == "propose") {
        assert_eq!(seen[at - 1], "rest", "{seen:?}");
    }
    assert_eq!(seen.last().map(String::as_str), Some("rest"));
}

#[test]
fn later_rounds_build_on_what_was_accepted() {
    let faster = MutatorProposal {
        edits: Some(vec![MutatorEdit { search: "fast".into(), replace: "faster".into() }]),
        ..named("faster")
    };
    // From the first parent, which is the accepted one by then; the space's own has to be named.
    let from_space = MutatorProposal { parent: Some(OWN.into()), ..word("slower") };
    let (outcome, proposer, _) = play(vec![vec![word("fast")], vec![faster, from_space]]);
    assert_eq!((outcome.accepted(), outcome.winner().unwrap().result.name.as_str()), (2, "faster"));
    assert_eq!(proposer.told.iter().filter(|own| own.verdict == "pass").count(), 3);
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_reason() {
    let bad = |proposal: MutatorProposal, part: &str| {
        let (outcome, proposer, seen) = play(vec![vec![proposal]]);
        let result = &outcome.rows[0].result;
        assert_eq!((result.verdict.as_str(), result.tried), ("refused", 0));
        assert!(result.message.contains(part), "{}", result.message);
        assert_eq!(proposer.orders[1].failures[0].lesson, result.message);
        // Only the space's own source was judged.
        assert_eq!(seen.iter().filter(|one| one.starts_with("screen")).count(), 1, "{seen:?}");
    };
    bad(named("nothing"), "0 of `source`, `edits` and `genome`");
    bad(MutatorProposal { parent: Some("9.9".into()), ..word("fast") }, "`9.9` is none of this run");
    let edit = MutatorEdit { search: "begin".into(), replace: "fast".into() };
    bad(MutatorProposal { edits: Some(vec![edit]), ..named("mark") }, "not inside of a region");
    bad(MutatorProposal { source: Some("fast".into()), ..named("bare") }, "differs outside of its regions");
    let genome = |name: &str, value: Value| MutatorProposal {
        genome: Some([(name.to_string(), value)].into()),
        ..named("point")
    };
    bad(genome("TILE", json!(1)), "no parameter `TILE`");
    bad(genome("BLOCK", json!(65)), "not a point of the space");
}

#[test]
fn a_genome_is_one_point_of_the_own_source() {
    let genome = MutatorProposal { genome: Some([("BLOCK".to_string(), json!(256))].into()), ..named("g") };
    let (outcome, _, _) = play(vec![vec![genome]]);
    let row = &outcome.rows[0];
    assert_eq!((row.result.tried, row.result.configuration.clone()), (1, Some(block(256))));
    assert_eq!(row.candidate.as_ref().unwrap().source, None);
}

#[test]
fn what_fails_is_to_be_mended_before_it_is_changed() {
    let (_, proposer, _) = play(vec![vec![word("broken")], vec![word("fast")]]);
    let (first, second) = (&proposer.orders[0], &proposer.orders[1]);
    assert_eq!((first.operator, first.parents[0].id.as_str()), (MutatorOperator::Init, OWN));
    assert_eq!(first.parents[0].source, SOURCE);
    assert_eq!((second.operator, second.parents[0].id.as_str()), (MutatorOperator::Repair, "1.1"));
    assert!(second.parents[0].source.contains("broken") && second.parents[0].log_tail.contains("word"));
}

#[test]
fn what_fails_at_full_depth_is_no_parent() {
    let (outcome, proposer, _) = play(vec![vec![word("fragile"), word("slower")]]);
    assert_eq!(outcome.winner(), None);
    let fragile = &outcome.rows[0].result;
    assert_eq!((fragile.verdict.as_str(), fragile.objective_ns), ("compile_error", None));
    assert_eq!(proposer.orders[1].failures.len(), 1);
    assert_eq!(proposer.orders[1].parents[0].id, OWN);
}

#[test]
fn other_kinds_of_sources_are_kept_and_come_back_as_parents() {
    let (_, proposer, _) = play(vec![
        vec![word("fast"), word("slow tensor")],
        vec![MutatorProposal { parent: Some(OWN.into()), ..word("slower") }],
        vec![MutatorProposal { parent: Some(OWN.into()), ..word("slower still") }],
        vec![MutatorProposal { parent: Some(OWN.into()), ..word("slowest") }],
    ]);
    let archive: Vec<(Option<&str>, &str, usize)> = (proposer.orders[1].archive.iter())
        .map(|own| (own.cell.arithmetic.as_deref(), own.id.as_str(), own.passed))
        .collect();
    assert_eq!(archive, [(Some("fma"), "1.1", 2), (Some("mma"), "1.2", 1)]);
    let seen: Vec<(MutatorOperator, Vec<&str>)> = (proposer.orders.iter())
        .map(|own| (own.operator, own.parents.iter().map(|parent| parent.id.as_str()).collect()))
        .collect();
    let expected = [
        (MutatorOperator::Init, vec![OWN]),
        (MutatorOperator::Mutate, vec!["1.1"]),
        (MutatorOperator::Mutate, vec!["1.2"]),
        (MutatorOperator::Crossover, vec!["1.1", "1.2"]),
    ];
    assert_eq!(seen[..4], expected);
    assert!(proposer.orders[2].parents[0].source.contains("tensor"));
}

#[test]
fn every_end_has_its_reason() {
    let end = |answers: Vec<Vec<MutatorProposal>>, change: &dyn Fn(&mut PlayedJudge, &mut PlayedProposer)| {
        let seen = PlayedSteps::default();
        let (mut judge, mut proposer) = (PlayedJudge::new(&seen), PlayedProposer::new(&seen, answers));
        change(&mut judge, &mut proposer);
        let outcome = play_with(&mut judge, &mut proposer, 2, Duration::from_secs(600));
        (outcome.rounds, outcome.why)
    };
    let three = || vec![vec![word("fast")], vec![word("slower")], vec![word("fast")]];
    assert_eq!(end(three(), &|_, _| ()), (2, "all 2 rounds were played".to_string()));
    let given_up = end(vec![vec![word("fast")]], &|_, proposer| proposer.gives_up = true);
    assert_eq!(given_up, (1, "it was given up".to_string()));
    let lost = end(three(), &|judge, _| judge.losing = true);
    assert!(lost.0 <= 1 && lost.1.contains("the device is lost"), "{lost:?}");
    let seen = PlayedSteps::default();
    let (mut judge, mut proposer) = (PlayedJudge::new(&seen), PlayedProposer::new(&seen, three()));
    let outcome = play_with(&mut judge, &mut proposer, 2, Duration::ZERO);
    assert_eq!((outcome.rounds, outcome.why.as_str()), (0, "its time is used up"));
    assert!(proposer.orders.is_empty());
}
