//! Whether the launch code of an export launches what evo's own plan says: the generated C++ and Python run at the sizes of
//! every problem, write down their launches, and are compared with the plans.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use evo_export::record;
use evo_protocol::plan::ProblemPlan;

use super::export_unit::{ExportedVariant, VariantWish};
use crate::kernel::resolve::resolve;
use crate::kernel::specialize::constants_of;
use crate::tool::{ToolKind, ToolPlaces, find};
use evo_system::scratch::ScratchFolder;

/// What came of a comparison: nothing wrong, what is wrong, or why nobody could look.
pub enum LaunchLook {
    Same,
    Different(String),
    NotRun(String),
}

/// Compares `launch.hpp`.
pub fn in_cpp(wish: &VariantWish<'_>, own: &ExportedVariant, folder: &ScratchFolder) -> LaunchLook {
    let compiler = std::env::var("CXX").ok().filter(|own| !own.trim().is_empty());
    let candidates: Vec<String> =
        compiler.map_or(["c++", "g++", "clang++"].map(String::from).to_vec(), |own| vec![own]);
    let looked = look(wish, own, folder, |place| {
        let mut last =
            io::Error::new(io::ErrorKind::NotFound, "there is no C++ compiler: install g++ or set CXX");
        for words in &candidates {
            let mut words = words.split_whitespace();
            let Some(program) = words.next() else { continue };
            let made = Command::new(program)
                .args(words)
                .args(["-std=c++17", "-I.", "-o", "record", "record.cpp"])
                .current_dir(place)
                .output();
            match made {
                Ok(made) if made.status.success() => {
                    let ran = Command::new(place.join("record")).current_dir(place).output()?;
                    return Ok(Ok(String::from_utf8_lossy(&ran.stdout).into_owned()));
                }
                Ok(made) => return Ok(Err(String::from_utf8_lossy(&made.stderr).into_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    looked.unwrap_or_else(|error| LaunchLook::NotRun(format!("launch.hpp was not compiled: {error}")))
}

/// Compares `launch_plan.py`.
pub fn in_python(wish: &VariantWish<'_>, own: &ExportedVariant, folder: &ScratchFolder) -> LaunchLook {
    let python = match find(ToolKind::Python, None, &ToolPlaces::of_environment()) {
        Ok(python) => python,
        Err(failure) => return LaunchLook::NotRun(failure.message),
    };
    let looked = look(wish, own, folder, |place| {
        let ran = Command::new(&python).args(["-B", "record.py"]).current_dir(place).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) })
    });
    looked.unwrap_or_else(|error| LaunchLook::NotRun(format!("launch_plan.py was not run: {error}")))
}

/// Writes the programs and runs one: its output, or what it or its compiler complains of.
fn look(
    wish: &VariantWish<'_>,
    own: &ExportedVariant,
    folder: &ScratchFolder,
    run: impl FnOnce(&Path) -> io::Result<Result<String, String>>,
) -> io::Result<LaunchLook> {
    let plans = plans(wish);
    let sizes: Vec<BTreeMap<String, i64>> = plans.iter().map(|own| own.sizes.clone()).collect();
    let programs = record::programs(&own.model, &sizes).map_err(io::Error::other)?;
    let place = folder.path();
    for file in own.files.iter().chain(&programs) {
        let path = place.join(&file.path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, &file.contents)?;
    }
    let ran = run(place);
    // Two of them are called as CUDA's own headers, which the builds that follow in this folder must not find.
    for file in &programs {
        fs::remove_file(place.join(&file.path))?;
    }
    Ok(match ran? {
        Ok(printed) => match record::compare(&own.model, &printed, &plans) {
            Ok(()) => LaunchLook::Same,
            Err(why) => LaunchLook::Different(format!("it does not launch what evo launches {why}")),
        },
        Err(said) => {
            let first = said.lines().find(|line| line.contains("rror")).or(said.lines().next());
            LaunchLook::Different(format!("its launch code does not run: {}", first.unwrap_or_default()))
        }
    })
}

/// The plans of every problem that the variant serves, on whatever device.
fn plans(wish: &VariantWish<'_>) -> Vec<ProblemPlan> {
    let kernel = wish.kernel;
    let served = kernel.problems.iter().filter(|own| constants_of(&kernel.specialize, own) == wish.constants);
    served.filter_map(|own| resolve(kernel, &wish.configuration, own).ok()).collect()
}
