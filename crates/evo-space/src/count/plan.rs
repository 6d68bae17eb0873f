//! What the merged search does at each slot of an order, worked out beforehand.
//!
//! The state of a partial point is a run of words that says everything about its completions: for open slots the values
//! still allowed, for small tables the node of their diagram, for the rest the registers that open conjuncts read. A
//! conjunct with one open slot left has been turned into that slot's allowed values, so nothing is checked later, and
//! permutations of equal consequences (as in pairwise-different parameters) are one state.
//!
//! The decided parts of a conjunct are computed once, into registers: of `x * y * z <= 64` with `x` and `y` decided it
//! is the product that partial points are compared by, not its factors.

use rustc_hash::FxHashSet;

use crate::count::problem::{Conjunct, Problem, TableDiagram};
use crate::count::words::{push_full, words_for};
use crate::program::{Atom, Code, Program, Register, Registers, Step, alone_or};

#[derive(Debug)]
pub struct SearchPlan {
    pub steps: Vec<SearchStep>,
    pub registers: Registers,
}

/// What happens at one slot. Offsets count words of the state before (`from`) or after (`to`).
#[derive(Debug)]
pub struct SearchStep {
    pub slot: usize,
    pub positions: Vec<u16>,
    pub values: Vec<Atom>,
    pub allowed: Source,
    pub masks: Vec<MaskMove>,
    /// Nodes of tables that this slot does not touch: from, to.
    pub carried: Vec<(usize, usize)>,
    pub nodes: Vec<NodeMove>,
    pub parts: Vec<Precomputed>,
    pub registers: RegisterField,
    pub closing_registers: RegisterField,
    pub closings: Vec<Closing>,
    /// Words of the state after this step.
    pub width: usize,
    /// What one value costs, in steps of the budget: 1 for a step of any sensible space.
    pub weight: u64,
}

#[derive(Debug)]
pub enum Source {
    State(usize),
    Full(Vec<u64>),
}

#[derive(Debug)]
pub struct MaskMove {
    slot: usize,
    pub from: Source,
    pub to: usize,
    pub words: usize,
}

#[derive(Debug)]
pub struct NodeMove {
    pub from: Option<usize>,
    /// `next[node * size + value]`.
    pub next: Vec<u32>,
    pub size: usize,
    pub then: Then,
}

#[derive(Debug)]
pub enum Then {
    Keep { to: usize },
    Restrict { mask: usize, rows: Vec<u64> },
}

#[derive(Debug)]
pub struct Closing {
    pub slot: usize,
    pub mask: usize,
    pub program: Program,
    pub values: Vec<Atom>,
}

/// Registers written into the state: two bits for the kind of each, then the values.
#[derive(Debug)]
pub struct RegisterField {
    pub to: usize,
    pub registers: Vec<Register>,
}

impl RegisterField {
    pub fn words(&self) -> usize {
        self.registers.len().div_ceil(32) + self.registers.len()
    }
}

const STEP_PARTS: usize = 64;

impl SearchPlan {
    pub fn cost(problem: &Problem, order: &[usize]) -> u64 {
        let mut depths = vec![usize::MAX; problem.values.len()];
        order.iter().enumerate().for_each(|(depth, slot)| depths[*slot] = depth);
        let carried = |conjunct: &Conjunct| {
            let depths = conjunct.slots.iter().map(|slot| depths[*slot]);
            let (first, last) = depths.fold((usize::MAX, 0), |(a, b), at| (a.min(at), b.max(at)));
            if first == usize::MAX { 0 } else { (last - first) as u64 }
        };
        problem.conjuncts.iter().map(carried).sum()
    }

    pub fn new(problem: &Problem, order: &[usize]) -> SearchPlan {
        let mut planner = Planner::new(problem, order);
        let steps = (0..order.len()).map(|depth| planner.step(depth)).collect();
        SearchPlan { steps, registers: planner.registers }
    }
}

