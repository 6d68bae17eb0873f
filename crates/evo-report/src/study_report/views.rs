//! The files that show a study: templates over its model.
//!
//! In `report.html` nothing is loaded from anywhere and no text of a kernel or a compiler can run: a content security
//! policy names the page's style and script by their hashes and allows nothing else. In the Markdown files every text that
//! is not marked as safe is escaped, so that no text of a kernel is markup.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evo_space::text::printable;
use minijinja::value::Value;
use minijinja::{Error, ErrorKind, context};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::model::StudyModel;
use crate::columns;
use crate::templates::environment;

const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// As many as are shown.
const FINDINGS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyView {
    /// `report.json`: what the others show, for programs.
    Data,
    /// `report.md`: what was tried, step by step.
    Log,
    /// `final_summary.md`: what came of it.
    Summary,
    /// `report.html`: the same as one page that needs nothing else.
    Page,
    /// The page as `evo report --watch` serves it, which says when there is more.
    LivePage,
}

impl StudyView {
    /// What `evo report` writes.
    pub const FILES: [StudyView; 4] = [StudyView::Data, StudyView::Log, StudyView::Summary, StudyView::Page];

    pub fn file_name(self) -> &'static str {
        match self {
            StudyView::Data => "report.json",
            StudyView::Log => "report.md",
            StudyView::Summary => "final_summary.md",
            StudyView::Page | StudyView::LivePage => "report.html",
        }
    }

    pub fn render(self, model: &StudyModel<'_>) -> Result<String, Error> {
        let environment = environment()?;
        let render = |name: &str, more: Value| {
            environment.get_template(name)?.render(context! { ..more, ..model.values.clone() })
        };
        let findings = render("findings.j2", context! {})?;
        let findings = findings.lines().filter(|line| !line.is_empty()).take(FINDINGS);
        let findings: Vec<String> = findings.map(String::from).collect();
        let is_live = self == StudyView::LivePage;
        let text = match self {
            StudyView::Data => {
                let model = serde_json::to_value(&model.values);
                let model = model.map_err(|why| Error::new(ErrorKind::BadSerialization, why.to_string()))?;
                // Sorted keys would put the mark of evo's files behind a model of any length.
                let [findings, model] = [&Json::from(findings), &model].map(embedded);
                format!(
                    "{{\"schema\":\"evo.report\",\"version\":1,\"findings\":{findings},\"model\":{model}}}\n"
                )
            }
            StudyView::Log => render("report.md.j2", context! {})?,
            StudyView::Summary => render("final_summary.md.j2", context! { findings })?,
            StudyView::Page | StudyView::LivePage => render(
                "report.html.j2",
                context! {
                    findings,
                    is_live,
                    policy => policy(STYLE, SCRIPT, is_live),
                    style => STYLE,
                    script => SCRIPT,
                    data => embedded(&columns::data(model.header, &model.rows, &model.parameters)),
                },
            )?,
        };
        // A terminal that prints it obeys nothing in it, and no text of it is written backwards.
        Ok(printable(text.trim_start()).into_owned())
    }
}

/// The policy of a page with this style and this script. A live page may ask the server that it came from, and nobody
/// else.
fn policy(style: &str, script: &str, is_live: bool) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())));
    let (style, script) = (hash(style), hash(script));
    let connect = if is_live { "; connect-src 'self'" } else { "" };
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'{connect}"
    )
}

/// JSON that may stand inside of a `script` element: nothing in it ends the element or begins another.
fn embedded(value: &Json) -> String {
    let escaped = |text: String, letter: char| text.replace(letter, &format!("\\u{:04x}", u32::from(letter)));
    ['<', '>', '&', '\u{2028}', '\u{2029}'].into_iter().fold(value.to_string(), escaped)
}

#[cfg(test)]
mod tests {
    use evo_journal::example as fake;
    use evo_journal::replay::History;
    use evo_protocol::evaluation::Evaluation;
    use evo_protocol::verdict::Verdict;
    use evo_space::genome::Configuration;
    use serde_json::json;

    use super::*;
    use crate::standing::{PeerTime, Standing};
    use crate::study_report::{LoadedStudy, ReportMaterial};

