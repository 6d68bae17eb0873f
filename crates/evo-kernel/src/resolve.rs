//! From expressions to numbers: the launch plan of one configuration and one problem.
//!
//! Every expression that has no value here (a division by zero, a text where a number is meant, a
//! fraction where a count is meant) refuses the variant with a verdict that names expression and
//! place; it never ends a run. Limits of devices are not known here: see `kernel::limits`.

use std::collections::BTreeMap;

use evo_protocol::plan::{ArgumentRef, BufferPlan, Fill, L2Persist, LaunchPlan, ProblemPlan, ScalarPlan};
use evo_protocol::tensor_map::{BrokenRule, MapPart, Swizzle, TensorMap, TensorMapPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::expr::{Expr, Scope};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use super::range::{self, End};
use super::spec::{
    ArgumentSpec, BufferSpec, FillSpec, KernelSpec, LaunchSpec, ProblemSpec, ReferenceSpec, ScalarSpec,
    SwizzleSpec, TensorMapSpec,
};

/// The plan of one problem. Refusals are `static_reject` with the cause `expression`, `shape` for a buffer that is
/// negative or larger than 2⁶³ bytes, or `tensor_map` for a map that breaks a rule of the copy engine's.
pub fn resolve(
    kernel: &KernelSpec,
    configuration: &Configuration,
    problem: &ProblemSpec,
) -> Result<ProblemPlan, Box<Verdict>> {
    let names = Names { configuration, sizes: &problem.sizes };
    let resolver = Resolver { names, problem: &problem.name };
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
    let mut launches = Vec::new();
    for launch in &kernel.launches {
        launches.extend(resolver.launch(kernel, launch)?);
    }
    let tensor_maps = resolver.tensor_maps(kernel, &buffers, &mut launches)?;
    Ok(ProblemPlan {
        name: problem.name.clone(),
        sizes: resolver.sizes()?,
        weight: problem.weight,
        buffers,
        scalars,
        tensor_maps,
        launches,
        reference_launches: resolver.reference_launches(kernel)?,
        flops: resolver.optional_number(&kernel.objective.flops, "objective.flops")?,
        bytes: resolver.optional_number(&kernel.objective.bytes, "objective.bytes")?,
    })
}

/// Sizes hide nothing: the loader refuses a size that has a parameter's name.
pub(super) struct Names<'a> {
    pub(super) configuration: &'a Configuration,
    pub(super) sizes: &'a BTreeMap<String, Value>,
}

impl Scope for Names<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        self.sizes.get(name).or_else(|| self.configuration.get(name)).cloned()
    }
}

/// Evaluates expressions of one configuration and one problem, and words the refusals.
pub(super) struct Resolver<'a> {
    pub(super) names: Names<'a>,
    pub(super) problem: &'a str,
}

