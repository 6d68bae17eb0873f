//! The files and tools that decide what a study finds. Their hash is the study's `space_hash`: an edit of
//! any of them begins another study.

use std::fs;
use std::path::Path;

use evo_space::genome::ContentHash;

use crate::compile::CompileFarm;
use crate::compile::includes::FileReader;
use crate::compile::search_path::SearchPath;
use crate::journal::record::{InputRole, StudyInput};
use crate::kernel::render;
use crate::kernel::render::{render, render_prepare, render_reference};
use crate::kernel::spec::{ArgumentSpec, FillSpec, KernelSpec, ReferenceSpec, SpaceFile};

pub fn of(file: &SpaceFile, kernel: &KernelSpec, search: &SearchPath, farm: &CompileFarm) -> Vec<StudyInput> {
    let mut inputs = vec![
        text(InputRole::Space, &file.path, &file.text),
        text(InputRole::Kernel, &kernel.source.path, &kernel.source.text),
    ];
    if let Some(own) = &kernel.prepare {
        inputs.push(text(InputRole::Data, &own.source.path, &own.source.text));
    }
    match &kernel.check.reference {
        ReferenceSpec::Kernel { source, .. } => {
            inputs.push(text(InputRole::Reference, &source.path, &source.text));
        }
        ReferenceSpec::Npy { outputs } => {
            inputs.extend(outputs.values().map(|path| data(InputRole::Reference, path)));
        }
        ReferenceSpec::Command(own) => {
            inputs.extend(own.files.iter().map(|path| data(InputRole::Reference, path)));
        }
        ReferenceSpec::Builtin { .. } => {}
    }
    inputs.extend(kernel.arguments.iter().filter_map(|argument| match argument {
        ArgumentSpec::Buffer(buffer) => match &buffer.fill {
            FillSpec::Fixed(own) => own.file().map(|path| data(InputRole::Data, path)),
            _ => None,
        },
        ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => None,
    }));
    inputs.extend(included(file, kernel, search));
    let compiler = InputRole::Compiler;
    inputs.push(StudyInput {
        role: compiler,
        name: farm.toolchain().to_string(),
        hash: farm.compiler_hash(),
    });
    inputs
}

fn included(file: &SpaceFile, kernel: &KernelSpec, search: &SearchPath) -> Vec<StudyInput> {
    let mut texts = vec![(kernel.source.text.clone(), render::fixed(kernel))];
    // The template itself shows the directives of all variants, the default variant those that an
    // expression makes.
    texts.extend(
        render(kernel, &file.space.configuration(&file.space.default_genome()))
            .map(|source| (source.text, source.options)),
    );
    let of_task = render_reference(kernel).into_iter().chain(render_prepare(kernel));
    texts.extend(of_task.map(|source| (source.text, source.options)));
    let reader = FileReader::default();
    let mut found: Vec<StudyInput> = Vec::new();
    for (text, options) in texts {
        let scan = reader.scan(&text, &search.with_options(options.iter().map(String::as_str)));
        found.extend(scan.existing().map(|(path, hash)| StudyInput {
            role: InputRole::Include,
            name: path.display().to_string(),
            hash: hash.clone(),
        }));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup();
    found
}

fn text(role: InputRole, path: &Path, text: &str) -> StudyInput {
    StudyInput { role, name: path.display().to_string(), hash: ContentHash::of(text.as_bytes()) }
}

/// A file that cannot be read has the hash of no bytes, and the judge will complain of it.
fn data(role: InputRole, path: &Path) -> StudyInput {
    let hash = ContentHash::of(&fs::read(path).unwrap_or_default());
    StudyInput { role, name: path.display().to_string(), hash }
}
