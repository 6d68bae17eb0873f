//! The merged depth-first search: all valid points of a group of linked parameters as a diagram,
//! without listing them.
//!
//! Two partial assignments have the same completions when every sub-expression that open constraints
//! still read has the same value; those values are the memo key. Equal nodes are shared on the way
//! back, so the diagram is reduced.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::code::{Atom, Code};
use super::number::Number;
use super::problem::{Conjunct, Problem};

/// Child of a partial assignment without completion.
const DEAD: u32 = u32::MAX;

/// All valid points of a group as layers of nodes; edges lead from each layer to the next, the last
/// layer's lead to the one end, 0.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The slot that each layer decides.
    pub slots: Vec<usize>,
    /// Nodes of each layer: edges as value position and child, ascending by position. The first
    /// layer has one node, or none when nothing is valid.
    pub nodes: Vec<Vec<Edges>>,
}

/// A node's edges.
pub type Edges = Box<[(u16, u32)]>;

/// The search took more steps or memory than it was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// How much a search may take.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// Values tried.
    pub steps: u64,
    /// Remembered partial assignments.
    pub states: u64,
}

/// Searches one group in the given order.
pub fn search(problem: &Problem, order: &[usize], limits: SearchLimits) -> Result<Layers, OverBudget> {
    let plan = plan(problem, order);
    let mut search = Search {
        plan: &plan,
        at: vec![Atom::Text(0); problem.values.len()],
        memo: plan.iter().map(|_| Table::default()).collect(),
        shared: plan.iter().map(|_| HashMap::default()).collect(),
        nodes: plan.iter().map(|_| Vec::new()).collect(),
        steps_left: limits.steps,
        states_left: limits.states,
    };
    search.go(0)?;
    Ok(Layers { slots: order.to_vec(), nodes: search.nodes })
}

/// What happens at one depth.
struct Step {
    slot: usize,
    values: Vec<(u16, Atom)>,
    /// Conjuncts that this slot completes.
    checks: Vec<Code>,
    /// Sub-expressions whose values decide the completions.
    keys: Vec<Code>,
}

fn plan(problem: &Problem, order: &[usize]) -> Vec<Step> {
    let mut assigned = vec![false; problem.values.len()];
    let mut steps = Vec::with_capacity(order.len());
    for slot in order {
        assigned[*slot] = true;
        let done = |conjunct: &Conjunct| conjunct.slots.iter().all(|slot| assigned[*slot]);
        let mine = problem.conjuncts.iter().filter(|c| c.slots.contains(slot) && done(c));
        let open =
            problem.conjuncts.iter().filter(|c| !done(c) && c.slots.iter().any(|slot| assigned[*slot]));
        let mut keys = Vec::new();
        open.for_each(|conjunct| fixed_parts(&conjunct.code, &assigned, &mut keys));
        steps.push(Step {
            slot: *slot,
            values: problem.positions[*slot]
                .iter()
                .copied()
                .zip(problem.values[*slot].iter().copied())
                .collect(),
            checks: mine.map(|conjunct| conjunct.code.clone()).collect(),
            keys,
        });
    }
    steps
}

/// Collects the largest sub-expressions that read assigned slots only. Of a flat sum or product the
/// assigned operands are one part.
fn fixed_parts(code: &Code, assigned: &[bool], parts: &mut Vec<Code>) {
    match state(code, assigned) {
        (false, _) => {}
        (true, false) => {
            if !parts.contains(code) {
                parts.push(code.clone());
            }
        }
        (true, true) => match code {
            Code::Sum(terms) => {
                let ready = terms.iter().filter(|(_, term)| state(term, assigned) == (true, false));
                let ready: Vec<(bool, Code)> = ready.cloned().collect();
                let single = ready.len() == 1;
                push_part(
                    if single {
                        ready.into_iter().map(|(_, term)| term).next()
                    } else {
                        Some(Code::Sum(ready))
                    },
                    parts,
                );
                let open = terms.iter().filter(|(_, term)| state(term, assigned).1);
                open.for_each(|(_, term)| fixed_parts(term, assigned, parts));
            }
            Code::Product(factors) => {
                let ready = factors.iter().filter(|factor| state(factor, assigned) == (true, false));
                let mut ready: Vec<Code> = ready.cloned().collect();
                push_part(if ready.len() == 1 { ready.pop() } else { Some(Code::Product(ready)) }, parts);
                let open = factors.iter().filter(|factor| state(factor, assigned).1);
                open.for_each(|factor| fixed_parts(factor, assigned, parts));
            }
            other => other.children().for_each(|child| fixed_parts(child, assigned, parts)),
        },
    }
}

