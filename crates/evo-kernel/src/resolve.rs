//! From expressions to numbers: the launch plan of one configuration and one problem.
//!
//! An expression that has no value here (a division by zero, a text where a number is meant, a fraction where a count
//! is meant) refuses the variant; it never ends a run. Limits of devices are not known here: see `kernel::limits`.

use std::collections::BTreeMap;

use evo_protocol::plan::{
    ArgumentRef, AxisRange, BufferPlan, ComparedForm, Dictionary, Fill, L2Persist, LaunchPlan, OutputView,
    ProblemPlan, ScalarPlan,
};
use evo_protocol::tensor_map::{BrokenRule, MapPart, Swizzle, TensorMap, TensorMapPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::expr::{Expr, Scope};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::range::{self, End};
use crate::spec::{
    ArgumentSpec, BufferSpec, FillSpec, KernelSpec, LaunchSpec, LoopSpec, PassedSpec, ProblemSpec, RangeSpec,
    ReferenceSpec, ScalarSpec, SwizzleSpec, TensorMapSpec, shown, swizzle_of, whole,
};
use crate::words::uses_identifier;

/// Most launches of a call. Each is a line of the plan, which goes to the worker with every request.
const LAUNCHES_MAX: i64 = 4096;

/// The plan of one problem. Refusals are `static_reject` with the cause `expression`, `shape` for a buffer that is
/// negative or larger than 2⁶³ bytes, `region` for a part of an output that is none, or `tensor_map` for a map that breaks a rule of the copy engine's.
pub fn resolve(
    kernel: &KernelSpec,
    configuration: &Configuration,
    problem: &ProblemSpec,
) -> Resolved<ProblemPlan> {
    let resolver = Resolver::of(configuration, problem);
    let mut buffers = Vec::new();
    let mut scalars = Vec::new();
    for argument in &kernel.arguments {
        match argument {
            ArgumentSpec::Buffer(buffer) => buffers.push(resolver.buffer(buffer)?),
            ArgumentSpec::Scalar(scalar) => scalars.push(resolver.scalar(scalar)?),
            // Below: of a launch that is left out, a map may have no value.
            ArgumentSpec::TensorMap(_) => {}
        }
    }
    let mut planner = Planner { kernel, resolver, swapped: Vec::new(), literals: Vec::new() };
    let mut launches = planner.stream(&kernel.launches, &kernel.loops, ArgumentSpec::is_passed)?;
    // The maps that launches receive, which are renumbered to their places in the list.
    let mut tensor_maps = Vec::new();
    for (position, map) in kernel.tensor_maps().enumerate() {
        let all = launches.iter_mut().flat_map(|launch| &mut launch.arguments);
        let uses: Vec<_> = all.filter(|own| **own == ArgumentRef::TensorMap(position)).collect();
        if !uses.is_empty() {
            uses.into_iter().for_each(|own| *own = ArgumentRef::TensorMap(tensor_maps.len()));
            tensor_maps.push(planner.resolver.tensor_map(map, &buffers)?);
        }
    }
    let sizes = planner.resolver.sizes()?;
    // Of the reference and of what prepares inputs. At a size of 0 there is nothing to compute; a launch of no blocks is
    // an error.
    let with_blocks = |mut launches: Vec<LaunchPlan>| {
        launches.retain(|launch| !launch.grid.contains(&0));
        launches
    };
    let reference_launches = match &kernel.check.reference {
        ReferenceSpec::Kernel { launches, loops, .. } => {
            with_blocks(planner.stream(launches, loops, |own| is_given_to_reference(kernel, own))?)
        }
        _ => Vec::new(),
    };
    let prepare_launches = match &kernel.prepare {
        Some(own) => with_blocks(planner.stream(&own.launches, &own.loops, ArgumentSpec::is_for_prepare)?),
        None => Vec::new(),
    };
    let Planner { resolver, literals, .. } = planner;
    let seen = |name: &String| Some((name.clone(), configuration.get(name)?.clone()));
    Ok(ProblemPlan {
        name: problem.name.clone(),
        weight: problem.weight,
        buffers,
        scalars,
        tensor_maps,
        launches,
        reference_launches,
        prepare_launches,
        reference_variables: reference_variables(kernel),
        reference_sizes: resolver.reference_sizes(kernel, &sizes)?,
        reference_parameters: kernel.check.reference_parameters.iter().filter_map(seen).collect(),
        sizes,
        literals,
        dictionary: Dictionary::default(),
        flops: resolver.optional_number(&kernel.objective.flops, "objective.flops")?,
        bytes: resolver.optional_number(&kernel.objective.bytes, "objective.bytes")?,
    })
}

/// What an expression gives, or why its variant is refused.
pub(super) type Resolved<T> = Result<T, Box<Verdict>>;

/// Sizes hide nothing: the loader refuses a size that has a parameter's name.
pub(super) struct Names<'a> {
    pub(super) configuration: &'a Configuration,
    pub(super) sizes: &'a BTreeMap<String, Value>,
    pub(super) turn: Option<(&'a str, i64)>,
}

impl<'a> Names<'a> {
    pub(super) fn new(configuration: &'a Configuration, sizes: &'a BTreeMap<String, Value>) -> Names<'a> {
        Names { configuration, sizes, turn: None }
    }
}