struct Planner<'a> {
    problem: &'a Problem,
    order: &'a [usize],
    depths: Vec<usize>,
    registers: Registers,
    tracks: Vec<Track>,
    touching: Vec<Vec<usize>>,
    masks: Vec<Option<usize>>,
}

struct Track {
    depths: Vec<usize>,
    diagram: Option<TableDiagram>,
    node: Option<usize>,
    residual: Code,
}

impl Track {
    fn last_depth(&self) -> usize {
        self.depths.last().copied().expect("a conjunct has slots")
    }

    fn open_after(&self, depth: usize) -> usize {
        self.depths.len() - self.depths.partition_point(|own| *own <= depth)
    }

    fn is_pending(&self, depth: usize) -> bool {
        self.depths[0] <= depth && self.open_after(depth) > 1
    }
}

impl<'a> Planner<'a> {
    fn new(problem: &'a Problem, order: &'a [usize]) -> Planner<'a> {
        let mut depths = vec![usize::MAX; problem.values.len()];
        order.iter().enumerate().for_each(|(depth, slot)| depths[*slot] = depth);
        // A conjunct's slots are all in one group.
        let mine = problem.conjuncts.iter().filter(|conjunct| depths[conjunct.slots[0]] != usize::MAX);
        let tracks: Vec<Track> = mine.map(|conjunct| track(conjunct, &depths)).collect();
        let mut touching = vec![Vec::new(); order.len()];
        for (number, track) in tracks.iter().enumerate() {
            track.depths.iter().for_each(|depth| touching[*depth].push(number));
        }
        let mut registers = Registers::new(problem.values.len());
        // Conjuncts may still read slots with one value. No step of this group sets those registers.
        for (slot, values) in problem.values.iter().enumerate() {
            registers.set(slot as Register, values.first().copied());
        }
        let masks = vec![None; problem.values.len()];
        Planner { problem, order, depths, registers, tracks, touching, masks }
    }

    fn step(&mut self, depth: usize) -> SearchStep {
        let slot = self.order[depth];
        let allowed = self.source(slot);
        // What the residuals compute early decides which registers are still read.
        let parts = self.advance_residuals(depth);
        let mut masks = self.mask_moves(depth);
        let mut width = 0;
        for mask in &mut masks {
            mask.to = width;
            width += mask.words;
        }
        let (carried, nodes) = self.node_moves(depth, &masks, &mut width);
        let (key, closing) = self.register_fields(depth, &mut width);
        let closings = self.closings(depth, &masks);
        let work = width + masks.len() + carried.len() + nodes.len();
        let weight = 1
            + work as u64 / STEP_PARTS as u64
            + parts.iter().map(|part| part.program.weight() - 1).sum::<u64>();
        // Not earlier: everything above reads where the masks were before this step.
        self.masks.fill(None);
        masks.iter().for_each(|mask| self.masks[mask.slot] = Some(mask.to));
        SearchStep {
            slot,
            positions: self.problem.positions[slot].clone(),
            values: self.problem.values[slot].clone(),
            allowed,
            masks,
            carried,
            nodes,
            parts,
            registers: key,
            closing_registers: closing,
            closings,
            width,
            weight,
        }
    }

    fn closing(&self, depth: usize) -> impl Iterator<Item = &Track> {
        let touching = self.touching[depth].iter().map(|number| &self.tracks[*number]);
        touching.filter(move |track| track.open_after(depth) == 1)
    }

    fn source(&self, slot: usize) -> Source {
        match self.masks[slot] {
            Some(offset) => Source::State(offset),
            None => {
                let mut words = Vec::new();
                push_full(&mut words, self.problem.values[slot].len());
                Source::Full(words)
            }
        }
    }

    fn advance_residuals(&mut self, depth: usize) -> Vec<Precomputed> {
        let mut parts = Vec::new();
        let Planner { depths, registers, tracks, touching, problem, .. } = self;
        // Constants of other groups do not exist; slots with one value count as decided.
        let decided =
            |at: usize| at >= problem.values.len() || depths[at] <= depth || problem.values[at].len() == 1;
        for number in &touching[depth] {
            let track = &mut tracks[*number];
            // Closing has tried all values of a conjunct's last slot already.
            if track.diagram.is_none() && track.open_after(depth) > 0 {
                track.residual = extract(&track.residual, &decided, &mut parts, registers);
            }
        }
        parts
    }

    fn mask_moves(&self, depth: usize) -> Vec<MaskMove> {
        let closing: FxHashSet<usize> = self.closing(depth).map(Track::last_depth).collect();
        let later = self.order.iter().enumerate().skip(depth + 1);
        // A slot that nothing has restricted yet takes no words.
        let restricted = later.filter(|(at, slot)| self.masks[**slot].is_some() || closing.contains(at));
        let mask = |slot: usize| MaskMove {
            slot,
            from: self.source(slot),
            to: 0,
            words: words_for(self.problem.values[slot].len()),
        };
        restricted.map(|(_, slot)| mask(*slot)).collect()
    }

    fn node_moves(
        &mut self,
        depth: usize,
        masks: &[MaskMove],
        width: &mut usize,
    ) -> (Vec<(usize, usize)>, Vec<NodeMove>) {
        let (mut carried, mut moves) = (Vec::new(), Vec::new());
        let size = self.problem.values[self.order[depth]].len();
        for track in &mut self.tracks {
            let Some(diagram) = &track.diagram else { continue };
            let level = track.depths.iter().position(|own| *own == depth);
            let (from, is_pending) = (track.node, track.is_pending(depth));
            if is_pending {
                track.node = Some(*width);
                *width += 1;
            }
            let then = match (level, track.node) {
                (None, Some(to)) if is_pending => {
                    carried.extend(from.map(|from| (from, to)));
                    continue;
                }
                (Some(_), Some(to)) if is_pending => Then::Keep { to },
                // The table is spent: its last node becomes the slot's allowed values and leaves the state.
                (Some(level), _) if track.open_after(depth) == 1 => {
                    let open = self.order[track.depths[level + 1]];
                    let mask = masks.iter().position(|mask| mask.slot == open);
                    let mask = mask.expect("a slot that a table closes on has a mask");
                    Then::Restrict { mask, rows: diagram.rows.clone() }
                }
                _ => continue,
            };
            let next = level.map(|level| diagram.steps[level].clone()).unwrap_or_default();
            moves.push(NodeMove { from, next, size, then });
        }
        (carried, moves)
    }

    fn register_fields(&self, depth: usize, width: &mut usize) -> (RegisterField, RegisterField) {
        let slots = self.problem.values.len();
        let open = |register: usize| {
            register < slots && self.depths[register] != usize::MAX && self.depths[register] > depth
        };
        // What only closings read is cut off the state once they have run: points that differ in it but
        // leave the same values to the last slot have the same completions.
        let mut seen = FxHashSet::default();
        let mut read_by = |tracks: &mut dyn Iterator<Item = &Track>| -> Vec<Register> {
            let slots =
                tracks.filter(|track| track.diagram.is_none()).flat_map(|track| track.residual.slots());
            let decided = slots.filter(|at| !open(*at)).map(|at| at as Register);
            decided.filter(|register| seen.insert(*register)).collect()
        };
        let registers = read_by(&mut self.tracks.iter().filter(|track| track.is_pending(depth)));
        // Before the registers that only closings read, so that truncating the state drops just the latter.
        let key = RegisterField { to: *width, registers };
        *width += key.words();
        let closing = RegisterField { to: *width, registers: read_by(&mut self.closing(depth)) };
        (key, closing)
    }

    fn closings(&mut self, depth: usize, masks: &[MaskMove]) -> Vec<Closing> {
        let Planner { registers, tracks, touching, problem, order, .. } = self;
        let closes = |track: &&Track| track.diagram.is_none() && track.open_after(depth) == 1;
        let closing = |track: &Track| {
            let slot = order[track.last_depth()];
            let mask = masks.iter().position(|mask| mask.slot == slot);
            Closing {
                slot,
                mask: mask.expect("a slot that a conjunct closes on has a mask"),
                program: Program::new(&track.residual, registers),
                values: problem.values[slot].clone(),
            }
        };
        touching[depth].iter().map(|number| &tracks[*number]).filter(closes).map(closing).collect()
    }
}

