//! All checks of a look are made at once where the tool takes a port for each, and one by one where it does not.

use evo::inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerLook, look};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::GateState::Pass;

use crate::lane::{options, own_worker};
use crate::sanitize::{PATIENT, Replay, good, is};

/// All checks of a tool that has these options; the log is one that every check reads as clean.
fn all_checks(mode: &str, has_ports: bool) -> (Replay, SanitizerLook) {
    let mut replay = Replay::new(Some("clean_all.log"), Some("clean.xml"), 0, mode);
    replay.tool.options.retain(|option| option != "--port" || has_ports);
    assert_eq!(replay.tool.options.contains("--port"), has_ports);
    let (options, job) = (options(own_worker()), good());
    let look = look(&LookOrder {
        kind: DeviceKind::Cuda,
        tool: Ok(&replay.tool),
        checks: SanitizerCheck::ALL,
        options: &options,
        job: &job,
        small_only: false,
        limit: PATIENT,
        within: None,
    });
    replay.leaves_no_process();
    (replay, look)
}

/// The port of each run, in the order of the checks.
fn ports(replay: &Replay) -> Vec<Option<String>> {
    let arguments = replay.arguments();
    let port_of = |check: &SanitizerCheck| {
        let own = arguments.lines().find(|line| line.starts_with(&format!("--tool {} ", check.as_str())));
        let mut words = own.unwrap().split(' ').skip_while(|word| *word != "--port").skip(1);
        words.next().map(String::from)
    };
    SanitizerCheck::ALL.iter().map(port_of).collect()
}

#[test]
fn checks_are_made_at_once_where_each_can_have_a_port() {
    // None of them would go on without the others.
    let (replay, look) = all_checks("meet", true);
    look.outcomes.iter().for_each(|outcome| is(outcome, Pass, None));
    assert_eq!(replay.arguments().lines().count(), 4);
    let expected = [None, Some("49216"), Some("49280"), Some("49344")];
    assert_eq!(ports(&replay), expected.map(|port| port.map(String::from)));
    let (replay, look) = all_checks("alone", false);
    look.outcomes.iter().for_each(|outcome| is(outcome, Pass, None));
    assert_eq!(ports(&replay), [None, None, None, None]);
}

#[test]
fn a_check_that_gives_no_answer_beside_others_is_made_again_by_itself() {
    let (replay, look) = all_checks("alone", true);
    look.outcomes.iter().for_each(|outcome| is(outcome, Pass, None));
    let names: Vec<SanitizerCheck> = look.outcomes.iter().map(|outcome| outcome.check).collect();
    assert_eq!(names, SanitizerCheck::ALL);
    assert!((5..=7).contains(&replay.arguments().lines().count()), "{}", replay.arguments());
}
