//! Writes runs of packed rows. The parameters are cut in two: an odometer over the diagrams turns over the earlier ones
//! and keeps their bits; the rows of the later ones (the tail) depend only on the nodes where the cut leaves the
//! diagrams, so they are made once for each such state and then copied with the odometer's bits added.

use crate::index::Index;
use crate::index::diagram::Layer;
use crate::list::{Layout, Word};

/// The longest tail in rows: with 32-bit rows a tail stays in a core's nearest cache.
const TAIL_ROWS: u64 = 4096;

const TAIL_STATES: usize = 1 << 16;

/// Words of remembered tails; when there are more, all are forgotten.
const TAIL_WORDS: usize = 1 << 18;

pub struct ListPlan<W> {
    levels: Vec<Level<W>>,
    /// Levels before it belong to the odometer, the others to the tail.
    cut: usize,
    /// The tail's levels that hang on the odometer, each with the states of those before it.
    joints: Vec<(usize, usize)>,
    states: usize,
    stride: usize,
}

struct Level<W> {
    /// Node `n` has the steps from `starts[n]` to `starts[n + 1]`.
    starts: Vec<u32>,
    steps: Vec<LevelStep<W>>,
    word: usize,
    /// The earlier level that leads here; without one the node is `root`.
    above: Option<usize>,
    root: u32,
    most: u64,
}

#[derive(Clone, Copy)]
struct LevelStep<W> {
    bits: W,
    child: u32,
}

impl<W: Word> ListPlan<W> {
    pub fn new(index: &Index, layout: &Layout) -> ListPlan<W> {
        let mut levels: Vec<Option<Level<W>>> = layout.fields.iter().map(|_| None).collect();
        for diagram in index.diagrams() {
            add_group(&diagram.layers, layout, &mut levels);
        }
        let levels = levels.into_iter().flatten().collect();
        let mut plan = ListPlan { levels, cut: 0, joints: Vec::new(), states: 1, stride: layout.stride };
        let last = plan.levels.len().saturating_sub(1);
        // The earliest cut that fits gives the longest tails, and copying a tail is cheaper than turning
        // the odometer. At least one level stays in the tail, which `append_tail` relies on.
        while !plan.fits() && plan.cut < last {
            plan.cut += 1;
        }
        plan.joints = plan.joints();
        plan.states = plan.joints.iter().map(|(level, _)| plan.levels[*level].nodes()).product();
        plan
    }

    fn joints(&self) -> Vec<(usize, usize)> {
        let mut states = 1usize;
        // Levels below others of the tail follow from those, so only these tell one tail from another.
        let tail = (self.cut..self.levels.len())
            .filter(|at| self.levels[*at].above.is_some_and(|above| above < self.cut));
        tail.map(|level| {
            let before = states;
            states = states.saturating_mul(self.levels[level].nodes());
            (level, before)
        })
        .collect()
    }

    fn fits(&self) -> bool {
        let firsts = (self.cut..self.levels.len())
            .filter(|at| self.levels[*at].above.is_none_or(|above| above < self.cut));
        let rows = firsts.fold(1u64, |rows, level| rows.saturating_mul(self.levels[level].most));
        let states = self
            .joints()
            .iter()
            .fold(1usize, |states, (level, _)| states.saturating_mul(self.levels[*level].nodes()));
        rows <= TAIL_ROWS && states <= TAIL_STATES
    }
}

impl<W> Level<W> {
    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }
}

/// Makes the levels of a group. Layers with one value are left out: edges lead past them.
fn add_group<W: Word>(layers: &[Layer], layout: &Layout, levels: &mut [Option<Level<W>>]) {
    let field = |layer: &Layer| layout.fields.binary_search_by_key(&layer.slot, |field| field.slot).ok();
    // Of the layer below: the node that each of its nodes leads to, and that node's completions.
    let mut past: Vec<(u32, u64)> = vec![(0, 1)];
    let mut below = None;
    for layer in layers.iter().rev() {
        let nodes = 0..layer.counts.len() as u32;
        let Some(at) = field(layer) else {
            past = nodes.map(|node| past[layer.edges_of(node)[0].child as usize]).collect();
            continue;
        };
        let place = &layout.fields[at];
        let mut level =
            Level { starts: vec![0], steps: Vec::new(), word: place.word, above: None, root: 0, most: 0 };
        let mut own = Vec::with_capacity(layer.counts.len());
        for node in nodes {
            let mut count = 0u64;
            for edge in layer.edges_of(node) {
                let (child, rows) = past[edge.child as usize];
                level.steps.push(LevelStep { bits: W::place(place.code(edge.position), place.shift), child });
                count = count.saturating_add(rows);
            }
            level.starts.push(level.steps.len() as u32);
            level.most = level.most.max(count);
            own.push((node, count));
        }
        if let Some(below) = below.and_then(|below: usize| levels[below].as_mut()) {
            below.above = Some(at);
        }
        below = Some(at);
        past = own;
        levels[at] = Some(level);
    }
    if let Some(first) = below.and_then(|first| levels[first].as_mut()) {
        first.root = past.first().map_or(0, |(root, _)| *root);
    }
}

pub struct RowWriter<'a, W> {
    plan: &'a ListPlan<W>,
    /// For each level the chosen step and the end of the node's steps.
    chosen: Vec<(u32, u32)>,
    /// The bits chosen before each level; the tail has its own, which start at nothing.
    prefixes: Vec<W>,
    /// Where each state's tail lies; an empty one is not known yet.
    known: Vec<(u32, u32)>,
    tails: Vec<W>,
}