fn track(conjunct: &Conjunct, depths: &[usize]) -> Track {
    // The diagram reads its slots in the order of the search, so that each step follows exactly one level.
    let mut order: Vec<usize> = (0..conjunct.slots.len()).collect();
    order.sort_by_key(|number| depths[conjunct.slots[*number]]);
    Track {
        depths: order.iter().map(|number| depths[conjunct.slots[*number]]).collect(),
        diagram: conjunct.table.as_ref().map(|table| TableDiagram::new(table, &order)),
        node: None,
        residual: conjunct.code.clone(),
    }
}

#[derive(Debug)]
pub struct Precomputed {
    code: Code,
    pub program: Program,
    pub register: Register,
}

/// Moves the parts of `code` that read only decided registers into `parts`, each part once; what is
/// left reads their registers. `is_decided` tells of slots and of earlier parts.
pub fn extract(
    code: &Code,
    is_decided: &impl Fn(usize) -> bool,
    parts: &mut Vec<Precomputed>,
    registers: &mut Registers,
) -> Code {
    let is_open = |code: &Code| reads(code, is_decided).1;
    match reads(code, is_decided) {
        (false, _) => return code.clone(),
        (true, false) => return Code::slot(part(code, parts, registers) as usize),
        (true, true) => {}
    }
    let operands = &code.operands;
    let (step, first, rest) = match &code.step {
        // Lowering made both flat only where no order can overflow. What is ready becomes one operand, which comes first.
        step @ (Step::Sum | Step::Product) => {
            let (open, ready): (Vec<&Code>, Vec<&Code>) = operands.iter().partition(|own| is_open(own));
            let ready: Vec<Code> = ready.into_iter().cloned().collect();
            (step.clone(), (!ready.is_empty()).then(|| alone_or(step.clone(), ready)), open)
        }
        // What is decided at the start of a chain is computed as one; nothing else may be joined,
        // because the order of evaluation counts.
        Step::Chain(operators) => {
            let ready = operands.iter().take_while(|operand| !is_open(operand)).count().max(1);
            let start = alone_or(Step::Chain(operators[..ready - 1].to_vec()), operands[..ready].to_vec());
            (Step::Chain(operators[ready - 1..].to_vec()), Some(start), operands[ready..].iter().collect())
        }
        step => (step.clone(), None, operands.iter().collect()),
    };
    let extracted = first.iter().chain(rest).map(|own| extract(own, is_decided, parts, registers));
    Code::of(step, extracted.collect())
}

fn part(code: &Code, parts: &mut Vec<Precomputed>, registers: &mut Registers) -> Register {
    if let Step::Slot(slot) = code.step {
        return slot as Register;
    }
    // Conjuncts often share a term such as `x * y`. One register for it keeps the state short.
    if let Some(known) = parts.iter().find(|part| part.code == *code) {
        return known.register;
    }
    let program = Program::new(code, registers);
    let register = registers.add(None);
    parts.push(Precomputed { code: code.clone(), program, register });
    register
}

/// Whether the code reads decided registers, and whether it reads open ones.
fn reads(code: &Code, is_decided: &impl Fn(usize) -> bool) -> (bool, bool) {
    let (mut decided, mut open) = (false, false);
    code.visit(&mut |code| {
        if let Step::Slot(slot) = code.step {
            decided |= is_decided(slot);
            open |= !is_decided(slot);
        }
    });
    (decided, open)
}
