//! All valid points of a group of linked parameters as a diagram, by a depth-first search that merges partial points
//! with the same state (see `plan`) and shares equal nodes on the way back, so that the diagram is reduced.

use rustc_hash::FxHashMap;

use super::plan::{Closing, RegisterField, SearchPlan, SearchStep, Source, Then};
use super::problem::Problem;
use crate::count::problem::{DEAD, WATCH_STEPS};
use crate::count::words::{KeyEntry, KeyTable, is_empty, members};
use crate::program::{Atom, Registers};
use crate::value::Number;
use crate::watch::SpaceWatch;

/// Edges lead from each layer to the next, the last layer's lead to the one end, 0.
#[derive(Clone, Debug)]
pub struct Layers {
    pub slots: Vec<usize>,
    /// Nodes of each layer: edges as value position and child, ascending by position. The first
    /// layer has one node, or none when nothing is valid.
    pub nodes: Vec<Vec<Edges>>,
}

pub type Edges = Box<[(u16, u32)]>;

/// The nodes of a layer, equal ones once.
#[derive(Default)]
pub struct SharedNodes {
    numbers: FxHashMap<Edges, u32>,
    pub nodes: Vec<Edges>,
}

impl SharedNodes {
    pub fn number(&mut self, edges: &[(u16, u32)]) -> u32 {
        if let Some(number) = self.numbers.get(edges) {
            return *number;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(edges.into());
        self.numbers.insert(edges.into(), number);
        number
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Edges of a search's diagram, equal nodes counted as often as they are found: 256 MiB at most, while the
/// largest of the public spaces has some ten thousand.
const MAX_EDGES: usize = 16 << 20;

/// Planning costs this much for each step that the search may take.
const PLAN_PER_STEP: u64 = 64;

#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    pub steps: u64,
    pub words: u64,
}

pub fn search(problem: &Problem, order: &[usize], limits: SearchLimits) -> Result<Layers, OverBudget> {
    // Planning costs work and memory of its own, which a search with a small budget must not exceed.
    let planned = SearchPlan::cost(problem, order);
    if planned > limits.steps.saturating_mul(PLAN_PER_STEP) || planned > limits.words {
        return Err(OverBudget);
    }
    let SearchPlan { steps, registers } = SearchPlan::new(problem, order);
    let mut search = MergeSearch {
        memory: steps.iter().map(DepthMemory::new).collect(),
        states: vec![Vec::new(); steps.len() + 1],
        steps: &steps,
        registers,
        steps_left: limits.steps,
        words_left: limits.words,
        edges_left: MAX_EDGES,
        unwatched: 0,
        watch: &problem.watch,
    };
    search.go(0)?;
    let nodes = search.memory.into_iter().map(|memory| memory.shared.nodes).collect();
    Ok(Layers { slots: order.to_vec(), nodes })
}

struct DepthMemory {
    /// By the state before conjuncts without table are turned into allowed values; unused where there are none.
    before_closing: KeyTable,
    states: KeyTable,
    shared: SharedNodes,
    edges: Vec<(u16, u32)>,
}

impl DepthMemory {
    fn new(step: &SearchStep) -> DepthMemory {
        DepthMemory {
            before_closing: KeyTable::new(step.width + step.closing_registers.words()),
            states: KeyTable::new(step.width),
            shared: SharedNodes::default(),
            edges: Vec::new(),
        }
    }
}

struct MergeSearch<'a> {
    steps: &'a [SearchStep],
    states: Vec<Vec<u64>>,
    registers: Registers,
    memory: Vec<DepthMemory>,
    steps_left: u64,
    words_left: u64,
    edges_left: usize,
    unwatched: u64,
    watch: &'a SpaceWatch,
}

impl MergeSearch<'_> {
    /// The recursion is as deep as the group has parameters, which the reader of files limits. Buffers
    /// of each depth are taken out and put back, so that a step allocates only what it remembers.
    fn go(&mut self, depth: usize) -> Result<u32, OverBudget> {
        let steps = self.steps;
        let step = &steps[depth];
        let state = std::mem::take(&mut self.states[depth]);
        let mut edges = std::mem::take(&mut self.memory[depth].edges);
        edges.clear();
        let allowed = match &step.allowed {
            Source::State(offset) => &state[*offset..offset + step.values.len().div_ceil(64)],
            Source::Full(words) => words,
        };
        let last = depth + 1 == steps.len();
        for at in members(allowed) {
            self.spend(step.weight)?;
            // At the last slot every conjunct has become part of `allowed`, so each member is a valid point.
            let child = if last { 0 } else { self.child(depth, &state, at)? };
            if child != DEAD {
                edges.push((step.positions[at], child));
            }
        }
        self.edges_left = self.edges_left.checked_sub(edges.len()).ok_or(OverBudget)?;
        let node = if edges.is_empty() { DEAD } else { self.memory[depth].shared.number(&edges) };
        self.memory[depth].edges = edges;
        self.states[depth] = state;
        Ok(node)
    }

