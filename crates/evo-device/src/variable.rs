//! What is wrong with an argument that lies in a variable of the module.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

const SHOWN: usize = 8;

/// `known` are the names that the module has.
pub fn missing(name: &str, known: Vec<&str>) -> DeviceError {
    let mut list: Vec<String> = known.iter().take(SHOWN).map(|own| format!("`{own}`")).collect();
    if known.len() > SHOWN {
        list.push("…".to_string());
    }
    let known =
        if list.is_empty() { "it has none".to_string() } else { format!("it has {}", list.join(", ")) };
    refused(format!("the module has no variable `{name}`: {known}"))
}

pub fn check_size(name: &str, own: u64, wanted: u64) -> Result<(), DeviceError> {
    if wanted <= own {
        return Ok(());
    }
    Err(refused(format!("the variable `{name}` has {own} bytes, the argument has {wanted}")))
}

fn refused(message: String) -> DeviceError {
    DeviceError::plain(VerdictKind::LaunchFail, message).with_cause("symbol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_variable_is_answered_with_those_that_there_are() {
        let message = |known: Vec<&str>| missing("d_filtr", known).message;
        assert_eq!(message(vec!["d_filter"]), "the module has no variable `d_filtr`: it has `d_filter`");
        assert_eq!(message(vec![]), "the module has no variable `d_filtr`: it has none");
        assert!(message(vec!["x"; 9]).ends_with("`x`, …"));
    }

    #[test]
    fn an_argument_may_be_smaller_than_its_variable() {
        assert!(check_size("d", 16, 16).is_ok() && check_size("d", 16, 4).is_ok());
        let error = check_size("d", 16, 20).unwrap_err();
        assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some("symbol")));
    }
}
