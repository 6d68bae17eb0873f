//! What is exported: the arguments, the launches and the sizes of one binary, with formulas in place of numbers.
//!
//! The launches are those that evo resolves for each problem, before sizes are known: loops stay loops. What the files
//! could not say is refused here, by its name in the space file.

use std::collections::BTreeSet;

use evo_kernel::identifiers::Identifiers;
use evo_kernel::spec::{
    ArgumentSpec, BufferSpec, FillSpec, KernelSpec, LaunchSpec, PassedSpec, ScalarSpec, SwizzleSpec,
    TensorMapSpec, TinySpec, swizzle_of,
};
use evo_protocol::binary::Specialization;
use evo_protocol::dtype::DType;
use evo_protocol::entry_name::EntryName;
use evo_protocol::plan::{Fill, Role};
use evo_protocol::tensor_map::{OutsideFill, Swizzle};
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use serde::Serialize;

use crate::translate::{ExportError, ExportFormula, Exported, FormulaNames, place};

/// Addresses of buffers are multiples of this: all gates saw such addresses, and no others.
pub const ALIGNMENT: u64 = 32;

/// What the code of a launch calls the parts of a tensor map, after its identifier.
const MAP_PARTS: &[&str] = &["_dims", "_strides", "_box"];

/// Words of the templates, and what further functions they use have for names.
const TAKEN: &str = "tensor_map map_encoder main std as assert async await def del elif except finally from global import \
    nonlocal pass raise with yield self print torch len list dict tuple range type exact Exact NoValue no_value \
    ceil_div floor_div floor_mod power absolute smallest largest is_true is_one_of first_false first_true to_whole \
    to_number value_of order sizes buffers launch launches shapes check result failure stream arguments given own \
    detail turn times address call evo_export bytes offset planned device counted";

/// Identifiers that the templates leave free.
pub(crate) fn identifiers() -> Identifiers {
    Identifiers::new(TAKEN)
}

