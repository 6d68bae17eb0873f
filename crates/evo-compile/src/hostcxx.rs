//! The system's C++ compiler: the same rendered CUDA source in, a shared object for this machine out.
//!
//! The CUDA-on-CPU header is long, so it is precompiled once per compiler, header and flags, for g++ only, whose
//! precompiled header is found by its name beside the header.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use evo_device::host::{initializers, translate};
use evo_protocol::binary::{Binary, EntryResources, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::cache::{Cache, touch};
use super::confined::{self, Reach};
use super::diagnose::MemoryUse;
use super::error::CompileSetupError;
use super::image::Compiled;
use super::locate::answer_within;
use super::search_path::{self, SearchPath};
use super::toolbox::Toolbox;
use super::{diagnose, entries, image, includes};
use evo_system::process::{self, CappedLog};

/// Longest wait for `--version`: generous, because a compiler on a network file system may take seconds to start.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// Longest wait for the folders that a compiler searches, without which it is confined all the same.
const SEARCH_DEADLINE: Duration = Duration::from_secs(5);

const USUAL: &[&str] = &["c++", "g++", "clang++"];

const HEADER_NAME: &str = "evo_cuda.h";

/// Programs that put themselves before a compiler. They write to folders of their own, or hand the source to a server,
/// which opens what it likes; and evo keeps what was compiled itself.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "buildcache", "distcc", "icecc"];

/// Parts of the folders that systems and compilers are installed below.
const PARTS: [&str; 7] = ["bin", "lib", "lib32", "lib64", "libx32", "libexec", "include"];

/// What else compilers open that says nothing of anybody. Stores of packages are for everybody to read.
const HARMLESS: [&str; 4] = ["/etc/ld.so.cache", "/etc/clang", "/proc/cpuinfo", "/proc/meminfo"];

const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCompiler {
    /// Program and its own arguments (`ccache g++`).
    pub command: Vec<String>,
    pub version: String,
    /// The compiler's arguments, all of `--version`, and the include folders of the environment.
    pub identity: ContentHash,
}

/// A `$CXX` that does not answer is an error, not a reason to take another.
pub fn locate(toolbox: &Toolbox) -> Result<HostCompiler, CompileSetupError> {
    let candidates: Vec<Vec<String>> = match &toolbox.cxx {
        Some(cxx) => vec![cxx.split_whitespace().map(str::to_string).collect()],
        None => USUAL.iter().map(|name| vec![name.to_string()]).collect(),
    };
    let answer = |command: &Vec<String>| -> io::Result<Option<HostCompiler>> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let mut version = Command::new(program);
        version.args(arguments).arg("--version");
        let text = answer_within(version, VERSION_DEADLINE)?.unwrap_or_default();
        let Some(version) = text.lines().next().filter(|line| !line.trim().is_empty()) else {
            return Ok(None);
        };
        let identity = identity(command, &text, &toolbox.include_folders);
        Ok(Some(HostCompiler { command: command.clone(), version: version.trim().to_string(), identity }))
    };
    for command in &candidates {
        match answer(command) {
            // Nothing is known of the compiler where no process can be started.
            Err(source) if process::is_exhausted(&source) => {
                let what = format!("the C++ compiler `{}`", command.join(" "));
                return Err(CompileSetupError::Exhausted { what, source });
            }
            Ok(Some(found)) => return Ok(found),
            Ok(None) | Err(_) => {}
        }
    }
    let origin = if toolbox.cxx.is_some() { " ($CXX)" } else { "" };
    let tried = candidates.iter().map(|command| format!("{}{origin}", command.join(" "))).collect();
    Err(CompileSetupError::NoHostCompiler { tried })
}

fn identity(command: &[String], version: &str, include_folders: &[PathBuf]) -> ContentHash {
    let mut parts: Vec<String> = vec![version.to_string()];
    parts.extend(command.iter().cloned());
    // So that an argument and a folder of the same name are not confused.
    parts.push("folders".to_string());
    parts.extend(include_folders.iter().map(|folder| folder.display().to_string()));
    ContentHash::of_parts(parts.iter().map(String::as_bytes))
}

impl HostCompiler {
    /// `g++ (Debian 12.2.0-14) 12.2.0` gives `g++ 12.2.0`; other forms are kept.
    pub fn name(&self) -> String {
        let words: Vec<&str> = self.version.split_whitespace().collect();
        match (words.first(), words.last()) {
            (Some(first), Some(last)) if self.is_gcc() => format!("{first} {last}"),
            _ => self.version.clone(),
        }
    }

