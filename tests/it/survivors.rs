//! After any end of evo nothing of it goes on: SIGKILL at seeded moments, with kernels that fork and that linger.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::support::processes::wait;
use crate::support::stage::Stage;

const ATTACKS: [&str; 4] = ["fork", "none", "thread", "write_all"];

/// Processes that run this program file.
fn running(program: &Path) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.filter(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|own| own == program)).collect()
}

/// Kills evo in the middle of its work so many times. Its processes are known by a program file of their own.
fn kill(times: u64, seed: u64) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().canonicalize().unwrap().join("evo-to-be-killed");
    fs::hard_link(env!("CARGO_BIN_EXE_evo"), &program).unwrap();
    let space: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/intruder/intruder.toml"].iter().collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut most = 0;
    for time in 0..times {
        let attack = ATTACKS[(random.next_u32() as usize) % ATTACKS.len()];
        let pause = Duration::from_millis(u64::from(random.next_u32() % 1500));
        let mut evo = Command::new(&program);
        evo.args(["test-one".as_ref(), space.as_os_str()]).args(["--device", "host"]);
        evo.arg(format!("ATTACK={attack}")).env("EVO_CACHE_DIR", folder.path().join("cache"));
        evo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut evo = evo.spawn().unwrap();
        std::thread::sleep(pause);
        most = most.max(running(&program).len());
        evo.kill().unwrap();
        evo.wait().unwrap();
        let what = format!("all end, kill {time} of seed {seed}, {attack} after {pause:?}");
        wait(&what, || running(&program).is_empty());
    }
    assert!(most > 1, "evo never got so far as to start another process");
}

/// Eight times, or as often as `EVO_TEST_KILLS` says.
#[test]
fn nothing_outlives_a_killed_evo() {
    let times = std::env::var("EVO_TEST_KILLS").ok().and_then(|text| text.parse().ok());
    kill(times.unwrap_or(8), 1);
}

/// A kernel that is right, and starts a process in a session of its own in every call at full size. With fences it could
/// start none (`intruders.rs`).
#[test]
fn daemons_of_a_variant_without_fences_end_with_evo() {
    let stage = Stage::of("scale_slow");
    stage.write("scale.cu", &stage.read("daemon.cu"));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().canonicalize().unwrap().join("evo-to-be-killed");
    fs::hard_link(env!("CARGO_BIN_EXE_evo"), &program).unwrap();
    let daemons = || {
        let comm = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        running(&program).iter().filter(|pid| comm(pid).trim() == "evo-test-daemon").count()
    };
    for is_killed in [false, true] {
        let mut evo = Command::new(&program);
        evo.current_dir(stage.path()).args("test scale.toml WORK=1 --device host --sandbox off".split(' '));
        evo.env("EVO_CACHE_DIR", folder.path().join("cache")).stdin(Stdio::null()).stdout(Stdio::null());
        let mut evo = evo.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        wait("a daemon", || {
            assert!(evo.try_wait().unwrap().is_none(), "it started no daemon");
            daemons() > 0
        });
        if is_killed {
            evo.kill().unwrap();
        }
        evo.wait().unwrap();
        wait(&format!("all end, killed: {is_killed}"), || running(&program).is_empty());
    }
}
