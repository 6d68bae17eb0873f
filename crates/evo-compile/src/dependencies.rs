//! The list of the files that a C++ compiler read, as it writes it where it succeeds (`-MD`).

use std::fs;
use std::path::{Path, PathBuf};

/// Of no file where there is no list.
pub fn read(list: &Path) -> Vec<PathBuf> {
    listed(&fs::read_to_string(list).unwrap_or_default())
}

fn listed(text: &str) -> Vec<PathBuf> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    // The target is evo's own output, whose path has no colon followed by a blank.
    let Some((_, prerequisites)) = text.split_once(": ") else { return Vec::new() };
    // What follows the first rule would be phony targets (`-MP`), which evo does not ask for.
    words(prerequisites.lines().next().unwrap_or_default())
}

/// Words with make's escapes undone: `\ ` is a blank, `\#` a number sign, `$$` a dollar sign.
fn words(line: &str) -> Vec<PathBuf> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('\\', Some(next @ (' ' | '#' | '\\'))) => {
                word.push(next);
                letters.next();
            }
            ('$', Some('$')) => {
                word.push('$');
                letters.next();
            }
            (blank, _) if blank.is_whitespace() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(listed(text), expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{text}");
    }

    #[test]
    fn rules_are_read_with_their_escapes() {
        check(
            "unit.so: unit.cpp inc/a.h \\\n /usr/include/stdio.h\n",
            &["unit.cpp", "inc/a.h", "/usr/include/stdio.h"],
        );
        check("unit.so: my\\ folder/a.h cash$$.h c\\#.h", &["my folder/a.h", "cash$.h", "c#.h"]);
        check("", &[]);
        check("nonsense", &[]);
    }
}