impl<'a, W: Word> RowWriter<'a, W> {
    pub fn new(plan: &'a ListPlan<W>) -> RowWriter<'a, W> {
        RowWriter {
            plan,
            chosen: vec![(0, 0); plan.levels.len()],
            prefixes: vec![W::default(); (plan.levels.len() + 2) * plan.stride],
            known: vec![(0, 0); plan.states],
            tails: Vec::new(),
        }
    }

    /// Fills `out` with the rows from a valid point on; there must be that many.
    pub fn fill(&mut self, first: &[W], out: &mut [W]) {
        let (plan, stride) = (self.plan, self.plan.stride);
        if plan.levels.is_empty() {
            return;
        }
        (0..plan.cut).for_each(|level| self.seek(level, first));
        let mut done = 0;
        loop {
            let (start, end) = self.tail();
            let prefix = &self.prefixes[plan.cut * stride..(plan.cut + 1) * stride];
            let mut rows = &self.tails[start..end];
            // Only the first tail can begin before the wanted row.
            if done == 0 {
                rows = from_row(rows, prefix, first);
            }
            let count = rows.len().min(out.len() - done);
            add(prefix, &rows[..count], &mut out[done..done + count]);
            done += count;
            if done == out.len() {
                return;
            }
            assert!(self.advance(0, plan.cut), "there are as many rows as the index counts");
        }
    }

    fn seek(&mut self, level: usize, first: &[W]) {
        let (plan, stride) = (self.plan, self.plan.stride);
        self.enter(level);
        let own = &plan.levels[level];
        let (start, end) = self.chosen[level];
        let steps = &own.steps[start as usize..end as usize];
        // The bits of later levels are lower, so the wanted step is the last that is not above.
        let before = self.prefixes[level * stride + own.word];
        let above = steps.partition_point(|step| before | step.bits <= first[own.word]);
        self.choose(level, start + above.saturating_sub(1) as u32, end);
    }

    fn enter(&mut self, level: usize) {
        let own = &self.plan.levels[level];
        let node = self.node(level) as usize;
        self.choose(level, own.starts[node], own.starts[node + 1]);
    }

    fn node(&self, level: usize) -> u32 {
        let own = &self.plan.levels[level];
        own.above.map_or(own.root, |above| self.plan.levels[above].steps[self.chosen[above].0 as usize].child)
    }

    fn choose(&mut self, level: usize, step: u32, end: u32) {
        let (plan, stride) = (self.plan, self.plan.stride);
        self.chosen[level] = (step, end);
        // The tail's levels use prefixes that start from an empty one of their own. Remembered rows
        // therefore hold no bits of the odometer and serve every state of it that leads here.
        let at = (level + usize::from(level >= plan.cut)) * stride;
        self.prefixes.copy_within(at..at + stride, at + stride);
        let own = &plan.levels[level];
        let word = &mut self.prefixes[at + stride + own.word];
        *word = *word | own.steps[step as usize].bits;
    }

    fn advance(&mut self, from: usize, to: usize) -> bool {
        for level in (from..to).rev() {
            let (step, end) = self.chosen[level];
            if step + 1 < end {
                self.choose(level, step + 1, end);
                (level + 1..to).for_each(|later| self.enter(later));
                return true;
            }
        }
        false
    }

    fn tail(&mut self) -> (usize, usize) {
        let state =
            self.plan.joints.iter().map(|(level, before)| self.node(*level) as usize * before).sum::<usize>();
        let (mut start, mut end) = self.known[state];
        // Every node leads to at least one point, so only an unknown tail is empty.
        if start == end {
            if self.tails.len() > TAIL_WORDS {
                self.tails.clear();
                self.known.fill((0, 0));
            }
            start = self.tails.len() as u32;
            self.append_tail();
            end = self.tails.len() as u32;
            self.known[state] = (start, end);
        }
        (start as usize, end as usize)
    }

    fn append_tail(&mut self) {
        let (plan, stride) = (self.plan, self.plan.stride);
        let last = plan.levels.len() - 1;
        (plan.cut..=last).for_each(|level| self.enter(level));
        loop {
            let (start, end) = (self.chosen[last].0 as usize, self.chosen[last].1 as usize);
            let prefix = &self.prefixes[(last + 1) * stride..(last + 2) * stride];
            let own = &plan.levels[last];
            for step in &own.steps[start..end] {
                let row = self.tails.len();
                self.tails.extend_from_slice(prefix);
                self.tails[row + own.word] = self.tails[row + own.word] | step.bits;
            }
            if !self.advance(plan.cut, last) {
                return;
            }
            self.enter(last);
        }
    }
}

fn from_row<'r, W: Word>(rows: &'r [W], prefix: &[W], first: &[W]) -> &'r [W] {
    let stride = prefix.len();
    let (mut low, mut high) = (0, rows.len() / stride);
    while low < high {
        let middle = low.midpoint(high);
        let row =
            rows[middle * stride..(middle + 1) * stride].iter().zip(prefix).map(|(row, bits)| *row | *bits);
        if row.lt(first.iter().copied()) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    &rows[low * stride..]
}

fn add<W: Word>(bits: &[W], rows: &[W], out: &mut [W]) {
    // One word per row needs no inner loop, so the compiler can vectorize this case.
    if let [bits] = bits {
        for (to, row) in out.iter_mut().zip(rows) {
            *to = *bits | *row;
        }
        return;
    }
    for (to, row) in out.chunks_exact_mut(bits.len()).zip(rows.chunks_exact(bits.len())) {
        for ((to, row), bits) in to.iter_mut().zip(row).zip(bits) {
            *to = *bits | *row;
        }
    }
}
