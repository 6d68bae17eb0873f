//! Text to tokens, and tokens to a tree by recursive descent with Python's precedence. Symbols of other languages
//! are recognized among the tokens, because their hint is the same wherever they stand.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::diagnostic::Span;
use crate::expr::tree::{Function, Kind, Relation, Tree};
use crate::expr::{ExprError, ExprToken, ExprTokenKind, hints};
use crate::value::{Operator, Value};

/// Nesting beyond this is refused, so that no input overflows the stack, here or in evaluation.
const MAX_DEPTH: usize = 50;

const MAX_LENGTH: usize = 100_000;

const RESERVED: [&str; 14] =
    ["and", "or", "not", "in", "if", "else", "True", "False", "true", "false", "is", "lambda", "for", "None"];

#[derive(Debug)]
pub struct Parsed {
    pub root: Tree,
    pub names: Vec<Arc<str>>,
    /// Each appearance: position in `names` and place in the text.
    pub uses: Vec<(usize, Span)>,
}

pub fn is_name(text: &str) -> bool {
    let first = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    first
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&text)
}

pub fn parse(text: &str) -> Result<Parsed, ExprError> {
    if text.len() > MAX_LENGTH {
        let start = text.char_indices().nth(1).map_or(text.len(), |(at, _)| at);
        let message = format!("an expression longer than {MAX_LENGTH} bytes");
        return Err(ExprError::new(0..start, message).hint(hints::SPLIT));
    }
    let (tokens, broken) = tokens(text);
    let mut parser = Parser { tokens, text, ..Parser::default() };
    let root = parser.expression().and_then(|root| match parser.peek().kind {
        ExprTokenKind::End => Ok(root),
        _ => Err(parser.expected_operator()),
    });
    // A parser that came as far as the broken place has nothing to say of what follows.
    let root = match broken {
        Some(error) if parser.peek().kind == ExprTokenKind::End => Err(error),
        _ => root,
    }?;
    Ok(Parsed { root, names: parser.names, uses: parser.uses })
}

#[derive(Default)]
struct Parser<'a> {
    tokens: Vec<ExprToken>,
    at: usize,
    depth: usize,
    names: Vec<Arc<str>>,
    places: FxHashMap<Arc<str>, usize>,
    uses: Vec<(usize, Span)>,
    text: &'a str,
}

type Parse = Result<Tree, ExprError>;

