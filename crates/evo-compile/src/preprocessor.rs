//! A source as the preprocessor's first phases see it: what stands in directives, in texts and in comments.
//!
//! Compilers differ in a few points, and options change more: trigraphs, raw strings, separators inside numbers,
//! blanks after the backslash that joins lines. A reader that decides them otherwise than the compiler takes code for
//! a comment, and a directive in it goes unseen. So a source has several readings, one for each way to decide every
//! point that it touches, and what is refused in one reading is refused.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dialect {
    trigraphs: bool,
    raw_strings: bool,
    /// Quotes separate digits.
    separators: bool,
    /// Blanks may stand between a backslash and the line's end that it joins.
    blank_joins: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// The end of a line, or of a directive.
    Line,
    /// `#` at the begin of a line, however written.
    Directive,
    /// A name or a keyword.
    Name(String),
    /// The inside of a text, escapes resolved; `false` for a character in single quotes.
    Text(String, bool),
    /// What stands where a file is named: `<…>` or `"…"` as written, without the marks.
    File { name: String, quoted: bool },
    /// Any other character that is not white space.
    Sign(char),
}

pub fn readings(text: &str) -> Vec<Vec<Piece>> {
    let touches = |found: bool| if found { vec![false, true] } else { vec![false] };
    let raw = text.contains("R\"") || text.contains("R\\");
    let mut readings = Vec::new();
    for trigraphs in touches(text.contains("??")) {
        // A compiler of today knows raw strings, so the reading without them comes on top.
        for raw_strings in touches(raw) {
            for separators in touches(has_separator(text)) {
                for blank_joins in touches(has_blank_join(text)) {
                    let dialect = Dialect { trigraphs, raw_strings, separators, blank_joins };
                    readings.push(PieceReader::new(text, dialect).read());
                }
            }
        }
    }
    readings
}

fn has_separator(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric();
    text.as_bytes().windows(3).any(|three| word(three[0]) && three[1] == b'\'' && word(three[2]))
        || text.contains("\\\n") && text.contains('\'')
}

fn has_blank_join(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() != line && line.trim_end().ends_with(['\\', '/']))
}

fn joined(text: &str, dialect: Dialect) -> Vec<(char, usize)> {
    let mut letters: Vec<(char, usize)> = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let (letter, length) = match trigraph(&text[at..]).filter(|_| dialect.trigraphs) {
            Some(letter) => (letter, 3),
            None => (letter, letter.len_utf8()),
        };
        if letter == '\\'
            && let Some(skipped) = line_end(&text[at + length..], dialect)
        {
            at += length + skipped;
            continue;
        }
        letters.push((letter, at));
        at += length;
    }
    letters
}

fn trigraph(text: &str) -> Option<char> {
    let signs = [
        ('=', '#'),
        ('/', '\\'),
        ('\'', '^'),
        ('(', '['),
        (')', ']'),
        ('!', '|'),
        ('<', '{'),
        ('>', '}'),
        ('-', '~'),
    ];
    let third = text.strip_prefix("??")?.chars().next()?;
    signs.iter().find(|(sign, _)| *sign == third).map(|(_, letter)| *letter)
}

/// The length of a line's end at the start of a text, if one is there.
fn line_end(text: &str, dialect: Dialect) -> Option<usize> {
    let blanks = |letter: char| letter.is_whitespace() && !matches!(letter, '\n' | '\r') || letter == '\0';
    let rest = if dialect.blank_joins { text.trim_start_matches(blanks) } else { text };
    let skipped = text.len() - rest.len();
    ["\r\n", "\n", "\r"].iter().find(|end| rest.starts_with(*end)).map(|end| skipped + end.len())
}

/// Words after `#` that are followed by a file.
pub const INCLUSIONS: [&str; 4] = ["include", "include_next", "import", "embed"];

/// Operators that ask for a file as a directive would.
pub const QUESTIONS: [&str; 3] = ["__has_include", "__has_include_next", "__has_embed"];

struct PieceReader<'a> {
    text: &'a str,
    letters: Vec<(char, usize)>,
    at: usize,
    dialect: Dialect,
    pieces: Vec<Piece>,
    /// Whether only blanks and comments stood on this line so far.
    at_start: bool,
}

