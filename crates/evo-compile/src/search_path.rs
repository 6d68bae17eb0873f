//! The folders in which a compiler looks for included files, as far as people choose them: by options, by
//! `$CXX` and by environment variables. A toolchain's own folders are represented by its version.

use std::path::PathBuf;

use evo_protocol::device::DeviceKind;

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
}
