//! What is exported: the arguments, the launches and the sizes of one binary, with formulas in place of numbers.
//!
//! The launches are those that evo resolves for each problem, before sizes are known: loops stay loops. What the files
//! could not say is refused here, by its name in the space file.

use evo_kernel::spec::{
    ArgumentSpec, BufferSpec, FillSpec, KernelSpec, LaunchSpec, PassedSpec, ScalarSpec, TensorMapSpec,
    TinySpec,
};
use evo_protocol::dtype::DType;
use evo_protocol::entry_name::EntryName;
use evo_protocol::plan::{Fill, Role};
use evo_protocol::specialization::Specialization;
use evo_space::genome::Configuration;
use serde::Serialize;

use crate::error::ExportError;
use crate::formula::{ExportFormula, FormulaNames, Truth, place};
use crate::names::Identifiers;
use crate::tensor_map::{DescribedBuffer, TensorMapArgument};

/// Addresses of buffers are multiples of this: all gates saw such addresses, and no others.
pub const ALIGNMENT: u64 = 32;

/// What the code of a launch calls the parts of a tensor map, after its identifier.
const MAP_PARTS: &[&str] = &["_dims", "_strides", "_box"];

/// Here and below a `name` is one of the space file and an `ident` one of the files.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// `f32`.
    pub dtype: &'static str,
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
    pub dtype: &'static str,
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
    /// Position among the entries.
    pub entry: usize,
    pub when: Option<ExportFormula>,
    pub grid: Vec<ExportFormula>,
    pub block: Vec<ExportFormula>,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: ExportFormula,
    pub cluster: Option<Vec<ExportFormula>>,
    /// C++ and Python for whether all blocks have to be resident at once.
    pub cooperative: Flag,
    /// The same for whether it may start before the launch before it ends.
    pub programmatic: Flag,
    pub arguments: Vec<PassedArgument>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flag {
    pub cpp: String,
    pub python: String,
    pub is_never: bool,
}

/// What a kernel receives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PassedArgument {
    /// A buffer, by its identifier.
    Buffer { ident: String },
    /// One of the scalars, by its identifier.
    Scalar { ident: String, dtype: &'static str },
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

#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    pub kernel: &'a KernelSpec,
    pub configuration: &'a Configuration,
    pub constants: &'a Specialization,
    pub symbols: &'a dyn Symbols,
}

pub trait Symbols: std::fmt::Debug {
    /// The symbol; `None` for that of the entry's own name.
    fn symbol_of(&self, entry: &str) -> Option<String>;
}

pub fn model(request: &ModelRequest<'_>) -> Result<ExportModel, ExportError> {
    let kernel = request.kernel;
    refuse_whole(kernel)?;
    let mut identifiers = Identifiers::default();
    let ident = identifiers.take(&kernel.name);
    let size_names: Vec<String> =
        kernel.problems.first().map(|own| own.sizes.keys().cloned().collect()).unwrap_or_default();
    let sizes: Vec<(String, String)> =
        size_names.into_iter().map(|name| (name.clone(), identifiers.take(&name))).collect();
    let constants: Vec<(String, i64)> =
        request.constants.iter().map(|(name, value)| (name.to_string(), value)).collect();
    let names = FormulaNames {
        configuration: request.configuration,
        constants: &constants,
        sizes: &sizes,
        turn: None,
    };
    let mut builder = Builder {
        request,
        names,
        identifiers,
        buffers: Vec::new(),
        scalars: Vec::new(),
        maps: Vec::new(),
        entries: Vec::new(),
    };
    builder.arguments()?;
    let steps = builder.steps()?;
    let conditions = builder.conditions()?;
    let Builder { buffers, scalars, entries, .. } = builder;
    let found_in = |name: &str| {
        let place = |(at, own): (usize, &BufferArgument)| {
            own.shape.iter().position(|extent| extent.source.trim() == name).map(|axis| (at, axis))
        };
        buffers.iter().enumerate().filter(|(_, own)| own.role != Role::Scratch).find_map(place)
    };
    let sizes = sizes.iter().map(|(name, ident)| SizeArgument {
        name: name.clone(),
        ident: ident.clone(),
        found_in: found_in(name),
    });
    let sizes = sizes.collect();
    Ok(ExportModel {
        kernel: kernel.name.clone(),
        ident,
        sizes,
        buffers,
        scalars,
        entries,
        steps,
        conditions,
        alignment: ALIGNMENT,
    })
}

