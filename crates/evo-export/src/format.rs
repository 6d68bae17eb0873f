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

impl ExportFormat {
    /// All of them, in the order in which they are told.
    pub const ALL: [ExportFormat; 8] = [
        ExportFormat::Cu,
        ExportFormat::Cubin,
        ExportFormat::Torch,
        ExportFormat::TorchOp,
        ExportFormat::TvmFfi,
        ExportFormat::Cupy,
        ExportFormat::CudaCore,
        ExportFormat::Dispatch,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ExportFormat::Cu => "cu",
            ExportFormat::Cubin => "cubin",
            ExportFormat::Torch => "torch",
            ExportFormat::TorchOp => "torch-op",
            ExportFormat::TvmFfi => "tvm-ffi",
            ExportFormat::Cupy => "cupy",
            ExportFormat::CudaCore => "cuda-core",
            ExportFormat::Dispatch => "dispatch",
        }
    }

    pub fn needs_cubin(self) -> bool {
        !matches!(self, ExportFormat::Cu | ExportFormat::Torch | ExportFormat::Dispatch)
    }

    /// Reads a list of names; `all` stands for every form.
    pub fn parse_list(names: &[String]) -> Result<Vec<ExportFormat>, String> {
        let mut found: Vec<ExportFormat> = Vec::new();
        for name in names.iter().map(|own| own.trim()) {
            if name == "all" {
                found.extend(ExportFormat::ALL);
                continue;
            }
            let known = ExportFormat::ALL.into_iter().find(|own| own.as_str() == name);
            found.push(known.ok_or_else(|| unknown(name))?);
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

fn unknown(name: &str) -> String {
    let names = ExportFormat::ALL.map(ExportFormat::as_str);
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
}
