//! What options of a source say: which of them there are, and the folders in which a compiler looks for included files,
//! as far as people choose them: by options, by `$CXX` and by environment variables. A toolchain's own folders are
//! represented by its version.

use std::path::PathBuf;

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::diagnostic::nearest;

use super::toolbox::Toolbox;

const FOLDER_OPTIONS: &[&str] =
    &["--include-path", "-include-path", "-isystem", "-idirafter", "-iquote", "-I"];

const FORCING_OPTIONS: &[&str] = &["--pre-include", "-pre-include", "-include", "-imacros"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchPath {
    pub folders: Vec<PathBuf>,
    pub forced: Vec<String>,
}

impl SearchPath {
    /// What `$CXX` and the variables for include folders say; NVRTC reads neither.
    pub fn of_environment(kind: DeviceKind, toolbox: &Toolbox) -> SearchPath {
        if kind != DeviceKind::Host {
            return SearchPath::default();
        }
        let words = toolbox.cxx.as_deref().unwrap_or_default().split_whitespace();
        let mut path = SearchPath::default().with_options(words);
        path.folders.extend(toolbox.include_folders.iter().cloned());
        path
    }

    pub fn with_options(&self, options: impl IntoIterator<Item = impl AsRef<str>>) -> SearchPath {
        let mut path = SearchPath::default();
        let mut rest = options.into_iter();
        while let Some(option) = rest.next() {
            let (option, next) = (option.as_ref(), || rest.next().map(|own| own.as_ref().to_string()));
            if let Some(value) = value_of(option, FORCING_OPTIONS) {
                path.forced.extend(value.or_else(next));
            } else if let Some(value) = value_of(option, FOLDER_OPTIONS) {
                path.folders.extend(value.or_else(next).map(PathBuf::from));
            }
        }
        path.folders.extend(self.folders.iter().cloned());
        path.forced.extend(self.forced.iter().cloned());
        path
    }
}

fn value_of(option: &str, names: &[&str]) -> Option<Option<String>> {
    let rest = names.iter().find_map(|name| option.strip_prefix(name))?;
    let value = rest.strip_prefix('=').unwrap_or(rest);
    Some((!value.is_empty()).then(|| value.to_string()))
}

/// The options that NVRTC knows, from its manual (13.0, "Supported Compile Options"); each is accepted by a real NVRTC
/// 13.0. Names without their dashes; a value follows `=`, or stands in the next word.
const KNOWN_OPTIONS: &str = "\
    gpu-architecture arch device-c dc device-w dw relocatable-device-code rdc extensible-whole-program ewp \
    device-debug G generate-line-info lineinfo dopt dlto Ofast-compile Ofc ptxas-options Xptxas maxrregcount \
    ftz prec-sqrt prec-div fmad fassociative-math use_fast_math extra-device-vectorization \
    modify-stack-limit dlink-time-opt gen-opt-lto optix-ir jump-table-density device-stack-protector \
    no-cache frandom-seed define-macro D undefine-macro U include-path I pre-include include \
    no-source-include std builtin-move-forward builtin-initializer-list disable-warnings w Werror restrict \
    device-as-default-execution-space default-device device-int128 device-float128 optimization-info \
    opt-info display-error-number err-no no-display-error-number diag-error diag-suppress diag-warn \
    brief-diagnostics brief-diag version-ident dQ minimal time split-compile fdevice-syntax-only \
    fdevice-time-trace pch create-pch use-pch pch-dir pch-verbose pch-messages instantiate-templates-in-pch";

/// The host device has no use for most options and leaves them out, but a mistyped one must not pass there and fail on
/// a GPU.
pub(crate) fn mistyped(options: &[String]) -> Option<Box<Verdict>> {
    let unknown = options.iter().find(|option| !is_known(option))?;
    let name = name_of(unknown).unwrap_or_default();
    // One letter is near to half of the list.
    let near = nearest(name, KNOWN_OPTIONS.split(' ').filter(|own| own.len() > 2));
    let advice = near.map_or(String::new(), |near| {
        let dashes = unknown.len() - unknown.trim_start_matches('-').len();
        format!(": did you mean `{}{near}`?", &unknown[..dashes])
    });
    let message = format!("`{unknown}` is not an option of NVRTC, the compiler for CUDA{advice}");
    Some(Box::new(
        Verdict::new(VerdictKind::CompileError, message)
            .with_cause("option")
            .with("option", unknown.as_str()),
    ))
}

fn is_known(option: &str) -> bool {
    // A word without dashes is the value of the option before it.
    let Some(name) = name_of(option) else { return true };
    // Values of these may follow without `=`: `-DN=4`, `-Iinc`.
    let is_joined = !option.starts_with("--") && name.starts_with(['D', 'U', 'I']);
    is_joined || KNOWN_OPTIONS.split(' ').any(|own| own == name)
}

fn name_of(option: &str) -> Option<&str> {
    let name = option.strip_prefix("--").or_else(|| option.strip_prefix('-'))?;
    Some(name.split_once('=').map_or(name, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options: &[&str], folders: &[&str], forced: &[&str]) {
        let path = SearchPath::default().with_options(options);
        let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        assert_eq!(
            (path.folders, path.forced),
            (folders, forced.iter().map(|name| name.to_string()).collect())
        );
    }

    #[test]
    fn every_spelling_of_an_include_folder_is_read() {
        check(&["-Iinc", "-I", "two", "-DX=1", "--include-path=three"], &["inc", "two", "three"], &[]);
        check(&["-isystem", "sys", "-iquote", "q", "--include-path", "four"], &["sys", "q", "four"], &[]);
        check(&["--pre-include=a.h", "-include", "b.h"], &[], &["a.h", "b.h"]);
        check(&["-O2", "-std=c++17"], &[], &[]);
    }

    #[test]
    fn the_environment_counts_for_the_host_alone_and_comes_last() {
        let toolbox = Toolbox {
            cxx: Some("g++ -DX=1 -I cxx".to_string()),
            include_folders: vec!["cpath".into()],
            ..Toolbox::default()
        };
        let host = SearchPath::of_environment(DeviceKind::Host, &toolbox).with_options(["-Iown"]);
        assert_eq!(host.folders, ["own", "cxx", "cpath"].map(PathBuf::from));
        assert_eq!(SearchPath::of_environment(DeviceKind::Cuda, &toolbox), SearchPath::default());
    }

    #[test]
    fn a_mistyped_option_is_named_with_the_near_one() {
        let of = |words: &str| {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            mistyped(&words).map_or("known".to_string(), |verdict| verdict.message.clone())
        };
        let known = "-DN=4 -D X -Iinc -I inc --include-path=x -UX --use_fast_math -use_fast_math -maxrregcount=32 \
                     --fmad=false -std=c++17 -lineinfo -G --pre-include=x.h";
        assert_eq!(of(known), "known");
        assert_eq!(
            of("-DN=4 --use_fast_maths"),
            "`--use_fast_maths` is not an option of NVRTC, the compiler for CUDA: did you mean `--use_fast_math`?"
        );
        assert_eq!(
            of("-no-such-thing=1"),
            "`-no-such-thing=1` is not an option of NVRTC, the compiler for CUDA"
        );
    }
}