    fn spend(&mut self, steps: u64) -> Result<(), OverBudget> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(OverBudget)?;
        self.unwatched += steps;
        if self.unwatched >= WATCH_STEPS {
            self.unwatched = 0;
            if self.watch.is_over() {
                return Err(OverBudget);
            }
        }
        Ok(())
    }

    fn child(&mut self, depth: usize, state: &[u64], at: usize) -> Result<u32, OverBudget> {
        let steps = self.steps;
        let step = &steps[depth];
        let next = &mut self.states[depth + 1];
        if !advance(step, state, at, next, &mut self.registers) {
            return Ok(DEAD);
        }
        let mut before = None;
        // Closing runs a conjunct once for each value that its slot still has, which is most of the work
        // of such a step. States that agree before it agree after it, so they are looked up first.
        if !step.closings.is_empty() {
            match self.memory[depth].before_closing.entry(next) {
                KeyEntry::Known(child) => return Ok(child),
                KeyEntry::New(entry) => before = Some(entry),
            }
            self.words_left = self.words_left.checked_sub(next.len() as u64 + 2).ok_or(OverBudget)?;
            for closing in &step.closings {
                let tried = close(closing, step, next, &mut self.registers);
                // These count as steps, but the limit is only checked at the next value: a mask that
                // is closed in part must not be remembered.
                self.steps_left = self.steps_left.saturating_sub(tried);
                self.unwatched += tried;
            }
            next.truncate(step.width);
        }
        let is_without_values = |closing: &Closing| {
            let mask = &step.masks[closing.mask];
            is_empty(&next[mask.to..mask.to + mask.words])
        };
        let empty = step.closings.iter().any(is_without_values);
        let child = if empty { DEAD } else { self.remembered(depth)? };
        if let Some(entry) = before {
            self.memory[depth].before_closing.set(entry, child);
        }
        Ok(child)
    }

    fn remembered(&mut self, depth: usize) -> Result<u32, OverBudget> {
        // Sound because the state holds everything that the completions depend on (see `plan`). The entry has no value
        // until the search returns; nothing looks it up before: states of one depth are only entered from the depth
        // above.
        match self.memory[depth].states.entry(&self.states[depth + 1]) {
            KeyEntry::Known(child) => Ok(child),
            KeyEntry::New(entry) => {
                let words = self.states[depth + 1].len() as u64 + 2;
                self.words_left = self.words_left.checked_sub(words).ok_or(OverBudget)?;
                let child = self.go(depth + 1)?;
                self.memory[depth].states.set(entry, child);
                Ok(child)
            }
        }
    }
}

/// Writes the state after the step's value number `at`; false if nothing completes it.
fn advance(
    step: &SearchStep,
    state: &[u64],
    at: usize,
    next: &mut Vec<u64>,
    registers: &mut Registers,
) -> bool {
    // The layout is fixed per step: masks, table nodes, registers that stay, registers that only closings
    // read. The last group is cut off after closing.
    next.clear();
    for mask in &step.masks {
        match &mask.from {
            Source::State(offset) => next.extend_from_slice(&state[*offset..offset + mask.words]),
            Source::Full(words) => next.extend_from_slice(words),
        }
    }
    next.resize(step.registers.to, 0);
    step.carried.iter().for_each(|(from, to)| next[*to] = state[*from]);
    for table in &step.nodes {
        let node = table.from.map_or(0, |from| state[from] as usize);
        let child = table.next[node * table.size + at];
        if child == DEAD {
            return false;
        }
        match &table.then {
            Then::Keep { to } => next[*to] = u64::from(child),
            Then::Restrict { mask, rows } => {
                let mask = &step.masks[*mask];
                let allowed = &mut next[mask.to..mask.to + mask.words];
                let row = &rows[child as usize * mask.words..][..mask.words];
                allowed.iter_mut().zip(row).for_each(|(word, other)| *word &= other);
                if is_empty(allowed) {
                    return false;
                }
            }
        }
    }
    // Registers come last: masks and tables may have refused the value by now without running a program.
    registers.set(step.slot as u32, Some(step.values[at]));
    for part in &step.parts {
        let value = part.program.run(registers);
        registers.set(part.register, value);
    }
    write_registers(&step.registers, registers, next);
    write_registers(&step.closing_registers, registers, next);
    true
}

/// Turns a conjunct into its last slot's allowed values; the steps that took.
fn close(closing: &Closing, step: &SearchStep, next: &mut [u64], registers: &mut Registers) -> u64 {
    let mask = &step.masks[closing.mask];
    let (weight, mut tried) = (closing.program.weight(), 0);
    for (number, word) in next[mask.to..mask.to + mask.words].iter_mut().enumerate() {
        for bit in members(&[*word]) {
            registers.set(closing.slot as u32, Some(closing.values[number * 64 + bit]));
            if !closing.program.holds(registers) {
                *word &= !(1 << bit);
            }
            tried += weight;
        }
    }
    tried
}

/// A register without a value fails whatever reads it in the same way, so its mark is enough.
fn write_registers(field: &RegisterField, registers: &Registers, next: &mut Vec<u64>) {
    let tags = next.len();
    next.resize(tags + field.registers.len().div_ceil(32), 0);
    for (number, register) in field.registers.iter().enumerate() {
        let (tag, word) = registers.get(*register).map_or((3, 0), atom_words);
        // The kind is part of the key because an integer and a float can have the same 64 bits.
        next[tags + number / 32] |= tag << (2 * (number % 32));
        next.push(word);
    }
}

fn atom_words(atom: Atom) -> (u64, u64) {
    match atom {
        Atom::Number(Number::Int(value)) => (0, value as u64),
        // Bits: 0.0 and -0.0 then count as different states, which costs a merge but is never wrong.
        Atom::Number(Number::Float(value)) => (1, value.to_bits()),
        Atom::Text(rank) => (2, u64::from(rank)),
    }
}