impl Resolver<'_> {
    fn refuse(&self, expr: &Expr, place: &str, what: &str) -> Box<Verdict> {
        let message = format!("{place} = `{}` {what}, in problem `{}`", expr.text(), self.problem);
        let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause("expression");
        let verdict = verdict.with("expression", expr.text()).with("place", place);
        Box::new(verdict.with("problem", self.problem))
    }

    fn refuse_shape(&self, buffer: &BufferSpec, what: &str) -> Box<Verdict> {
        let message = format!("argument `{}` {what}, in problem `{}`", buffer.name, self.problem);
        let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause("shape");
        Box::new(verdict.with("argument", buffer.name.clone()).with("problem", self.problem))
    }

    fn value(&self, expr: &Expr, place: &str) -> Result<Value, Box<Verdict>> {
        expr.evaluate(&self.names).map_err(|error| {
            let hint = error.hint.map_or(String::new(), |hint| format!(" ({hint})"));
            self.refuse(expr, place, &format!("has no value: {}{hint}", error.message))
        })
    }

    /// A whole number; `4.0` counts as 4.
    pub(super) fn integer(&self, expr: &Expr, place: &str) -> Result<i64, Box<Verdict>> {
        let value = self.value(expr, place)?;
        whole(&value).map_err(|why| self.refuse(expr, place, &why))
    }

    fn number(&self, expr: &Expr, place: &str) -> Result<f64, Box<Verdict>> {
        let value = self.value(expr, place)?;
        match value.as_float() {
            Some(number) if number.is_finite() => Ok(number),
            _ => Err(self.refuse(expr, place, &format!("is {}, not a finite number", shown(&value)))),
        }
    }

    fn optional_number(&self, expr: &Option<Expr>, place: &str) -> Result<Option<f64>, Box<Verdict>> {
        expr.as_ref().map(|expr| self.number(expr, place)).transpose()
    }

    fn truth(&self, expr: &Option<Expr>, place: &str, absent: bool) -> Result<bool, Box<Verdict>> {
        match expr {
            Some(expr) => Ok(self.value(expr, place)?.is_true()),
            None => Ok(absent),
        }
    }

    /// Up to three extents; missing ones are 1.
    fn extents(&self, list: &[Expr], key: &str, owner: &str) -> Result<[i64; 3], Box<Verdict>> {
        let mut extents = [1; 3];
        for (axis, expr) in list.iter().enumerate().take(3) {
            extents[axis] = self.integer(expr, &format!("{key}[{axis}] of {owner}"))?;
        }
        Ok(extents)
    }

    fn sizes(&self) -> Result<BTreeMap<String, i64>, Box<Verdict>> {
        let mut sizes = BTreeMap::new();
        for (name, value) in self.names.sizes {
            let value = whole(value).map_err(|why| {
                let message = format!("size `{name}` of problem `{}` {why}", self.problem);
                Box::new(Verdict::new(VerdictKind::StaticReject, message).with_cause("expression"))
            })?;
            sizes.insert(name.clone(), value);
        }
        Ok(sizes)
    }

    fn buffer(&self, buffer: &BufferSpec) -> Result<BufferPlan, Box<Verdict>> {
        let mut shape = Vec::new();
        for (axis, expr) in buffer.shape.iter().enumerate() {
            let extent = self.integer(expr, &format!("shape[{axis}] of argument `{}`", buffer.name))?;
            let extent = u64::try_from(extent)
                .map_err(|_| self.refuse_shape(buffer, &format!("has the negative extent {extent}")))?;
            shape.push(extent);
        }
        let elements = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        let bytes = elements.and_then(|elements| elements.checked_mul(buffer.dtype.bytes()));
        if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            return Err(self.refuse_shape(buffer, "has more than 2^63 bytes"));
        }
        let fill = self.fill(buffer, elements == Some(0))?;
        Ok(BufferPlan { name: buffer.name.clone(), dtype: buffer.dtype, shape, role: buffer.role, fill })
    }

    /// The fill with its ends known. A buffer without elements has no use for a range, which may be as empty.
    fn fill(&self, buffer: &BufferSpec, empty: bool) -> Result<Fill, Box<Verdict>> {
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

    fn scalar(&self, scalar: &ScalarSpec) -> Result<ScalarPlan, Box<Verdict>> {
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

    /// The launch, unless its `when` is false.
    fn launch(&self, kernel: &KernelSpec, launch: &LaunchSpec) -> Result<Option<LaunchPlan>, Box<Verdict>> {
        let owner = format!("launch `{}`", launch.entry);
        let place = |key: &str| format!("{key} of {owner}");
        // First, because the other expressions of a launch that is left out may have no value.
        if !self.truth(&launch.when, &place("when"), true)? {
            return Ok(None);
        }
        let shared_bytes = match &launch.shared_bytes {
            Some(expr) => self.integer(expr, &place("shared_bytes"))?,
            None => 0,
        };
        let cluster = match &launch.cluster {
            Some(list) => Some(self.extents(list, "cluster", &owner)?),
            None => None,
        };
        Ok(Some(LaunchPlan {
            entry: launch.entry.clone(),
            grid: self.extents(&launch.grid, "grid", &owner)?,
            block: self.extents(&launch.block, "block", &owner)?,
            shared_bytes,
            cluster,
            cooperative: self.truth(&launch.cooperative, &place("cooperative"), false)?,
            programmatic: self.truth(&launch.programmatic, &place("programmatic"), false)?,
            l2_persist: self.window(kernel, launch)?,
            arguments: argument_refs(kernel, launch.arguments.as_deref()),
        }))
    }

    /// The window of the L2 cache; none where its ratio is 0.
    fn window(&self, kernel: &KernelSpec, launch: &LaunchSpec) -> Result<Option<L2Persist>, Box<Verdict>> {
        let Some(window) = &launch.l2_persist else { return Ok(None) };
        let place = format!("ratio of `l2_persist` of launch `{}`", launch.entry);
        let ratio = self.number(&window.ratio, &place)?;
        if !(0.0..=1.0).contains(&ratio) {
            let refused = *self.refuse(&window.ratio, &place, &format!("is {ratio}, expected 0 to 1"));
            return Err(Box::new(refused.with_cause("l2_persist").with("entry", launch.entry.clone())));
        }
        let buffers = kernel.arguments.iter().filter(|own| matches!(own, ArgumentSpec::Buffer(_)));
        let buffer = buffers.into_iter().position(|own| own.name() == window.argument);
        // The loader has refused a name that is not a buffer's.
        Ok(buffer.filter(|_| ratio > 0.0).map(|buffer| L2Persist { buffer, ratio }))
    }

    fn reference_launches(&self, kernel: &KernelSpec) -> Result<Vec<LaunchPlan>, Box<Verdict>> {
        let ReferenceSpec::Kernel { entry, grid, block, .. } = &kernel.check.reference else {
            return Ok(Vec::new());
        };
        let owner = format!("reference `{entry}`");
        let grid = self.extents(grid, "grid", &owner)?;
        if grid.contains(&0) {
            // At a size of 0 there is nothing to compute; a launch of no blocks is an error.
            return Ok(Vec::new());
        }
        Ok(vec![LaunchPlan {
            entry: entry.clone(),
            grid,
            block: self.extents(block, "block", &owner)?,
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: argument_refs(kernel, None).into_iter().filter(|own| !is_map(own)).collect(),
        }])
    }

    /// The maps that launches receive, which are renumbered to their places in the list.
    fn tensor_maps(
        &self,
        kernel: &KernelSpec,
        buffers: &[BufferPlan],
        launches: &mut [LaunchPlan],
    ) -> Result<Vec<TensorMapPlan>, Box<Verdict>> {
        let maps = kernel.arguments.iter().filter_map(|argument| match argument {
            ArgumentSpec::TensorMap(map) => Some(map),
            ArgumentSpec::Buffer(_) | ArgumentSpec::Scalar(_) => None,
        });
        let mut plans = Vec::new();
        for (position, map) in maps.enumerate() {
            let own = ArgumentRef::TensorMap(position);
            let uses =
                launches.iter_mut().flat_map(|launch| &mut launch.arguments).filter(|one| **one == own);
            let uses: Vec<&mut ArgumentRef> = uses.collect();
            if uses.is_empty() {
                continue;
            }
            uses.into_iter().for_each(|one| *one = ArgumentRef::TensorMap(plans.len()));
            plans.push(self.tensor_map(map, buffers)?);
        }
        Ok(plans)
    }

    fn tensor_map(&self, map: &TensorMapSpec, buffers: &[BufferPlan]) -> Result<TensorMapPlan, Box<Verdict>> {
        let owner = format!("argument `{}`", map.name);
        let list = |key: &str, list: &[Expr]| -> Result<Vec<i64>, Box<Verdict>> {
            let one =
                |(place, expr): (usize, &Expr)| self.integer(expr, &format!("{key}[{place}] of {owner}"));
            list.iter().enumerate().map(one).collect()
        };
        let of = buffers.iter().position(|buffer| buffer.name == map.of);
        // The loader has refused a name that is not a buffer's.
        let of = of.unwrap_or_default();
        let (dtype, bytes) = (buffers[of].dtype, buffers[of].bytes());
        let dims = list("dims", &map.dims)?;
        let strides = match &map.strides {
            Some(strides) => list("strides", strides)?,
            None => dense(&dims),
        };
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

    fn swizzle(&self, map: &TensorMapSpec, owner: &str) -> Result<Swizzle, Box<Verdict>> {
        let expr = match &map.swizzle {
            SwizzleSpec::Fixed(swizzle) => return Ok(*swizzle),
            SwizzleSpec::Chosen(expr) => expr,
        };
        let place = format!("swizzle of {owner}");
        let value = self.value(expr, &place)?;
        let found = Swizzle::ALL.into_iter().find(|own| match &value {
            Value::Text(text) => **text == *own.as_str(),
            other => whole(other) == Ok(own.span()),
        });
        found.ok_or_else(|| {
            let words = Swizzle::ALL.map(Swizzle::as_str).join(", ");
            self.refuse(
                expr,
                &place,
                &format!("is {}, expected one of {words}, or the span in bytes", shown(&value)),
            )
        })
    }

    /// The refusal of a map that breaks a rule, at the expression that breaks it.
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

/// Strides of a tensor without gaps, in elements.
fn dense(dims: &[i64]) -> Vec<i64> {
    let mut stride: i64 = 1;
    let outer = dims.iter().take(dims.len().saturating_sub(1));
    outer
        .map(|dim| {
            stride = stride.saturating_mul(*dim);
            stride
        })
        .collect()
}

fn is_map(argument: &ArgumentRef) -> bool {
    matches!(argument, ArgumentRef::TensorMap(_))
}

/// Positions of the named arguments among the plan's buffers, scalars and tensor maps; of all where `names` is
/// absent. The loader has refused names that do not exist.
fn argument_refs(kernel: &KernelSpec, names: Option<&[String]>) -> Vec<ArgumentRef> {
    let (mut buffers, mut scalars, mut maps) = (0, 0, 0);
    let mut all: Vec<(&str, ArgumentRef)> = Vec::new();
    for argument in &kernel.arguments {
        let (counter, make): (&mut usize, fn(usize) -> ArgumentRef) = match argument {
            ArgumentSpec::Buffer(_) => (&mut buffers, ArgumentRef::Buffer),
            ArgumentSpec::Scalar(_) => (&mut scalars, ArgumentRef::Scalar),
            ArgumentSpec::TensorMap(_) => (&mut maps, ArgumentRef::TensorMap),
        };
        all.push((argument.name(), make(*counter)));
        *counter += 1;
    }
    let find = |name: &String| all.iter().find(|(own, _)| own == name).map(|(_, place)| *place);
    match names {
        Some(names) => names.iter().filter_map(find).collect(),
        None => all.iter().map(|(_, place)| *place).collect(),
    }
}

/// The whole number that a value is, or why it is none.
pub(super) fn whole(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Bool(value) => Ok(i64::from(*value)),
        // 2^63 is exact as a float; what lies below it in size fits.
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0 => {
            Ok(*float as i64)
        }
        Value::Float(float) if float.is_finite() && float.fract() != 0.0 => {
            Err(format!("is {float}, not a whole number (hint: `//` divides whole numbers)"))
        }
        other => Err(format!("is {}, not a whole number of 64 bits", shown(other))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("the text `{text}`"),
        other => other.to_string(),
    }
}
