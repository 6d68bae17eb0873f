//! Names of compilation targets.

/// The `a` form where it exists, since cubins are made for exactly one device.
pub fn cuda_arch(major: u32, minor: u32) -> String {
    let suffix = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_carry_the_architecture_suffix_where_it_exists() {
        assert_eq!(cuda_arch(8, 9), "sm_89");
        assert_eq!(cuda_arch(9, 0), "sm_90a");
        assert_eq!(cuda_arch(12, 0), "sm_120a");
    }
}
