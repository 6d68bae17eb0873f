//! References whose answers say something about a part of an output, or about a sum or the set of its elements.

use std::collections::BTreeMap;

use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::GateReport;
use evo_protocol::view::ComparedForm;
use evo_protocol::worker::GateAnswer;
use serde_json::json;

use super::naive::{NaiveAnswers, NaiveReference};
use super::reference::ReferenceAnswer;

pub struct ViewedReference<'a> {
    pub whole: &'a mut dyn NaiveReference,
    pub plan: &'a ProblemPlan,
}

impl ViewedReference<'_> {
    fn look_at(&self, answers: NaiveAnswers) -> NaiveAnswers {
        let one =
            |(position, values): (usize, Vec<f64>)| (position, self.plan.buffers[position].compared(values));
        answers.into_iter().map(one).collect()
    }
}

impl NaiveReference for ViewedReference<'_> {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        let answers = self.whole.answers(inputs)?;
        Ok(self.look_at(answers))
    }

    fn answers_each(&mut self, inputs: &[Vec<Vec<u8>>]) -> Result<Vec<NaiveAnswers>, DeviceError> {
        let answers = self.whole.answers_each(inputs)?;
        Ok(answers.into_iter().map(|own| self.look_at(own)).collect())
    }

    fn single(&mut self, inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
        let answers = self.whole.single(inputs)?;
        Ok(answers.map(|own| self.look_at(own)))
    }
}

/// Says what of each output is compared, where that is not all of it.
pub fn tell(found: &mut GateAnswer, plans: &[&ProblemPlan]) {
    let of = |plan: &ProblemPlan| -> BTreeMap<String, String> {
        let viewed = plan.buffers.iter().filter_map(|own| Some((own, own.view.as_ref()?)));
        viewed.map(|(own, view)| (own.name.clone(), view.describe(&own.shape))).collect()
    };
    let said: BTreeMap<&str, BTreeMap<String, String>> =
        plans.iter().map(|plan| (plan.name.as_str(), of(plan))).filter(|(_, own)| !own.is_empty()).collect();
    let Some((problem, outputs)) = said.first_key_value() else { return };
    let outputs: Vec<String> =
        outputs.iter().map(|(name, words)| format!("`{name}` is compared {words}")).collect();
    let report = &mut found.report;
    report.message = format!("{}; {} (`{problem}`)", report.message, outputs.join(", "));
    report.evidence.insert(GateReport::IN_PART, json!(said));
}

/// The error of a sum is at most that of all its terms together.
pub fn look_at(plan: &ProblemPlan, answer: &mut ReferenceAnswer) {
    let buffer = &plan.buffers[answer.buffer];
    let Some(view) = &buffer.view else { return };
    if view.form == ComparedForm::Sum {
        let terms = view.region.iter().map(|own| own.count).product::<u64>().max(1) as f64;
        answer.noise.max *= terms;
        answer.noise.rms *= terms.sqrt();
    }
    answer.expected = buffer.compared(std::mem::take(&mut answer.expected));
    answer.trusted = answer.trusted.take().map(|own| buffer.compared(own));
}
