//! The geometry of a kernel's launches as the text of a launch file, as `--launch` reads it. Parameters stand there with
//! their values, so that the file holds for a source without a configuration beside it.

use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use serde_json::{Map, Value as Json, json};

use super::spec::{KernelSpec, LaunchSpec};

#[derive(Debug, Clone, PartialEq)]
pub struct LaunchFile {
    /// `{"ENTRY": {"grid": […], "block": […], "shared_bytes": …}}`; `--launch` refuses one that gives nothing.
    pub object: Json,
    /// Entries that are launched several times, each time in another way: those of the space stay.
    pub left_out: Vec<String>,
}

impl LaunchFile {
    pub fn of(kernel: &KernelSpec, configuration: &Configuration) -> LaunchFile {
        let mut object = Map::new();
        let mut left_out: Vec<String> = Vec::new();
        for launch in &kernel.launches {
            let geometry = geometry(launch, configuration);
            let before = object.insert(launch.entry.clone(), geometry.clone());
            if before.is_some_and(|before| before != geometry) && !left_out.contains(&launch.entry) {
                left_out.push(launch.entry.clone());
            }
        }
        left_out.iter().for_each(|entry| drop(object.remove(entry)));
        LaunchFile { object: object.into(), left_out }
    }

    pub fn text(&self) -> String {
        format!("{:#}\n", self.object)
    }

    pub fn is_usable(&self) -> bool {
        self.object.as_object().is_some_and(|entries| !entries.is_empty())
    }
}

fn geometry(launch: &LaunchSpec, configuration: &Configuration) -> Json {
    let texts = |all: &[Expr]| all.iter().map(|own| with_values(own, configuration)).collect::<Vec<_>>();
    let mut own = json!({ "grid": texts(&launch.grid), "block": texts(&launch.block) });
    if let Some(bytes) = &launch.shared_bytes {
        own["shared_bytes"] = with_values(bytes, configuration).into();
    }
    own
}

fn with_values(expression: &Expr, configuration: &Configuration) -> String {
    expression.with_words(|name| configuration.get(name).map(literal))
}

fn literal(value: &Value) -> String {
    match value {
        // A text holds no backslash in an expression, and one of both quotes is free unless it has both.
        Value::Text(own) if own.contains('"') => format!("'{own}'"),
        Value::Text(own) => format!("\"{own}\""),
        Value::Float(own) if *own < 0.0 => format!("({own:?})"),
        Value::Float(own) => format!("{own:?}"),
        Value::Int(own) if *own < 0 => format!("({own})"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use evo_space::SearchSpace;

    use super::*;

    #[test]
    fn values_take_the_place_of_parameters() {
        let space = SearchSpace::parse("parameters = { A = [4], B = [-2], T = ['xor'], F = [0.5] }").unwrap();
        let configuration = space.configuration(&space.default_genome());
        let check = |text: &str, expected: &str| {
            let own = with_values(&Expr::parse(text).unwrap(), &configuration);
            assert_eq!(own, expected);
            Expr::parse(&own).unwrap();
        };
        check("ceil_div(N, A)", "ceil_div(N, 4)");
        check("A * N - B + A", "4 * N - (-2) + 4");
        check("N if T == 'xor' else F", "N if \"xor\" == 'xor' else 0.5");
    }
}