impl<'a> PieceReader<'a> {
    fn new(text: &'a str, dialect: Dialect) -> PieceReader<'a> {
        let letters = joined(text, dialect);
        PieceReader { text, letters, at: 0, dialect, pieces: Vec::new(), at_start: true }
    }

    fn read(mut self) -> Vec<Piece> {
        while let Some(letter) = self.peek(0) {
            match letter {
                '\n' | '\r' => {
                    self.at += 1;
                    self.at_start = true;
                    self.pieces.push(Piece::Line);
                    continue;
                }
                '/' if self.peek(1) == Some('*') => {
                    self.skip_comment();
                    continue;
                }
                '/' if self.peek(1) == Some('/') => {
                    self.skip_line();
                    continue;
                }
                blank if blank.is_whitespace() || blank == '\0' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let at_start = std::mem::replace(&mut self.at_start, false);
            if at_start && self.take_hash() {
                self.pieces.push(Piece::Directive);
            } else {
                self.piece(letter);
            }
            self.file();
        }
        self.pieces.push(Piece::Line);
        self.pieces
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).map(|(letter, _)| *letter)
    }

    fn take_hash(&mut self) -> bool {
        let length = match (self.peek(0), self.peek(1)) {
            (Some('#'), _) => 1,
            // A digraph.
            (Some('%'), Some(':')) => 2,
            _ => return false,
        };
        self.at += length;
        true
    }

    fn skip_comment(&mut self) {
        self.at += 2;
        while self.peek(0).is_some() && !(self.peek(0) == Some('*') && self.peek(1) == Some('/')) {
            self.at += 1;
        }
        self.at += 2;
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|letter| !matches!(letter, '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn piece(&mut self, letter: char) {
        if is_name_start(letter) {
            let name = self.name();
            if self.dialect.raw_strings
                && self.peek(0) == Some('"')
                && ["R", "LR", "uR", "UR", "u8R"].contains(&name.as_str())
                && let Some(text) = self.raw_string()
            {
                self.pieces.push(Piece::Text(text, true));
            } else {
                self.pieces.push(Piece::Name(name));
            }
        } else if letter.is_ascii_digit()
            || letter == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())
        {
            self.number();
        } else if matches!(letter, '"' | '\'') {
            let text = self.quoted(letter);
            self.pieces.push(Piece::Text(text, letter == '"'));
        } else {
            self.at += 1;
            self.pieces.push(Piece::Sign(letter));
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) =
            self.peek(0).filter(|letter| is_name_start(*letter) || letter.is_ascii_digit())
        {
            name.push(letter);
            self.at += 1;
        }
        name
    }

    fn number(&mut self) {
        while let Some(letter) = self.peek(0) {
            let goes_on = |next: char| is_name_start(next) || next.is_ascii_digit();
            let exponent = matches!(letter, '+' | '-')
                && self.at > 0
                && matches!(self.letters[self.at - 1].0, 'e' | 'E' | 'p' | 'P');
            let separator = letter == '\'' && self.dialect.separators && self.peek(1).is_some_and(goes_on);
            if !(goes_on(letter) || letter == '.' || exponent || separator) {
                break;
            }
            self.at += 1;
        }
        self.pieces.push(Piece::Sign('0'));
    }

    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        self.at += 1;
        while let Some(letter) = self.peek(0).filter(|letter| !matches!(letter, '\n' | '\r')) {
            self.at += 1;
            match letter {
                letter if letter == quote => break,
                '\\' => text.extend(self.escape()),
                letter => text.push(letter),
            }
        }
        text
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.peek(0).filter(|letter| !matches!(letter, '\n' | '\r'))?;
        self.at += 1;
        let (radix, digits) = match letter {
            'x' => (16, usize::MAX),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => {
                self.at -= 1;
                (8, 3)
            }
            'n' => return Some('\n'),
            't' => return Some('\t'),
            letter => return Some(letter),
        };
        let mut value = 0u32;
        let mut count = 0;
        while let Some(digit) =
            self.peek(0).and_then(|letter| letter.to_digit(radix)).filter(|_| count < digits)
        {
            value = value.wrapping_mul(radix).wrapping_add(digit);
            (self.at, count) = (self.at + 1, count + 1);
        }
        char::from_u32(value)
    }

    /// The text of a raw string whose quote is next: in it lines are not joined and trigraphs mean nothing.
    fn raw_string(&mut self) -> Option<String> {
        let start = self.letters[self.at].1;
        let rest = &self.text[start + 1..];
        let (mark, rest) = rest.split_once('(')?;
        if mark.len() > 16 || mark.contains([' ', '\\', ')', '\n', '\t', '"']) {
            return None;
        }
        let close = format!("){mark}\"");
        let length = rest.find(&close)?;
        let end = self.text.len() - rest.len() + length + close.len();
        self.at = self.letters.partition_point(|(_, place)| *place < end);
        Some(rest[..length].to_string())
    }

    /// A file's name, where the pieces so far say that one stands here: in it `//` opens no comment, and quotes and
    /// backslashes are letters.
    fn file(&mut self) {
        let asks = |name: &String| QUESTIONS.contains(&name.as_str());
        let named = match &self.pieces[..] {
            [.., Piece::Directive, Piece::Name(word)] => INCLUSIONS.contains(&word.as_str()),
            [.., Piece::Name(name), Piece::Sign('(')] => asks(name),
            [.., Piece::Name(name)] => asks(name) && self.next_is_file(),
            _ => false,
        };
        if !named {
            return;
        }
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => self.skip_comment(),
                (Some(blank), _) if blank.is_whitespace() && !matches!(blank, '\n' | '\r') => self.at += 1,
                _ => break,
            }
        }
        let close = match self.peek(0) {
            Some('<') => '>',
            Some('"') => '"',
            _ => return,
        };
        let line =
            self.letters[self.at + 1..].iter().take_while(|(letter, _)| !matches!(letter, '\n' | '\r'));
        let Some(length) = line.clone().position(|(letter, _)| *letter == close) else { return };
        let name: String = line.take(length).map(|(letter, _)| *letter).collect();
        self.at += length + 2;
        self.pieces.push(Piece::File { name, quoted: close == '"' });
    }

    fn next_is_file(&self) -> bool {
        let rest = self.letters[self.at..].iter().map(|(letter, _)| *letter);
        rest.into_iter()
            .find(|letter| !matches!(letter, ' ' | '\t'))
            .is_some_and(|letter| "<\"".contains(letter))
    }
}

/// Letters outside ASCII and `$` may stand in names, too.
fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic()
        || matches!(letter, '_' | '$')
        || !letter.is_ascii() && letter.is_alphanumeric()
}