fn refuse_whole(kernel: &KernelSpec) -> Result<(), ExportError> {
    if kernel.prepare.is_some() {
        let text = "`[prepare]` derives inputs by launches of the task's own, which an export does not carry";
        return Err(ExportError::not_exportable(text));
    }
    for argument in &kernel.arguments {
        match argument {
            ArgumentSpec::Buffer(BufferSpec { name, symbol: Some(symbol), .. }) => {
                return Err(ExportError::not_exportable(format!(
                    "the argument `{name}` lies in the variable `{symbol}` of the module (`symbol`), and an export \
                     passes arguments only"
                )));
            }
            ArgumentSpec::Buffer(_) | ArgumentSpec::Scalar(_) | ArgumentSpec::TensorMap(_) => {}
        }
    }
    Ok(())
}

struct Builder<'a> {
    request: &'a ModelRequest<'a>,
    names: FormulaNames<'a>,
    identifiers: Identifiers,
    buffers: Vec<BufferArgument>,
    scalars: Vec<ScalarArgument>,
    /// Name and identifier of each tensor map.
    maps: Vec<(String, String)>,
    entries: Vec<EntryPoint>,
}

impl Builder<'_> {
    fn arguments(&mut self) -> Result<(), ExportError> {
        for argument in &self.request.kernel.arguments {
            match argument {
                ArgumentSpec::Buffer(own) => {
                    let buffer = self.buffer(own)?;
                    self.buffers.push(buffer);
                }
                ArgumentSpec::Scalar(own) => {
                    let ident = self.identifiers.take(&own.name);
                    let scalar = self.scalar(own, ident, &self.names)?;
                    self.scalars.push(scalar);
                }
                ArgumentSpec::TensorMap(own) => {
                    let ident = self.identifiers.take_with(&own.name, MAP_PARTS);
                    self.maps.push((own.name.clone(), ident));
                }
            }
        }
        Ok(())
    }

    fn buffer(&mut self, own: &BufferSpec) -> Result<BufferArgument, ExportError> {
        let extent =
            |(axis, expr)| self.names.whole(expr, &format!("shape[{axis}] of argument `{}`", own.name));
        let shape =
            own.shape.iter().enumerate().map(extent).collect::<Result<Vec<ExportFormula>, ExportError>>()?;
        let constant = match own.fill {
            FillSpec::Fixed(Fill::Constant { value }) if !own.role.is_read() => Some(value),
            _ => None,
        };
        Ok(BufferArgument {
            name: own.name.clone(),
            ident: self.identifiers.take(&own.name),
            dtype: own.dtype.as_str(),
            cpp_type: cpp_type(own.dtype),
            element_bytes: own.dtype.bytes(),
            shape,
            role: own.role,
            is_written: own.role != Role::Input,
            constant,
        })
    }

    fn scalar(
        &self,
        own: &ScalarSpec,
        ident: String,
        names: &FormulaNames<'_>,
    ) -> Result<ScalarArgument, ExportError> {
        if matches!(own.dtype, DType::F16 | DType::Bf16) {
            return Err(ExportError::not_exportable(format!(
                "the scalar `{}` is passed as `{}`, and exports pass whole numbers, f32 and f64",
                own.name,
                own.dtype.as_str()
            )));
        }
        let place = format!("value of argument `{}`", own.name);
        let is_float = own.dtype.is_float();
        let value =
            if is_float { names.number(&own.value, &place) } else { names.whole(&own.value, &place) }?;
        let (dtype, cpp_type) = (own.dtype.as_str(), cpp_type(own.dtype));
        Ok(ScalarArgument { name: own.name.clone(), ident, dtype, cpp_type, is_float, value })
    }

    fn steps(&mut self) -> Result<Vec<ExportStep>, ExportError> {
        let kernel = self.request.kernel;
        let mut steps = Vec::new();
        let bodies = kernel.launches.chunk_by(|a, b| a.in_loop.is_some() && a.in_loop == b.in_loop);
        for body in bodies {
            let own = body[0].in_loop.and_then(|at| kernel.loops.get(at));
            let index = own.and_then(|own| own.index.clone()).map(|name| {
                let ident = self.identifiers.take(&name);
                (name, ident)
            });
            let times =
                own.map(|own| self.names.whole(&own.times, &place("repeat", &body[0]))).transpose()?;
            let FormulaNames { configuration, constants, sizes, .. } = self.names;
            let names = FormulaNames { configuration, constants, sizes, turn: index.clone() };
            let mut launches = Vec::new();
            for launch in body {
                launches.extend(self.launch(launch, &names)?);
            }
            let swap =
                own.map(|own| own.swap.iter().map(|pair| self.pair(pair)).collect()).unwrap_or_default();
            if !launches.is_empty() || own.is_some() {
                steps.push(ExportStep { times, index: index.map(|(_, ident)| ident), swap, launches });
            }
        }
        Ok(steps)
    }

    fn pair(&self, pair: &[String; 2]) -> [String; 2] {
        pair.clone().map(|name| self.ident_of(&name).unwrap_or(name))
    }

    fn ident_of(&self, name: &str) -> Option<String> {
        self.buffers.iter().find(|own| own.name == name).map(|own| own.ident.clone())
    }

    fn launch(
        &mut self,
        own: &LaunchSpec,
        names: &FormulaNames<'_>,
    ) -> Result<Option<ExportLaunch>, ExportError> {
        let when = match names.condition(own.when.as_ref(), &place("when", own))? {
            Truth::Never => return Ok(None),
            Truth::Always => None,
            Truth::Sometimes(formula) => Some(formula),
        };
        if let Some(window) = &own.l2_persist {
            let ratio = names.whole(&window.ratio, &place("ratio of `l2_persist`", own));
            if ratio.ok().and_then(|own| own.known) != Some(0) {
                let text = format!(
                    "{} keeps `{}` in the L2 cache, which an export does not ask for",
                    place("`l2_persist`", own),
                    window.argument
                );
                return Err(ExportError::not_exportable(text));
            }
        }
        let extents = |list: &[evo_space::Expr], key: &str| {
            let one = |(axis, expr)| names.whole(expr, &place(&format!("{key}[{axis}]"), own));
            let mut found = list
                .iter()
                .take(3)
                .enumerate()
                .map(one)
                .collect::<Result<Vec<ExportFormula>, ExportError>>()?;
            while found.len() < 3 {
                found.push(one_of(1));
            }
            Ok::<Vec<ExportFormula>, ExportError>(found)
        };
        let flag = |expr: &Option<evo_space::Expr>, key: &str| {
            let Some(expr) = expr else { return Ok(Flag::fixed(false)) };
            Ok(match names.condition(Some(expr), &place(key, own))? {
                Truth::Always => Flag::fixed(true),
                Truth::Never => Flag::fixed(false),
                Truth::Sometimes(own) => Flag { cpp: own.cpp, python: own.python, is_never: false },
            })
        };
        let shared = own.shared_bytes.as_ref().map(|expr| names.whole(expr, &place("shared_bytes", own)));
        Ok(Some(ExportLaunch {
            when,
            grid: extents(&own.grid, "grid")?,
            block: extents(&own.block, "block")?,
            shared_bytes: shared.transpose()?.unwrap_or_else(|| one_of(0)),
            cluster: own.cluster.as_ref().map(|list| extents(list, "cluster")).transpose()?,
            cooperative: flag(&own.cooperative, "cooperative")?,
            programmatic: flag(&own.programmatic, "programmatic")?,
            arguments: self.passed(own, names)?,
            entry: self.entry(&own.entry)?,
        }))
    }

    fn passed(
        &self,
        launch: &LaunchSpec,
        names: &FormulaNames<'_>,
    ) -> Result<Vec<PassedArgument>, ExportError> {
        let kernel = self.request.kernel;
        let Some(passed) = &launch.arguments else {
            let all = kernel.arguments.iter();
            let all = all.filter_map(|own| self.named(own.name()).transpose());
            return all.collect();
        };
        let mut found = Vec::new();
        for (at, own) in passed.iter().enumerate() {
            match own {
                PassedSpec::Named(name) => {
                    let mut own = self.named(name)?;
                    if let Some(PassedArgument::TensorMap(map)) = &mut own {
                        // Its variables stand before the launch once.
                        map.is_again = found.iter().any(|other| is_map(other, &map.ident));
                    }
                    found.extend(own);
                }
                PassedSpec::Literal(scalar) => {
                    found.push(PassedArgument::Literal(self.scalar(
                        scalar,
                        format!("literal_{at}"),
                        names,
                    )?));
                }
            }
        }
        Ok(found)
    }

    fn named(&self, name: &str) -> Result<Option<PassedArgument>, ExportError> {
        if let Some(ident) = self.ident_of(name) {
            return Ok(Some(PassedArgument::Buffer { ident }));
        }
        let maps = self.request.kernel.arguments.iter().filter_map(|own| match own {
            ArgumentSpec::TensorMap(map) => Some(map),
            ArgumentSpec::Buffer(_) | ArgumentSpec::Scalar(_) => None,
        });
        if let Some(map) = maps.into_iter().find(|own| own.name == name) {
            return self.tensor_map(map).map(Some);
        }
        let scalar = self.scalars.iter().find(|own| own.name == name);
        Ok(scalar.map(|own| PassedArgument::Scalar { ident: own.ident.clone(), dtype: own.dtype }))
    }

    fn tensor_map(&self, map: &TensorMapSpec) -> Result<PassedArgument, ExportError> {
        let ident = self.maps.iter().find(|(name, _)| *name == map.name).map(|(_, ident)| ident.clone());
        let buffer = self.buffers.iter().find(|own| own.name == map.of);
        let buffer = buffer.ok_or_else(|| {
            ExportError::not_exportable(format!("`{}` is a tensor map of no known buffer", map.name))
        })?;
        let BufferArgument { ident: of, dtype, element_bytes, .. } = buffer;
        let buffer = DescribedBuffer { ident: of, dtype, element_bytes: *element_bytes };
        TensorMapArgument::of(map, ident.unwrap_or_default(), &buffer, &self.names)
            .map(PassedArgument::TensorMap)
    }

    fn entry(&mut self, name: &str) -> Result<usize, ExportError> {
        if let Some(at) = self.entries.iter().position(|own| own.name == name) {
            return Ok(at);
        }
        let Some(parsed) = EntryName::parse(name) else {
            return Err(ExportError::not_exportable(format!("the entry `{name}` is not a function's name")));
        };
        let function = format!("::{}", parsed.function.trim_start_matches("::"));
        let address = EntryName { function: &function, ..parsed }.expression();
        let symbol = self.request.symbols.symbol_of(name).unwrap_or_else(|| name.to_string());
        self.entries.push(EntryPoint { name: name.to_string(), address, symbol });
        Ok(self.entries.len() - 1)
    }

    fn conditions(&self) -> Result<ExportConditions, ExportError> {
        let check = &self.request.kernel.check;
        let ident =
            |name: &str| self.names.sizes.iter().find(|(own, _)| own == name).map(|(_, ident)| ident.clone());
        let constants = self.names.constants.iter().filter_map(|(name, value)| Some((ident(name)?, *value)));
        let mut multiples = Vec::new();
        for (name, expr) in &check.multiple_of {
            let Some(ident) = ident(name) else { continue };
            multiples.push((ident, self.names.whole(expr, &format!("multiple_of.{name}"))?));
        }
        let only = matches!(check.tiny, TinySpec::None).then(|| {
            let problems = self.request.kernel.problems.iter();
            let mut all: Vec<Vec<i64>> = problems
                .map(|own| own.sizes.values().map(|value| value.as_int().unwrap_or(0)).collect())
                .collect();
            all.sort();
            all.dedup();
            all
        });
        Ok(ExportConditions { constants: constants.collect(), multiples, only })
    }
}

impl Flag {
    fn fixed(value: bool) -> Flag {
        let python = if value { "True" } else { "False" };
        Flag { cpp: value.to_string(), python: python.to_string(), is_never: !value }
    }
}

fn is_map(own: &PassedArgument, ident: &str) -> bool {
    matches!(own, PassedArgument::TensorMap(map) if map.ident == ident)
}

fn one_of(value: i64) -> ExportFormula {
    ExportFormula {
        source: value.to_string(),
        cpp: value.to_string(),
        python: value.to_string(),
        known: Some(value),
    }
}

fn cpp_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "__half",
        DType::Bf16 => "__nv_bfloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::U8 => "uint8_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
    }
}
