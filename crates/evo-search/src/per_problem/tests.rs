//! The search per problem: what it proposes, what it tells the searches, and that it finds what a mean hides.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use evo_space::space::SearchSpace;

use super::*;
use crate::conformance::{self, make, space_of};
use crate::registry;
use crate::strategy::ProblemTime;

/// 20,736 points; the optima of the two problems are far apart, and the best in the mean is a third point.
const SPACE: &str = "[parameters]\nA = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n\
                     B = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\nC = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n\
                     D = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n";

/// Times on both problems: by the distance from (1, 10, 2, 9) and from (10, 1, 9, 2). The mean of their logarithms is least
/// between the two, where both take 1.9 times as long as they could.
fn times(genome: &Genome) -> [f64; 2] {
    let distance = |optimum: [f64; 4]| {
        let own = genome.positions().iter().zip(optimum);
        own.map(|(position, best)| (f64::from(*position) - best).powi(2)).sum::<f64>()
    };
    let time = |least: f64, optimum| least * (0.01 * distance(optimum)).exp();
    [time(1000.0, [1.0, 10.0, 2.0, 9.0]), time(9000.0, [10.0, 1.0, 9.0, 2.0])]
}

fn measured(proposal: &Proposal) -> Outcome {
    let own = times(&proposal.genome);
    let mean = (own[0] * own[1]).sqrt();
    let time = |time_ns| Some(ProblemTime { time_ns, is_bound: false });
    Outcome {
        times: own.map(time).into(),
        target: proposal.target,
        ..Outcome::new(proposal.genome.clone(), VerdictClass::Ok, Some(mean))
    }
}

fn apart<'a>(name: &str, space: &'a SearchSpace, seed: u64) -> PerProblem<'a> {
    let search = |bound| ProblemSearch::new(make(name, space, seed), Some(bound));
    PerProblem::new(vec![search(500.0), search(4500.0)], seed).unwrap()
}

fn run(strategy: &mut dyn Strategy, evaluations: usize) -> Vec<Proposal> {
    conformance::run(strategy, 3, evaluations, |_, proposal| measured(proposal))
}

fn found(proposals: &[Proposal]) -> [f64; 2] {
    [0, 1].map(|problem| {
        let own = proposals.iter().map(|one| times(&one.genome)[problem]);
        own.fold(f64::INFINITY, f64::min) / [1000.0, 9000.0][problem]
    })
}

#[test]
fn each_problem_gets_its_best_where_the_mean_hides_it() {
    let space = space_of(SPACE);
    for seed in [1, 3, 4] {
        let own = found(&run(&mut apart("evolve", &space, seed), 120));
        assert!(own.iter().all(|factor| *factor < 1.03), "seed {seed}: {own:?}");
        let mean = found(&run(&mut *make("evolve", &space, seed), 120));
        assert!(mean.iter().all(|factor| *factor > 1.05), "seed {seed}: {mean:?}");
    }
}

#[test]
fn the_same_seed_proposes_the_same_and_every_point_once() {
    let space = space_of(SPACE);
    let trace = |seed| run(&mut apart("evolve", &space, seed), 60);
    let all = trace(3);
    assert_eq!(all, trace(3));
    assert_ne!(all, trace(4));
    let distinct: HashSet<&Genome> = all.iter().map(|one| &one.genome).collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(all[0], Proposal::new(space.default_genome(), Origin::DEFAULT));
    for target in [0, 1] {
        let aimed = all.iter().filter(|one| one.target == Some(target)).count();
        assert!(aimed >= 15, "{aimed} of 60 for problem {target}");
    }
}

#[test]
fn a_resumed_search_goes_on_as_the_interrupted_one() {
    let space = space_of(SPACE);
    for name in ["evolve", "random"] {
        let mut whole = apart(name, &space, 5);
        let before = conformance::run(&mut whole, 1, 40, |_, proposal| measured(proposal));
        assert_eq!(before.len(), 40, "{name}");
        let mut resumed = apart(name, &space, 5);
        before.iter().for_each(|proposal| resumed.tell(&measured(proposal)));
        assert_eq!(resumed.shares(), whole.shares(), "{name}");
        let (one, other) = (resumed.ask(1), whole.ask(1));
        // Which operator a child came from is forgotten by the strategies themselves.
        assert_eq!(one[0].target, other[0].target, "{name}");
    }
}

#[test]
fn every_point_is_proposed_once_and_then_it_is_done() {
    let space = space_of("[parameters]\nA = [0, 1, 2]\nB = [0, 1, 2]\nC = [0, 1]\n");
    for name in registry::names() {
        let mut strategy = apart(name, &space, 2);
        let all = run(&mut strategy, 1000);
        assert_eq!(all.len() as u128, space.count(), "{name}");
        assert!(strategy.is_done() && strategy.ask(3).is_empty(), "{name}");
    }
}

type Heard = Rc<RefCell<Vec<(VerdictClass, Option<f64>)>>>;

