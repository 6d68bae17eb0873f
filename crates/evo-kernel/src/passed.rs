//! What launches of a call are given: by name, without saying so, and after buffers have changed places.

use evo_protocol::plan::ArgumentRef;

use super::spec::{ArgumentSpec, KernelSpec, LaunchSpec, LoopSpec, PassedSpec, ReferenceSpec};
use super::words::uses_identifier;

pub struct Stream<'a> {
    pub launches: &'a [LaunchSpec],
    pub loops: &'a [LoopSpec],
    pub passed: Vec<ArgumentRef>,
}

/// What a launch is given that does not say it: every argument that it may take.
pub fn arguments(kernel: &KernelSpec, takes: impl Fn(&ArgumentSpec) -> bool) -> Vec<ArgumentRef> {
    positions(kernel).filter(|(argument, _)| takes(argument)).map(|(_, place)| place).collect()
}

/// Whether a launch of the reference kernel takes it that does not say it: no tensor maps. An argument that lies in a
/// variable of the variant's lies in one of the reference's if that has one of the name, and else is passed.
pub fn is_given_to_reference(kernel: &KernelSpec, argument: &ArgumentSpec) -> bool {
    argument.is_for_reference() && !has_variable(kernel, argument)
}

/// What a launch is given, as the file declares it; `None` where that is not arguments alone. `takes` is for one that does
/// not say it.
pub fn declared<'k>(
    kernel: &'k KernelSpec,
    launch: &LaunchSpec,
    takes: impl Fn(&ArgumentSpec) -> bool,
) -> Option<Vec<&'k ArgumentSpec>> {
    let Some(passed) = &launch.arguments else {
        return Some(kernel.arguments.iter().filter(|argument| takes(argument)).collect());
    };
    let argument = |passed: &PassedSpec| match passed {
        PassedSpec::Named(name) => kernel.arguments.iter().find(|argument| argument.name() == name),
        PassedSpec::Literal(_) => None,
    };
    passed.iter().map(argument).collect()
}

pub fn reference_variables(kernel: &KernelSpec) -> Vec<usize> {
    let ReferenceSpec::Kernel { launches, .. } = &kernel.check.reference else { return Vec::new() };
    let is_given = |name: &str| {
        let mut given = launches.iter().filter_map(|own| own.arguments.as_ref()).flatten();
        given.any(|own| matches!(own, PassedSpec::Named(own) if own == name))
    };
    let lies_there = |(own, place): (&ArgumentSpec, ArgumentRef)| match place {
        ArgumentRef::Buffer(position) if has_variable(kernel, own) && !is_given(own.name()) => Some(position),
        _ => None,
    };
    positions(kernel).filter_map(lies_there).collect()
}

fn has_variable(kernel: &KernelSpec, argument: &ArgumentSpec) -> bool {
    let ReferenceSpec::Kernel { source, .. } = &kernel.check.reference else { return false };
    let ArgumentSpec::Buffer(buffer) = argument else { return false };
    let name = buffer.symbol.as_deref().and_then(|symbol| symbol.rsplit("::").next());
    name.is_some_and(|name| uses_identifier(&source.text, name))
}

fn positions(kernel: &KernelSpec) -> impl Iterator<Item = (&ArgumentSpec, ArgumentRef)> {
    let (mut buffers, mut scalars, mut maps) = (0, 0, 0);
    kernel.arguments.iter().map(move |argument| {
        let (counter, make): (&mut usize, fn(usize) -> ArgumentRef) = match argument {
            ArgumentSpec::Buffer(_) => (&mut buffers, ArgumentRef::Buffer),
            ArgumentSpec::Scalar(_) => (&mut scalars, ArgumentRef::Scalar),
            ArgumentSpec::TensorMap(_) => (&mut maps, ArgumentRef::TensorMap),
        };
        *counter += 1;
        (argument, make(*counter - 1))
    })
}

pub struct Swapped<'a> {
    kernel: &'a KernelSpec,
    pairs: Vec<(ArgumentRef, ArgumentRef)>,
}

impl Swapped<'_> {
    pub fn none(kernel: &KernelSpec) -> Swapped<'_> {
        Swapped { kernel, pairs: Vec::new() }
    }

    pub fn place(&self, name: &str) -> Option<ArgumentRef> {
        positions(self.kernel).find(|(own, _)| own.name() == name).map(|(_, place)| place)
    }

    pub fn now(&self, place: ArgumentRef) -> ArgumentRef {
        self.pairs.iter().find(|(said, _)| *said == place).map_or(place, |(_, now)| *now)
    }

    pub fn swap(&mut self, [one, other]: &[String; 2]) {
        // The loader has refused names that do not exist.
        let (Some(one), Some(other)) = (self.place(one), self.place(other)) else { return };
        let (first, second) = (self.now(one), self.now(other));
        self.pairs.retain(|(said, _)| *said != one && *said != other);
        self.pairs.extend([(one, second), (other, first)]);
    }
}