impl Parser<'_> {
    /// `a if condition else b`, or anything that binds tighter.
    fn expression(&mut self) -> Parse {
        self.deeper(|parser| {
            let then = parser.any()?;
            if !parser.take_word("if") {
                return Ok(then);
            }
            // Not `expression`: as in Python, a choice inside a condition needs brackets.
            let condition = parser.any()?;
            if !parser.take_word("else") {
                return Err(parser.unexpected("`else`").hint(hints::IF));
            }
            let otherwise = parser.expression()?;
            let span = then.span.start..otherwise.span.end;
            let (condition, then) = (Box::new(condition), Box::new(then));
            Ok(Tree { kind: Kind::If { condition, then, otherwise: Box::new(otherwise) }, span })
        })
    }

    fn any(&mut self) -> Parse {
        self.joined("or", Kind::Any, |parser| parser.joined("and", Kind::All, Self::negation))
    }

    fn joined(
        &mut self,
        word: &str,
        kind: fn(Vec<Tree>) -> Kind,
        operand: impl Fn(&mut Self) -> Parse,
    ) -> Parse {
        // One flat list for operands of one kind, so that only real nesting counts against the depth limit.
        let mut operands = vec![operand(self)?];
        while self.take_word(word) {
            operands.push(operand(self)?);
        }
        if operands.len() == 1 {
            return Ok(operands.remove(0));
        }
        let span = operands[0].span.start..self.last_end();
        Ok(Tree { kind: kind(operands), span })
    }

    fn negation(&mut self) -> Parse {
        let start = self.peek().span.start;
        if !self.take_word("not") {
            return self.comparison();
        }
        let operand = self.deeper(Self::negation)?;
        let span = start..operand.span.end;
        Ok(Tree { kind: Kind::Not(Box::new(operand)), span })
    }

    fn comparison(&mut self) -> Parse {
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.take_comparison()? {
            let member = matches!(comparison, Relation::In | Relation::NotIn);
            // No value is a list, so nothing that follows `in [...]` could be compared with one.
            if let Some((_, Tree { kind: Kind::List(_), span })) = rest.last() {
                let hint = "compare again after `and`, as in `A in [1, 2] and A < B`";
                return Err(ExprError::new(span.clone(), "a list cannot be compared further").hint(hint));
            }
            let right = if member { self.members()? } else { self.sum()? };
            rest.push((comparison, right));
        }
        let Some((_, last)) = rest.last() else { return Ok(first) };
        let span = first.span.start..last.span.end;
        Ok(Tree { kind: Kind::Compare(Box::new(first), rest), span })
    }

    fn take_comparison(&mut self) -> Result<Option<Relation>, ExprError> {
        use Relation::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let symbols = [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual];
        if let Some(comparison) = symbols.into_iter().find(|comparison| self.take(comparison.as_str())) {
            return Ok(Some(comparison));
        }
        if self.take_word("in") {
            return Ok(Some(Relation::In));
        }
        // After a whole operand `not` can only begin `not in`.
        if self.take_word("not") {
            if self.take_word("in") {
                return Ok(Some(Relation::NotIn));
            }
            let hint = "write `A not in [1, 2]`, or `and not` between two conditions";
            return Err(self.unexpected("`in`").hint(hint));
        }
        Ok(None)
    }

    fn members(&mut self) -> Parse {
        let open = self.peek().span.clone();
        let close = if self.take("[") {
            "]"
        } else if self.take("(") {
            ")"
        } else {
            return Err(self.unexpected("a list").hint(hints::MEMBERS));
        };
        let items = self.items(open.clone(), close)?;
        Ok(Tree { kind: Kind::List(items), span: open.start..self.last_end() })
    }

    fn items(&mut self, open: Span, close: &'static str) -> Result<Vec<Tree>, ExprError> {
        let mut items = Vec::new();
        while !self.take(close) {
            if self.peek().kind == ExprTokenKind::End {
                return Err(self.unclosed(open, close, true));
            }
            items.push(self.expression()?);
            // A comma before the closing bracket is fine, as in Python.
            if !self.take(",") && self.peek().kind != ExprTokenKind::Symbol(close) {
                return Err(self.unclosed(open, close, true));
            }
        }
        Ok(items)
    }

    fn sum(&mut self) -> Parse {
        use Operator::{Add, Divide, FloorDivide, Multiply, Remainder, Subtract};
        self.chain(&[Add, Subtract], |parser| {
            parser.chain(&[Multiply, Divide, FloorDivide, Remainder], Self::signed)
        })
    }

    fn chain(&mut self, operators: &[Operator], operand: impl Fn(&mut Self) -> Parse) -> Parse {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Some(operator) = operators.iter().find(|operator| self.take(operator.as_str())) {
            rest.push((*operator, operand(self)?));
        }
        let Some((_, last)) = rest.last() else { return Ok(first) };
        let span = first.span.start..last.span.end;
        Ok(Tree { kind: Kind::Chain(Box::new(first), rest), span })
    }

    /// A sign binds looser than a power to its right, tighter than everything else: `-2 ** 2` is -4.
    fn signed(&mut self) -> Parse {
        let start = self.peek().span.start;
        let negative = self.take("-");
        if !negative && !self.take("+") {
            return self.power();
        }
        let operand = self.deeper(Self::signed)?;
        let span = start..operand.span.end;
        // `+x` is kept as `0 + x`, so that it refuses texts as `-x` does.
        let zero = Tree { kind: Kind::Literal(Value::Int(0)), span: start..start };
        let kind = match negative {
            true => Kind::Negate(Box::new(operand)),
            false => Kind::Chain(Box::new(zero), vec![(Operator::Add, operand)]),
        };
        Ok(Tree { kind, span })
    }

    fn power(&mut self) -> Parse {
        let base = self.atom()?;
        if !self.take("**") {
            return Ok(base);
        }
        // `signed` allows `2 ** -1`. It leads back here, which makes powers associate to the right.
        let exponent = self.deeper(Self::signed)?;
        let span = base.span.start..exponent.span.end;
        Ok(Tree { kind: Kind::Chain(Box::new(base), vec![(Operator::Power, exponent)]), span })
    }

    fn atom(&mut self) -> Parse {
        let token = self.peek().clone();
        match token.kind {
            ExprTokenKind::Literal(value) => {
                self.at += 1;
                Ok(Tree { kind: Kind::Literal(value), span: token.span })
            }
            ExprTokenKind::Word(word) => self.word(&word, token.span),
            ExprTokenKind::Symbol("(") => {
                self.at += 1;
                let inner = self.expression()?;
                if !self.take(")") {
                    return Err(self.unclosed(token.span, ")", false));
                }
                // Brackets need no node; the span includes them, so that messages point at all of the operand.
                Ok(Tree { kind: inner.kind, span: token.span.start..self.last_end() })
            }
            ExprTokenKind::Symbol("[") => {
                Err(ExprError::new(token.span, "a list stands only after `in`").hint(hints::MEMBERS))
            }
            _ => Err(self.expected_value()),
        }
    }

    fn word(&mut self, word: &str, span: Span) -> Parse {
        let literal = match word {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            _ if RESERVED.contains(&word) => return Err(self.expected_value()),
            _ => None,
        };
        self.at += 1;
        if let Some(value) = literal {
            return Ok(Tree { kind: Kind::Literal(value), span });
        }
        // Functions are not reserved words, so the bracket decides: a parameter may be named `min`.
        if self.take("(") {
            return self.call(word, span);
        }
        let slot = self.places.get(word).copied().unwrap_or_else(|| {
            let name: Arc<str> = Arc::from(word);
            self.places.insert(Arc::clone(&name), self.names.len());
            self.names.push(name);
            self.names.len() - 1
        });
        self.uses.push((slot, span.clone()));
        Ok(Tree { kind: Kind::Name(slot), span })
    }

    fn call(&mut self, name: &str, span: Span) -> Parse {
        let Some(function) = Function::ALL.into_iter().find(|function| function.as_str() == name) else {
            let error = ExprError::new(span, format!("unknown function `{name}`"));
            return Err(error.hint(hints::function(name)));
        };
        let open = self.tokens[self.at - 1].span.clone();
        let arguments = self.items(open, ")")?;
        let span = span.start..self.last_end();
        let (is_right, takes) = match function {
            Function::Min | Function::Max => (!arguments.is_empty(), "1 or more arguments"),
            Function::Abs => (arguments.len() == 1, "1 argument"),
            Function::CeilDiv => (arguments.len() == 2, "2 arguments"),
        };
        if !is_right {
            let message = format!("`{name}` takes {takes}, not {}", arguments.len());
            return Err(
                ExprError::new(span, message).hint(hints::listed("arguments", name).unwrap_or_default())
            );
        }
        Ok(Tree { kind: Kind::Call(function, arguments), span })
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parse) -> Parse {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("nesting is deeper than {MAX_DEPTH}");
            return Err(ExprError::new(self.place(), message).hint(hints::SPLIT));
        }
        // An error ends the whole parse, so nobody reads a depth that was not restored.
        let tree = parse(self)?;
        self.depth -= 1;
        Ok(tree)
    }

    pub(super) fn peek(&self) -> &ExprToken {
        &self.tokens[self.at]
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(&self.peek().kind, ExprTokenKind::Symbol(own) if *own == symbol);
        self.at += usize::from(found);
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.peek().kind, ExprTokenKind::Word(own) if own == word);
        self.at += usize::from(found);
        found
    }

    fn last_end(&self) -> usize {
        self.tokens[self.at - 1].span.end
    }

    /// At the end the last token, so that there is something to point at.
    fn place(&self) -> Span {
        match (self.peek().kind == ExprTokenKind::End, self.at.checked_sub(1)) {
            (true, Some(before)) => self.tokens[before].span.clone(),
            (true, None) => 0..self.text.len(),
            (false, _) => self.peek().span.clone(),
        }
    }

    fn before(&self) -> &str {
        self.at.checked_sub(1).map_or("", |before| &self.text[self.tokens[before].span.clone()])
    }

    fn unexpected(&self, expected: &str) -> ExprError {
        let place = self.place();
        let message = match (self.peek().kind == ExprTokenKind::End, self.before()) {
            (true, "") => format!("expected {expected}, found nothing"),
            (true, before) => format!("expected {expected} after `{before}`"),
            (false, _) => format!("expected {expected}, found `{}`", &self.text[place.clone()]),
        };
        ExprError::new(place, message)
    }

    fn expected_value(&self) -> ExprError {
        self.unexpected("a value").hint(hints::value(&self.peek().kind, self.before()))
    }

    fn expected_operator(&self) -> ExprError {
        let hint = hints::operator(&self.peek().kind, self.before());
        self.unexpected("an operator or the end").hint(hint)
    }

    /// What stands in place of the bracket that closes `open`.
    fn unclosed(&self, open: Span, close: &str, is_list: bool) -> ExprError {
        match self.peek().kind {
            ExprTokenKind::End => {
                ExprError::new(open, "this bracket is never closed").hint(format!("close it with `{close}`"))
            }
            ExprTokenKind::Symbol(")" | "]") => {
                self.unexpected(&format!("`{close}`")).hint(format!("close it with `{close}`"))
            }
            ExprTokenKind::Symbol(",") => self.unexpected("`)`").hint("a list stands only after `in`"),
            _ if is_list => {
                self.unexpected(&format!("`,` or `{close}`")).hint("a comma stands between two items")
            }
            _ => self.expected_operator(),
        }
    }
}