    fn is_gcc(&self) -> bool {
        !self.version.contains("clang") && self.version.contains('(')
    }

    fn words(&self) -> &[String] {
        let launches = |word: &str| LAUNCHERS.contains(&word.rsplit('/').next().unwrap_or(word));
        match &self.command[..] {
            [first, rest @ ..] if !rest.is_empty() && launches(first) => rest,
            words => words,
        }
    }

    fn start(&self) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        // The compiler of the path may be a link to the cache.
        command.args(&words[1..]).env("CCACHE_DISABLE", "1");
        command
    }

    /// What the compiler, its assembler and its linker are made of: what lies below the folders where systems install
    /// them and beside the folders of their programs and libraries, and what the compiler's own words name.
    fn reach(&self) -> Reach {
        let words = self.words().iter().map(String::as_str);
        let programs: Vec<PathBuf> = words.chain(["as", "ld"]).filter_map(program).collect();
        // `libraries: =/usr/lib/gcc/x86_64-linux-gnu/12/:…`
        let searched = self.searched().unwrap_or_default();
        let lists =
            searched.lines().filter_map(|line| Some(line.split_once(": ")?.1.trim_start_matches('=')));
        let listed: Vec<PathBuf> = lists.flat_map(env::split_paths).filter(|own| own.is_absolute()).collect();
        let above = programs.iter().filter_map(|own| own.parent()).chain(listed.iter().map(PathBuf::as_path));
        let homes = above.filter_map(|folder| folder.parent().map(Path::to_path_buf));
        let homes = ["/", "/usr", "/usr/local"].map(PathBuf::from).into_iter().chain(homes);
        let mut executable: Vec<PathBuf> = homes.flat_map(|home| PARTS.map(|part| home.join(part))).collect();
        let variables = ["LD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH"].map(env::var_os);
        let variables = variables.iter().flatten().flat_map(env::split_paths);
        executable.extend(variables.filter(|folder| folder.is_absolute()));
        executable.extend(programs.into_iter().chain(listed).chain(STORES.map(PathBuf::from)));
        let arguments = self.words()[1..].iter().filter(|word| !word.starts_with("-D"));
        let values =
            arguments.flat_map(|word| [Some(&**word), word.get(2..), word.split_once('=').map(|own| own.1)]);
        let readable = values.flatten().chain(HARMLESS).map(PathBuf::from).collect();
        Reach { readable, executable, writable: vec![PathBuf::from("/dev/null")] }
    }

    /// In the worker's own process group, so that whatever it starts ends with the worker. Whatever its exit code: a
    /// compiler that prints the folders searches them.
    fn searched(&self) -> Option<String> {
        let mut command = self.start();
        command.arg("-print-search-dirs").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let (mut child, begun) = (command.spawn().ok()?, Instant::now());
        while child.try_wait().ok()?.is_none() {
            if begun.elapsed() > SEARCH_DEADLINE {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let mut text = String::new();
        child.stdout?.read_to_string(&mut text).ok()?;
        Some(text)
    }
}

fn program(word: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = match word.contains('/') {
        true => vec![PathBuf::from(word)],
        false => env::split_paths(&path).map(|folder| folder.join(word)).collect(),
    };
    places.into_iter().find(|place| place.is_file())?.canonicalize().ok()
}

pub struct HostToolchain {
    compiler: HostCompiler,
    pub(super) fingerprint: ContentHash,
    include: PathBuf,
    scratch: PathBuf,
    /// What the compiler may open whatever the source; `None` for everything.
    reach: Option<Reach>,
}

impl HostToolchain {
    pub fn prepare(
        compiler: &HostCompiler,
        cache: &Path,
        scratch: &Path,
        is_confined: bool,
    ) -> Result<HostToolchain, CompileSetupError> {
        let flags = translate::flags();
        let mut parts: Vec<&[u8]> = vec![compiler.identity.as_str().as_bytes()];
        let instrumented_flags = translate::instrumented_flags(compiler.is_gcc());
        parts.extend(flags.iter().chain(&instrumented_flags).map(String::as_bytes));
        parts.extend(translate::LINK_FLAGS.map(str::as_bytes));
        for (name, text) in translate::headers() {
            // A new evo with changed headers must not reuse binaries or precompiled headers of the old ones.
            parts.extend([name.as_bytes(), text.as_bytes()]);
        }
        let fingerprint = ContentHash::of_parts(parts);
        let include = Cache::open(cache)?.folder("include").join(fingerprint.as_str());
        write_headers(&include, scratch).map_err(|error| CompileSetupError::cache(cache, error))?;
        let mut toolchain = HostToolchain {
            compiler: compiler.clone(),
            fingerprint,
            include,
            scratch: scratch.to_path_buf(),
            reach: None,
        };
        touch(&toolchain.include);
        if is_confined {
            let mut reach = compiler.reach();
            add(&mut reach, SearchPath::of_environment(DeviceKind::Host, &Toolbox::from_env()));
            reach.readable.push(toolchain.include.clone());
            reach.writable.push(toolchain.scratch.clone());
            toolchain.reach = Some(reach);
        }
        toolchain.precompile("plain", &flags);
        Ok(toolchain)
    }

    pub fn compile(&self, source: &KernelSource) -> Result<Compiled, Box<Verdict>> {
        if let Some(verdict) = search_path::mistyped(&source.options) {
            return Err(verdict);
        }
        let unit = translate::translation_unit(source)?;
        let (input, output) = (self.scratch.join("unit.cpp"), self.scratch.join("unit.so"));
        // An output left by the source before must not pass for this one's if the compiler writes nothing.
        let _ = fs::remove_file(&output);
        fs::write(&input, unit).map_err(|error| harness("write the translated source", &error))?;
        let mut flags = translate::flags();
        if source.instrumented {
            flags = translate::instrumented_flags(self.compiler.is_gcc());
            self.precompile("instrumented", &flags);
        }
        let end = self.build(&flags, Some(source), &input, &output);
        let end = end.map_err(|error| harness("start the C++ compiler", &error))?;
        let text = end.log.text();
        if !end.status.success() {
            return Err(self.refusal(source, &end, &text, &input));
        }
        let mut bytes = fs::read(&output).map_err(|_| self.nothing_written(&text, &input))?;
        let image = image::read(&bytes)
            .map_err(|error| diagnose::died(&format!("wrote a broken file: {error}"), &text))?;
        check_initializers(&mut bytes, source.instrumented)?;
        // A C++ compiler reports no registers and no shared memory. Empty fields pass the limits on them.
        let entry = |entry: &String| EntryResources { entry: entry.clone(), ..EntryResources::default() };
        let (code_hash, resources) = (image.code_hash, source.entries.iter().map(entry).collect());
        let log = diagnose::warnings(&text, end.log.truncated());
        Ok((bytes, Binary { code_hash, resources, log, ..Binary::default() }))
    }

    fn refusal(&self, source: &KernelSource, end: &CompilerEnd, text: &str, input: &Path) -> Box<Verdict> {
        let search = SearchPath::of_environment(DeviceKind::Host, &Toolbox::from_env());
        let search = search.with_options(&source.options);
        let unopened = includes::unopened(text, &search.folders).filter(|_| self.reach.is_some());
        if let Some(verdict) = unopened.or_else(|| fenced(text)) {
            return verdict;
        }
        if let Some(message) = translate::about_entry(text, source) {
            // Of the compiler's words none is about the user's source.
            return Box::new(Verdict::new(VerdictKind::CompileError, message).with_cause("entry"));
        }
        if let Some(verdict) = entries::of_host(source, text) {
            return verdict;
        }
        let memory = MemoryUse { peak: end.memory_peak, limit: process::memory_limit() };
        let mut verdict = match end.status.code() {
            Some(_) => diagnose::refused(text, memory),
            None => diagnose::ended("the C++ compiler", end.status, text, memory),
        };
        if end.log.truncated() {
            verdict.evidence.insert("log_truncated", true);
        }
        let verdict = self.unless_removed(verdict, input);
        // A compiler that cannot compile anything says nothing about this source.
        match diagnose::machine_line(text) {
            Some(line) if !verdict.is_trouble() && !self.works() => {
                let message =
                    format!("the C++ compiler does not work on this machine any more: {}", line.trim());
                diagnose::machine(message, "run the compiler by hand; `evo preflight` tries it, too")
            }
            _ => verdict,
        }
    }

    fn unless_removed(&self, verdict: Box<Verdict>, input: &Path) -> Box<Verdict> {
        let hint = "leave the cache alone while evo runs; `EVO_CACHE_DIR` names another folder";
        if !input.exists() {
            return diagnose::machine("the compiler's scratch folder was removed while it was in use", hint);
        }
        match self.include.join(HEADER_NAME).exists() {
            true => verdict,
            false => diagnose::machine("evo's headers were removed from the cache while it was in use", hint),
        }
    }

    /// The verdict on a compiler that ended well without a file: the source's only if others get one.
    fn nothing_written(&self, text: &str, input: &Path) -> Box<Verdict> {
        let verdict = self.unless_removed(diagnose::died("it ended well and wrote nothing", text), input);
        if verdict.is_trouble() || self.works() {
            return verdict;
        }
        let message = "the C++ compiler ends well and writes nothing, whatever the source";
        diagnose::machine(message, "check what `CXX` names; without it, evo takes `c++`, `g++` or `clang++`")
    }

    fn works(&self) -> bool {
        let (input, output) = (self.scratch.join("probe.cpp"), self.scratch.join("probe.so"));
        let written = fs::write(&input, "int evo_probe;\n");
        let ended = written.and_then(|()| self.build(&translate::flags(), None, &input, &output));
        ended.is_ok_and(|end| end.status.success()) && output.exists()
    }

    /// Compiles, makes room for zones beside shared variables, and links.
    fn build(
        &self,
        flags: &[String],
        source: Option<&KernelSource>,
        input: &Path,
        output: &Path,
    ) -> io::Result<CompilerEnd> {
        let object = input.with_extension("o");
        let _ = fs::remove_file(&object);
        let compiled = self.step(flags, source, input, &object)?;
        let mut bytes = match fs::read(&object) {
            Ok(bytes) if compiled.status.success() => bytes,
            _ => return Ok(compiled),
        };
        // What cannot be read the linker refuses.
        if translate::pad(&mut bytes).is_ok() {
            fs::write(&object, bytes)?;
        }
        let linked = self.step(&translate::LINK_FLAGS.map(String::from), None, &object, output)?;
        // The compiler's words are about the source.
        Ok(if linked.status.success() { compiled } else { linked })
    }

    fn step(
        &self,
        flags: &[String],
        source: Option<&KernelSource>,
        input: &Path,
        output: &Path,
    ) -> io::Result<CompilerEnd> {
        let mut command = self.compiler.start();
        // Ours first: folders of the CUDA toolkit or of CCCL that options name have headers for GPUs only.
        let options = source.map_or(Vec::new(), |source| translate::options(&source.options));
        command.args(flags).arg("-I").arg(&self.include).args(options).arg("-pipe");
        command.arg("-o").arg(output).arg(input);
        self.run(command, source)
    }

    /// Built under another name and renamed, so that no other process sees half of it. A failure is not an error:
    /// sources then compile slowly.
    fn precompile(&self, name: &str, flags: &[String]) {
        let folder = self.include.join(format!("{HEADER_NAME}.gch"));
        let target = folder.join(name);
        if !self.compiler.is_gcc() || target.exists() {
            return;
        }
        let temporary = self.scratch.join("header.gch");
        let mut command = self.compiler.start();
        command.args(translate::header_flags(flags));
        command.arg("-o").arg(&temporary).arg(self.include.join(HEADER_NAME));
        if self.run(command, None).is_ok_and(|end| end.status.success()) {
            let _ = fs::create_dir_all(&folder).and_then(|()| fs::rename(&temporary, &target));
        }
    }

    /// Temporary files go to our scratch folder, and both outputs are drained.
    fn run(&self, mut command: Command, source: Option<&KernelSource>) -> io::Result<CompilerEnd> {
        let (reader, writer) = io::pipe()?;
        // One pipe for both outputs, so that messages keep their order.
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).env("TMPDIR", &self.scratch);
        let child = match self.reach.clone() {
            Some(mut reach) => {
                if let Some(source) = source {
                    add(&mut reach, SearchPath::default().with_options(&source.options));
                    // Compilers quote lines of the file that a source says it is.
                    reach.readable.push(PathBuf::from(&source.file_name));
                }
                confined::run(&reach, || command.spawn())??
            }
            None => command.spawn()?,
        };
        // Closes our copies of the writing end, so that the reader sees the end.
        drop(command);
        // Read to the end before waiting: a compiler that fills the pipe would otherwise never exit. More is
        // kept than a verdict takes, because `diagnose` looks for errors in all of it.
        let log = CappedLog::new(4 * diagnose::LOG_MAX).read_all(reader)?;
        let (status, memory_peak) = process::wait_measured(child)?;
        Ok(CompilerEnd { status, log, memory_peak })
    }
}