impl Scope for Names<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        if let Some((_, number)) = self.turn.filter(|(own, _)| *own == name) {
            return Some(Value::Int(number));
        }
        self.sizes.get(name).or_else(|| self.configuration.get(name)).cloned()
    }
}

pub(super) struct Resolver<'a> {
    pub(super) names: Names<'a>,
    /// Nothing where no problem is meant: for what is compiled once for all of them.
    pub(super) problem: Option<&'a str>,
}

impl<'a> Resolver<'a> {
    pub(super) fn of(configuration: &'a Configuration, problem: &'a ProblemSpec) -> Resolver<'a> {
        let names = Names::new(configuration, &problem.sizes);
        Resolver { names, problem: Some(&problem.name) }
    }

    fn reject(&self, cause: &str, message: String, evidence: &[(&str, &str)]) -> Box<Verdict> {
        let within = self.problem.map_or(String::new(), |problem| format!(", in problem `{problem}`"));
        let refused = Verdict::new(VerdictKind::StaticReject, message + &within).with_cause(cause);
        let problem = self.problem.map(|problem| ("problem", problem));
        let evidence = evidence.iter().copied().chain(problem);
        Box::new(evidence.fold(refused, |verdict, (name, value)| verdict.with(name, value)))
    }

    pub(super) fn refuse(&self, expr: &Expr, place: &str, what: &str) -> Box<Verdict> {
        let message = format!("{place} = `{}` {what}", expr.text());
        self.reject("expression", message, &[("expression", expr.text()), ("place", place)])
    }

    fn refuse_size(&self, name: &str, what: &str) -> Box<Verdict> {
        let message = format!("size `{name}` of problem `{}` {what}", self.problem.unwrap_or_default());
        Box::new(Verdict::new(VerdictKind::StaticReject, message).with_cause("expression"))
    }

    fn refuse_shape(&self, buffer: &BufferSpec, what: &str) -> Box<Verdict> {
        let message = format!("argument `{}` {what}", buffer.name);
        self.reject("shape", message, &[("argument", &buffer.name)])
    }

    pub(super) fn value(&self, expr: &Expr, place: &str) -> Resolved<Value> {
        expr.evaluate(&self.names).map_err(|error| {
            let hint = error.hint.map_or(String::new(), |hint| format!(" ({hint})"));
            self.refuse(expr, place, &format!("has no value: {}{hint}", error.message))
        })
    }

    /// A whole number; `4.0` counts as 4.
    pub(super) fn integer(&self, expr: &Expr, place: &str) -> Resolved<i64> {
        let value = self.value(expr, place)?;
        whole(&value).map_err(|why| self.refuse(expr, place, &why))
    }

    fn number(&self, expr: &Expr, place: &str) -> Resolved<f64> {
        let value = self.value(expr, place)?;
        match value.as_float() {
            Some(number) if number.is_finite() => Ok(number),
            _ => Err(self.refuse(expr, place, &format!("is {}, not a finite number", shown(&value)))),
        }
    }

    fn optional_number(&self, expr: &Option<Expr>, place: &str) -> Resolved<Option<f64>> {
        expr.as_ref().map(|expr| self.number(expr, place)).transpose()
    }

    pub(super) fn truth(&self, expr: &Option<Expr>, place: &str, absent: bool) -> Resolved<bool> {
        expr.as_ref().map_or(Ok(absent), |expr| Ok(self.value(expr, place)?.is_true()))
    }

    fn extents(&self, list: &[Expr], key: &str, owner: &str) -> Resolved<[i64; 3]> {
        let mut extents = self.integers(list, key, owner)?.into_iter();
        Ok([(); 3].map(|()| extents.next().unwrap_or(1)))
    }

    fn integers(&self, list: &[Expr], key: &str, owner: &str) -> Resolved<Vec<i64>> {
        let one = |(place, expr): (usize, &Expr)| self.integer(expr, &format!("{key}[{place}] of {owner}"));
        list.iter().enumerate().map(one).collect()
    }

    fn sizes(&self) -> Resolved<BTreeMap<String, i64>> {
        let size = |(name, value): (&String, &Value)| {
            Ok((name.clone(), whole(value).map_err(|why| self.refuse_size(name, &why))?))
        };
        self.names.sizes.iter().map(size).collect()
    }

    fn buffer(&self, buffer: &BufferSpec) -> Resolved<BufferPlan> {
        let owner = format!("argument `{}`", buffer.name);
        let extent = |(axis, expr): (usize, &Expr)| {
            let extent = self.integer(expr, &format!("shape[{axis}] of {owner}"))?;
            let refuse = |_| self.refuse_shape(buffer, &format!("has the negative extent {extent}"));
            u64::try_from(extent).map_err(refuse)
        };
        let shape = buffer.shape.iter().enumerate().map(extent).collect::<Resolved<Vec<u64>>>()?;
        let elements = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        let bytes = elements.and_then(|elements| elements.checked_mul(buffer.dtype.bytes()));
        if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            return Err(self.refuse_shape(buffer, "has more than 2^63 bytes"));
        }
        let fill = self.fill(buffer, elements == Some(0))?;
        let view = self.view(buffer, &shape)?;
        let (name, symbol) = (buffer.name.clone(), buffer.symbol.clone());
        Ok(BufferPlan { name, dtype: buffer.dtype, shape, role: buffer.role, fill, symbol, view })
    }

    /// The fill with its ends known. A buffer without elements has no use for a range, which may be as empty.
    fn fill(&self, buffer: &BufferSpec, empty: bool) -> Resolved<Fill> {
        let (low, high, inclusive) = match &buffer.fill {
            FillSpec::Fixed(fill) => return Ok(fill.clone()),
            FillSpec::Uniform { .. } if empty => return Ok(Fill::Unrestricted),
            FillSpec::Uniform { low, high, inclusive } => (low, high, *inclusive),
        };
        let place = format!("`uniform` of `fill` of argument `{}`", buffer.name);
        let ends = (self.value(low, &place)?, self.value(high, &place)?);
        range::uniform(&ends.0, &ends.1, inclusive, buffer.dtype).map_err(|misfit| {
            let expr = if misfit.end == Some(End::Low) { low } else { high };
            let hint = misfit.hint.map_or(String::new(), |hint| format!(" ({hint})"));
            let verdict = self.refuse(expr, &place, &format!("{}{hint}", misfit.message));
            Box::new(verdict.with("fill_of", buffer.name.clone()))
        })
    }

    fn scalar(&self, scalar: &ScalarSpec) -> Resolved<ScalarPlan> {
        let place = format!("value of argument `{}`", scalar.name);
        let (name, dtype) = (scalar.name.clone(), scalar.dtype);
        if dtype.is_float() {
            let value = self.number(&scalar.value, &place)?;
            return Ok(ScalarPlan { name, dtype, value, integer: None });
        }
        let integer = self.integer(&scalar.value, &place)?;
        let fits = |(low, high)| (low..=high).contains(&i128::from(integer));
        if !range::integers(dtype).is_none_or(fits) {
            let what = format!("is {integer}, which does not fit `{}`", dtype.as_str());
            return Err(self.refuse(&scalar.value, &place, &what));
        }
        Ok(ScalarPlan { name, dtype, value: integer as f64, integer: Some(integer) })
    }

    fn times(&self, own: &LoopSpec, body: &[LaunchSpec]) -> Resolved<i64> {
        let place = format!("repeat of launch `{}`", body[0].entry);
        let times = self.integer(&own.times, &place)?;
        if times < 0 {
            return Err(self.refuse(&own.times, &place, &format!("is {times}, expected 0 or more")));
        }
        let all = times.saturating_mul(body.len() as i64);
        if all > LAUNCHES_MAX {
            let what = format!("is {times}: {all} launches, and a call has at most {LAUNCHES_MAX}");
            return Err(self.refuse(&own.times, &place, &what));
        }
        Ok(times)
    }

    fn launch(
        &self,
        kernel: &KernelSpec,
        launch: &LaunchSpec,
        arguments: Vec<ArgumentRef>,
    ) -> Resolved<LaunchPlan> {
        let owner = format!("launch `{}`", launch.entry);
        let place = |key: &str| format!("{key} of {owner}");
        let shared = launch.shared_bytes.as_ref().map(|expr| self.integer(expr, &place("shared_bytes")));
        let shared_bytes = shared.transpose()?.unwrap_or(0);
        let cluster =
            launch.cluster.as_ref().map(|list| self.extents(list, "cluster", &owner)).transpose()?;
        Ok(LaunchPlan {
            entry: launch.entry.clone(),
            grid: self.extents(&launch.grid, "grid", &owner)?,
            block: self.extents(&launch.block, "block", &owner)?,
            shared_bytes,
            cluster,
            cooperative: self.truth(&launch.cooperative, &place("cooperative"), false)?,
            programmatic: self.truth(&launch.programmatic, &place("programmatic"), false)?,
            l2_persist: self.window(kernel, launch)?,
            arguments,
        })
    }

    fn window(&self, kernel: &KernelSpec, launch: &LaunchSpec) -> Resolved<Option<L2Persist>> {
        let Some(window) = &launch.l2_persist else { return Ok(None) };
        let place = format!("ratio of `l2_persist` of launch `{}`", launch.entry);
        let ratio = self.number(&window.ratio, &place)?;
        if !(0.0..=1.0).contains(&ratio) {
            let refused = *self.refuse(&window.ratio, &place, &format!("is {ratio}, expected 0 to 1"));
            return Err(Box::new(refused.with_cause("l2_persist").with("entry", launch.entry.clone())));
        }
        let buffer = kernel.buffers().position(|buffer| buffer.name == window.argument);
        // The loader has refused a name that is not a buffer's.
        Ok(buffer.filter(|_| ratio > 0.0).map(|buffer| L2Persist { buffer, ratio }))
    }

    fn reference_sizes(&self, kernel: &KernelSpec, all: &BTreeMap<String, i64>) -> Resolved<Vec<String>> {
        let ReferenceSpec::Kernel { sizes, .. } = &kernel.check.reference else { return Ok(Vec::new()) };
        let large = sizes.iter().find(|name| all.get(*name).is_some_and(|own| i32::try_from(*own).is_err()));
        match large {
            Some(name) => Err(self.refuse_size(name, "does not fit the `int` that the reference takes")),
            None => Ok(sizes.clone()),
        }
    }

    fn tensor_map(&self, map: &TensorMapSpec, buffers: &[BufferPlan]) -> Resolved<TensorMapPlan> {
        let owner = format!("argument `{}`", map.name);
        let list = |key: &str, list: &[Expr]| self.integers(list, key, &owner);
        let of = buffers.iter().position(|buffer| buffer.name == map.of).unwrap_or_default();
        let (dtype, bytes) = (buffers[of].dtype, buffers[of].bytes());
        let dims = list("dims", &map.dims)?;
        let strides = if let Some(strides) = &map.strides { list("strides", strides)? } else { dense(&dims) };
        // A stride beyond 64 bits breaks the rule of strides as the largest number does.
        let strides = strides.iter().map(|elements| elements.saturating_mul(dtype.bytes() as i64)).collect();
        let resolved = TensorMap {
            dtype,
            dims,
            strides,
            extents: list("box", &map.extents)?,
            swizzle: self.swizzle(map, &owner)?,
            fill: map.fill,
        };
        match resolved.check(bytes) {
            Ok(()) => Ok(TensorMapPlan { name: map.name.clone(), of, map: resolved }),
            Err(rule) => Err(self.broken(map, &rule)),
        }
    }

    fn swizzle(&self, map: &TensorMapSpec, owner: &str) -> Resolved<Swizzle> {
        let expr = match &map.swizzle {
            SwizzleSpec::Fixed(swizzle) => return Ok(*swizzle),
            SwizzleSpec::Chosen(expr) => expr,
        };
        let place = format!("swizzle of {owner}");
        let value = self.value(expr, &place)?;
        swizzle_of(&value).ok_or_else(|| {
            let words = Swizzle::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
            let what = format!("is {}, expected one of {words}, or the span in bytes", shown(&value));
            self.refuse(expr, &place, &what)
        })
    }

    fn view(&self, buffer: &BufferSpec, shape: &[u64]) -> Resolved<Option<OutputView>> {
        let Some(view) = &buffer.view else { return Ok(None) };
        let range = |(axis, extent): (usize, &u64)| match view.region.as_ref().and_then(|all| all.get(axis)) {
            Some(range) => self.axis_range(&buffer.name, range, axis, *extent as i64),
            None => Ok(AxisRange::all(*extent)),
        };
        let region = shape.iter().enumerate().map(range).collect::<Resolved<_>>()?;
        Ok(Some(OutputView { region, form: view.form, axis: view.axis }))
    }

    fn axis_range(&self, name: &str, range: &RangeSpec, axis: usize, extent: i64) -> Resolved<AxisRange> {
        let place = format!("region[{axis}] of `check` of argument `{name}`");
        let refuse =
            |what: String| Err(self.reject("region", format!("{place} {what}"), &[("check_of", name)]));
        let value = |expr: &Option<Expr>, absent: i64| {
            expr.as_ref().map_or(Ok(absent), |expr| self.integer(expr, &place))
        };
        let (first, stop) = (value(&range.first, 0)?, value(&range.stop, extent)?);
        let step = value(&range.step, 1)?;
        if step < 1 {
            return refuse(format!("has the step {step}, expected 1 or more"));
        }
        if first < 0 || stop > extent {
            return refuse(format!("is {first}:{stop}, and the extent is {extent}"));
        }
        let count = (stop - first).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        if count == 0 && extent > 0 {
            return refuse(format!("is {first}:{stop}, which is empty: nothing would be compared"));
        }
        Ok(AxisRange { first: first as u64, count, step: step as u64 })
    }

    fn broken(&self, map: &TensorMapSpec, rule: &BrokenRule) -> Box<Verdict> {
        let (expr, place, what) = match (rule.part, &map.strides) {
            (MapPart::Stride(place), None) => {
                let what = rule.message.strip_prefix("is ").unwrap_or(&rule.message);
                let what = format!("makes the dense stride of dimension {} {what}", place + 1);
                (map.dims.get(place), MapPart::Dim(place), what)
            }
            (MapPart::Stride(place), Some(strides)) => (strides.get(place), rule.part, rule.message.clone()),
            (MapPart::Box(axis), _) => (map.extents.get(axis), rule.part, rule.message.clone()),
            (MapPart::Dim(axis), _) => (map.dims.get(axis), rule.part, rule.message.clone()),
            (MapPart::Fill, _) => (None, rule.part, rule.message.clone()),
        };
        let expr = expr.unwrap_or(&map.dims[0]);
        let refused = *self.refuse(expr, &format!("{place} of argument `{}`", map.name), &what);
        Box::new(refused.with_cause("tensor_map").with("argument", map.name.clone()))
    }
}

