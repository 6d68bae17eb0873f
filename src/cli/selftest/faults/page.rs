//! `docs/FAULTS.md`, made from the tables of this folder, and what must hold between the tables.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use evo_space::value::Value;

use super::absent::ABSENT;
use super::catalogue::CATALOGUE;
use super::play::SPACES;
use super::row::{FaultOutcome, FaultRow};
use crate::kernel::catalog;

const OPENING: &str = "\
# Ways to be bad, and what evo says of them

This page is made from the tables of `evo selftest faults`, and a test fails if it is not what they say:
`EVO_UPDATE_SCHEMAS=1 cargo test -p evo --lib the_page_of_faults` writes it anew.

The catalogue has a number for each known way in which a variant of a kernel, a compiler, a device or a machine can
be bad. `evo selftest faults` plays variants that are broken on purpose (`templates/faults.cu.j2` and
`templates/faults_heads.cu.j2`), in random order and with a good variant after each, on the path that variants of a
sweep take. What passes there is judged again as a finalist. A row passes if five things hold:

- *verdict*: it gets one of the verdicts in its column;
- *evidence*: the verdict's message names the cause in words;
- *neighbor*: the good variant after it is right at every gate, and takes at most three times as long as the slowest of
  five runs before any fault. A slower one is timed up to six times, because other programs use the machine too;
- *leftovers*: no process, no scratch file and no open descriptor is left behind;
- *delay*: the fault held up the device for no longer than it may: 30 s on the host, 10 s on a GPU, three times that
  for a variant that passes, twice that for a compiler that fills its memory, half of it for a variant that is
  refused before it runs.

`--json` has these five cells for each row, with the times and what was left behind. `--only W13` plays the rows of one
number, `--only race` those with that in their name, and `--seed` repeats an order.

Deadlines are shorter here than in a sweep where that saves time: 4 s for the compiler in `compile_hang`, 2 s for a
launch on the host. The device's memory is part of the health check that follows each recovery.

A fault that is *open* on a device is one that evo does not find there. *Not played* means that no variant can have the
fault; the test that covers it stands beside it. `evo explain VERDICT` and [verdicts.md](verdicts.md) say what the
verdicts mean.
";

/// Sections by the first letter of a number.
const SECTIONS: &[(char, &str)] = &[
    ('C', "Compile time"),
    ('L', "Launch and resources"),
    ('H', "Hangs"),
    ('X', "Crashes, deaths, leaks"),
    ('W', "Wrong answers"),
    ('T', "Right answers, false times"),
];

fn rows() -> impl Iterator<Item = &'static FaultRow> {
    SPACES.iter().flat_map(|(_, lists)| lists.iter().copied().flatten())
}

fn outcome(outcome: FaultOutcome) -> String {
    match outcome {
        FaultOutcome::Is(verdicts) => {
            verdicts.iter().map(|verdict| format!("`{verdict}`")).collect::<Vec<_>>().join(", ")
        }
        FaultOutcome::ByTwin => "as there, by the host device".into(),
        FaultOutcome::Passes => "`pass`: it is honest".into(),
        FaultOutcome::Open(why) => format!("*open*: {why}"),
    }
}

fn page() -> String {
    let mut text = OPENING.to_string();
    for (letter, heading) in SECTIONS {
        let _ = writeln!(text, "\n## {heading}\n\n| | defect | fault | host | CUDA |\n|---|---|---|---|---|");
        for (number, title) in CATALOGUE.iter().filter(|(number, _)| number.starts_with(*letter)) {
            let mut shown = (*number, *title);
            for row in rows().filter(|row| row.catalogue.contains(number)) {
                let (host, cuda) = (outcome(row.host), outcome(row.cuda));
                let (number, title) = std::mem::take(&mut shown);
                let _ =
                    writeln!(text, "| {number} | {title} | `{}`: {} | {host} | {cuda} |", row.name, row.does);
            }
            for row in ABSENT.iter().filter(|row| row.catalogue == *number) {
                let (number, title) = std::mem::take(&mut shown);
                let test = row.test.map_or("".into(), |(file, test)| format!("; `{file}`: `{test}`"));
                let _ = writeln!(text, "| {number} | {title} | *not played*: {}{test} | | |", row.why);
            }
        }
    }
    text
}

#[test]
fn the_page_of_faults_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/FAULTS.md");
    let derived = page();
    if std::env::var_os("EVO_UPDATE_SCHEMAS").is_some_and(|value| value == "1") {
        fs::write(&path, &derived).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == derived,
        "docs/FAULTS.md is not what the tables say; if they changed on purpose, update it with\n\
         EVO_UPDATE_SCHEMAS=1 cargo test -p evo --lib the_page_of_faults"
    );
}

#[test]
fn every_number_of_the_catalogue_has_a_row_and_every_row_a_number() {
    let known: BTreeSet<&str> = CATALOGUE.iter().map(|(number, _)| *number).collect();
    assert_eq!((known.len(), CATALOGUE.len()), (75, 75));
    let played = rows().flat_map(|row| row.catalogue.iter().copied());
    let covered: BTreeSet<&str> = played.chain(ABSENT.iter().map(|row| row.catalogue)).collect();
    assert_eq!(covered, known);
    assert!(rows().all(|row| !row.catalogue.is_empty()));
}

/// A value that nobody plays would look tested.
#[test]
fn every_value_of_the_spaces_is_a_row() {
    for (space, lists) in SPACES {
        let file = catalog::open(space).unwrap();
        let inside = lists.iter().copied().flatten().filter(|row| !row.setup.is_outside());
        let mut named: BTreeSet<&str> = inside.map(|row| row.name).collect();
        named.insert("none");
        let parameter = file.space.parameters().iter().find(|one| &*one.name == "FAULT").unwrap();
        let values: Vec<String> = parameter.values.iter().map(Value::to_string).collect();
        assert_eq!(values.iter().map(String::as_str).collect::<BTreeSet<_>>(), named, "{space}");
    }
}

#[test]
fn the_tests_that_are_named_exist() {
    for row in ABSENT {
        let Some((file, test)) = row.test else { continue };
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains(&format!("fn {test}()")), "{file} has no `{test}`");
    }
}