/// Here and below a `name` is one of the space file and an `ident` one of the files.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExportModel {
    pub kernel: String,
    pub ident: String,
    pub sizes: Vec<SizeArgument>,
    /// Buffers of a call, in the order of the space file.
    pub buffers: Vec<BufferArgument>,
    pub scalars: Vec<ScalarArgument>,
    pub entries: Vec<EntryPoint>,
    pub steps: Vec<ExportStep>,
    pub conditions: ExportConditions,
    pub alignment: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeArgument {
    pub name: String,
    pub ident: String,
    /// The first buffer that has it as an extent, and which one: it need not be given where shapes are known.
    pub found_in: Option<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferArgument {
    pub name: String,
    pub ident: String,
    pub dtype: DType,
    pub cpp_type: &'static str,
    pub element_bytes: u64,
    /// Extents, outermost first.
    pub shape: Vec<ExportFormula>,
    pub role: Role,
    pub is_written: bool,
    /// What it has to hold before each call.
    pub constant: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalarArgument {
    pub name: String,
    pub ident: String,
    pub dtype: DType,
    pub cpp_type: &'static str,
    pub is_float: bool,
    pub value: ExportFormula,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntryPoint {
    pub name: String,
    pub address: String,
    pub symbol: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportStep {
    /// How often; once where absent.
    pub times: Option<ExportFormula>,
    /// Identifier of the counter that formulas read.
    pub index: Option<String>,
    /// Buffers that change places after each time, as identifiers.
    pub swap: Vec<[String; 2]>,
    pub launches: Vec<ExportLaunch>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportLaunch {
    pub entry: usize,
    pub when: Option<ExportFormula>,
    pub grid: Vec<ExportFormula>,
    pub block: Vec<ExportFormula>,
    pub shared_bytes: ExportFormula,
    pub cluster: Option<Vec<ExportFormula>>,
    pub cooperative: ExportFormula,
    /// Whether it may start before the launch before it ends.
    pub programmatic: ExportFormula,
    pub arguments: Vec<PassedArgument>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PassedArgument {
    Buffer {
        ident: String,
    },
    Scalar {
        ident: String,
        dtype: DType,
    },
    /// A number of this launch alone.
    Literal(ScalarArgument),
    /// A layout that the driver encodes for the address of a buffer.
    TensorMap(TensorMapArgument),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExportConditions {
    /// Sizes that are constants of the binary, by identifier.
    pub constants: Vec<(String, i64)>,
    pub multiples: Vec<(String, ExportFormula)>,
    /// The only sizes, in the order of the sizes, where the kernel supports no others.
    pub only: Option<Vec<Vec<i64>>>,
}

/// `symbol_of` gives an entry's symbol in the compiled kernel, `None` for that of its own name.
pub fn model(
    kernel: &KernelSpec,
    configuration: &Configuration,
    constants: &Specialization,
    symbol_of: &dyn Fn(&str) -> Option<String>,
) -> Exported<ExportModel> {
    if kernel.prepare.is_some() {
        let text = "`[prepare]` derives inputs by launches of the task's own, which an export does not carry";
        return Err(ExportError::not_exportable(text));
    }
    let mut identifiers = identifiers();
    let ident = identifiers.take(&kernel.name);
    let sizes = kernel.problems.first().into_iter().flat_map(|problem| problem.sizes.keys());
    let sizes: Vec<(String, String)> = sizes.map(|name| (name.clone(), identifiers.take(name))).collect();
    let constants: Vec<(String, i64)> =
        constants.iter().map(|(name, value)| (name.to_string(), value)).collect();
    let names = FormulaNames { configuration, constants: &constants, sizes: &sizes, turn: None };
    let model =
        ExportModel { kernel: kernel.name.clone(), ident, alignment: ALIGNMENT, ..ExportModel::default() };
    let mut builder = Builder { kernel, symbol_of, names, identifiers, maps: Vec::new(), model };
    for argument in &kernel.arguments {
        builder.argument(argument)?;
    }
    builder.steps()?;
    builder.conditions()?;
    let mut model = builder.model;
    let found_in = |name: &str| {
        let place = |(at, buffer): (usize, &BufferArgument)| {
            let axis = buffer.shape.iter().position(|extent| extent.source.trim() == name)?;
            (buffer.role != Role::Scratch).then_some((at, axis))
        };
        model.buffers.iter().enumerate().find_map(place)
    };
    let size = |(name, ident): &(String, String)| {
        let (name, ident, found_in) = (name.clone(), ident.clone(), found_in(name));
        SizeArgument { name, ident, found_in }
    };
    model.sizes = sizes.iter().map(size).collect();
    Ok(model)
}

struct Builder<'a> {
    kernel: &'a KernelSpec,
    symbol_of: &'a dyn Fn(&str) -> Option<String>,
    names: FormulaNames<'a>,
    identifiers: Identifiers,
    /// Name and identifier of each tensor map.
    maps: Vec<(String, String)>,
    model: ExportModel,
}

impl Builder<'_> {
    fn argument(&mut self, argument: &ArgumentSpec) -> Exported<()> {
        match argument {
            ArgumentSpec::Buffer(BufferSpec { name, symbol: Some(symbol), .. }) => {
                return Err(ExportError::not_exportable(format!(
                    "the argument `{name}` lies in the variable `{symbol}` of the module (`symbol`), and an export \
                     passes arguments only"
                )));
            }
            ArgumentSpec::Buffer(BufferSpec { name, dtype, shape, role, fill, .. }) => {
                let buffer = BufferArgument {
                    name: name.clone(),
                    ident: self.identifiers.take(name),
                    dtype: *dtype,
                    cpp_type: element_type(*dtype).0,
                    element_bytes: dtype.bytes(),
                    shape: self.names.wholes(shape, |axis| format!("shape[{axis}] of argument `{name}`"))?,
                    role: *role,
                    is_written: *role != Role::Input,
                    constant: match fill {
                        FillSpec::Fixed(Fill::Constant { value }) if !role.is_read() => Some(*value),
                        _ => None,
                    },
                };
                self.model.buffers.push(buffer);
            }
            ArgumentSpec::Scalar(spec) => {
                let ident = self.identifiers.take(&spec.name);
                let scalar = scalar(spec, ident, &self.names)?;
                self.model.scalars.push(scalar);
            }
            ArgumentSpec::TensorMap(map) => {
                let ident = self.identifiers.take_with(&map.name, MAP_PARTS);
                self.maps.push((map.name.clone(), ident));
            }
        }
        Ok(())
    }

    fn steps(&mut self) -> Exported<()> {
        let kernel = self.kernel;
        let bodies = kernel.launches.chunk_by(|a, b| a.in_loop.is_some() && a.in_loop == b.in_loop);
        for body in bodies {
            let turns = body[0].in_loop.and_then(|at| kernel.loops.get(at));
            let index = turns.and_then(|turns| turns.index.as_ref());
            let turn = index.map(|name| (name.clone(), self.identifiers.take(name)));
            let times = turns.map(|turns| self.names.whole(&turns.times, &place("repeat", &body[0])));
            let times = times.transpose()?;
            let names = FormulaNames { turn: turn.clone(), ..self.names.clone() };
            let mut launches = Vec::new();
            for launch in body {
                launches.extend(self.launch(launch, &names)?);
            }
            let ident = |name: &String| self.buffer(name).map_or(name, |buffer| &buffer.ident).clone();
            let swap = turns.iter().flat_map(|turns| &turns.swap);
            let swap = swap.map(|pair| pair.each_ref().map(ident)).collect();
            if !launches.is_empty() || turns.is_some() {
                let index = turn.map(|(_, ident)| ident);
                self.model.steps.push(ExportStep { times, index, swap, launches });
            }
        }
        Ok(())
    }

    fn buffer(&self, name: &str) -> Option<&BufferArgument> {
        self.model.buffers.iter().find(|buffer| buffer.name == name)
    }

    fn launch(&mut self, launch: &LaunchSpec, names: &FormulaNames<'_>) -> Exported<Option<ExportLaunch>> {
        let condition = |expr: &Option<Expr>, key: &str, absent: bool| match expr {
            Some(expr) => names.condition(expr, &place(key, launch)),
            None => Ok(ExportFormula::truth(absent)),
        };
        let when = condition(&launch.when, "when", true)?;
        if when.known == Some(0) {
            return Ok(None);
        }
        if let Some(window) = &launch.l2_persist {
            let ratio = names.whole(&window.ratio, &place("ratio of `l2_persist`", launch));
            if ratio.ok().and_then(|ratio| ratio.known) != Some(0) {
                let (place, argument) = (place("`l2_persist`", launch), &window.argument);
                let text =
                    format!("{place} keeps `{argument}` in the L2 cache, which an export does not ask for");
                return Err(ExportError::not_exportable(text));
            }
        }
        let extents = |list: &[Expr], key: &str| {
            let list = &list[..list.len().min(3)];
            let mut extents = names.wholes(list, |axis| place(&format!("{key}[{axis}]"), launch))?;
            extents.resize(3, ExportFormula::fixed(1));
            Ok::<Vec<ExportFormula>, ExportError>(extents)
        };
        let shared = |expr| names.whole(expr, &place("shared_bytes", launch));
        Ok(Some(ExportLaunch {
            when: when.known.is_none().then_some(when),
            grid: extents(&launch.grid, "grid")?,
            block: extents(&launch.block, "block")?,
            shared_bytes: launch.shared_bytes.as_ref().map_or(Ok(ExportFormula::fixed(0)), shared)?,
            cluster: launch.cluster.as_ref().map(|list| extents(list, "cluster")).transpose()?,
            cooperative: condition(&launch.cooperative, "cooperative", false)?,
            programmatic: condition(&launch.programmatic, "programmatic", false)?,
            arguments: self.passed(launch, names)?,
            entry: self.entry(&launch.entry)?,
        }))
    }

    fn passed(&self, launch: &LaunchSpec, names: &FormulaNames<'_>) -> Exported<Vec<PassedArgument>> {
        let mut passed: Vec<PassedArgument> = Vec::new();
        let Some(given) = &launch.arguments else {
            for argument in &self.kernel.arguments {
                passed.extend(self.named(argument.name())?);
            }
            return Ok(passed);
        };
        for (at, spec) in given.iter().enumerate() {
            match spec {
                PassedSpec::Named(name) => {
                    let mut argument = self.named(name)?;
                    if let Some(PassedArgument::TensorMap(map)) = &mut argument {
                        // Its variables stand before the launch once.
                        map.is_again = passed.iter().any(
                            |other| matches!(other, PassedArgument::TensorMap(other) if other.ident == map.ident),
                        );
                    }
                    passed.extend(argument);
                }
                PassedSpec::Literal(spec) => {
                    passed.push(PassedArgument::Literal(scalar(spec, format!("literal_{at}"), names)?));
                }
            }
        }
        Ok(passed)
    }

    fn named(&self, name: &str) -> Exported<Option<PassedArgument>> {
        if let Some(buffer) = self.buffer(name) {
            return Ok(Some(PassedArgument::Buffer { ident: buffer.ident.clone() }));
        }
        if let Some(scalar) = self.model.scalars.iter().find(|scalar| scalar.name == name) {
            return Ok(Some(PassedArgument::Scalar { ident: scalar.ident.clone(), dtype: scalar.dtype }));
        }
        let Some(map) = self.kernel.tensor_maps().find(|map| map.name == name) else { return Ok(None) };
        let ident = self.maps.iter().find(|(own, _)| own == name).map(|(_, ident)| ident.clone());
        let buffer = self.buffer(&map.of).ok_or_else(|| {
            ExportError::not_exportable(format!("`{name}` is a tensor map of no known buffer"))
        })?;
        let list = |key: &str, list: &[Expr]| {
            self.names.wholes(list, |axis| format!("{key}[{axis}] of argument `{name}`"))
        };
        let swizzle = swizzle(map, &self.names)?;
        Ok(Some(PassedArgument::TensorMap(TensorMapArgument {
            name: map.name.clone(),
            ident: ident.unwrap_or_default(),
            is_again: false,
            of: buffer.ident.clone(),
            data_type: element_type(buffer.dtype).1,
            element_bytes: buffer.element_bytes,
            dims: list("dims", &map.dims)?,
            strides: map.strides.as_ref().map(|strides| list("strides", strides)).transpose()?,
            extents: list("box", &map.extents)?,
            swizzle: swizzle as u32,
            span: swizzle.span(),
            fill: u32::from(map.fill == OutsideFill::Nan),
        })))
    }

    fn entry(&mut self, name: &str) -> Exported<usize> {
        let entries = &mut self.model.entries;
        if let Some(at) = entries.iter().position(|entry| entry.name == name) {
            return Ok(at);
        }
        let parsed = EntryName::parse(name).ok_or_else(|| {
            ExportError::not_exportable(format!("the entry `{name}` is not a function's name"))
        })?;
        let function = format!("::{}", parsed.function.trim_start_matches("::"));
        let address = EntryName { function: &function, ..parsed }.expression();
        let symbol = (self.symbol_of)(name).unwrap_or_else(|| name.to_string());
        entries.push(EntryPoint { name: name.to_string(), address, symbol });
        Ok(entries.len() - 1)
    }

    fn conditions(&mut self) -> Exported<()> {
        let ident = |name: &str| {
            self.names.sizes.iter().find(|(size, _)| size == name).map(|(_, ident)| ident.clone())
        };
        let constants = self.names.constants.iter().filter_map(|(name, value)| Some((ident(name)?, *value)));
        let mut multiples = Vec::new();
        for (name, expr) in &self.kernel.check.multiple_of {
            let Some(ident) = ident(name) else { continue };
            multiples.push((ident, self.names.whole(expr, &format!("multiple_of.{name}"))?));
        }
        let only = matches!(self.kernel.check.tiny, TinySpec::None).then(|| {
            let problems = self.kernel.problems.iter();
            let sizes =
                problems.map(|own| own.sizes.values().map(|size| size.as_int().unwrap_or(0)).collect());
            sizes.collect::<BTreeSet<Vec<i64>>>().into_iter().collect()
        });
        self.model.conditions = ExportConditions { constants: constants.collect(), multiples, only };
        Ok(())
    }
}

fn scalar(spec: &ScalarSpec, ident: String, names: &FormulaNames<'_>) -> Exported<ScalarArgument> {
    let ScalarSpec { name, dtype, value, .. } = spec;
    if matches!(dtype, DType::F16 | DType::Bf16) {
        return Err(ExportError::not_exportable(format!(
            "the scalar `{name}` is passed as `{}`, and exports pass whole numbers, f32 and f64",
            dtype.as_str()
        )));
    }
    let place = format!("value of argument `{name}`");
    let is_float = dtype.is_float();
    let value = if is_float { names.number(value, &place) } else { names.whole(value, &place) }?;
    let (name, cpp_type) = (name.clone(), element_type(*dtype).0);
    Ok(ScalarArgument { name, ident, dtype: *dtype, cpp_type, is_float, value })
}

/// What C++ calls elements, and the driver's number of their type (`CUtensorMapDataType`, CUDA driver API). It has none for
/// signed integers of 8 and 16 bits, whose bits a copy moves as those of unsigned ones.
pub(crate) fn element_type(dtype: DType) -> (&'static str, u32) {
    match dtype {
        DType::F16 => ("__half", 6),
        DType::Bf16 => ("__nv_bfloat16", 9),
        DType::F32 => ("float", 7),
        DType::F64 => ("double", 8),
        DType::I8 => ("int8_t", 0),
        DType::I16 => ("int16_t", 1),
        DType::I32 => ("int32_t", 3),
        DType::I64 => ("int64_t", 5),
        DType::U8 => ("uint8_t", 0),
        DType::U16 => ("uint16_t", 1),
        DType::U32 => ("uint32_t", 2),
        DType::U64 => ("uint64_t", 4),
    }
}

/// The descriptor of a GPU's copy engine (TMA), which the driver encodes for the address that a buffer has in a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorMapArgument {
    pub name: String,
    pub ident: String,
    /// The same launch has received it before.
    pub is_again: bool,
    pub of: String,
    /// The driver's number of the element type (`CUtensorMapDataType`).
    pub data_type: u32,
    pub element_bytes: u64,
    /// Extents of the tensor in elements, innermost first.
    pub dims: Vec<ExportFormula>,
    /// Distances in elements, of each dimension but the first; dense where absent.
    pub strides: Option<Vec<ExportFormula>>,
    pub extents: Vec<ExportFormula>,
    /// The driver's number of the swizzle (`CUtensorMapSwizzle`).
    pub swizzle: u32,
    /// Most bytes of a box in the inner dimension; 0 for any number.
    pub span: i64,
    /// The driver's number of what is read outside (`CUtensorMapFloatOOBfill`).
    pub fill: u32,
}

fn swizzle(map: &TensorMapSpec, names: &FormulaNames<'_>) -> Exported<Swizzle> {
    let expr = match &map.swizzle {
        SwizzleSpec::Fixed(swizzle) => return Ok(*swizzle),
        SwizzleSpec::Chosen(expr) => expr,
    };
    let known = names.known(expr, &format!("swizzle of argument `{}`", map.name))?;
    known.as_ref().and_then(swizzle_of).ok_or_else(|| {
        ExportError::not_exportable(format!(
            "the swizzle of the tensor map `{}` depends on sizes, and an export has one for all of them",
            map.name
        ))
    })
}
