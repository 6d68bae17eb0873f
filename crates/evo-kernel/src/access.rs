//! How a space is opened: how long that may take, and which files it may name. Some ship inside the binary, as text.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use evo_space::SpaceWatch;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A text that a space names; the longest kernel in use has some hundred kilobytes.
pub const SOURCE_MAX: u64 = 16 << 20;

pub const ARRAY_MAX: u64 = 64 << 30;

#[derive(Clone, Copy, Debug)]
pub struct SpaceAccess {
    /// Processor time for reading the file and counting its points. On the clock it may be six times as much.
    pub limit: Duration,
    pub allow_outside: bool,
    /// Whether templates of files are rendered in a process with little memory. Its program is the one that starts
    /// workers, so a program that has none renders by itself.
    pub render_apart: bool,
}

impl Default for SpaceAccess {
    fn default() -> SpaceAccess {
        SpaceAccess { limit: Duration::from_secs(10), allow_outside: false, render_apart: false }
    }
}

impl SpaceAccess {
    pub fn watch(&self) -> SpaceWatch {
        let (limit, patience) = (self.limit, self.patience());
        let (start, start_of_work) = (Instant::now(), processor_time());
        // Processor time alone would wait for a swapping machine as long as it likes; time on the clock alone would
        // refuse a slow space on a busy machine.
        SpaceWatch::new(move || {
            start.elapsed() >= patience || processor_time().saturating_sub(start_of_work) >= limit
        })
    }

    pub fn patience(&self) -> Duration {
        self.limit.saturating_mul(PATIENCE)
    }
}

/// How much longer than its processor time opening a space may take: six builds may share a core with it.
const PATIENCE: u32 = 6;

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Opens a regular file of at most `limit` bytes below the space's folder, to which no link and no `..` leads from
/// outside. With `allow_outside` it may be anywhere. `NotFound` where there is nothing; for other refusals the message
/// says why.
pub fn open_beside(folder: &Path, name: &str, limit: u64, allow_outside: bool) -> io::Result<File> {
    let file = if allow_outside {
        // Not blocking, so that a pipe without a writer is refused and not waited for.
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(folder.join(name))?
    } else {
        File::from(open_beneath(folder, name)?)
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > limit {
        let (size, limit) = (found.len(), limit);
        let message = format!("it has {size} bytes, and at most {limit} are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(file)
}

pub fn read_beside(folder: &Path, name: &str, allow_outside: bool) -> io::Result<String> {
    let mut text = String::new();
    // The length was checked, but the file may be growing.
    open_beside(folder, name, SOURCE_MAX, allow_outside)?.take(SOURCE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

pub fn is_below(folder: &Path, path: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match (folder.canonicalize(), path.canonicalize()) {
        (Ok(folder), Ok(path)) => path.starts_with(folder),
        _ => false,
    }
}

pub fn is_outside(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::CrossesDevices || error.raw_os_error() == Some(libc::EXDEV)
}

fn open_beneath(folder: &Path, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let place =
        rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match evo_system::open_beneath(&place, name, flags) {
        Ok(Some(file)) => Ok(file),
        Err(Errno::XDEV) => Err(outside()),
        Ok(None) => open_canonical(folder, name, flags),
        Err(error) => Err(error.into()),
    }
}

fn open_canonical(folder: &Path, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let climbs = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(name).components().any(climbs) {
        return Err(outside());
    }
    let path = folder.join(name).canonicalize()?;
    if !path.starts_with(folder.canonicalize()?) {
        return Err(outside());
    }
    Ok(rustix::fs::open(&path, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::CrossesDevices, "it is outside the folder of the space file")
}

pub fn path_beside(folder: Option<&Path>, name: &str) -> PathBuf {
    folder.map_or_else(|| PathBuf::from(OsStr::new(name)), |folder| folder.join(name))
}

macro_rules! embedded {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name)))),*]
    };
}

