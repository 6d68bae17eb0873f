//! Benchmark of the search space: how fast it is ready, and how fast it answers.
//!
//! `cargo bench --bench space -- [FOLDER] [--only NAME,..] [--runs N] [--phases] [--json]` measures
//! every space file of the folder, by default `spaces` in the shared folder (`$EVO_SHARED`, else
//! `../shared`), else this repository's own. `crates/evo-lab/peers/space_peers.py` runs the first loads side by side with
//! other tools.

mod cold;
mod operations;
mod phases;
mod spread;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use operations::Operations;
use phases::Phases;
use serde::Serialize;
use spread::Spread;

/// What is known of one space.
#[derive(Debug, Serialize)]
struct Measured {
    parameters: usize,
    constraints: usize,
    cartesian: String,
    valid: String,
    /// First loads, each in a fresh process.
    cold_seconds: Spread,
    /// Highest resident memory of those processes, the program itself included.
    peak_mib: Spread,
    phases: Phases,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<Operations>,
}

/// What the command line asks for.
struct Request {
    folder: PathBuf,
    only: Vec<String>,
    runs: usize,
    phases: bool,
    json: bool,
}

fn main() -> Result<()> {
    // Cargo itself adds `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [first, path] = arguments.as_slice()
        && first == cold::COLD
    {
        println!("{}", serde_json::to_string(&cold::here(Path::new(path))?)?);
        return Ok(());
    }
    let request = request(arguments.into_iter())?;
    let mut all = BTreeMap::new();
    for path in files(&request)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let measured = measure(&path, &request).with_context(|| format!("cannot measure `{name}`"))?;
        eprint!("{}", table::space(&name, &measured));
        all.insert(name, measured);
    }
    if request.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn request(mut arguments: impl Iterator<Item = String>) -> Result<Request> {
    let mut request =
        Request { folder: PathBuf::new(), only: Vec::new(), runs: 5, phases: false, json: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => request.json = true,
            "--phases" => request.phases = true,
            "--only" => {
                let names = arguments.next().context("`--only` needs names")?;
                request.only = names.split(',').map(str::to_owned).collect();
            }
            "--runs" => {
                let runs = arguments.next().context("`--runs` needs a number")?;
                request.runs = runs.parse::<usize>().context("`--runs` needs a number")?.max(1);
            }
            other if other.starts_with('-') => bail!("unknown option `{other}`"),
            folder => request.folder = PathBuf::from(folder),
        }
    }
    if request.folder.as_os_str().is_empty() {
        request.folder = default_folder();
    }
    Ok(request)
}

/// The shared spaces if they are there, this repository's own if not.
fn default_folder() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = || repository.join("../shared");
    let shared = env::var_os("EVO_SHARED").map_or_else(beside, PathBuf::from).join("spaces");
    if shared.is_dir() {
        return shared;
    }
    eprintln!("skipped: the public spaces, because there is no folder `shared/spaces`; our own instead");
    repository.join("search_spaces")
}

fn files(request: &Request) -> Result<Vec<PathBuf>> {
    let folder = &request.folder;
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let asked = request.only.is_empty() || request.only.iter().any(|only| *only == name);
        asked && path.extension().is_some_and(|extension| extension == "json" || extension == "toml")
    });
    paths.sort();
    Ok(paths)
}

fn measure(path: &Path, request: &Request) -> Result<Measured> {
    let first = (0..request.runs).map(|_| cold::fresh(path)).collect::<Result<Vec<_>>>()?;
    let text = fs::read_to_string(path)?;
    let space = cold::space(&text)?;
    Ok(Measured {
        parameters: space.parameters().len(),
        constraints: space.constraints().len(),
        cartesian: space.cartesian().to_string(),
        valid: space.valid().to_string(),
        cold_seconds: Spread::of(first.iter().map(|cold| cold.seconds).collect()),
        peak_mib: Spread::of(first.iter().map(|cold| cold.peak_kib as f64 / 1024.0).collect()),
        phases: phases::measure(&text, &space)?,
        operations: if request.phases { None } else { Some(operations::measure(&space)) },
    })
}