/// Folders that somebody names, with what they link to.
fn add(reach: &mut Reach, search: SearchPath) {
    reach.readable.extend(confined::linked(&search.folders));
    reach.readable.extend(search.folders);
    reach.readable.extend(search.forced.into_iter().map(PathBuf::from));
}

struct CompilerEnd {
    status: ExitStatus,
    log: CappedLog,
    /// Of it or of one of its parts, bytes.
    memory_peak: u64,
}

/// The verdict on a source that met a fence: inline assembly, or objects whose destructors would run at the end.
fn fenced(log: &str) -> Option<Box<Verdict>> {
    let refuse = |cause: &str, message: String| {
        let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause(cause);
        Some(Box::new(verdict.with("log", diagnose::cap(log.trim(), diagnose::LOG_MAX).0)))
    };
    if let Some(line) = translate::about_assembly(log) {
        return refuse(
            "asm",
            format!("inline assembly is not allowed in kernels on the host device: {line}"),
        );
    }
    if let Some(missing) = translate::about_missing(log) {
        let verdict = Verdict::new(VerdictKind::CompileError, missing.message()).with_cause("host_lacks");
        let mut verdict = Box::new(verdict.with(Verdict::HINT, missing.hint()));
        // What the compiler says behind it follows from this.
        if !missing.excerpt.is_empty() {
            verdict.evidence.insert("log", missing.excerpt);
        }
        return Some(verdict);
    }
    // Defined by the start files that modules are linked without, and used where destructors are registered.
    let is_destructor = log.contains("__dso_handle");
    is_destructor.then(|| refuse("constructor", initializers::message("a destructor of a static object")))?
}