const SYMBOLS: [&str; 18] =
    ["//", "**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ","];

/// Splits an expression; the last token is `End`. What is not a token ends the list early and comes as an
/// error beside it, because there may be a mistake further to the left that explains more.
pub fn tokens(text: &str) -> (Vec<ExprToken>, Option<ExprError>) {
    let mut list = Vec::new();
    let mut at = 0;
    let mut broken = None;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        match token(&text[at..], first) {
            Ok((kind, length)) => {
                list.push(ExprToken { kind, span: at..at + length });
                at += length;
            }
            Err(error) => {
                broken = Some(error.shifted(at));
                break;
            }
        }
    }
    list.push(ExprToken { kind: ExprTokenKind::End, span: text.len()..text.len() });
    (list, broken)
}

fn token(rest: &str, first: char) -> Result<(ExprTokenKind, usize), ExprError> {
    let second = rest[first.len_utf8()..].chars().next();
    let digit_follows = second.is_some_and(|second| second.is_ascii_digit());
    match first {
        '0'..='9' => number(rest),
        '.' if digit_follows => number(rest),
        'a'..='z' | 'A'..='Z' | '_' => {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let length = rest.bytes().take_while(is_word).count();
            Ok((ExprTokenKind::Word(rest[..length].to_string()), length))
        }
        '\'' | '"' => quoted(rest, first),
        _ => symbol(rest, first),
    }
}

