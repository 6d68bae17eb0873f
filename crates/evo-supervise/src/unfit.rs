//! Shapes of evo's own making that a user's reference kernel does not take.
//!
//! Derived shapes ask for sizes that nobody had in mind. A kernel with a leading dimension that is larger than its
//! size is right, and its reference reads outside its input where the shape has them the other way round. That says
//! nothing about a variant, so such a shape is left out, for this variant and for all that follow. The same holds for
//! the reference's build in single precision: only its answers in double precision are needed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Cause, Gate, Verdict, VerdictKind};
use evo_space::genome::ContentHash;

use super::job::Job;

#[derive(Debug, Default)]
pub struct UnfitShapes {
    /// By the reference's hash and the shape's name.
    shapes: BTreeSet<(ContentHash, String)>,
    single: BTreeSet<ContentHash>,
    /// References that fail without that build as well, so that it is not to blame.
    blameless: BTreeSet<ContentHash>,
}

impl UnfitShapes {
    pub fn without<'a>(&self, job: &'a Job) -> Cow<'a, Job> {
        let Some(reference) = hash(job) else { return Cow::Borrowed(job) };
        let unfit = |plan: &ProblemPlan| self.shapes.contains(&(reference.clone(), plan.name.clone()));
        let single = self.single.contains(reference) && job.candidate.reference_single.is_some();
        let shapes = || job.tiny.iter().chain(&job.several).chain(&job.drawn);
        if !single && !shapes().any(unfit) {
            return Cow::Borrowed(job);
        }
        let mut fitting = job.clone();
        if single {
            fitting.candidate.reference_single = None;
        }
        fitting.tiny_notes.not_taken =
            shapes().filter(|plan| unfit(plan)).map(|plan| plan.name.clone()).collect();
        for plans in [&mut fitting.tiny, &mut fitting.several, &mut fitting.drawn] {
            plans.retain(|plan| !unfit(plan));
        }
        if fitting.tiny.is_empty() && !job.tiny.is_empty() {
            fitting.tiny_notes.absent =
                "the reference takes none of the small shapes; tails not checked".to_string();
        }
        Cow::Owned(fitting)
    }

    /// Whether there is a lesson, and so the job shall be tried again.
    pub fn learn(&mut self, job: &Job, gate: Gate, verdict: &Verdict) -> bool {
        let late = verdict.kind == VerdictKind::WorkerHang;
        let task = verdict.kind == VerdictKind::HarnessError && verdict.has_cause(Cause::Task);
        let preparing = verdict.evidence.get("phase").is_none_or(|phase| phase == "preparing");
        let Some(reference) = hash(job).filter(|_| preparing && (late || task)) else { return false };
        // Shapes that a file lists are asked for.
        let derived = gate == Gate::TinyShapes && job.tiny_notes.hint.is_some();
        let place = verdict.evidence.get("at").or_else(|| verdict.evidence.get("case"));
        let place = place.and_then(|place| place.as_str()).filter(|_| derived);
        let shape = place.and_then(|place| shape_of(job, place));
        if let Some(shape) = shape {
            return self.shapes.insert((reference.clone(), shape));
        }
        if job.candidate.reference_single.is_some() {
            return !self.blameless.contains(reference) && self.single.insert(reference.clone());
        }
        // One variant's misfortune must not cost all that follow what this build tells.
        if self.single.remove(reference) {
            self.blameless.insert(reference.clone());
        }
        false
    }
}

fn shape_of(job: &Job, case: &str) -> Option<String> {
    let shapes = job.tiny.iter().chain(&job.several).chain(&job.drawn);
    let of =
        |plan: &&ProblemPlan| case.strip_prefix(&plan.name).is_some_and(|rest| rest.starts_with(" seed "));
    shapes.into_iter().find(of).map(|plan| plan.name.clone())
}

fn hash(job: &Job) -> Option<&ContentHash> {
    job.candidate.reference.as_ref().map(|(binary, _)| &binary.hash)
}

#[cfg(test)]
mod tests {
    use evo_protocol::worker::BinaryRef;

    use super::*;
    use crate::job::example;

    fn own() -> Job {
        let mut job = example::job(&[]);
        let binary = |text: &[u8]| BinaryRef { hash: ContentHash::of(text), path: None };
        job.tiny = ["tiny:N=1", "tiny:N=17"].map(|name| example::plan(name, 1.0)).to_vec();
        job.tiny_notes.hint = Some("say `multiple_of`");
        job.candidate.reference = Some((binary(b"naive"), vec!["naive".into()]));
        job.candidate.reference_single = Some(binary(b"single"));
        job
    }

    fn died_at(case: &str) -> Verdict {
        let verdict = Verdict::new(VerdictKind::HarnessError, "").with_cause(Cause::Task);
        verdict.with("at", case).with("phase", "preparing")
    }

    #[test]
    fn shapes_at_which_the_reference_dies_are_left_out_from_then_on() {
        let (mut unfit, job) = (UnfitShapes::default(), own());
        assert!(matches!(unfit.without(&job), Cow::Borrowed(_)));
        assert!(unfit.learn(&job, Gate::TinyShapes, &died_at("tiny:N=1 seed 0 normal")));
        let left = unfit.without(&job).into_owned();
        assert_eq!(left.tiny.iter().map(|plan| &*plan.name).collect::<Vec<_>>(), ["tiny:N=17"]);
        assert_eq!(left.tiny_notes.not_taken, ["tiny:N=1"]);
        assert!(left.candidate.reference_single.is_some() && left.tiny_notes.absent.is_empty());
        assert!(unfit.learn(&job, Gate::TinyShapes, &died_at("tiny:N=17 seed 0 normal")));
        assert!(unfit.without(&job).tiny_notes.absent.contains("tails not checked"));
        // Nothing new, so nothing to try again.
        assert!(!unfit.learn(&job, Gate::TinyShapes, &died_at("tiny:N=17 seed 0 normal")));
    }

    #[test]
    fn listed_shapes_and_problems_of_the_file_are_meant() {
        let (mut unfit, mut job) = (UnfitShapes::default(), own());
        job.tiny_notes.hint = None;
        job.candidate.reference_single = None;
        assert!(!unfit.learn(&job, Gate::TinyShapes, &died_at("tiny:N=1 seed 0 normal")));
        assert!(!unfit.learn(&job, Gate::FullShapes, &died_at("p seed 0 normal")));
        let launched = died_at("tiny:N=1 seed 0 normal").with("phase", "launched");
        assert!(!unfit.learn(&own(), Gate::TinyShapes, &launched));
    }

    #[test]
    fn the_build_in_single_precision_is_not_needed() {
        let (mut unfit, job) = (UnfitShapes::default(), own());
        assert!(unfit.learn(&job, Gate::FullShapes, &died_at("p seed 0 normal")));
        assert_eq!(unfit.without(&job).candidate.reference_single, None);
        assert!(!unfit.learn(&job, Gate::FullShapes, &died_at("p seed 0 normal")));
        // The second try fails as the first did: it was not that build, and later variants have it again.
        let second = unfit.without(&job).into_owned();
        assert!(!unfit.learn(&second, Gate::FullShapes, &died_at("p seed 0 normal")));
        assert!(unfit.without(&job).candidate.reference_single.is_some());
        assert!(!unfit.learn(&job, Gate::FullShapes, &died_at("p seed 0 normal")), "and is not tried again");
    }
}
