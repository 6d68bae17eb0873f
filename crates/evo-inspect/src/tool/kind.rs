//! The outside programs that evo knows.

use serde::Serialize;

use super::version::ToolVersion;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    Ncu,
    ComputeSanitizer,
    Nvcc,
    Python,
    Ninja,
    Git,
}

impl ToolKind {
    pub const ALL: &[ToolKind] = &[
        ToolKind::Ncu,
        ToolKind::ComputeSanitizer,
        ToolKind::Nvcc,
        ToolKind::Python,
        ToolKind::Ninja,
        ToolKind::Git,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ToolKind::Ncu => "ncu",
            ToolKind::ComputeSanitizer => "compute-sanitizer",
            ToolKind::Nvcc => "nvcc",
            ToolKind::Python => "python3",
            ToolKind::Ninja => "ninja",
            ToolKind::Git => "git",
        }
    }

    pub fn variable(self) -> Option<&'static str> {
        match self {
            ToolKind::Ncu => Some("EVO_NCU"),
            ToolKind::ComputeSanitizer => Some("EVO_COMPUTE_SANITIZER"),
            ToolKind::Python => Some("EVO_PYTHON"),
            ToolKind::Nvcc | ToolKind::Ninja | ToolKind::Git => None,
        }
    }

    /// Folders below a CUDA toolkit in which it may lie. A `*` stands for one folder, the newest first.
    pub(super) fn toolkit_folders(self) -> &'static [&'static str] {
        match self {
            ToolKind::Ncu => &["bin", "nsight-compute", "nsight-compute-*"],
            ToolKind::ComputeSanitizer => &["bin", "compute-sanitizer"],
            ToolKind::Nvcc => &["bin"],
            ToolKind::Python | ToolKind::Ninja | ToolKind::Git => &[],
        }
    }

    pub(super) fn own_folders(self) -> &'static [&'static str] {
        match self {
            ToolKind::Ncu => &["/opt/nvidia/nsight-compute/*"],
            _ => &[],
        }
    }

    /// Folders below Python's packages: pip's `nvidia` packages.
    pub(super) fn package_folders(self) -> &'static [&'static str] {
        match self {
            ToolKind::Ncu => &["nvidia/*/bin", "nvidia/nsight_compute/*"],
            ToolKind::ComputeSanitizer => &["nvidia/*/bin", "nvidia/*/compute-sanitizer"],
            ToolKind::Nvcc => &["nvidia/*/bin"],
            ToolKind::Python | ToolKind::Ninja | ToolKind::Git => &[],
        }
    }

    /// What its `--version` says beside the numbers: another program of that name is not taken for it.
    pub(super) fn mark(self) -> &'static str {
        match self {
            ToolKind::Ncu => "Nsight Compute",
            ToolKind::ComputeSanitizer => "Compute Sanitizer",
            ToolKind::Nvcc => "Cuda compiler driver",
            ToolKind::Python => "Python 3",
            ToolKind::Ninja => "",
            ToolKind::Git => "git version",
        }
    }

    /// Whether its options are read from its `--help`: those that a version lacks are left out.
    pub(super) fn has_options(self) -> bool {
        matches!(self, ToolKind::Ncu | ToolKind::ComputeSanitizer)
    }

    pub fn oldest(self) -> ToolVersion {
        match self {
            // That of CUDA 11.8, with which sm_90 came.
            ToolKind::Ncu => ToolVersion::of(&[2022, 3]),
            // Older ones were not looked at; what a newer one lacks shows in its options.
            ToolKind::ComputeSanitizer => ToolVersion::of(&[2022, 1]),
            ToolKind::Nvcc => ToolVersion::of(&[12, 0]),
            ToolKind::Python => ToolVersion::of(&[3, 9]),
            ToolKind::Ninja | ToolKind::Git => ToolVersion::of(&[1, 8]),
        }
    }

    pub(super) fn install_hint(self) -> String {
        match (self, self.variable()) {
            (ToolKind::ComputeSanitizer, _) => {
                "pip install nvidia-cuda-sanitizer-api, install a CUDA toolkit, or set EVO_COMPUTE_SANITIZER"
                    .to_string()
            }
            (_, Some(variable)) => format!("install it, or set {variable} to the program"),
            (_, None) => format!("install it, or put `{}` on the PATH", self.name()),
        }
    }
}