fn dense(dims: &[i64]) -> Vec<i64> {
    let product = |stride: &mut i64, dim: &i64| {
        *stride = stride.saturating_mul(*dim);
        Some(*stride)
    };
    dims.iter().take(dims.len().saturating_sub(1)).scan(1, product).collect()
}

pub(crate) fn remark(buffer: &BufferSpec) -> Option<String> {
    let view = buffer.view.as_ref()?;
    let part = |own: &Option<Expr>| own.as_ref().map_or("", |own| own.text()).to_string();
    let slice = |own: &RangeSpec| {
        let (first, stop, step) = (part(&own.first), part(&own.stop), part(&own.step));
        if step.is_empty() { format!("{first}:{stop}") } else { format!("{first}:{stop}:{step}") }
    };
    let region = view.region.as_ref().map(|own| own.iter().map(slice).collect::<Vec<_>>().join(", "));
    let axis = view.axis.map_or(String::new(), |axis| format!(" along axis {axis}"));
    let form = match view.form {
        ComparedForm::Elements => None,
        ComparedForm::Sorted => {
            Some(format!("in ascending order{axis}: which place holds which element is not checked"))
        }
        ComparedForm::Sum => Some(format!("by its sum{axis}: its elements are not checked")),
    };
    let name = &buffer.name;
    Some(match (region, form) {
        (Some(region), None) => {
            format!("`{name}` is compared in [{region}] alone: its other elements are not checked")
        }
        (None, Some(form)) => format!("`{name}` is compared {form}"),
        (Some(region), Some(form)) => format!("`{name}` is compared in [{region}] alone, {form}"),
        (None, None) => return None,
    })
}