fn quoted(rest: &str, quote: char) -> Result<(ExprTokenKind, usize), ExprError> {
    match rest[1..].find(quote) {
        Some(length) => match rest[1..1 + length].find('\\') {
            Some(at) => {
                let hint = "texts are taken as they stand, without escapes";
                Err(ExprError::new(at + 1..at + 2, "a text holds no backslash").hint(hint))
            }
            None => Ok((ExprTokenKind::Literal(Value::text(&rest[1..1 + length])), length + 2)),
        },
        None => {
            let error = ExprError::new(0..rest.len(), "this text does not end");
            Err(error.hint(format!("close it with `{quote}`")))
        }
    }
}

/// The characters that could belong to a number are taken together, so that `12ab` is one error.
fn number(rest: &str) -> Result<(ExprTokenKind, usize), ExprError> {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        // `1e-3` is one number, but `0x1e-3` is a difference.
        let exponent_sign = matches!(byte, b'+' | b'-')
            && matches!(bytes[length - 1], b'e' | b'E')
            && !rest.starts_with("0x")
            && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || exponent_sign) {
            break;
        }
        length += 1;
    }
    let text = &rest[..length];
    let value =
        number_value(text).map_err(|message| ExprError::new(0..length, message).hint(hints::number(text)))?;
    Ok((ExprTokenKind::Literal(value), length))
}

fn number_value(text: &str) -> Result<Value, String> {
    let no_number = || format!("`{text}` is not a number");
    // Between two digits; after `0x` too.
    let misplaced = |at: usize| {
        let around = [text[..at].chars().next_back(), text[at + 1..].chars().next()];
        !around.iter().all(|side| side.is_some_and(|c| c.is_ascii_hexdigit() || c == 'x'))
    };
    if text.match_indices('_').any(|(at, _)| misplaced(at)) {
        return Err(no_number());
    }
    let digits = text.replace('_', "");
    let too_big = || format!("`{text}` does not fit 64 bits");
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return match !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => i64::from_str_radix(hex, 16).map(Value::Int).map_err(|_| too_big()),
            false => Err(no_number()),
        };
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // As in Python, where `010` is an error and `00` is zero.
        if digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0') {
            return Err(format!("`{text}` begins with a zero"));
        }
        return digits.parse().map(Value::Int).map_err(|_| too_big());
    }
    let sound =
        digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    match digits.parse::<f64>() {
        Ok(value) if sound && value.is_finite() => Ok(Value::Float(value)),
        _ => Err(no_number()),
    }
}

fn symbol(rest: &str, first: char) -> Result<(ExprTokenKind, usize), ExprError> {
    let own = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
    // The table of habits is looked at only where a longer symbol may begin with one of ours.
    let is_ours = own.is_some_and(|own| !rest[own.len()..].starts_with(['=', '<', '>']));
    let foreign = if is_ours { None } else { hints::foreign(rest) };
    match (own, foreign) {
        // `!=` is ours although `!` is foreign, `!==` is foreign although `!=` is ours.
        (Some(own), foreign) if foreign.is_none_or(|(symbol, _)| symbol.len() <= own.len()) => {
            Ok((ExprTokenKind::Symbol(own), own.len()))
        }
        (_, Some((symbol, hint))) => {
            Err(ExprError::new(0..symbol.len(), format!("`{symbol}` is not an operator here")).hint(hint))
        }
        _ => {
            let shown: String = first.escape_debug().collect();
            let message = format!("unexpected character `{shown}`");
            Err(ExprError::new(0..first.len_utf8(), message).hint(hints::character(first)))
        }
    }
}
