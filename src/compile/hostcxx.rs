//! The system's C++ compiler: the same rendered CUDA source in, a shared object for this machine out.
//!
//! The CUDA-on-CPU header is long, so it is precompiled once per compiler, header and flags. That is
//! done for g++ only, whose precompiled header is found by its name beside the header.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use evo_device::host::translate;
use evo_protocol::binary::{EntryResources, KernelSource};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::compiled::Compiled;
use super::error::CompileSetupError;
use super::locate::output_within;
use super::toolbox::Toolbox;
use super::{diagnose, image};
use crate::process::CappedLog;

const INSTALL_HINT: &str = "install g++ (`apt install g++`) or set CXX";

/// Longest wait for `--version`: generous, because a compiler on a network file system may take seconds to start.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// Compilers tried when `$CXX` is not set.
const USUAL: &[&str] = &["c++", "g++", "clang++"];

/// The header that is precompiled, by the name that translated sources include.
const HEADER_NAME: &str = "evo_cuda.h";

/// Flags that shape linking and input, which a header's compilation must not see.
const NOT_FOR_HEADERS: &[&str] = &["-shared", "-x", "c++"];

/// A C++ compiler that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCompiler {
    /// Program and its own arguments (`ccache g++`).
    pub command: Vec<String>,
    /// First line of `--version`.
    pub version: String,
}

/// Finds a C++ compiler as this process's environment suggests: `$CXX`, `c++`, `g++`, `clang++`.
pub fn locate() -> Result<HostCompiler, CompileSetupError> {
    locate_with(&Toolbox::from_env())
}

/// Finds a C++ compiler; a `$CXX` that does not answer is an error, not a reason to take another.
pub fn locate_with(toolbox: &Toolbox) -> Result<HostCompiler, CompileSetupError> {
    let candidates: Vec<Vec<String>> = match &toolbox.cxx {
        Some(cxx) => vec![cxx.split_whitespace().map(str::to_string).collect()],
        None => USUAL.iter().map(|name| vec![name.to_string()]).collect(),
    };
    let answer = |command: &Vec<String>| {
        let (program, arguments) = command.split_first()?;
        let mut version = Command::new(program);
        version.args(arguments).arg("--version");
        let text = output_within(version, VERSION_DEADLINE)?;
        let version = text.lines().next().filter(|line| !line.trim().is_empty())?.trim().to_string();
        Some(HostCompiler { command: command.clone(), version })
    };
    candidates.iter().find_map(answer).ok_or_else(|| {
        let origin = if toolbox.cxx.is_some() { " ($CXX)" } else { "" };
        let tried = candidates.iter().map(|command| format!("{}{origin}", command.join(" "))).collect();
        CompileSetupError::NoHostCompiler { tried, hint: INSTALL_HINT }
    })
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

    fn start(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }
}

/// A compiler with its headers laid out.
pub struct HostToolchain {
    compiler: HostCompiler,
    name: String,
    fingerprint: ContentHash,
    flags: Vec<String>,
    instrumented_flags: Vec<String>,
    include: PathBuf,
    scratch: PathBuf,
}

impl HostToolchain {
    /// Lays out the headers in the cache and precompiles the long one, if an earlier run has not.
    pub fn prepare(
        compiler: &HostCompiler,
        cache: &Path,
        scratch: &Path,
    ) -> Result<HostToolchain, CompileSetupError> {
        let flags = translate::flags();
        let mut parts: Vec<&[u8]> = vec![compiler.version.as_bytes()];
        let instrumented_flags = translate::instrumented_flags(compiler.is_gcc());
        parts.extend(flags.iter().chain(&instrumented_flags).map(String::as_bytes));
        for (name, text) in translate::headers() {
            // A new evo with changed headers must not reuse binaries or precompiled headers of the old ones.
            parts.extend([name.as_bytes(), text.as_bytes()]);
        }
        let fingerprint = ContentHash::of_parts(parts);
        let include = Cache::open(cache)?.folder("include").join(fingerprint.as_str());
        write_headers(&include, scratch).map_err(|error| CompileSetupError::cache(cache, error))?;
        let toolchain = HostToolchain {
            compiler: compiler.clone(),
            name: compiler.name(),
            fingerprint,
            flags,
            instrumented_flags,
            include,
            scratch: scratch.to_path_buf(),
        };
        toolchain.precompile();
        Ok(toolchain)
    }

    /// `g++ 12.2.0`.
    pub fn toolchain(&self) -> &str {
        &self.name
    }

    /// Name of everything that decides its output beside source and options.
    pub fn fingerprint(&self) -> &ContentHash {
        &self.fingerprint
    }

