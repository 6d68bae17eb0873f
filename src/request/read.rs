//! From the text of a request to its meaning: every mistake with its place.

use std::time::Duration;

use evo_space::diagnostic::{Diagnostic, Diagnostics, nearest};
use evo_space::document::{self, Data, Node};
use serde_json::Value;

use super::ask::{
    EvaluationLevel, EvaluationRequest, FeedbackWanted, REQUEST_SCHEMA, REQUEST_VERSION, RequestError,
    RequestLimits, RequestedBaseline, RequestedCandidate, Visibility,
};
use super::lines::id_of;

/// Bytes of an id: it stands in every answer.
const ID_MAX: usize = 256;
/// Bytes of a tag's text.
const TAG_MAX: usize = 4096;
/// Bytes of a hypothesis.
const HYPOTHESIS_MAX: usize = 4096;
/// Bytes of feedback that may be asked for.
const FEEDBACK_MAX: i64 = 64 << 10;
/// Seconds of a limit.
const SECONDS_MAX: f64 = 86_400.0;

const KEYS: &[&str] = &[
    "schema",
    "version",
    "id",
    "task",
    "ask",
    "candidate",
    "level",
    "tune",
    "baseline",
    "limits",
    "feedback",
    "visibility",
    "hypothesis",
    "tag",
];
const CANDIDATE_KEYS: &[&str] =
    &["kind", "sources", "entry", "configuration", "launches", "flags", "parameters", "constraints"];

/// Reads a request.
pub fn request(text: &str) -> Result<EvaluationRequest, Box<RequestError>> {
    let mut reader = RequestReader { text, found: Diagnostics::default(), hidden: None };
    let text_of_json = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = match text_of_json.trim_start().starts_with('{') {
        true => document::parse(text, &mut reader.found),
        false => {
            let at = text.len() - text_of_json.trim_start().len();
            reader.found.error_with_hint(at..at, "the request is not a JSON object", "it begins with `{`");
            None
        }
    };
    let read = root.and_then(|root| reader.whole(&root));
    match read {
        Some(read) if reader.found.is_empty() => Ok(read),
        _ => Err(Box::new(reader.error())),
    }
}

struct RequestReader<'a> {
    text: &'a str,
    found: Diagnostics,
    /// Who reads the answer, also of a request with mistakes.
    hidden: Option<Visibility>,
}

