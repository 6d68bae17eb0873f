//! `evo space FILE`: a summary for people.

use std::fmt::Write as _;

use evo_space::Size;
use evo_space::explain::{SpaceShape, ratio};
use evo_space::space::{Parameter, SearchSpace};
use evo_space::text::counted;
use num_bigint::BigUint;

use super::{SpaceInquiry, grouped};

/// Width of the column of names; longer ones push their line to the right.
const MAX_NAME_COLUMN: usize = 60;

const SHOWN_VALUES: usize = 12;

pub fn text(inquiry: &SpaceInquiry) -> String {
    let space = inquiry.space;
    let mut text = format!("{}\n\nparameters", inquiry.name);
    add_parameters(space, &mut text);
    add_constraints(inquiry, &mut text);
    let cartesian = space.cartesian();
    let default = space.contains(&space.default_genome());
    let _ = writeln!(text, "\ncartesian  {}", grouped(&cartesian));
    let _ = writeln!(text, "valid      {}", size(&space.size(), &cartesian));
    let stated = inquiry.replaced.map_or(String::new(), |own| format!(", in the place of {}", own.stated));
    let _ = writeln!(text, "default    {}{stated}", if default { "valid" } else { "not valid" });
    let _ = writeln!(text, "linked     {}", linked(space.shape()));
    if let Some(reference) = &inquiry.reference {
        let _ = writeln!(text, "reference  {reference}");
    }
    let _ = writeln!(text, "ready in   {:.1} ms", inquiry.seconds * 1e3);
    text
}

fn add_parameters(space: &SearchSpace, text: &mut String) {
    let domains = space.effective_domains();
    let rows: Vec<(&Parameter, String, &[u16])> = space
        .parameters()
        .iter()
        .zip(&domains)
        .map(|(parameter, domain)| (parameter, counts(parameter.values.len(), domain.len()), &domain[..]))
        .collect();
    let unused = rows.iter().any(|(parameter, _, domain)| domain.len() < parameter.values.len());
    text.push_str(if unused { ", with values that no valid point has in parentheses\n" } else { "\n" });
    let names =
        rows.iter().map(|(parameter, ..)| parameter.name.len()).max().unwrap_or(0).min(MAX_NAME_COLUMN);
    let numbers = rows.iter().map(|(_, counts, _)| counts.len()).max().unwrap_or(0).max(5);
    for (parameter, counts, domain) in rows {
        let help = parameter.help.as_ref().map_or(String::new(), |help| format!("  # {help}"));
        let values = values_line(parameter, domain);
        let _ = writeln!(text, "  {:names$}  {counts:>numbers$}  {values}{help}", parameter.name);
    }
}

/// `4`, or `3/4` if only three occur.
fn counts(all: usize, occurring: usize) -> String {
    if occurring == all { all.to_string() } else { format!("{occurring}/{all}") }
}

fn add_constraints(inquiry: &SpaceInquiry, text: &mut String) {
    let space = inquiry.space;
    let removals = space.removals(&inquiry.arguments.limits.access().watch());
    if !space.constraints().is_empty() {
        text.push_str("\nconstraints, with the share of all points that each refuses on its own\n");
    }
    for (constraint, removal) in space.constraints().iter().zip(removals) {
        let about = if removal.exact { ' ' } else { '~' };
        let because = constraint.because.as_ref().map_or(String::new(), |because| format!("  # {because}"));
        let _ = writeln!(text, "  {about}{:>7}  {}{because}", percent(removal.share), constraint.expr.text());
        if let Some(failure) = &removal.failure {
            let _ = writeln!(text, "            has no value at some points, and refuses them: {failure}");
        }
    }
}

fn size(size: &Size, cartesian: &BigUint) -> String {
    match size {
        Size::Exact(valid) => format!("{} ({})", grouped(valid), percent(ratio(valid, cartesian))),
        Size::Unknown { at_most, estimate: 0.0, spread } => {
            let fewer = rounded(*spread);
            format!("at most {}, a sample met none (one in it would mean {fewer})", grouped(at_most))
        }
        Size::Unknown { at_most, estimate, spread } => {
            let (about, spread) = (rounded(*estimate), rounded(*spread));
            format!("at most {}, about {about} (± {spread}, estimated)", grouped(at_most))
        }
    }
}

fn rounded(estimate: f64) -> String {
    if estimate.is_infinite() {
        return "1e308 or more".to_string();
    }
    let shown = format!("{estimate:.2e}");
    let digits = shown.parse::<f64>().unwrap_or(estimate);
    // Beyond this nobody counts zeros.
    if digits < 1e15 { grouped(&BigUint::from(digits.round() as u64)) } else { shown }
}

fn linked(shape: SpaceShape) -> String {
    let SpaceShape { groups, largest, nodes } = shape;
    let nodes = counted(grouped(&nodes.into()), "diagram node");
    match groups {
        0 => format!("no parameters; {nodes}"),
        1 => format!("1 group of {largest} parameters; {nodes}"),
        _ => format!("{groups} groups of parameters, the largest of {largest}; {nodes}"),
    }
}

/// The values, the default in brackets, what no valid point has in parentheses.
fn values_line(parameter: &Parameter, occurring: &[u16]) -> String {
    let count = parameter.values.len();
    let show = |at: usize| {
        let value = &parameter.values[at];
        let shown = if at == parameter.default { format!("[{value}]") } else { value.to_string() };
        // An empty domain means an empty space; there no value needs to be told from the others.
        let occurs =
            occurring.is_empty() || u16::try_from(at).is_ok_and(|at| occurring.binary_search(&at).is_ok());
        if occurs { shown } else { format!("({shown})") }
    };
    if count <= SHOWN_VALUES {
        return (0..count).map(show).collect::<Vec<_>>().join(" ");
    }
    let head = (0..SHOWN_VALUES - 2).map(show).collect::<Vec<_>>().join(" ");
    let default = match parameter.default {
        hidden if (SHOWN_VALUES - 2..count - 1).contains(&hidden) => format!(" {} …", show(hidden)),
        _ => String::new(),
    };
    format!("{head} …{default} {}", show(count - 1))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_string(),
        small if small < 0.01 => "<0.01 %".to_string(),
        most if most > 99.99 && most < 100.0 => ">99.99 %".to_string(),
        _ => format!("{percent:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_say_how_sure_they_are() {
        let check = |shown: Size, expected: &str| {
            assert_eq!(size(&shown, &BigUint::from(1_000_000u32)), expected);
        };
        let unknown = |estimate: f64, spread: f64| Size::Unknown {
            at_most: BigUint::from(300_000u32),
            estimate,
            spread,
        };
        check(Size::Exact(BigUint::from(29_000u16)), "29,000 (2.90 %)");
        check(unknown(123_456.7, 98.76), "at most 300,000, about 123,000 (± 99, estimated)");
        check(unknown(1.234e18, 5e16), "at most 300,000, about 1.23e18 (± 5.00e16, estimated)");
        let infinite = "at most 300,000, about 1e308 or more (± 1e308 or more, estimated)";
        check(unknown(f64::INFINITY, f64::INFINITY), infinite);
        check(unknown(0.0, 4.4), "at most 300,000, a sample met none (one in it would mean 4)");
    }
}
