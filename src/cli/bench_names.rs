//! Names of a benchmark's candidates, as its rows have them.

use super::error::CliError;
use crate::bench::BenchCandidate;
use crate::kernel::label::LABEL_MAX;

/// Names of candidates in rows, each once: those that were given, else words. Words too long for a column lose what all
/// candidates share; where the rest is too long still, the later of two equal beginnings has a number.
pub fn names(members: &[BenchCandidate]) -> Result<Vec<String>, CliError> {
    let whole: Vec<String> = members.iter().map(name_of).collect();
    let is_shared = |word: &String| members.len() > 1 && members.iter().all(|own| own.words.contains(word));
    let mut found: Vec<String> = Vec::new();
    for (index, (own, full)) in members.iter().zip(&whole).enumerate() {
        if whole[..index].contains(full) {
            let text = format!("two candidates are called `{}`", cut(full, LABEL_MAX));
            return Err(CliError::usage(text).with_hint("give them names: `{ name = \"…\", words = \"…\" }`"));
        }
        let is_long = own.name.is_none() && full.chars().count() > LABEL_MAX;
        let telling: Vec<String> = own.words.iter().filter(|word| !is_shared(word)).cloned().collect();
        let short = if is_long && !telling.is_empty() {
            name_of(&BenchCandidate { words: telling, ..own.clone() })
        } else {
            full.clone()
        };
        let mut name = cut(&short, LABEL_MAX);
        let mut number = 2;
        while found.contains(&name) {
            let end = format!(" #{number}");
            name = cut(&short, LABEL_MAX - end.len()) + &end;
            number += 1;
        }
        found.push(name);
    }
    Ok(found)
}

fn cut(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

/// A candidate as rows name it, however long. A slash would look like a peer's.
fn name_of(own: &BenchCandidate) -> String {
    let stem = |path: &std::path::PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let file = own.source.as_ref().or(own.config.as_ref()).and_then(stem);
    let words = own.words.join(" ");
    let name = own.name.clone().unwrap_or_else(|| match (file, words.is_empty()) {
        (Some(file), true) => file,
        (Some(file), false) => format!("{file} {words}"),
        (None, false) => words,
        (None, true) => "@baseline".to_string(),
    });
    name.replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(words: &str) -> BenchCandidate {
        let words = words.split(' ').map(String::from).collect();
        BenchCandidate { words, ..BenchCandidate::default() }
    }

    #[test]
    fn long_words_lose_what_all_share_and_names_stay_apart() {
        let shared: Vec<String> = (0..20).map(|own| format!("PARAMETER_{own}=1")).collect();
        let long = |end: &str| candidate(&format!("{} {end}", shared.join(" ")));
        assert_eq!(names(&[long("LAST=1"), long("LAST=2")]).unwrap(), ["LAST=1", "LAST=2"]);
        assert_eq!(names(&[candidate("A=1 B=1"), candidate("A=1 B=2")]).unwrap(), ["A=1 B=1", "A=1 B=2"]);
        let alone = names(&[long("LAST=1")]).unwrap();
        assert!(alone[0].starts_with("PARAMETER_0=1") && alone[0].len() == LABEL_MAX);
        // Nothing is shared by all three, and the first two begin alike.
        let three = names(&[long("LAST=1"), long("LAST=2"), candidate("OTHER=1")]).unwrap();
        assert!(three[1].ends_with(" #2") && three[1].len() == LABEL_MAX && three[0] != three[1]);
    }

    #[test]
    fn the_same_candidate_twice_is_refused() {
        let error = names(&[candidate("A=1"), candidate("A=1")]).unwrap_err().to_string();
        assert!(error.contains("two candidates are called `A=1`"), "{error}");
        let named = |name: &str| BenchCandidate { name: Some(name.to_string()), ..candidate("A=1") };
        assert_eq!(names(&[named("x"), named("y")]).unwrap(), ["x", "y"]);
        assert!(names(&[named("x"), named("x")]).is_err());
    }
}