/// The compiler adds a constructor to instrumented modules, which is taken out of the loader's table, since the
/// module without checks has shown that it has none.
fn check_initializers(bytes: &mut [u8], instrumented: bool) -> Result<(), Box<Verdict>> {
    if instrumented {
        initializers::silence(bytes)
            .map_err(|why| diagnose::died("it wrote a broken file", &why.to_string()))?;
    }
    let refuse = |message: String| {
        let verdict = Verdict::new(VerdictKind::StaticReject, initializers::message(&message));
        Box::new(verdict.with_cause("constructor"))
    };
    match initializers::find(bytes) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(refuse(what)),
        Err(why) => Err(diagnose::died("it wrote a broken file", &why)),
    }
}

fn write_headers(include: &Path, scratch: &Path) -> io::Result<()> {
    if include.join(HEADER_NAME).is_file() {
        return Ok(());
    }
    // A folder without its header was emptied under evo, and nothing in it can be trusted to be whole.
    let _ = fs::remove_dir_all(include);
    let temporary = scratch.join("include");
    fs::create_dir_all(&temporary)?;
    for (name, text) in translate::headers() {
        let path = temporary.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&temporary))?;
        fs::write(path, text)?;
    }
    fs::create_dir_all(include.parent().unwrap_or(include))?;
    match fs::rename(&temporary, include) {
        // Another process was faster.
        Err(_) if include.is_dir() => fs::remove_dir_all(&temporary),
        result => result,
    }
}