    /// Compiles to a shared object; a refusal is a verdict.
    pub fn compile(&self, source: &KernelSource) -> Result<Compiled, Box<Verdict>> {
        let start = Instant::now();
        let unit = translate::translation_unit(source)?;
        let (input, output) = (self.scratch.join("unit.cpp"), self.scratch.join("unit.so"));
        // An output left by the source before must not pass for this one's if the compiler writes nothing.
        let _ = fs::remove_file(&output);
        fs::write(&input, unit).map_err(|error| harness("write the translated source", &error))?;
        let options = translate::options(&source.options);
        let (status, log) = match source.instrumented {
            true => self.build_instrumented(&input, &options, &output),
            false => self.step(&self.flags, &options, &input, &output),
        }
        .map_err(|error| harness("start the C++ compiler", &error))?;
        let text = log.text();
        if let Some(signal) = status.signal() {
            return Err(diagnose::died(&format!("signal {signal}"), &text));
        }
        if !status.success() {
            let mut verdict = diagnose::refused(&text);
            if log.truncated() {
                verdict.evidence.insert("log_truncated", true);
            }
            return Err(verdict);
        }
        let bytes =
            fs::read(&output).map_err(|_| diagnose::died("it ended well and wrote nothing", &text))?;
        let image = image::read(&bytes)
            .map_err(|error| diagnose::died(&format!("wrote a broken file: {error}"), &text))?;
        let (warnings, cut) = diagnose::cap(text.trim(), diagnose::WARNINGS_MAX);
        // A C++ compiler reports no registers and no shared memory. Empty fields pass the limits on them.
        let entry = |entry: &String| EntryResources { entry: entry.clone(), ..EntryResources::default() };
        Ok(Compiled {
            bytes,
            code_hash: image.code_hash,
            resources: source.entries.iter().map(entry).collect(),
            log: warnings,
            log_truncated: cut || log.truncated(),
            compile_ms: start.elapsed().as_secs_f64() * 1e3,
        })
    }

    /// Compiles and links in two steps, so that the compiler does not link the sanitizers' libraries.
    fn build_instrumented(
        &self,
        input: &Path,
        options: &[String],
        output: &Path,
    ) -> io::Result<(ExitStatus, CappedLog)> {
        let object = self.scratch.join("unit.o");
        let compiled = self.step(&self.instrumented_flags, options, input, &object)?;
        match compiled.0.success() {
            true => self.step(&translate::link_flags(), &[], &object, output),
            false => Ok(compiled),
        }
    }

    /// One call of the compiler.
    fn step(
        &self,
        flags: &[String],
        options: &[String],
        input: &Path,
        output: &Path,
    ) -> io::Result<(ExitStatus, CappedLog)> {
        let mut command = self.compiler.start();
        command.args(flags).args(options);
        command.arg("-I").arg(&self.include).arg("-pipe").arg("-o").arg(output).arg(input);
        self.run(command)
    }

    /// Builds the precompiled header under another name and renames it, so that no other process sees half of it. A failure is
    /// not an error: sources then compile slowly.
    fn precompile(&self) {
        let target = self.include.join(format!("{HEADER_NAME}.gch"));
        if !self.compiler.is_gcc() || target.exists() {
            return;
        }
        let temporary = self.scratch.join("header.gch");
        let mut command = self.compiler.start();
        let flags = self
            .flags
            .iter()
            .filter(|flag| !NOT_FOR_HEADERS.contains(&flag.as_str()) && !flag.starts_with("-Wl,"));
        command.args(["-x", "c++-header"]).args(flags);
        command.arg("-o").arg(&temporary).arg(self.include.join(HEADER_NAME));
        if self.run(command).is_ok_and(|(status, _)| status.success()) {
            let _ = fs::rename(&temporary, &target);
        }
    }

    /// Runs the compiler with its temporary files in our scratch folder and both its outputs drained.
    fn run(&self, mut command: Command) -> io::Result<(ExitStatus, CappedLog)> {
        let (reader, writer) = io::pipe()?;
        // One pipe for both outputs, so that messages keep their order.
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).env("TMPDIR", &self.scratch);
        let mut child = command.spawn()?;
        // Closes our copies of the writing end, so that the reader sees the end.
        drop(command);
        // Read to the end before waiting: a compiler that fills the pipe would otherwise never exit. More is
        // kept than a verdict takes, because `diagnose` looks for errors in all of it.
        let log = CappedLog::new(4 * diagnose::LOG_MAX).read_all(reader)?;
        Ok((child.wait()?, log))
    }
}

fn write_headers(include: &Path, scratch: &Path) -> io::Result<()> {
    if include.is_dir() {
        return Ok(());
    }
    let temporary = scratch.join("include");
    fs::create_dir_all(&temporary)?;
    for (name, text) in translate::headers() {
        fs::write(temporary.join(name), text)?;
    }
    fs::create_dir_all(include.parent().unwrap_or(include))?;
    match fs::rename(&temporary, include) {
        // Another process was faster.
        Err(_) if include.is_dir() => fs::remove_dir_all(&temporary),
        result => result,
    }
}

fn harness(doing: &str, error: &io::Error) -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, format!("cannot {doing}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, expected: &str) {
        let compiler = HostCompiler { command: vec!["c++".to_string()], version: version.to_string() };
        assert_eq!(compiler.name(), expected);
    }

    #[test]
    fn versions_are_shortened() {
        check("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "g++ 12.2.0");
        check("Debian clang version 14.0.6", "Debian clang version 14.0.6");
    }

    #[test]
    fn a_named_compiler_that_is_missing_is_an_error() {
        let toolbox = Toolbox { cxx: Some("no-such-compiler --fast".to_string()), ..Toolbox::default() };
        let message = locate_with(&toolbox).unwrap_err().with_hint();
        insta::assert_snapshot!(message, @r"
        no C++ compiler found; tried:
          no-such-compiler --fast ($CXX)
        hint: install g++ (`apt install g++`) or set CXX
        ");
    }
}
