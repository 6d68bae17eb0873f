//! What a client hears of a call that takes long: the seconds that have passed, and where the work stands.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wire;

/// How often a client hears something.
const EVERY: Duration = Duration::from_secs(2);

/// The progress of one call whose client asked for it.
#[derive(Debug)]
pub struct CallProgress {
    token: Value,
    began: Instant,
    told: Instant,
    evaluations: u64,
    best_ns: Option<f64>,
    stage: String,
}

impl CallProgress {
    /// The progress of a call, where its request has a token for it.
    pub fn of(params: &serde_json::Map<String, Value>) -> Option<CallProgress> {
        let token = params.get("_meta")?.get("progressToken")?;
        let (began, is_token) = (Instant::now(), token.is_string() || token.is_i64() || token.is_u64());
        let stage = "running".to_string();
        is_token.then(|| CallProgress {
            token: token.clone(),
            began,
            told: began,
            evaluations: 0,
            best_ns: None,
            stage,
        })
    }

    /// Takes an event of a sweep.
    pub fn hear(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("finished") => {
                self.evaluations += 1;
                let best = event["evaluation"]["objective_ns"].as_f64();
                if event["best"] == true {
                    self.best_ns = best.or(self.best_ns);
                }
                self.stage = "searching".to_string();
            }
            Some("confirming") => {
                self.stage = format!("confirming finalist {} of {}", event["finalist"], event["of"]);
            }
            _ => {}
        }
    }

    /// The next message, where it is time for one.
    pub fn message(&mut self) -> Option<Value> {
        if self.told.elapsed() < EVERY {
            return None;
        }
        self.told = Instant::now();
        let mut text = self.stage.clone();
        if self.evaluations > 0 {
            text += &format!(", {} evaluations", self.evaluations);
        }
        if let Some(best) = self.best_ns {
            text += &format!(", best {:.2} µs", best / 1e3);
        }
        // Progress has to grow with every message; seconds do.
        let seconds = self.began.elapsed().as_secs_f64();
        let params = json!({ "progressToken": self.token, "progress": seconds, "message": text });
        Some(wire::notification("notifications/progress", params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(meta: Value) -> serde_json::Map<String, Value> {
        serde_json::Map::from_iter([("_meta".to_string(), meta)])
    }

    #[test]
    fn only_who_asks_hears_of_progress() {
        assert!(CallProgress::of(&serde_json::Map::new()).is_none());
        assert!(CallProgress::of(&params(json!({ "progressToken": null }))).is_none());
        let mut progress = CallProgress::of(&params(json!({ "progressToken": "t" }))).unwrap();
        assert_eq!(progress.message(), None);
    }

    #[test]
    fn a_message_says_where_the_search_stands() {
        let mut progress = CallProgress::of(&params(json!({ "progressToken": 4 }))).unwrap();
        progress
            .hear(&json!({ "event": "finished", "best": true, "evaluation": { "objective_ns": 1500.0 } }));
        progress.hear(&json!({ "event": "finished", "best": false, "evaluation": {} }));
        progress.hear(&json!({ "event": "confirming", "finalist": 1, "of": 3 }));
        progress.told -= EVERY;
        let message = progress.message().unwrap();
        assert_eq!(message["params"]["message"], "confirming finalist 1 of 3, 2 evaluations, best 1.50 µs");
        assert_eq!((&message["params"]["progressToken"], progress.message()), (&json!(4), None));
    }
}