    /// A study of two evaluations whose parameters are called like columns, with an iteration, a gate run and a peer.
    fn material() -> ReportMaterial {
        let configuration = |value: i64| {
            let names = ["verdict", "time", "number"];
            Configuration::new(names.map(|name| (name.into(), value.into())).into())
        };
        let mut history = History::default();
        for (number, origin) in [(0, "default"), (1, "random")] {
            let one = fake::evaluation(number, configuration(number as i64), origin, Verdict::pass());
            let objective_ns = Some(100.0 - 20.0 * number as f64);
            history.evaluations.push(Evaluation { objective_ns, ..one });
        }
        let candidate = |source: &str| {
            let hash = configuration(1).hash();
            json!({ "configuration": configuration(1), "configuration_hash": hash, "source": source })
        };
        let iteration = |number: u64, source: &str| {
            serde_json::from_value(json!({
                "format": 1, "number": number, "at": "", "kernel": "k", "space": "s", "device": "d",
                "candidate": candidate(source), "against": "@best", "verdict": "pass", "message": "<b>",
                "correct": true, "problems": [{ "problem": "p", "canonical": true, "p50_ns": 80.0 }],
                "decision": "keep", "why": "faster", "notes": ["one", "two"],
            }))
        };
        let gate = json!({
            "format": 1, "number": 1, "at": "", "kernel": "k", "space": "s", "device": "d", "baseline": "b.json",
            "candidate": candidate("x"), "threshold": 0.03, "decision": "pass", "why": "no slower",
            "problems": [{ "problem": "p", "ratio": 0.9, "decision": "faster" }],
        });
        let ratio =
            serde_json::from_value(json!({ "ratio_to_best_peer": 0.9, "ratio_low": 0.8, "ratio_high": 1.0,
            "decision": "faster" }));
        let (implementation, peer, ratio) = (json!("evo"), json!("torch/b"), ratio.unwrap());
        let (p50_ns, peer_p50_ns) = (Some(9.0), Some(10.0));
        let times = PeerTime { implementation, peer, p50_ns, peer_p50_ns, ratio, ..PeerTime::default() };
        let problems = [("p".to_string(), times)].into();
        let (header, notes, damage) = (fake::header(), Vec::new(), Vec::new());
        let study = LoadedStudy { header, history, notes, insight: None, damage, profile: None };
        ReportMaterial {
            iterations: vec![iteration(1, "a\n").unwrap(), iteration(2, "b\n").unwrap()],
            gates: vec![serde_json::from_value(gate).unwrap()],
            peers: Some(Standing { folder: "bench/d/x".into(), at: json!(""), problems }),
            ..ReportMaterial::of(study)
        }
    }

    #[test]
    fn every_record_has_its_words() {
        let material = material();
        let model = StudyModel::of(&material);
        let [log, summary] = [StudyView::Log, StudyView::Summary].map(|view| view.render(&model).unwrap());
        insta::assert_snapshot!(log + "\n=== Summary\n\n" + &summary);
        let page = StudyView::LivePage.render(&model).unwrap();
        for words in ["data-live", "Best so far: 80.00 ns"] {
            assert!(page.contains(words), "{words}\n{page}");
        }
    }

    #[test]
    fn a_parameter_is_not_taken_for_a_column() {
        let material = material();
        let table = String::from_utf8(crate::csv::table(material.evaluations())).unwrap();
        let head = "number,generation,origin,parameter:verdict,time,parameter:number,verdict,cause,";
        assert!(table.starts_with(head), "{table}");
        assert!(table.lines().next().unwrap().contains(",at_ms,lane,duplicate_of,"), "{table}");
        let page = StudyView::Page.render(&StudyModel::of(&material)).unwrap();
        let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: Json = serde_json::from_str(data).unwrap();
        assert_eq!(data["parameters"][1], json!({ "name": "time", "values": ["0", "1"] }));
        assert_eq!(data["rows"][1][6], 80);
    }

    #[test]
    fn data_ends_no_element() {
        let hostile = json!({ "message": "</script><!-- <script> & \u{2028}" });
        let text = embedded(&hostile);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), hostile);
    }

    #[test]
    fn a_page_may_run_its_own_script_alone() {
        // The digest of the empty text, FIPS 180-4.
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        let policy = |is_live| policy("", "b", is_live);
        assert!(policy(false).starts_with(&format!("default-src 'none'; style-src {empty}; script-src")));
        assert!(!policy(false).contains("connect-src") && policy(true).ends_with("; connect-src 'self'"));
    }
}