struct Planner<'a> {
    kernel: &'a KernelSpec,
    resolver: Resolver<'a>,
    /// What is given in the place of an argument.
    swapped: Vec<(ArgumentRef, ArgumentRef)>,
    /// Numbers of single launches.
    literals: Vec<ScalarPlan>,
}

impl Planner<'_> {
    /// The launches of a call; one that does not say what it is given gets every argument that it `takes`.
    fn stream(
        &mut self,
        launches: &[LaunchSpec],
        loops: &[LoopSpec],
        takes: impl Fn(&ArgumentSpec) -> bool,
    ) -> Resolved<Vec<LaunchPlan>> {
        let passed: Vec<ArgumentRef> =
            positions(self.kernel).filter(|(argument, _)| takes(argument)).map(|(_, place)| place).collect();
        let mut plans = Vec::new();
        self.swapped.clear();
        for body in launches.chunk_by(|one, other| one.in_loop.is_some() && one.in_loop == other.in_loop) {
            let own = body[0].in_loop.and_then(|position| loops.get(position));
            let times = own.map_or(Ok(1), |own| self.resolver.times(own, body))?;
            for number in 0..times {
                let turn = own.and_then(|own| Some((own.index.as_deref()?, number)));
                let resolver = Resolver { names: Names { turn, ..self.resolver.names }, ..self.resolver };
                for launch in body {
                    // First, because the other expressions of a launch that is left out may have no value.
                    if resolver.truth(&launch.when, &format!("when of launch `{}`", launch.entry), true)? {
                        let arguments = match &launch.arguments {
                            Some(passed) => self.given(passed, &resolver)?,
                            None => passed.iter().map(|place| self.now(*place)).collect(),
                        };
                        plans.push(resolver.launch(self.kernel, launch, arguments)?);
                    }
                }
                for [one, other] in own.iter().flat_map(|own| &own.swap) {
                    // The loader has refused names that do not exist.
                    let (Some(one), Some(other)) = (self.place(one), self.place(other)) else { continue };
                    let (first, second) = (self.now(one), self.now(other));
                    self.swapped.retain(|(said, _)| *said != one && *said != other);
                    self.swapped.extend([(one, second), (other, first)]);
                }
            }
        }
        Ok(plans)
    }

    fn given(&mut self, passed: &[PassedSpec], resolver: &Resolver<'_>) -> Resolved<Vec<ArgumentRef>> {
        let mut given = Vec::with_capacity(passed.len());
        for own in passed {
            match own {
                PassedSpec::Named(name) => given.extend(self.place(name).map(|place| self.now(place))),
                PassedSpec::Literal(scalar) => {
                    let plan = resolver.scalar(scalar)?;
                    let known = self.literals.iter().position(|own| *own == plan);
                    given.push(ArgumentRef::Literal(known.unwrap_or(self.literals.len())));
                    if known.is_none() {
                        self.literals.push(plan);
                    }
                }
            }
        }
        Ok(given)
    }

    fn place(&self, name: &str) -> Option<ArgumentRef> {
        positions(self.kernel).find(|(own, _)| own.name() == name).map(|(_, place)| place)
    }

    fn now(&self, place: ArgumentRef) -> ArgumentRef {
        self.swapped.iter().find(|(said, _)| *said == place).map_or(place, |(_, now)| *now)
    }
}

/// Whether a launch of the reference kernel takes it that does not say it: no tensor maps. An argument that lies in a
/// variable of the variant's lies in one of the reference's if that has one of the name, and else is passed.
pub(crate) fn is_given_to_reference(kernel: &KernelSpec, argument: &ArgumentSpec) -> bool {
    argument.is_for_reference() && !has_variable(kernel, argument)
}

/// What a launch is given, as the file declares it; `None` where that is not arguments alone. `takes` is for one that does
/// not say it.
pub(crate) fn declared<'k>(
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

fn reference_variables(kernel: &KernelSpec) -> Vec<usize> {
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
