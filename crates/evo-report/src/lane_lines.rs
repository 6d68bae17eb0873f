//! What several lanes did in a run, and what it cost that some had no worker, for the end of a sweep.

use evo_journal::record::{LaneAccount, RunEnd};
use evo_space::text::counted;

use crate::width::wrapped;

/// What each of several lanes did, a line each; nothing where there was one.
pub fn lines(end: &RunEnd, width: usize) -> String {
    let seconds = end.throughput.search_seconds;
    let line = |lane: &LaneAccount| {
        let busy = if seconds > 0.0 { (lane.busy_seconds / seconds).min(1.0) } else { 0.0 };
        let mut told = vec![counted(lane.evaluations, "evaluation"), format!("busy {:.0} %", busy * 100.0)];
        if lane.restarts > 0 {
            told.push(counted(lane.restarts, "new worker"));
        }
        if lane.ratio != 1.0 {
            told.push(format!("{:.3} times as long as lane 0", lane.ratio));
        }
        if !lane.pooled {
            told.push("not pooled".to_string());
        }
        told.extend(lane.out.as_ref().map(|why| format!("out: {why}")));
        wrapped(&format!("lane {} ({}): {}", lane.lane, lane.place(), told.join(", ")), width)
    };
    let cost = cost_of_losses(&end.lanes, seconds).map(|cost| wrapped(&cost, width));
    end.lanes.iter().map(line).chain(cost).collect()
}

/// What lanes without workers have cost: the time, and the variants that another lane had to begin anew.
fn cost_of_losses(lanes: &[LaneAccount], seconds: f64) -> Option<String> {
    let out = lanes.iter().filter(|lane| lane.out.is_some()).count();
    let absent: f64 = lanes.iter().map(|lane| lane.absent_seconds.min(seconds)).sum();
    let given_back: u64 = lanes.iter().map(|lane| lane.given_back).sum();
    let whole = seconds * lanes.len() as f64;
    if out == 0 && given_back == 0 && (whole <= 0.0 || absent < WORTH_SAYING * whole) {
        return None;
    }
    let lost = match out {
        0 => "no lane was lost".to_string(),
        1 => format!("1 of {} was lost", counted(lanes.len() as u64, "lane")),
        out => format!("{out} of {} were lost", counted(lanes.len() as u64, "lane")),
    };
    let share = if whole > 0.0 { absent / whole * 100.0 } else { 0.0 };
    let again = match given_back {
        0 => String::new(),
        count => format!(", and {} begun anew on another lane", counted(count, "variant")),
    };
    Some(format!("{lost}; {absent:.1} s of {whole:.1} s passed without a worker ({share:.0} %){again}"))
}

/// A share of the lanes' time that a person should know of.
const WORTH_SAYING: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(number: u32, out: Option<&str>, given_back: u64, absent_seconds: f64) -> LaneAccount {
        LaneAccount {
            lane: number,
            name: "ray".into(),
            host: format!("node{number}"),
            device_uuid: "GPU-5f3a1c2e-8d4b-0000-0000-000000000000".into(),
            evaluations: 10,
            busy_seconds: 5.0,
            restarts: given_back,
            given_back,
            absent_seconds,
            ratio: 1.0,
            anchors: Default::default(),
            pooled: true,
            out: out.map(String::from),
        }
    }

    #[test]
    fn a_loss_is_told_with_what_it_cost() {
        let check = |lanes: &[LaneAccount], expected: Option<&str>| {
            assert_eq!(cost_of_losses(lanes, 10.0).as_deref(), expected);
        };
        check(&[lane(0, None, 0, 0.0), lane(1, None, 0, 0.1)], None);
        check(
            &[lane(0, None, 0, 0.0), lane(1, Some("gone"), 2, 6.0)],
            Some(
                "1 of 2 lanes was lost; 6.0 s of 20.0 s passed without a worker (30 %), and 2 variants begun anew on another lane",
            ),
        );
        check(
            &[lane(0, None, 1, 1.0), lane(1, None, 0, 0.0)],
            Some(
                "no lane was lost; 1.0 s of 20.0 s passed without a worker (5 %), and 1 variant begun anew on another lane",
            ),
        );
    }

    #[test]
    fn a_lane_says_where_it_worked() {
        assert_eq!(lane(1, None, 0, 0.0).place(), "ray on node1, GPU-5f3a1c2e");
        let local = LaneAccount { name: "cuda:1".into(), host: String::new(), ..lane(0, None, 0, 0.0) };
        assert_eq!(local.place(), "cuda:1");
    }
}
