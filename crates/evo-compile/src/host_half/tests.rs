//! What stays of programs, what goes, and that nothing else changes.

use super::*;
use crate::lines::DirectiveLine;

const PROGRAM: &str = include_str!("program.cu");

/// Sources, each below its title, with entries other than `k` and options behind that.
const SOURCES: &str = concat!("//// a program\n", include_str!("program.cu"), include_str!("sources.cu"));

#[test]
fn of_each_source_the_device_half_stays() {
    let told = SOURCES.split("//// ").skip(1).map(|source| {
        let (title, text) = source.split_once('\n').unwrap();
        let words = title.split_once(" | ").map_or("", |(_, words)| words).split_whitespace();
        let (options, mut entries): (Vec<_>, Vec<_>) =
            words.map(String::from).partition(|word| word.starts_with('-'));
        if entries.is_empty() {
            entries.push("k".to_string());
        }
        let own = device_half(text, &entries, &options);
        assert_eq!(own.text.len(), text.len());
        assert_eq!(own.text.matches('\n').count(), text.matches('\n').count());
        let same = if matches!(own.text, Cow::Borrowed(_)) { "as it is" } else { "without its host half" };
        let lines = own.text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("//// {title}\n{same}, left out {:?}, unclear {:?}\n{lines}", own.skipped, own.unclear)
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n\n"));
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

#[test]
fn whatever_the_text_nothing_moves_and_directives_and_kernels_stay() {
    let mut dice = Dice(7);
    let pieces = "{ } ( ) /* */ // \" ' \n#if~1\n \n#else\n \n#endif\n \\\n é R\"x( ;".split(' ');
    let pieces: Vec<String> = pieces.map(|piece| piece.replace('~', " ")).collect();
    let mut halves = 0;
    for _ in 0..3000 {
        let mut text = PROGRAM.to_string();
        for _ in 0..1 + dice.below(3) {
            let mut at = dice.below(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            match dice.below(3) {
                0 => text.insert_str(at, &pieces[dice.below(pieces.len())]),
                1 => text.truncate(at),
                _ if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        let own = device_half(&text, &["k".to_string()], &[]);
        halves += usize::from(matches!(own.text, Cow::Owned(_)));
        assert_eq!(own.text.len(), text.len());
        assert_eq!(own.text.matches('\n').count(), text.matches('\n').count());
        if own.text == text {
            continue;
        }
        if let (Some(before), Some(after)) = (SourceLines::read(&text), SourceLines::read(&own.text)) {
            let stays = |own: &&DirectiveLine| {
                !included(&text, own).and_then(|file| file.name()).is_some_and(is_host_header)
            };
            let spaces = |lines: &SourceLines<'_>| {
                (0..lines.tokens.len()).filter(|at| lines.word(*at) == "__global__").count()
            };
            let before_spaces = spaces(&before);
            let before: Vec<_> = before.directives.iter().filter(stays).collect();
            assert_eq!(before, after.directives.iter().collect::<Vec<_>>(), "{text}");
            assert_eq!(before_spaces, spaces(&after), "{text}");
        }
    }
    assert!(halves > 1000, "{halves}");
}