#[derive(Default)]
struct Listener(Heard);

impl Strategy for Listener {
    fn ask(&mut self, _n: usize) -> Vec<Proposal> {
        Vec::new()
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.0.borrow_mut().push((outcome.class, outcome.objective_ns));
    }

    fn is_done(&self) -> bool {
        true
    }
}

#[test]
fn a_search_hears_of_its_own_problem_only() {
    let heard = [Listener::default(), Listener::default()];
    let logs = [0, 1].map(|at: usize| Rc::clone(&heard[at].0));
    let searches = heard.into_iter().map(|one| ProblemSearch::new(Box::new(one), None)).collect();
    let mut strategy = PerProblem::new(searches, 1).unwrap();
    let time = |time_ns, is_bound| Some(ProblemTime { time_ns, is_bound });
    let mut tell = |gene: u16, class, times: [Option<ProblemTime>; 2]| {
        let plain = Outcome::new(Genome::from(vec![gene]), class, Some(7.0));
        strategy.tell(&Outcome { times: times.into(), ..plain });
    };
    tell(0, VerdictClass::Ok, [time(10.0, false), time(20.0, false)]);
    // Slow on the second problem, where its samples were cut short.
    tell(1, VerdictClass::Slow, [time(12.0, false), time(90.0, true)]);
    tell(2, VerdictClass::Slow, [time(50.0, true), None]);
    tell(3, VerdictClass::Crash, [time(1.0, false), None]);
    use VerdictClass::{Crash, Ok, PassedOver, Slow};
    assert_eq!(*logs[0].borrow(), [(Ok, Some(10.0)), (Ok, Some(12.0)), (Slow, Some(50.0)), (Crash, None)]);
    assert_eq!(*logs[1].borrow(), [(Ok, Some(20.0)), (Slow, Some(90.0)), (PassedOver, None), (Crash, None)]);
    assert!(PerProblem::new(Vec::new(), 1).is_none());
}

fn after(bound_ns: Option<f64>, times: &[f64], fruitless: usize) -> ProblemProgress {
    let mut own = ProblemProgress::new(bound_ns);
    times.iter().for_each(|time| own.tell(Some(*time), false));
    (0..fruitless).for_each(|_| own.tell(None, true));
    own
}

#[test]
fn chances_follow_what_is_left_to_gain() {
    let bounded = |times: &[f64]| after(Some(100.0), times, 0);
    let one = bounded(&[400.0]);
    let stuck = after(Some(100.0), &[400.0], 16);
    let told = |problem: &ProblemProgress, time: f64| {
        let mut problem = problem.clone();
        problem.tell(Some(time), true);
        problem
    };
    let (gained, untried) = (after(None, &[800.0, 100.0], 0), after(None, &[], 0));
    let mut forgotten = gained.clone();
    (0..LATELY).for_each(|_| forgotten.tell(Some(100.0), false));
    let gains_little = told(&stuck, 399.0);
    let gains_again = told(&gains_little, 390.0);
    for (what, problems, expected) in [
        ("ln 8 = 3 ln 2", [&bounded(&[800.0]), &bounded(&[200.0])], [0.75, 0.25]),
        ("as far", [&bounded(&[900.0, 400.0]), &after(Some(50.0), &[200.0], 0)], [0.5, 0.5]),
        // The least share.
        ("at its bound", [&bounded(&[1000.0]), &bounded(&[100.0])], [10.0 / 11.0, 1.0 / 11.0]),
        ("below a wrong bound", [&bounded(&[1000.0]), &bounded(&[50.0])], [10.0 / 11.0, 1.0 / 11.0]),
        ("what brings nothing", [&one, &stuck], [2.0 / 3.0, 1.0 / 3.0]),
        ("it gains a little", [&one, &gains_little], [0.6739, 0.3261]),
        ("it gains again", [&one, &gains_again], [0.5046, 0.4954]),
        ("gains without bounds", [&gained, &after(None, &[200.0, 100.0], 0)], [0.75, 0.25]),
        ("a forgotten gain", [&gained, &forgotten], [10.0 / 11.0, 1.0 / 11.0]),
        ("two forgotten gains", [&forgotten, &forgotten], [0.5, 0.5]),
        ("nothing passed", [&untried, &untried], [0.5, 0.5]),
        ("nothing passed on one", [&untried, &after(Some(1.0), &[4.0], 0)], [0.5, 0.5]),
    ] {
        let found = shares(problems.into_iter());
        let near = |(own, other): (&f64, &f64)| (own - other).abs() < 1e-3;
        assert!(found.len() == 2 && found.iter().zip(&expected).all(near), "{what}: {found:?}");
    }
}

#[test]
fn tickets_are_drawn_by_share() {
    let drawn: Vec<usize> = [0.0, 0.24, 0.26, 0.99, 1.0].map(|ticket| pick(&[0.25, 0.75], ticket)).into();
    assert_eq!(drawn, [0, 0, 1, 1, 1]);
}
