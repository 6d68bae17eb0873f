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

/// Configurations, the best first, and where they are from.
pub type MicroSeeds = (Vec<Genome>, String);

pub fn write(out: &OwnFolder, ranking: &MicroRanking) -> Result<(), JournalError> {
    out.replace_json(MICRO, ranking).map_err(|error| JournalError::io("write", &out.place(MICRO), error))
}

/// Nothing where there is no file; an error is why it is left alone.
pub fn read(out: &OwnFolder, subject: &MicroSubject<'_>) -> Result<Option<MicroSeeds>, String> {
    if let Some(what) = out.irregular(MICRO) {
        return Err(format!("it is {what}"));
    }
    match out.read_at_most(MICRO, BYTES_MAX) {
        Ok(Some(bytes)) => seeds_of(&bytes, subject).map(Some),
        Ok(None) => Err(format!("it has more than {BYTES_MAX} bytes")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

fn damaged(error: serde_json::Error) -> String {
    format!("it is damaged: {error}")
}

fn seeds_of(bytes: &[u8], subject: &MicroSubject<'_>) -> Result<MicroSeeds, String> {
    match serde_json::from_slice(bytes).map_err(damaged)? {
        Value::Array(rows) => listed(rows, subject.space),
        ranking => ranked(ranking, subject),
    }
}

fn ranked(value: Value, subject: &MicroSubject<'_>) -> Result<MicroSeeds, String> {
    if value["schema"] != MICRO_SCHEMA {
        return Err(format!("it is neither of schema `{MICRO_SCHEMA}` nor a list of configurations"));
    }
    let ranking: MicroRanking = serde_json::from_value(value).map_err(damaged)?;
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
fn listed(rows: Vec<Value>, space: &SearchSpace) -> Result<MicroSeeds, String> {
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
        let point = point(space, &Configuration::from(fields));
        points.extend(point.filter(|point| !points.contains(point)));
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
    use serde_json::json;

    use super::*;

    fn space() -> SearchSpace {
        SearchSpace::parse(
            "constraints = ['A * B <= 8']\n[parameters]\nA = [1, 2, 4, 8]\nB = [1, 2, 4]\nC = ['x', 'y']\n",
        )
        .unwrap()
    }

    fn ranking(space: &SearchSpace) -> MicroRanking {
        let row = |(rank, index)| {
            let configuration = space.configuration(&space.genome_at(index).unwrap());
            json!({
                "rank": rank, "configuration_hash": configuration.hash(), "configuration": configuration,
                "time_ns": rank, "ns_per_work": rank, "ctas": 1, "occupancy_percent": 50,
            })
        };
        let ranked = [(1, 3), (2, 0)].map(row);
        serde_json::from_value(json!({
            "schema": MICRO_SCHEMA, "kernel": "k", "space_hash": ContentHash::of(b"space"), "problem": "p (N=64)",
            "device": { "kind": "cuda", "name": "GPU", "arch": "sm_90a", "multiprocessors": 132 }, "tried": 9,
            "ranked": ranked,
        }))
        .unwrap()
    }

    fn with_subject<T>(of: impl FnOnce(&MicroSubject<'_>) -> T) -> T {
        let (space, hash) = (space(), ContentHash::of(b"space"));
        of(&MicroSubject { kernel: "k", space_hash: &hash, arch: "sm_90a", space: &space })
    }

    fn seeds(text: &str) -> Result<MicroSeeds, String> {
        with_subject(|subject| seeds_of(text.as_bytes(), subject))
    }

    #[test]
    fn a_ranking_that_matches_is_taken_in_its_order() {
        let space = space();
        let text = serde_json::to_string(&ranking(&space)).unwrap();
        let points = vec![space.genome_at(3).unwrap(), space.genome_at(0).unwrap()];
        assert_eq!(seeds(&text), Ok((points, "p (N=64), 9 tried".to_string())));
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
            assert!(seeds(&whole[..cut]).is_err(), "{}", &whole[..cut]);
        }
        let told = [
            &whole[..whole.len() / 2],
            "{}",
            "7",
            r#"{"schema":"evo.micro","kernel":7}"#,
            &edited(|own| own.kernel = "other".to_string()),
            &edited(|own| own.device.arch = "sm_80".to_string()),
            &edited(|own| own.space_hash = ContentHash::of(b"edited")),
            &edited(|own| own.ranked.swap(0, 1)),
            &edited(|own| own.ranked[0].configuration = own.ranked[1].configuration.clone()),
            &edited(|own| own.ranked[1].ns_per_work = 0.5),
            &edited(|own| own.ranked[0].time_ns = 0.0),
            &edited(|own| own.tried = 1),
            &edited(|own| own.ranked.clear()),
            r#"[{"A":3,"B":1,"C":"x"}]"#,
            "[]",
        ]
        .map(|text| seeds(text).unwrap_err());
        insta::assert_snapshot!(told.join("\n"));
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
        let (points, source) = seeds(&both.to_string()).unwrap();
        let shown: Vec<String> = points.iter().map(|point| space.configuration(point).to_string()).collect();
        assert_eq!(shown, ["A=2 B=4 C=y", "A=1 B=1 C=x"]);
        assert_eq!(source, "a list of 7, of which 5 are not configurations of this space");
    }

    #[test]
    fn the_file_is_written_whole_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let out = OwnFolder::open(folder.path()).unwrap();
        let read = || with_subject(|subject| read(&out, subject));
        assert_eq!(read(), Ok(None));
        write(&out, &ranking(&space())).unwrap();
        assert!(matches!(read(), Ok(Some(_))));
        std::fs::remove_file(folder.path().join(MICRO)).unwrap();
        std::fs::create_dir(folder.path().join(MICRO)).unwrap();
        assert!(read().is_err());
    }
}
