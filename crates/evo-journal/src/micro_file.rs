//! `micro_best.json` on disk: what `evo micro` writes beside the leaderboard, and what a sweep may take from it.
//!
//! The file only decides what a search tries first, so one that is damaged, edited or about something else is left alone
//! with a reason, and never ends a run.

use evo_protocol::micro::{MICRO_SCHEMA, MicroRanking};
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::space::SearchSpace;
use evo_space::text::counted;
use serde_json::Value;

use super::error::JournalError;
use super::own_folder::OwnFolder;

pub const MICRO: &str = "micro_best.json";

/// Larger files were not written by `evo micro`, and nobody wants so many configurations tried first.
const BYTES_MAX: u64 = 4 << 20;

const ROWS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub struct MicroSubject<'a> {
    pub kernel: &'a str,
    pub space_hash: &'a ContentHash,
    pub arch: &'a str,
    pub space: &'a SearchSpace,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MicroSeeds {
    Absent,
    Ignored(String),
    Ranked { points: Vec<Genome>, source: String },
}

pub fn write(out: &OwnFolder, ranking: &MicroRanking) -> Result<(), JournalError> {
    out.replace_json(MICRO, ranking).map_err(|error| JournalError::io("write", &out.place(MICRO), error))
}

pub fn read(out: &OwnFolder, subject: &MicroSubject<'_>) -> MicroSeeds {
    if let Some(what) = out.irregular(MICRO) {
        return MicroSeeds::Ignored(format!("it is {what}"));
    }
    match out.read_at_most(MICRO, BYTES_MAX) {
        Ok(Some(bytes)) => seeds_of(&bytes, subject),
        Ok(None) => MicroSeeds::Ignored(format!("it has more than {BYTES_MAX} bytes")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => MicroSeeds::Absent,
        Err(error) => MicroSeeds::Ignored(format!("it cannot be read: {error}")),
    }
}

pub fn seeds_of(bytes: &[u8], subject: &MicroSubject<'_>) -> MicroSeeds {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return MicroSeeds::Ignored(format!("it is damaged: {error}")),
    };
    let read = match value {
        Value::Array(rows) => listed(rows, subject.space),
        ranking => ranked(ranking, subject),
    };
    read.map_or_else(MicroSeeds::Ignored, |(points, source)| MicroSeeds::Ranked { points, source })
}

type Read = Result<(Vec<Genome>, String), String>;

fn ranked(value: Value, subject: &MicroSubject<'_>) -> Read {
    if value["schema"] != MICRO_SCHEMA {
        return Err(format!("it is neither of schema `{MICRO_SCHEMA}` nor a list of configurations"));
    }
    let ranking: MicroRanking =
        serde_json::from_value(value).map_err(|error| format!("it is damaged: {error}"))?;
    if let Some(damage) = ranking.damage() {
        return Err(damage);
    }
    if ranking.kernel != subject.kernel {
        return Err(format!("it ranks `{}` and not `{}`", ranking.kernel, subject.kernel));
    }
    if ranking.device.arch != subject.arch {
        return Err(format!("it was measured on {} and not on {}", ranking.device.arch, subject.arch));
    }
    if ranking.space_hash != *subject.space_hash {
        return Err("the space, the kernel's source or the compiler has changed since".to_string());
    }
    let points: Option<Vec<Genome>> =
        ranking.ranked.iter().map(|row| point(subject.space, &row.configuration)).collect();
    let points = points.ok_or("it has configurations that the space does not have")?;
    if points.is_empty() {
        return Err("nothing is ranked in it".to_string());
    }
    Ok((points, format!("{}, {} tried", ranking.problem, ranking.tried)))
}

/// The best first. A list names neither kernel nor device, so its configurations have to be points of the space as
/// they stand.
fn listed(rows: Vec<Value>, space: &SearchSpace) -> Read {
    let count = rows.len();
    let mut points: Vec<Genome> = Vec::new();
    for row in rows.into_iter().take(ROWS_MAX) {
        let fields = match row {
            Value::Object(mut fields) => match fields.remove("configuration") {
                Some(Value::Object(inner)) => inner,
                Some(other) => fields.into_iter().chain([("configuration".to_string(), other)]).collect(),
                None => fields,
            },
            _ => continue,
        };
        if let Some(point) =
            point(space, &Configuration::from(fields)).filter(|point| !points.contains(point))
        {
            points.push(point);
        }
    }
    if points.is_empty() {
        return Err(format!("none of its {count} entries is a configuration of this space"));
    }
    let source = match count - points.len() {
        0 => format!("a list of {}", counted(count, "configuration")),
        other => format!("a list of {count}, of which {other} are not configurations of this space"),
    };
    Ok((points, source))
}

