//! The forms in which a candidate is exported.

use evo_space::diagnostic::nearest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportFormat {
    Cu,
    Cubin,
    /// `torch_ext/`: an extension of PyTorch that nvcc compiles.
    Torch,
    /// `torch_op.py`: an operator of PyTorch that launches the cubin.
    TorchOp,
    /// `tvm_ffi/`: the cubin behind one binding for whatever speaks DLPack.
    TvmFfi,
    Cupy,
    CudaCore,
    /// `dispatch.{json,hpp,py}`: which of several variants to call, by sizes.
    Dispatch,
}

/// What is to be known of a form. Its files are rows of `files`.
struct FormatRow {
    format: ExportFormat,
    name: &'static str,
    needs_cubin: bool,
    check: FormatCheck,
}

/// How a form is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatCheck {
    /// Not at all by itself.
    Never,
    /// As a candidate's source, with `launch.hpp`.
    Source,
    /// By a peer in Python, `verify_peer.py`, which has a function for it; with launches of `launch_plan.py` or of
    /// `launch.hpp`.
    Peer { is_planned: bool },
}

/// The forms, in the order of the enum, in which they are told.
const FORMATS: [FormatRow; 8] = {
    use ExportFormat::*;
    const fn row(
        format: ExportFormat,
        name: &'static str,
        needs_cubin: bool,
        check: FormatCheck,
    ) -> FormatRow {
        FormatRow { format, name, needs_cubin, check }
    }
    [
        row(Cu, "cu", false, FormatCheck::Source),
        row(Cubin, "cubin", true, FormatCheck::Never),
        row(Torch, "torch", false, FormatCheck::Peer { is_planned: false }),
        row(TorchOp, "torch-op", true, FormatCheck::Peer { is_planned: true }),
        row(TvmFfi, "tvm-ffi", true, FormatCheck::Peer { is_planned: false }),
        row(Cupy, "cupy", true, FormatCheck::Peer { is_planned: true }),
        row(CudaCore, "cuda-core", true, FormatCheck::Peer { is_planned: true }),
        row(Dispatch, "dispatch", false, FormatCheck::Never),
    ]
};

impl ExportFormat {
    pub fn all() -> Vec<ExportFormat> {
        FORMATS.iter().map(|row| row.format).collect()
    }

    pub fn as_str(self) -> &'static str {
        FORMATS[self as usize].name
    }

    pub fn needs_cubin(self) -> bool {
        FORMATS[self as usize].needs_cubin
    }

    pub fn check(self) -> FormatCheck {
        FORMATS[self as usize].check
    }

    /// Reads a list of names; `all` stands for every form.
    pub fn parse_list(names: &[String]) -> Result<Vec<ExportFormat>, String> {
        let mut formats: Vec<ExportFormat> = Vec::new();
        for name in names.iter().map(|name| name.trim()) {
            match FORMATS.iter().find(|row| row.name == name) {
                Some(row) => formats.push(row.format),
                None if name == "all" => formats.extend(ExportFormat::all()),
                None => return Err(unknown(name)),
            }
        }
        formats.sort();
        formats.dedup();
        Ok(formats)
    }
}

fn unknown(name: &str) -> String {
    let names = FORMATS.map(|row| row.name);
    match nearest(name, names) {
        Some(near) => format!("there is no format `{name}`; did you mean `{near}`?"),
        None => format!("there is no format `{name}`; there are {} and all", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_near_ones_offered() {
        let parse = |text: &str| {
            let names: Vec<String> = text.split(',').map(String::from).collect();
            ExportFormat::parse_list(&names).map(|own| own.iter().map(|one| one.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(parse("torch-op, cu,cu"), Ok(vec!["cu", "torch-op"]));
        assert_eq!(parse("all").map(|own| own.len()), Ok(8));
        assert_eq!(parse("torch_op").unwrap_err(), "there is no format `torch_op`; did you mean `torch-op`?");
        assert!(parse("xyzzy").unwrap_err().contains("there are cu, cubin, torch"));
    }

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (at, row) in FORMATS.iter().enumerate() {
            assert_eq!(row.format as usize, at, "{}", row.name);
        }
    }
}
