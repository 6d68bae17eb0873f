//! The forms in which a candidate is exported.

use evo_protocol::words;
use evo_space::diagnostic::nearest;

words! {
    #[derive(PartialOrd, Ord)]
    ExportFormat {
        Cu = "cu",
        Cubin = "cubin",
        /// `torch_ext/`: an extension of PyTorch that nvcc compiles.
        Torch = "torch",
        /// `torch_op.py`: an operator of PyTorch that launches the cubin.
        TorchOp = "torch-op",
        /// `tvm_ffi/`: the cubin behind one binding for whatever speaks DLPack.
        TvmFfi = "tvm-ffi",
        Cupy = "cupy",
        CudaCore = "cuda-core",
        /// `dispatch.{json,hpp,py}`: which of several variants to call, by sizes.
        Dispatch = "dispatch",
    }
}

impl ExportFormat {
    pub fn needs_cubin(self) -> bool {
        !matches!(self, ExportFormat::Cu | ExportFormat::Torch | ExportFormat::Dispatch)
    }

    /// Whether a peer in Python verifies it: `verify_peer.py` has a function for it.
    pub fn has_peer(self) -> bool {
        !matches!(self, ExportFormat::Cu | ExportFormat::Cubin | ExportFormat::Dispatch)
    }

    /// Whether its launches are those of `launch_plan.py`.
    pub fn is_planned_in_python(self) -> bool {
        matches!(self, ExportFormat::TorchOp | ExportFormat::Cupy | ExportFormat::CudaCore)
    }

    /// Reads a list of names; `all` stands for every form.
    pub fn parse_list(names: &[String]) -> Result<Vec<ExportFormat>, String> {
        let mut formats: Vec<ExportFormat> = Vec::new();
        for name in names.iter().map(|name| name.trim()) {
            match ExportFormat::ALL.iter().copied().find(|format| format.as_str() == name) {
                Some(format) => formats.push(format),
                None if name == "all" => formats.extend(ExportFormat::ALL),
                None => return Err(unknown(name)),
            }
        }
        formats.sort();
        formats.dedup();
        Ok(formats)
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = ExportFormat::ALL.iter().map(|format| format.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("there is no format `{name}`; did you mean `{near}`?"),
        None => format!("there is no format `{name}`; there are {} and all", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_near_ones_offered() {
        let parse = |text: &str| -> Result<Vec<&str>, String> {
            let names: Vec<String> = text.split(',').map(String::from).collect();
            ExportFormat::parse_list(&names)
                .map(|formats| formats.into_iter().map(ExportFormat::as_str).collect())
        };
        assert_eq!(parse("torch-op, cu,cu"), Ok(vec!["cu", "torch-op"]));
        assert_eq!(parse("all").map(|names| names.len()), Ok(8));
        assert_eq!(parse("torch_op").unwrap_err(), "there is no format `torch_op`; did you mean `torch-op`?");
        assert!(parse("xyzzy").unwrap_err().contains("there are cu, cubin, torch"));
    }
}