impl RequestReader<'_> {
    fn error(self) -> RequestError {
        let mut list: Vec<&Diagnostic> = self.found.list().iter().collect();
        list.sort_by_key(|one| one.span.as_ref().map_or(usize::MAX, |span| span.start));
        let shortened = |text: &str| text.chars().take(400).collect::<String>();
        let mut message = list.first().map_or(String::new(), |one| shortened(&one.message));
        if list.len() > 1 {
            message = format!("{message} (and {} more mistakes)", list.len() - 1);
        }
        RequestError {
            id: id_of(self.text.as_bytes()),
            message,
            hint: list.first().and_then(|one| one.hint.as_deref()).map(shortened),
            place: self.found.first_place(self.text),
            visibility: self.hidden,
        }
    }

    fn wrong(&mut self, node: &Node, message: String, hint: Option<String>) {
        self.found.push(Diagnostic { message, span: Some(node.span.clone()), hint });
    }

    fn kind(&mut self, node: &Node, path: &str, expected: &str) {
        self.wrong(node, format!("`{path}` is {}, expected {expected}", node.kind()), None);
    }

    /// A table's value for a key; null counts as absent.
    fn get<'n>(&self, node: &'n Node, key: &str) -> Option<&'n Node> {
        node.get(key).filter(|value| !matches!(value.data, Data::Null))
    }

    /// Complains of a table that is none and of keys that are not known.
    fn keys(&mut self, node: &Node, path: &str, known: &[&str]) -> Option<()> {
        let Some(entries) = node.entries() else {
            self.kind(node, path, "an object");
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            let key: String = entry.key.chars().take(80).collect();
            let message = format!("unknown field `{key}` in `{path}`");
            self.found.push(Diagnostic { message, span: Some(entry.key_span.clone()), hint: Some(hint) });
        }
        Some(())
    }

    fn word(&mut self, node: &Node, path: &str) -> Option<String> {
        let Data::Text(text) = &node.data else {
            self.kind(node, path, "a text");
            return None;
        };
        Some(text.clone())
    }

    fn one_of<T: Copy>(&mut self, node: &Node, path: &str, words: &[(&str, T)]) -> Option<T> {
        let word = self.word(node, path)?;
        let found = words.iter().find(|(own, _)| *own == word).map(|(_, value)| *value);
        if found.is_none() {
            let names = words.iter().map(|(own, _)| *own);
            let hint = match nearest(&word, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("one of: {}", names.collect::<Vec<_>>().join(", ")),
            };
            let word: String = word.chars().take(80).collect();
            self.wrong(node, format!("`{path}` is `{word}`, which is unknown"), Some(hint));
        }
        found
    }

    /// Says that a part of the form is not served by this evo.
    fn unserved(&mut self, node: &Node, path: &str, hint: &str) {
        self.wrong(node, format!("`{path}` is not served by this evo"), Some(hint.to_string()));
    }

    fn whole(&mut self, root: &Node) -> Option<EvaluationRequest> {
        self.keys(root, "the request", KEYS)?;
        let visibilities = [("agent", Visibility::Agent), ("owner", Visibility::Owner)];
        let visibility = self.get(root, "visibility");
        self.hidden = visibility.and_then(|node| self.one_of(node, "visibility", &visibilities));
        self.form(root);
        let id = self.id(root);
        let levels = EvaluationLevel::ALL.map(|level| (level.as_str(), level));
        let level = self.get(root, "level").and_then(|node| self.one_of(node, "level", &levels));
        if let Some(node) = self.get(root, "tune") {
            self.unserved(node, "tune", "`evo sweep` tunes a template; ask here for one configuration of it");
        }
        let space = self.get(root, "task").and_then(|node| self.task(node));
        let asked = self.get(root, "ask").and_then(|node| self.one_of(node, "ask", &[("task", true)]));
        let asks_task = asked.unwrap_or_default();
        let candidate = match self.get(root, "candidate") {
            Some(node) => self.candidate(node),
            // A misspelled question is the one mistake.
            None if self.get(root, "ask").is_some() => asks_task.then(RequestedCandidate::default),
            None => {
                let hint = Some("add \"candidate\": {\"kind\": \"cuda\", \"sources\": […]}".to_string());
                self.wrong(root, "the request has no `candidate`".to_string(), hint);
                None
            }
        };
        let baseline = self.get(root, "baseline").and_then(|node| self.baseline(node));
        let limits = self.get(root, "limits").and_then(|node| self.limits(node)).unwrap_or_default();
        let feedback = self.get(root, "feedback").and_then(|node| self.feedback(node)).unwrap_or_default();
        let tag = self.get(root, "tag").and_then(|node| self.tag(node));
        let hypothesis = self.get(root, "hypothesis").and_then(|node| self.hypothesis(node));
        let visibility = self.hidden;
        Some(EvaluationRequest {
            id,
            space,
            asks_task,
            candidate: candidate?,
            level,
            baseline,
            limits,
            feedback,
            visibility,
            hypothesis,
            tag,
        })
    }

    fn hypothesis(&mut self, node: &Node) -> Option<String> {
        let text = self.word(node, "hypothesis")?;
        if text.len() > HYPOTHESIS_MAX {
            self.wrong(node, format!("`hypothesis` has more than {HYPOTHESIS_MAX} bytes"), None);
        }
        Some(text)
    }

    fn form(&mut self, root: &Node) {
        if let Some(node) = self.get(root, "schema")
            && self.word(node, "schema").is_some_and(|word| word != REQUEST_SCHEMA)
        {
            self.wrong(node, format!("`schema` is not `{REQUEST_SCHEMA}`"), None);
        }
        match self.get(root, "version").map(|node| (node, &node.data)) {
            None | Some((_, Data::Int(REQUEST_VERSION))) => {}
            Some((node, Data::Int(other))) => {
                let message = format!("`version` is {other}, and this evo knows {REQUEST_VERSION}");
                self.wrong(node, message, None);
            }
            Some((node, _)) => self.kind(node, "version", "an integer"),
        }
    }

    fn id(&mut self, root: &Node) -> Value {
        match self.get(root, "id").map(|node| (node, &node.data)) {
            None => Value::Null,
            Some((_, Data::Int(id))) => Value::from(*id),
            Some((_, Data::Text(id))) if id.len() <= ID_MAX => Value::from(id.as_str()),
            Some((node, Data::Text(_))) => {
                self.wrong(node, format!("`id` has more than {ID_MAX} bytes"), None);
                Value::Null
            }
            Some((node, _)) => {
                self.kind(node, "id", "a text or an integer of 64 bits");
                Value::Null
            }
        }
    }

    fn task(&mut self, node: &Node) -> Option<String> {
        self.keys(node, "task", &["space", "definition", "workloads", "dir"])?;
        for key in ["definition", "workloads", "dir"] {
            if let Some(own) = self.get(node, key) {
                self.unserved(own, &format!("task.{key}"), "name a space file as `task.space`");
            }
        }
        let space = self.get(node, "space").and_then(|own| self.word(own, "task.space"));
        space.filter(|space| !space.trim().is_empty())
    }

    fn candidate(&mut self, node: &Node) -> Option<RequestedCandidate> {
        self.keys(node, "candidate", CANDIDATE_KEYS)?;
        let kinds = ["configuration", "cuda", "template", "cubin", "frontend"].map(|kind| (kind, kind));
        let kind = match self.get(node, "kind") {
            Some(own) => self.one_of(own, "candidate.kind", &kinds),
            None => {
                let hint = Some("one of: configuration, cuda, template".to_string());
                self.wrong(node, "`candidate` has no `kind`".to_string(), hint);
                None
            }
        }?;
        if let ("cubin" | "frontend", Some(own)) = (kind, self.get(node, "kind")) {
            let path = format!("candidate.kind = {kind}");
            self.unserved(own, &path, "hand over CUDA source (`cuda`) or a template");
            return None;
        }
        for key in ["flags", "parameters", "constraints"] {
            let own = self.get(node, key);
            let is_empty = |own: &&Node| match &own.data {
                Data::List(items) => items.is_empty(),
                Data::Table(entries) => entries.is_empty(),
                _ => false,
            };
            if let Some(own) = own.filter(|own| !is_empty(own)) {
                let hint = "the space's own file says it for all candidates";
                self.unserved(own, &format!("candidate.{key}"), hint);
            }
        }
        let source = self.source(node, kind);
        let entry = self.get(node, "entry").and_then(|own| self.word(own, "candidate.entry"));
        let configuration = self.get(node, "configuration").and_then(|own| {
            self.keys_of_any(own, "candidate.configuration")?;
            Some(self.text[own.span.clone()].to_string())
        });
        let launches = self.get(node, "launches").and_then(|own| self.launches(own));
        Some(RequestedCandidate { source, is_template: kind == "template", entry, configuration, launches })
    }

    fn keys_of_any(&mut self, node: &Node, path: &str) -> Option<()> {
        if node.entries().is_none() {
            self.kind(node, path, "an object");
            return None;
        }
        Some(())
    }

    fn source(&mut self, node: &Node, kind: &str) -> Option<String> {
        let own = self.get(node, "sources");
        let wanted = kind != "configuration";
        let items = match own.map(|own| (own, &own.data)) {
            None => &[][..],
            Some((_, Data::List(items))) => &items[..],
            Some((own, _)) => {
                self.kind(own, "candidate.sources", "a list");
                return None;
            }
        };
        match (items, wanted) {
            ([], false) => None,
            ([one], true) => {
                self.keys(one, "candidate.sources[0]", &["path", "content"])?;
                if let Some(path) = self.get(one, "path") {
                    self.word(path, "candidate.sources[0].path");
                }
                match self.get(one, "content") {
                    Some(content) => self.word(content, "candidate.sources[0].content"),
                    None => {
                        self.wrong(one, "`candidate.sources[0]` has no `content`".to_string(), None);
                        None
                    }
                }
            }
            (_, false) => {
                let hint = "say `\"kind\": \"cuda\"` or `\"template\"` for a source of its own";
                let message = "a candidate of the kind `configuration` has `sources`".to_string();
                self.wrong(own.unwrap_or(node), message, Some(hint.to_string()));
                None
            }
            (items, true) => {
                let message = format!("`candidate.sources` has {} sources, expected one", items.len());
                self.wrong(own.unwrap_or(node), message, None);
                None
            }
        }
    }

    /// The text of what a launch file says.
    fn launches(&mut self, node: &Node) -> Option<String> {
        let Data::List(items) = &node.data else {
            self.kind(node, "candidate.launches", "a list");
            return None;
        };
        let mut parts: Vec<(String, String)> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let path = format!("candidate.launches[{at}]");
            self.keys(item, &path, &["entry", "grid", "block", "shared", "cluster"])?;
            if let Some(own) = self.get(item, "cluster") {
                self.unserved(own, &format!("{path}.cluster"), "the space's own file declares clusters");
            }
            let Some(entry) = self.get(item, "entry") else {
                self.wrong(item, format!("`{path}` has no `entry`"), None);
                return None;
            };
            let entry_word = self.word(entry, &format!("{path}.entry"))?;
            if parts.iter().any(|(own, _)| *own == entry_word) {
                self.wrong(entry, format!("two launches of `{entry_word}`"), None);
                return None;
            }
            let fields = [("grid", "grid"), ("block", "block"), ("shared", "shared_bytes")];
            let given = fields.into_iter().filter_map(|(key, own)| Some((self.get(item, key)?, own)));
            let fields: Vec<String> =
                given.map(|(value, own)| format!("\"{own}\":{}", &self.text[value.span.clone()])).collect();
            parts.push((entry_word, fields.join(",")));
        }
        let part =
            |(entry, fields): &(String, String)| format!("{}:{{{fields}}}", Value::from(entry.as_str()));
        let parts: Vec<String> = parts.iter().map(part).collect();
        (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
    }

    fn baseline(&mut self, node: &Node) -> Option<RequestedBaseline> {
        let word = self.word(node, "baseline")?;
        let hash = word.trim_start_matches('@');
        match word.as_str() {
            "default" => Some(RequestedBaseline::Default),
            "incumbent" => Some(RequestedBaseline::Incumbent),
            _ if word.starts_with("peer:") => {
                self.unserved(node, "baseline = peer:…", "`default`, `incumbent` or a hash");
                None
            }
            _ if (6..=32).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Some(RequestedBaseline::Hash(hash.to_ascii_lowercase()))
            }
            _ => {
                let hint = "`default`, `incumbent`, or the first digits of a hash (6 at least)".to_string();
                let shown: String = word.chars().take(80).collect();
                self.wrong(node, format!("`baseline` is `{shown}`, which is unknown"), Some(hint));
                None
            }
        }
    }

    fn limits(&mut self, node: &Node) -> Option<RequestLimits> {
        self.keys(node, "limits", &["compile_s", "run_s", "total_s", "memory_mb"])?;
        if let Some(own) = self.get(node, "memory_mb") {
            self.unserved(own, "limits.memory_mb", "the machine's own limit on compilers holds");
        }
        let mut seconds = |key: &str| {
            let own = self.get(node, key)?;
            let value = match own.data {
                Data::Int(value) => value as f64,
                Data::Float(value) => value,
                _ => {
                    self.kind(own, &format!("limits.{key}"), "a number of seconds");
                    return None;
                }
            };
            if !(0.1..=SECONDS_MAX).contains(&value) {
                let message = format!("`limits.{key}` is {value}, expected 0.1 to {SECONDS_MAX}");
                self.wrong(own, message, None);
                return None;
            }
            Some(Duration::from_secs_f64(value))
        };
        Some(RequestLimits {
            compile: seconds("compile_s"),
            run: seconds("run_s"),
            total: seconds("total_s"),
        })
    }

    fn feedback(&mut self, node: &Node) -> Option<FeedbackWanted> {
        self.keys(node, "feedback", &["bytes", "profile", "sass"])?;
        let mut wanted = FeedbackWanted::default();
        match self.get(node, "bytes").map(|own| (own, &own.data)) {
            None => {}
            Some((_, Data::Int(bytes))) if (0..=FEEDBACK_MAX).contains(bytes) => {
                wanted.bytes = usize::try_from(*bytes).unwrap_or_default();
            }
            Some((own, Data::Int(bytes))) => {
                self.wrong(own, format!("`feedback.bytes` is {bytes}, expected 0 to {FEEDBACK_MAX}"), None);
            }
            Some((own, _)) => self.kind(own, "feedback.bytes", "an integer"),
        }
        for key in ["profile", "sass"] {
            match self.get(node, key).map(|own| (own, &own.data)) {
                None | Some((_, Data::Bool(false))) => {}
                Some((_, Data::Bool(true))) if key == "profile" => wanted.profile = true,
                Some((own, Data::Bool(true))) => {
                    self.unserved(
                        own,
                        "feedback.sass",
                        "`evo compile` keeps the binary, `cuobjdump` reads it",
                    );
                }
                Some((own, _)) => self.kind(own, &format!("feedback.{key}"), "true or false"),
            }
        }
        Some(wanted)
    }

    fn tag(&mut self, node: &Node) -> Option<Value> {
        let text = &self.text[node.span.clone()];
        if text.len() > TAG_MAX {
            self.wrong(node, format!("`tag` has {} bytes, and at most {TAG_MAX} are kept", text.len()), None);
            return None;
        }
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(text: &str, parts: &[&str]) -> RequestError {
        let error = *request(text).unwrap_err();
        let shown = format!("{}; {}", error.message, error.hint.as_deref().unwrap_or(""));
        for part in parts {
            assert!(shown.contains(part), "no `{part}` in {shown}");
        }
        error
    }

    #[test]
    fn the_task_is_asked_for_without_a_candidate() {
        let read = request(r#"{"id":1,"ask":"task","hypothesis":"h"}"#).unwrap();
        assert_eq!((read.asks_task, read.hypothesis.as_deref()), (true, Some("h")));
        let error = refused(r#"{"id":1,"ask":"tsak"}"#, &["`ask` is `tsak`", "did you mean `task`?"]);
        assert!(!error.message.contains("more mistakes"), "{}", error.message);
        refused(&format!(r#"{{"ask":"task","hypothesis":"{}"}}"#, "h".repeat(4097)), &["4096 bytes"]);
    }

    #[test]
    fn a_whole_request_is_read() {
        let text = r#"{"schema":"evo.evaluate.request","version":1,"id":"a7","task":{"space":"attn.toml"},
            "candidate":{"kind":"cuda","sources":[{"path":"k.cu","content":"int x;"}],"entry":"fwd",
            "configuration":{"BLOCK_M":64},
            "launches":[{"entry":"fwd","grid":["N",1],"block":[64],"shared":"4*N","cluster":null}],"flags":[]},
            "level":"tiny","tune":null,"baseline":"@3FA9C0","limits":{"compile_s":120,"total_s":0.5},
            "feedback":{"bytes":100,"profile":true,"sass":false},"visibility":"owner","tag":{"generation":3}}"#;
        let own = request(text).unwrap();
        assert_eq!((own.id, own.space.as_deref()), (json!("a7"), Some("attn.toml")));
        assert_eq!(own.candidate.configuration.as_deref(), Some("{\"BLOCK_M\":64}"));
        let launches = own.candidate.launches.unwrap();
        assert_eq!(launches, r#"{"fwd":{"grid":["N",1],"block":[64],"shared_bytes":"4*N"}}"#);
        assert_eq!(own.level, Some(EvaluationLevel::Tiny));
        assert_eq!(own.baseline, Some(RequestedBaseline::Hash("3fa9c0".into())));
        assert_eq!(own.limits.total, Some(Duration::from_millis(500)));
        assert_eq!(own.feedback, FeedbackWanted { bytes: 100, profile: true });
        assert_eq!((own.visibility, own.tag), (Some(Visibility::Owner), Some(json!({"generation": 3}))));
        let least = request(r#"{"candidate":{"kind":"configuration"}}"#).unwrap();
        assert_eq!((least.id, least.level, least.visibility), (Value::Null, None, None));
    }

    #[test]
    fn mistakes_have_places_and_ids() {
        let error =
            refused("{\"id\": 3,\n \"candidate\": {\"kind\": 7}}", &["`candidate.kind` is an integer"]);
        assert_eq!((error.id, error.place), (json!(3), Some((2, 24))));
        refused("[1]", &["not a JSON object", "begins with `{`"]);
        refused("{\"id\": 1, \"id\": 2}", &["duplicate key `id`"]);
        refused(&format!("{{\"tag\": {}1{}}}", "[".repeat(200), "]".repeat(200)), &["nesting is deeper"]);
        refused(r#"{"candidate":{"kind":"cuda"}}"#, &["has 0 sources"]);
        refused(
            r#"{"candidate":{"kind":"configuration"},"levle":"tiny"}"#,
            &["unknown field `levle`", "level"],
        );
        refused(r#"{"candidate":{"kind":"configuration"},"level":"slow"}"#, &["`level` is `slow`", "one of"]);
        refused(r#"{"candidate":{"kind":"cubin"}}"#, &["not served"]);
        refused(r#"{"candidate":{"kind":"configuration","flags":["-O3"]}}"#, &["candidate.flags"]);
        refused(r#"{"candidate":{"kind":"configuration"},"version":2}"#, &["`version` is 2"]);
        refused(r#"{"candidate":{"kind":"configuration"},"limits":{"total_s":1e300}}"#, &["0.1 to 86400"]);
        refused(r#"{"candidate":{"kind":"configuration"},"id":{"a":1}}"#, &["`id` is a table"]);
        refused(r#"{"candidate":{"kind":"configuration"},"id":99999999999999999999}"#, &["`id` is"]);
        let error = refused(r#"{"id":"b","visibility":"owner","candidate":[]}"#, &["expected an object"]);
        assert_eq!((error.id, error.visibility), (json!("b"), Some(Visibility::Owner)));
    }
}