fn point(space: &SearchSpace, configuration: &Configuration) -> Option<Genome> {
    space.genome(configuration).filter(|genome| space.contains(genome))
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceKind;
    use evo_protocol::micro::{MicroDevice, MicroRow};
    use serde_json::json;

    use super::*;

    fn space() -> SearchSpace {
        SearchSpace::parse(
            "constraints = ['A * B <= 8']\n[parameters]\nA = [1, 2, 4, 8]\nB = [1, 2, 4]\nC = ['x', 'y']\n",
        )
        .unwrap()
    }

    fn row(rank: u32, space: &SearchSpace, index: u128) -> MicroRow {
        let configuration = space.configuration(&space.genome_at(index).unwrap());
        MicroRow {
            rank,
            configuration_hash: configuration.hash(),
            configuration,
            time_ns: f64::from(rank),
            ns_per_work: f64::from(rank),
            ctas: 1,
            occupancy_percent: Some(50.0),
        }
    }

    fn ranking(space: &SearchSpace) -> MicroRanking {
        MicroRanking {
            schema: MICRO_SCHEMA.to_string(),
            kernel: "k".to_string(),
            device: MicroDevice {
                kind: DeviceKind::Cuda,
                name: "GPU".to_string(),
                arch: "sm_90a".to_string(),
                multiprocessors: 132,
            },
            space_hash: ContentHash::of(b"space"),
            problem: "p (N=64)".to_string(),
            tried: 9,
            ranked: vec![row(1, space, 3), row(2, space, 0)],
        }
    }

    fn with_subject<T>(of: impl FnOnce(&MicroSubject<'_>) -> T) -> T {
        let (space, hash) = (space(), ContentHash::of(b"space"));
        of(&MicroSubject { kernel: "k", space_hash: &hash, arch: "sm_90a", space: &space })
    }

    fn seeds(text: &str) -> MicroSeeds {
        with_subject(|subject| seeds_of(text.as_bytes(), subject))
    }

    #[track_caller]
    fn ignored(text: &str, reason: &str) {
        match seeds(text) {
            MicroSeeds::Ignored(why) => assert!(why.contains(reason), "{why}"),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_ranking_that_matches_is_taken_in_its_order() {
        let space = space();
        let text = serde_json::to_string(&ranking(&space)).unwrap();
        let points = vec![space.genome_at(3).unwrap(), space.genome_at(0).unwrap()];
        assert_eq!(seeds(&text), MicroSeeds::Ranked { points, source: "p (N=64), 9 tried".to_string() });
    }

    #[test]
    fn what_is_damaged_foreign_or_edited_is_left_alone_with_a_reason() {
        let space = space();
        let whole = serde_json::to_string(&ranking(&space)).unwrap();
        let edited = |edit: fn(&mut MicroRanking)| {
            let mut own = ranking(&space);
            edit(&mut own);
            serde_json::to_string(&own).unwrap()
        };
        for cut in 1..whole.len() {
            assert!(matches!(seeds(&whole[..cut]), MicroSeeds::Ignored(_)), "{}", &whole[..cut]);
        }
        ignored(&whole[..whole.len() / 2], "it is damaged");
        ignored("{}", "neither of schema");
        ignored("7", "neither of schema");
        ignored(r#"{"schema":"evo.micro","kernel":7}"#, "it is damaged");
        ignored(&edited(|own| own.kernel = "other".to_string()), "it ranks `other` and not `k`");
        ignored(&edited(|own| own.device.arch = "sm_80".to_string()), "measured on sm_80 and not on sm_90a");
        ignored(&edited(|own| own.space_hash = ContentHash::of(b"edited")), "has changed since");
        ignored(&edited(|own| own.ranked.swap(0, 1)), "row 1 says that it has rank 2");
        ignored(
            &edited(|own| own.ranked[0].configuration = own.ranked[1].configuration.clone()),
            "row 1 was edited",
        );
        ignored(&edited(|own| own.ranked[1].ns_per_work = 0.5), "row 2 is faster than the row above it");
        ignored(&edited(|own| own.ranked[0].time_ns = 0.0), "row 1 has no time");
        ignored(&edited(|own| own.tried = 1), "more rows than were tried");
        ignored(&edited(|own| own.ranked.clear()), "nothing is ranked");
    }

    #[test]
    fn a_bare_list_is_read_as_far_as_it_fits() {
        let space = space();
        let both = json!([
            { "A": 2, "B": 4, "C": "y" },
            { "configuration": { "A": 1, "B": 1, "C": "x" }, "time": 5 },
            { "A": 8, "B": 4, "C": "x" },
            { "A": 2, "B": 4 },
            { "A": 2, "B": 4, "C": "y" },
            "A=1",
            null
        ]);
        let MicroSeeds::Ranked { points, source } = seeds(&both.to_string()) else { panic!("{both}") };
        let shown: Vec<String> = points.iter().map(|point| space.configuration(point).to_string()).collect();
        assert_eq!(shown, ["A=2 B=4 C=y", "A=1 B=1 C=x"]);
        assert_eq!(source, "a list of 7, of which 5 are not configurations of this space");
        ignored(r#"[{"A":3,"B":1,"C":"x"}]"#, "none of its 1 entries");
        ignored("[]", "none of its 0 entries");
    }

    #[test]
    fn the_file_is_written_whole_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let out = OwnFolder::open(folder.path()).unwrap();
        let read = || with_subject(|subject| read(&out, subject));
        assert_eq!(read(), MicroSeeds::Absent);
        write(&out, &ranking(&space())).unwrap();
        assert!(matches!(read(), MicroSeeds::Ranked { .. }));
        std::fs::remove_file(folder.path().join(MICRO)).unwrap();
        std::fs::create_dir(folder.path().join(MICRO)).unwrap();
        assert!(matches!(read(), MicroSeeds::Ignored(_)));
    }
}
