//! One feature: its formula, and the table that answers in its place.

use evo_space::genome::Genome;
use evo_space::program::Scratch;
use evo_space::space::SearchSpace;

use crate::model::codes::ColumnScale;
use crate::model::formula::{CompiledFormula, Formula, Numbers};

/// Largest table over the positions of a feature's parameters.
const TABLE_MAX: usize = 1 << 16;

/// A feature of points.
#[derive(Clone, Debug)]
pub struct Column {
    formula: Formula,
    compiled: CompiledFormula,
    slots: Vec<usize>,
    scale: ColumnScale,
    /// Whether values stand in logarithms.
    is_logarithm: bool,
    table: Option<ColumnTable>,
}

#[derive(Clone, Debug)]
struct ColumnTable {
    /// What a step of each slot's position adds to the place.
    strides: Vec<usize>,
    codes: Vec<u16>,
    shares: Vec<f64>,
}

impl Column {
    /// A feature of a space. Its scale holds what it can be for any combination of the positions that
    /// valid points have; with too many combinations, what it is in the sample.
    pub fn new(
        formula: Formula,
        numbers: &Numbers,
        domains: &[Vec<u16>],
        sizes: &[usize],
        sample: &[Genome],
    ) -> Column {
        let (compiled, slots) = (formula.compile(numbers), formula.slots());
        let combinations = product(slots.iter().map(|slot| sizes[*slot]));
        let mut scratch = Scratch::default();
        let values: Vec<f64> = if combinations <= TABLE_MAX {
            let mut positions = vec![0; sizes.len()];
            let mut values = Vec::new();
            for_all(&slots, domains, &mut positions, &mut |positions| {
                values.push(compiled.evaluate(positions, numbers, &mut scratch));
            });
            values
        } else {
            sample.iter().map(|genome| compiled.evaluate(genome.positions(), numbers, &mut scratch)).collect()
        };
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let is_logarithm = finite().all(|value| value > 0.0);
        let scale = ColumnScale::new(finite().map(|value| tamed(value, is_logarithm)).collect());
        let mut column = Column { formula, compiled, slots, scale, is_logarithm, table: None };
        if values.iter().any(|value| !value.is_finite()) {
            // No value is a value of its own: below all others.
            let lowest = column.undefined();
            let all = (0..column.scale.len()).map(|code| column.scale.value(code as u16));
            column.scale = ColumnScale::new(all.chain([lowest]).collect());
        }
        if combinations <= TABLE_MAX {
            column.table = Some(column.tabulate(numbers, domains, sizes, combinations));
        }
        column
    }

    /// The parameters that it is made of.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// What it can be.
    pub fn scale(&self) -> &ColumnScale {
        &self.scale
    }

    /// Its code at a point.
    pub fn code(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> u16 {
        match &self.table {
            Some(table) => table.codes[table.place(&self.slots, positions)],
            None => self.scale.code(self.value(positions, numbers, scratch)),
        }
    }

    /// Where it is between its least value (0) and its largest (1).
    pub fn share(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        match &self.table {
            Some(table) => table.shares[table.place(&self.slots, positions)],
            None => self.share_of(self.value(positions, numbers, scratch)),
        }
    }

    /// Its formula with the names of a space.
    pub fn label(&self, space: &SearchSpace) -> String {
        self.formula.text(space.parameters())
    }

    fn value(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        let value = self.compiled.evaluate(positions, numbers, scratch);
        if value.is_finite() { tamed(value, self.is_logarithm) } else { self.undefined() }
    }

    /// What stands for no value. With the value in the scale, the same again.
    fn undefined(&self) -> f64 {
        if self.scale.is_empty() { 0.0 } else { self.scale.value(0) - 1.0 }
    }

    fn share_of(&self, value: f64) -> f64 {
        let last = self.scale.len().saturating_sub(1) as u16;
        let (low, high) =
            if self.scale.is_empty() { (0.0, 0.0) } else { (self.scale.value(0), self.scale.value(last)) };
        if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn tabulate(
        &self,
        numbers: &Numbers,
        domains: &[Vec<u16>],
        sizes: &[usize],
        places: usize,
    ) -> ColumnTable {
        let mut strides = vec![1; self.slots.len()];
        for at in (1..strides.len()).rev() {
            strides[at - 1] = strides[at] * sizes[self.slots[at]];
        }
        // The table has a place for every position, so that looking up needs no translation. Places that no
        // valid point has keep 0 and are never read for one.
        let mut table = ColumnTable { strides, codes: vec![0; places], shares: vec![0.0; places] };
        let (mut positions, mut scratch) = (vec![0; sizes.len()], Scratch::default());
        for_all(&self.slots, domains, &mut positions, &mut |positions| {
            let value = self.value(positions, numbers, &mut scratch);
            let place = table.place(&self.slots, positions);
            (table.codes[place], table.shares[place]) = (self.scale.code(value), self.share_of(value));
        });
        table
    }
}

impl ColumnTable {
    #[inline]
    fn place(&self, slots: &[usize], positions: &[u16]) -> usize {
        slots.iter().zip(&self.strides).map(|(slot, stride)| usize::from(positions[*slot]) * stride).sum()
    }
}

/// Every combination of the positions of some slots.
fn for_all(slots: &[usize], domains: &[Vec<u16>], positions: &mut [u16], visit: &mut dyn FnMut(&[u16])) {
    let Some((slot, rest)) = slots.split_first() else { return visit(positions) };
    for position in &domains[*slot] {
        positions[*slot] = *position;
        for_all(rest, domains, positions, visit);
    }
}

fn product(sizes: impl Iterator<Item = usize>) -> usize {
    sizes.fold(1, usize::saturating_mul)
}

/// The logarithm where all values are positive; else zero stays zero and sizes are squeezed likewise.
fn tamed(value: f64, is_logarithm: bool) -> f64 {
    if is_logarithm { value.log2() } else { value.signum() * (1.0 + value.abs()).log2() }
}
