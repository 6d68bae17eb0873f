//! What tests of whole commands share: how evo is started, one compile cache, a small kernel, and what every JSON
//! answer must keep to.

pub mod answer;
pub mod kernels;
pub mod processes;
pub mod stage;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;
use std::{env, fs};

use evo::kernel::catalog;

/// For commands whose test is not about precise times: as many samples as the machine's noise calls for would take up
/// to 5 s for each problem and mode, while tests run side by side and disturb each other. Kernels whose
/// candidates are to take a rival's place are small enough for 20 samples in that time: a 90th percentile needs them.
pub const BRIEF: &str = "--limit sampling=100ms";

/// evo with these words in a folder, with the cache that tests share.
pub fn evo(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder).args(words.split_whitespace()).env("EVO_CACHE_DIR", cache());
    command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY").stdin(Stdio::null());
    command
}

/// `--problem` for what a shipped space times on the host device: two problems. Tails, masks and groups of heads are among
/// its small shapes too. Its other problems are larger, and one configuration of a template meets all of them.
pub fn timed_on_host(space: &str) -> Vec<String> {
    let file = catalog::open(space).unwrap();
    let timed =
        file.kernel.as_ref().unwrap().problems.iter().filter(|own| own.device.as_deref() == Some("host"));
    timed.flat_map(|own| ["--problem".to_string(), own.name.clone()]).collect()
}

/// The compile cache of tests that are not about caches or compilers: many of them compile the same kernels.
///
/// It belongs to one build of evo, because its key does not cover what evo does with a compiler's output.
pub fn cache() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = fs::metadata(env!("CARGO_BIN_EXE_evo")).unwrap().modified().unwrap();
        let name = built.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string();
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("evo-caches");
        fs::create_dir_all(&all).unwrap();
        let older = fs::read_dir(&all).unwrap().map(|entry| entry.unwrap());
        for other in older.filter(|entry| entry.file_name() != name.as_str()) {
            let _ = fs::remove_dir_all(other.path());
        }
        all.join(name)
    })
}