fn push_part(part: Option<Code>, parts: &mut Vec<Code>) {
    if let Some(part) = part.filter(|part| part.children().next().is_some() || matches!(part, Code::Slot(_)))
        && !parts.contains(&part)
    {
        parts.push(part);
    }
}

/// Whether the code reads assigned slots, and whether it reads open ones.
fn state(code: &Code, assigned: &[bool]) -> (bool, bool) {
    match code {
        Code::Slot(slot) => (assigned[*slot], !assigned[*slot]),
        other => other
            .children()
            .map(|child| state(child, assigned))
            .fold((false, false), |a, b| (a.0 | b.0, a.1 | b.1)),
    }
}

type Table = HashMap<Box<[u64]>, u32, BuildHasherDefault<KeyHasher>>;

struct Search<'a> {
    plan: &'a [Step],
    at: Vec<Atom>,
    memo: Vec<Table>,
    shared: Vec<HashMap<Edges, u32, BuildHasherDefault<KeyHasher>>>,
    nodes: Vec<Vec<Edges>>,
    steps_left: u64,
    states_left: u64,
}

impl Search<'_> {
    /// The node of the current partial assignment, which has `depth` slots.
    fn go(&mut self, depth: usize) -> Result<u32, OverBudget> {
        let Some(step) = self.plan.get(depth) else { return Ok(0) };
        let mut edges: Vec<(u16, u32)> = Vec::new();
        let mut key: Vec<u64> = Vec::new();
        for (position, value) in &step.values {
            self.steps_left = self.steps_left.checked_sub(1).ok_or(OverBudget)?;
            self.at[step.slot] = *value;
            if !step.checks.iter().all(|check| check.holds(&self.at)) {
                continue;
            }
            write_key(&step.keys, &self.at, &mut key);
            let child = match self.memo[depth].get(key.as_slice()) {
                Some(child) => *child,
                None => {
                    self.states_left = self.states_left.checked_sub(1).ok_or(OverBudget)?;
                    let child = self.go(depth + 1)?;
                    self.memo[depth].insert(key.as_slice().into(), child);
                    child
                }
            };
            if child != DEAD {
                edges.push((*position, child));
            }
        }
        Ok(self.share(depth, edges))
    }

    fn share(&mut self, depth: usize, edges: Vec<(u16, u32)>) -> u32 {
        if edges.is_empty() {
            return DEAD;
        }
        let edges = edges.into_boxed_slice();
        if let Some(node) = self.shared[depth].get(&edges) {
            return *node;
        }
        let node = self.nodes[depth].len() as u32;
        self.nodes[depth].push(edges.clone());
        self.shared[depth].insert(edges, node);
        node
    }
}

/// Two bits for the kind of each part, then the values. A part without a value fails whatever reads
/// it in the same way, so that it needs no more than its mark.
fn write_key(parts: &[Code], at: &[Atom], key: &mut Vec<u64>) {
    key.clear();
    key.resize(parts.len().div_ceil(32), 0);
    for (number, part) in parts.iter().enumerate() {
        let (tag, word) = part.evaluate(at).map_or((3, 0), atom_words);
        key[number / 32] |= tag << (2 * (number % 32));
        key.push(word);
    }
}

fn atom_words(atom: Atom) -> (u64, u64) {
    match atom {
        Atom::Number(Number::Int(value)) => (0, value as u64),
        Atom::Number(Number::Float(value)) => (1, value.to_bits()),
        Atom::Text(rank) => (2, u64::from(rank)),
    }
}

/// Multiply and rotate: keys are short runs of small integers from our own search, so nobody can aim
/// collisions at us, and the standard hasher took a third of the time.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