pub const SPACES: &[(&str, &str)] = embedded!("search_spaces":
    "attention_simt.toml" "attention_mma.toml" "attention_mma_bf16.toml" "attention_mma_d80.toml" "attention_mma_d96.toml"
    "attention_mma_d128.toml" "attention_mma_d256.toml" "attention_layouts.toml" "attention_ladder.toml"
    "attention_decode.toml" "attention_decode_bf16.toml" "attention_decode_d64.toml" "attention_decode_layouts.toml"
    "attention_hopper.toml" "attention_hopper_bf16.toml" "attention_hopper_d80.toml" "attention_hopper_d96.toml"
    "attention_hopper_d128.toml" "attention_hopper_d256.toml"
    "attention_hopper_layouts.toml" "gemm_hopper.toml" "gemm_hopper_bf16.toml"
    "gemm.toml" "gemm_mma.toml" "gemm_mma_bf16.toml" "softmax.toml" "rmsnorm.toml" "reduction.toml" "transpose.toml"
    "faults.toml" "faults_heads.toml");

pub const TEMPLATES: &[(&str, &str)] = embedded!("templates":
    "attention_simt.cu.j2" "attention_mma.cu.j2" "attention_decode.cu.j2" "attention_hopper.cu.j2" "attention_naive.cu"
    "gemm.cu.j2" "gemm_mma.cu.j2" "gemm_hopper.cu.j2" "softmax.cu.j2" "rmsnorm.cu.j2" "reduction.cu.j2"
    "transpose.cu.j2" "faults.cu.j2" "faults_naive.cu" "faults_heads.cu.j2" "faults_heads_naive.cu"
    "gates.cu.j2" "gates_naive.cu");

pub fn names() -> Vec<&'static str> {
    SPACES.iter().map(|(file, _)| file.trim_end_matches(".toml")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn why(folder: &Path, name: &str) -> String {
        read_beside(folder, name, false)
            .map_or_else(|error| error.to_string(), |text| format!("read: {text}"))
    }

    #[test]
    fn only_regular_files_below_the_folder_are_opened() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("space");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::fs::write(folder.join("sub/k.cu"), "code").unwrap();
        symlink("sub/k.cu", folder.join("inside.cu")).unwrap();
        symlink("../secret", folder.join("out.cu")).unwrap();
        symlink(root.path(), folder.join("up")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe.cu"), Mode::from_raw_mode(0o600)).unwrap();
        let outside = "it is outside the folder of the space file";
        assert_eq!(why(&folder, "sub/k.cu"), "read: code");
        assert_eq!(why(&folder, "inside.cu"), "read: code");
        for name in ["../secret", "out.cu", "up/secret", "/etc/passwd", "sub/../../secret"] {
            let error = read_beside(&folder, name, false).unwrap_err();
            assert!(is_outside(&error) && error.to_string() == outside, "{name}: {error}");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let error = open_canonical(&folder, name, flags).unwrap_err();
            assert_eq!(error.to_string(), outside, "{name}, without the system call");
        }
        assert_eq!(why(&folder, "pipe.cu"), "it is not a regular file");
        assert_eq!(why(&folder, "sub"), "it is not a regular file");
        assert_eq!(read_beside(&folder, "out.cu", true).unwrap(), "secret");
        assert!(read_beside(&folder, "pipe.cu", true).is_err(), "a pipe is not waited for");
    }

    #[test]
    fn waiting_for_a_processor_is_not_held_against_a_space() {
        let watch =
            |limit| SpaceAccess { limit: Duration::from_millis(limit), ..SpaceAccess::default() }.watch();
        let (patient, impatient) = (watch(500), watch(10));
        std::thread::sleep(Duration::from_millis(600));
        assert!(!patient.is_over(), "the thread slept");
        assert!(impatient.is_over(), "six times the limit have passed");
        let start = Instant::now();
        while !patient.is_over() {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        assert!(start.elapsed() >= Duration::from_millis(490));
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::File::create(folder.path().join("big.cu")).unwrap().set_len(SOURCE_MAX + 1).unwrap();
        let error = read_beside(folder.path(), "big.cu", false).unwrap_err().to_string();
        assert!(error.contains("at most 16777216"), "{error}");
    }
}
