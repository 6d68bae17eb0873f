//! Counts in messages: `1 case` and `2 cases`.

use std::fmt::Display;

/// A count with its noun, which is given in the singular.
///
/// ```
/// use evo_space::counted::counted;
///
/// assert_eq!(counted(1, "case"), "1 case");
/// assert_eq!(counted(0, "compile process"), "0 compile processes");
/// assert_eq!(counted(12, "entry"), "12 entries");
/// ```
pub fn counted<N: Display>(count: N, noun: &str) -> String {
    let count = count.to_string();
    match (count.as_str(), noun.strip_suffix('y')) {
        ("1", _) => format!("1 {noun}"),
        // `entry`, but not `key`.
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if noun.ends_with('s') || noun.ends_with("sh") || noun.ends_with("ch") => {
            format!("{count} {noun}es")
        }
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let check = |count: i64, noun: &str, expected: &str| assert_eq!(counted(count, noun), expected);
        check(0, "evaluation", "0 evaluations");
        check(1, "evaluation", "1 evaluation");
        check(21, "key", "21 keys");
        check(2, "branch", "2 branches");
        check(1, "entry", "1 entry");
    }
}
