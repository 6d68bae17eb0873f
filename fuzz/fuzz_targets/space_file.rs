//! Any text as a space file, TOML or JSON: refused with places inside it, or a space whose count, ends
//! and membership agree.
#![no_main]

use std::cell::RefCell;

use evo_space::SpaceWatch;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Data, Field, Node};
use evo_space::load::read_space;
use evo_space::space::SearchSpace;
use libfuzzer_sys::fuzz_target;

/// Larger spaces are read by other tests; here every input has to be quick.
const MAX_POINTS: usize = 20_000;

fuzz_target!(|text: &str| {
    if text.len() > 4000 {
        return;
    }
    let diagnostics = RefCell::new(Diagnostics::default());
    let root = document::parse(text, &mut diagnostics.borrow_mut());
    if root.as_ref().is_some_and(is_large) {
        return;
    }
    let read =
        |root: Node| read_space(&Field::new(&root, "the file", &(), &diagnostics), &SpaceWatch::default());
    let space = root.and_then(read);
    let diagnostics = diagnostics.into_inner();
    for diagnostic in diagnostics.list() {
        let inside = diagnostic.span.as_ref().is_none_or(|span| text.get(span.clone()).is_some());
        assert!(inside, "{diagnostic:?}");
    }
    let rendered = diagnostics.render("space.toml", text);
    assert_eq!(space.is_none(), !rendered.is_empty(), "{rendered}");
    if let Some(space) = space {
        check(&space);
    }
});

/// Whether the lists of parameters span more points than brute force would visit.
fn is_large(root: &Node) -> bool {
    let Some(entries) = root.get("parameters").and_then(Node::entries) else { return false };
    let length = |node: &Node| match &node.data {
        Data::List(items) => items.len(),
        _ => match node.get("values").map(|values| &values.data) {
            Some(Data::List(items)) => items.len(),
            _ => 1,
        },
    };
    let points =
        entries.iter().fold(1usize, |points, entry| points.saturating_mul(length(&entry.value).max(1)));
    points > MAX_POINTS
}

fn check(space: &SearchSpace) {
    let count = space.count();
    assert!(count > 0 && count <= MAX_POINTS as u128);
    assert_eq!(space.genome_at(count), None);
    let mut seen = 0;
    for (index, genome) in space.iter().enumerate().take(2000) {
        let index = index as u128;
        assert!(space.contains(&genome));
        assert!(space.violations(&genome).is_empty(), "{:?}", space.configuration(&genome));
        assert_eq!(space.index_of(&genome), Some(index));
        assert_eq!(space.genome_at(index), Some(genome));
        seen += 1;
    }
    assert_eq!(seen, count.min(2000));
    let last = space.genome_at(count - 1).expect("the last point");
    assert_eq!(space.index_of(&last), Some(count - 1));
}
