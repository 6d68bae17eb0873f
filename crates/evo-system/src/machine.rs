//! What this machine is called.

/// Empty where it cannot be read.
pub fn name() -> String {
    // What `uname` gives too, without a feature of a crate for it.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_a_name_of_one_line() {
        assert!(!super::name().contains('\n'));
    }
}
