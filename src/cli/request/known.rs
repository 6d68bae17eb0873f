//! Answers of this process, for requests that come again: the same task, candidate and wishes get the same answer,
//! with `cached` in it.

use std::collections::BTreeMap;

use evo_space::genome::ContentHash;
use serde_json::Value;

use crate::request::answer::AnswerHead;

/// Answers that are kept; a process that serves for days must not grow without end.
const KEPT: usize = 1000;

/// The answers so far, by the hash of what was asked.
#[derive(Debug, Default)]
pub struct KnownAnswers(BTreeMap<ContentHash, (Value, String)>);

impl KnownAnswers {
    /// The answer to a request that was answered before, and the kernel's name.
    pub fn again(&self, key: Option<&ContentHash>, head: &AnswerHead) -> Option<(Value, String)> {
        let (answer, kernel) = self.0.get(key?)?;
        let mut answer = answer.clone();
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("line");
            fields.remove("tag");
        }
        answer["id"] = head.id.clone();
        if let Some(line) = head.line {
            answer["line"] = line.into();
        }
        if let Some(tag) = &head.tag {
            answer["tag"] = tag.clone();
        }
        answer["cached"] = true.into();
        Some((answer, kernel.clone()))
    }

    /// Keeps an answer that another judgement would give again. A verdict that chance decides is asked for anew.
    pub fn keep(&mut self, key: Option<ContentHash>, answer: &Value, kernel: &str) {
        let by_chance = ["noisy", "interrupted", "harness_error"].iter().any(|own| answer["verdict"] == *own);
        if let Some(key) = key.filter(|_| answer["status"] == "done" && !by_chance && self.0.len() < KEPT) {
            self.0.insert(key, (answer.clone(), kernel.to_string()));
        }
    }
}