fn harness(doing: &str, error: &io::Error) -> Box<Verdict> {
    diagnose::machine(format!("cannot {doing}: {error}"), "`evo preflight` shows what is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shortened() {
        for (version, name) in [
            ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "g++ 12.2.0"),
            ("Debian clang version 14.0.6", "Debian clang version 14.0.6"),
        ] {
            let identity = ContentHash::of(b"");
            assert_eq!(HostCompiler { command: Vec::new(), version: version.into(), identity }.name(), name);
        }
    }

    #[test]
    fn arguments_version_and_folders_make_another_compiler() {
        let of = |command: &str, version: &str, folders: &[PathBuf]| {
            identity(&command.split(' ').map(String::from).collect::<Vec<_>>(), version, folders)
        };
        let plain = of("g++", "12\nCopyright", &[]);
        assert_eq!(plain, of("g++", "12\nCopyright", &[]));
        assert_ne!(plain, of("g++ -DX=1", "12\nCopyright", &[]));
        assert_ne!(plain, of("g++", "12\nother", &[]));
        assert_ne!(plain, of("g++", "12\nCopyright", &["x".into()]));
    }

    #[test]
    fn a_named_compiler_that_is_missing_is_an_error() {
        let toolbox = Toolbox { cxx: Some("no-such-compiler --fast".to_string()), ..Toolbox::default() };
        let message = locate(&toolbox).unwrap_err().with_hint();
        insta::assert_snapshot!(message, @r"
        no C++ compiler found; tried:
          no-such-compiler --fast ($CXX)
        hint: install g++ (`apt install g++`) or set CXX
        ");
    }
}
