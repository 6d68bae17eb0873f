//! `evo selftest device`: every call of the `Device` trait against known answers.

use std::error::Error;

use evo_device::device::{
    BoundArgument, BoundLaunch, BufferId, CopiedPart, Device, ModuleId, SampleOrder, Tolerance, VariableState,
};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind};
use evo_protocol::dtype::DType::{self, Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;

use super::bench::{SelftestReport, open_device, probe_image};
use crate::cli::{DeviceSetup, Result};
use crate::timing::stats;

const PROBES: &str = include_str!("probes.cu");
const ENTRIES: [&str; 6] = ["affine", "increment", "stray", "shared_sum", "remember", "crash"];

type Answer = Result<String, Box<dyn Error>>;

/// Runs all checks. The last one poisons a CUDA context, so the process should end afterwards.
pub fn run(setup: &DeviceSetup) -> Result<(DeviceInfo, SelftestReport)> {
    let entries = ENTRIES.map(String::from);
    let (image, hash) = probe_image(setup, PROBES, entries.to_vec())?;
    let mut device = open_device(setup)?;
    let (info, mut report) = (device.info().clone(), SelftestReport::default());
    let bench = &mut DeviceBench { device: device.as_mut(), buffers: Vec::new(), image, hash, module: None };
    for (name, not_on_host, check) in CHECKS {
        if info.kind == DeviceKind::Cuda || not_on_host.is_empty() {
            report.add(name, bench.checked(*check));
        } else {
            report.skip(name, not_on_host);
        }
    }
    Ok((info, report))
}

type Check = fn(&mut DeviceBench<'_>) -> Answer;

/// Each with why it says nothing on the host, if so.
const CHECKS: &[(&str, &str, Check)] = &[
    ("copy_round_trip", "", round_trip),
    ("fill_and_count", "", fill_and_count),
    ("hash", "", hashes),
    ("compare", "", compares),
    ("echo", "", echo),
    ("module_variables", "", module_variables),
    ("launch_in_order", "", launch_in_order),
    ("attributes", "", attributes),
    ("dynamic_shared_memory", "", dynamic_shared),
    ("too_much_shared_memory", "", too_much_shared),
    ("sampling", "", sampling),
    ("launch_attributes", "asked of a GPU alone", launch_attributes),
    ("guard_zones", "the host's guards are unmapped pages; its own tests fault on them", guard_zones),
    ("missing_entry", "asked of a GPU alone", missing_entry),
    ("memory_returns", "asked of a GPU alone", memory_returns),
    ("sticky_error", "a crash ends a host worker; its own tests show it", sticky_error),
];

struct DeviceBench<'a> {
    device: &'a mut dyn Device,
    buffers: Vec<BufferId>,
    /// The probes, with `hash` as their variant's hash.
    image: Vec<u8>,
    hash: ContentHash,
    module: Option<ModuleId>,
}

impl DeviceBench<'_> {
    fn checked(&mut self, check: impl FnOnce(&mut Self) -> Answer) -> Answer {
        let answer = check(self);
        let freed = self.buffers.drain(..).try_for_each(|buffer| self.device.free(buffer));
        let answer = answer?;
        freed?;
        Ok(answer)
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let buffer = self.device.allocate(name, bytes)?;
        self.buffers.push(buffer);
        Ok(buffer)
    }

    fn holding(&mut self, name: &str, bytes: &[u8]) -> Result<BufferId, DeviceError> {
        let buffer = self.allocate(name, bytes.len() as u64)?;
        self.device.write(buffer, bytes)?;
        Ok(buffer)
    }

    fn floats(&mut self, buffer: BufferId) -> Result<Vec<f32>, DeviceError> {
        let bytes = self.device.read(buffer)?;
        Ok(bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    /// The probes' module, loaded when it is first asked for.
    fn module(&mut self) -> Result<ModuleId, DeviceError> {
        let loaded =
            self.module.map_or_else(|| self.device.load(&self.image, &ENTRIES.map(String::from)), Ok);
        self.module = loaded.as_ref().ok().copied();
        loaded
    }

    fn launch(&mut self, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let module = self.module()?;
        self.device.launch(module, launches)?;
        self.device.synchronize()
    }
}

fn demand(holds: bool, message: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.into()) }
}

fn round_trip(bench: &mut DeviceBench<'_>) -> Answer {
    let sizes = [1usize, 3, 5, 256, 65_537, 1_000_003];
    for size in sizes {
        let data: Vec<u8> = (0..size).map(|index| (index * 31 % 251) as u8).collect();
        let (buffer, twin) = (bench.holding("data", &data)?, bench.allocate("twin", size as u64)?);
        let device = &mut *bench.device;
        demand(device.read(buffer)? == data, format!("{size} bytes came back changed"))?;
        device.copy(buffer, twin)?;
        demand(device.read(twin)? == data, format!("{size} bytes were copied wrongly"))?;
        demand(device.write_at(twin, size as u64, &[1]).is_err(), "a byte was written behind a buffer")?;
        let middle = size / 2;
        device.write_at(twin, middle as u64, &data[..size - middle])?;
        let parts = [&data[..middle], &data[..size - middle]].concat();
        demand(device.read(twin)? == parts, format!("part of {size} bytes was written elsewhere"))?;
        let (half, rest) = (middle as u64, (size - middle) as u64);
        device.copy_part(buffer, twin, CopiedPart { source: half, target: 0, bytes: rest })?;
        device.copy_part(buffer, twin, CopiedPart { source: 0, target: rest, bytes: half })?;
        let beyond = CopiedPart { source: 0, target: 1, bytes: size as u64 };
        demand(device.copy_part(buffer, twin, beyond).is_err(), "a copy reached behind a buffer")?;
        let turned = [&data[middle..], &data[..middle]].concat();
        demand(device.read(twin)? == turned, format!("{size} bytes were turned wrongly"))?;
    }
    Ok(format!("{} sizes, the odd ones too", sizes.len()))
}

fn fill_and_count(bench: &mut DeviceBench<'_>) -> Answer {
    let pattern = 0x1234_5678;
    for (dtype, elements) in [(U8, 1003u64), (F16, 1001), (F32, 999), (F64, 501)] {
        let name = dtype.as_str();
        let buffer = bench.allocate("data", elements * dtype.bytes())?;
        bench.device.fill(buffer, pattern)?;
        let count = bench.device.count_pattern(buffer, dtype, pattern)?;
        demand(count == elements, format!("{name}: {count} of {elements} hold the pattern"))?;
        bench.device.write(buffer, &vec![0xffu8; dtype.bytes() as usize * 7])?;
        let count = bench.device.count_pattern(buffer, dtype, pattern)?;
        demand(count == elements - 7, format!("{name}: {count} left after seven were written"))?;
    }
    Ok("element sizes 1, 2, 4 and 8".into())
}

fn hashes(bench: &mut DeviceBench<'_>) -> Answer {
    let mut data = vec![7u8; 100_003];
    let buffer = bench.holding("a", &data)?;
    let base = bench.device.hash(buffer)?;
    demand(bench.device.hash(buffer)? == base, "the same contents hash differently")?;
    for position in [0usize, 1, 4_096, 99_999, 100_002] {
        data[position] ^= 1;
        bench.device.write(buffer, &data)?;
        demand(bench.device.hash(buffer)? != base, format!("a change at byte {position} is not seen"))?;
        data[position] ^= 1;
    }
    Ok("repeats, and sees single-bit changes".into())
}

fn compares(bench: &mut DeviceBench<'_>) -> Answer {
    let expected: Vec<f64> = (0..50_001).map(|index| f64::from(index % 97) - 48.0).collect();
    let reference = bench.holding("expected", &stored(&expected, F64))?;
    let mut actual = expected.clone();
    let tolerance = Tolerance { atol: 0.25, rtol: 0.0 };
    let buffer = bench.holding("actual", &stored(&actual, F32))?;
    let clean = bench.device.compare(buffer, F32, reference, tolerance)?;
    demand(clean.mismatches == 0 && clean.abs_error_max == 0.0, format!("equal values differ: {clean:?}"))?;
    actual[123] += 0.125;
    actual[40_000] -= 4.0;
    actual[45_000] = f64::NAN;
    actual[50_000] = f64::INFINITY;
    bench.device.write(buffer, &stored(&actual, F32))?;
    let found = bench.device.compare(buffer, F32, reference, tolerance)?;
    let facts = (found.mismatches, found.non_finite, found.first_bad(), found.abs_error_max_index);
    demand(facts == (3, 2, Some(40_000), 40_000), format!("planted errors read as {found:?}"))?;
    demand(found.abs_error_max == 4.0 && found.first_bad_actual == actual[40_000], "values differ")?;
    let narrow = bench.holding("halves", &stored(&expected, F16))?;
    let same = bench.device.compare(narrow, F16, reference, tolerance)?;
    demand(same.mismatches == 0, format!("halves differ: {same:?}"))?;
    every_type(bench)?;
    Ok("planted errors, NaN and infinity found where they are, in every data type".into())
}

/// Values as a buffer of a data type that can hold them has them.
fn stored(values: &[f64], dtype: DType) -> Vec<u8> {
    let bytes = |value: &f64| match dtype {
        F16 => half::f16::from_f64(*value).to_bits().to_le_bytes().to_vec(),
        Bf16 => half::bf16::from_f64(*value).to_bits().to_le_bytes().to_vec(),
        F32 => (*value as f32).to_le_bytes().to_vec(),
        F64 => value.to_le_bytes().to_vec(),
        I8 | U8 => vec![*value as u8],
        I16 | U16 => (*value as u16).to_le_bytes().to_vec(),
        I32 | U32 => (*value as u32).to_le_bytes().to_vec(),
        I64 | U64 => (*value as u64).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(bytes).collect()
}

/// Small values that every data type holds: equal ones, and one that is off.
fn every_type(bench: &mut DeviceBench<'_>) -> Result<(), Box<dyn Error>> {
    let values: Vec<f64> = (0..1_003).map(|index| f64::from(index % 101)).collect();
    let tolerance = Tolerance { atol: 0.5, rtol: 0.0 };
    let expected = bench.holding("expected", &stored(&values, F64))?;
    for dtype in [F16, Bf16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64] {
        let name = dtype.as_str();
        let mut actual = values.clone();
        let buffer = bench.holding("actual", &stored(&actual, dtype))?;
        let same = bench.device.compare(buffer, dtype, expected, tolerance)?;
        demand(same.mismatches == 0, format!("{name}: equal values differ: {same:?}"))?;
        actual[777] += 3.0;
        bench.device.write(buffer, &stored(&actual, dtype))?;
        let found = bench.device.compare(buffer, dtype, expected, tolerance)?;
        let facts = (found.mismatches, found.first_bad(), found.abs_error_max);
        demand(facts == (1, Some(777), 3.0), format!("{name}: {found:?}"))?;
        let block = bench.device.compare_blocks(buffer, dtype, expected, 100, 1e-3)?;
        demand(block.index == 7 && block.ratio > 0.0, format!("{name}: {block:?}"))?;
    }
    Ok(())
}

fn echo(bench: &mut DeviceBench<'_>) -> Answer {
    let (module, hash) = (bench.module()?, bench.hash.clone());
    let echoed = bench.device.echo(module)?;
    demand(echoed.as_deref() == Some(hash.as_str()), format!("the module says {echoed:?}, not {hash}"))?;
    Ok("the module carries its variant's hash".into())
}

fn call(entry: &str, grid: u32, block: u32, arguments: Vec<BoundArgument>) -> BoundLaunch {
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    BoundLaunch { entry: entry.into(), grid, block, arguments, ..BoundLaunch::default() }
}

fn scalar<const N: usize>(bytes: [u8; N]) -> BoundArgument {
    BoundArgument::Scalar(bytes.to_vec())
}

/// y, what it will hold, and the pair of launches y = 3 x + 0.5 − 2; y += 1.
fn chain(
    bench: &mut DeviceBench<'_>,
    count: u32,
) -> Result<(BufferId, Vec<f32>, Vec<BoundLaunch>), DeviceError> {
    let values: Vec<f64> = (0..count).map(|index| f64::from(index % 1000)).collect();
    let x = bench.holding("x", &stored(&values, F32))?;
    let y = bench.allocate("y", u64::from(count) * 4)?;
    let n = scalar((count as i32).to_le_bytes());
    let affine = vec![
        BoundArgument::Buffer(x),
        BoundArgument::Buffer(y),
        n.clone(),
        scalar(3.0f32.to_le_bytes()),
        scalar(0.5f64.to_le_bytes()),
        scalar((-2i64).to_le_bytes()),
    ];
    let grid = count.div_ceil(256);
    let increment = call("increment", grid, 256, vec![BoundArgument::Buffer(y), n]);
    let expected = values.iter().map(|x| 3.0 * *x as f32 - 0.5).collect();
    Ok((y, expected, vec![call("affine", grid, 256, affine), increment]))
}

fn launch_in_order(bench: &mut DeviceBench<'_>) -> Answer {
    let (y, expected, launches) = chain(bench, 100_001)?;
    bench.launch(&launches)?;
    let wrong = bench.floats(y)?.iter().zip(&expected).position(|(found, right)| found != right);
    demand(wrong.is_none(), format!("element {wrong:?} is wrong"))?;
    Ok("two launches, four scalar types".into())
}

fn attributes(bench: &mut DeviceBench<'_>) -> Answer {
    let (_, launch) = sum_launch(bench, 256)?;
    let module = bench.module()?;
    let found = bench.device.attributes(module, &launch)?;
    if bench.device.info().kind == DeviceKind::Cuda {
        let is_known = found.registers.is_some_and(|own| own > 0) && found.shared_static_bytes >= 128;
        demand(is_known, format!("{found:?}"))?;
        demand(found.blocks_per_multiprocessor.unwrap_or(0) > 0, format!("no block fits: {found:?}"))?;
    }
    Ok(format!("{found:?}"))
}

/// The sum of so many ones in shared memory: where it goes, and its launch.
fn sum_launch(bench: &mut DeviceBench<'_>, count: u32) -> Result<(BufferId, BoundLaunch), DeviceError> {
    let x = bench.holding("x", &stored(&vec![1.0; count as usize], F32))?;
    let y = bench.allocate("y", 4)?;
    let arguments =
        vec![BoundArgument::Buffer(x), BoundArgument::Buffer(y), scalar((count as i32).to_le_bytes())];
    Ok((y, BoundLaunch { shared_bytes: 4 * count, ..call("shared_sum", 1, 256, arguments) }))
}

fn dynamic_shared(bench: &mut DeviceBench<'_>) -> Answer {
    // 80,000 bytes: above the 48 KiB that need no opt-in, below every supported device's limit.
    let (y, launch) = sum_launch(bench, 20_000)?;
    bench.launch(&[launch])?;
    let sum = bench.floats(y)?[0];
    demand(sum == 20_000.0, format!("the sum is {sum}"))?;
    Ok("80,000 bytes after opting in".into())
}

fn too_much_shared(bench: &mut DeviceBench<'_>) -> Answer {
    let (_, launch) = sum_launch(bench, 70_000)?;
    let refused = bench.launch(&[launch]);
    let error = refused.err().ok_or("280,000 bytes of shared memory were accepted")?;
    let is_right = error.kind == VerdictKind::LaunchFail && error.cause.as_deref() == Some("smem");
    demand(is_right && !error.sticky, format!("refused, but as {error:?}"))?;
    Ok(error.message)
}

fn sampling(bench: &mut DeviceBench<'_>) -> Answer {
    let ((_, _, launches), module) = (chain(bench, 1 << 20)?, bench.module()?);
    let mut words = Vec::new();
    for (mode, batch) in
        [(TimingMode::Hot, 1), (TimingMode::Hot, 20), (TimingMode::Cold, 1), (TimingMode::Eager, 1)]
    {
        let rotation = std::slice::from_ref(&launches);
        let order = SampleOrder { rotation, mode, samples: 33, batch, untouched: false };
        let samples = bench.device.sample(module, order)?;
        demand(samples.len() == 33, format!("{} samples of 33", samples.len()))?;
        demand(samples.iter().all(|sample| *sample > 0.0), "a sample is not positive")?;
        words.push(format!("{} ×{batch}: {:.2} µs", mode.as_str(), stats::median(&samples) / 1e3));
    }
    Ok(words.join(", "))
}

fn launch_attributes(bench: &mut DeviceBench<'_>) -> Answer {
    let (y, expected, mut launches) = chain(bench, 256 * 64)?;
    launches[0].cooperative = true;
    launches[1].programmatic = true;
    bench.launch(&launches)?;
    let has_clusters = bench.device.info().limits.cluster > 1;
    if has_clusters {
        launches[0].cooperative = false;
        launches[0].cluster = Some([2, 1, 1]);
        bench.launch(&launches)?;
    }
    demand(bench.floats(y)?[77] == expected[77], "wrong answer")?;
    let clusters = if has_clusters { "of 2" } else { "not on this device" };
    Ok(format!("cooperative, programmatic, clusters {clusters}"))
}

/// What a kernel keeps in variables is seen and restored.
fn module_variables(bench: &mut DeviceBench<'_>) -> Answer {
    let (y, module) = (bench.allocate("y", 12)?, bench.module()?);
    let device = &mut *bench.device;
    let loaded = device.variables(module)?;
    let mut names: Vec<&str> = loaded.iter().map(|variable: &VariableState| variable.name.as_str()).collect();
    names.sort_unstable();
    let names = names.join(", ");
    demand(names == "hidden_calls, known_calls, local_calls, table", format!("the module has {names}"))?;
    let remember = [call("remember", 1, 1, vec![BoundArgument::Buffer(y)])];
    for expected in [[1, 6, 1], [2, 7, 2]] {
        device.launch(module, &remember)?;
        let bytes = device.read(y)?;
        let found: Vec<i32> = bytes.as_chunks().0.iter().map(|four| i32::from_le_bytes(*four)).collect();
        demand(found == expected, format!("calls counted {found:?}, not {expected:?}"))?;
    }
    let after = device.variables(module)?;
    let same = loaded.iter().zip(&after).filter(|(before, after)| before.hash == after.hash).count();
    demand(same == 0, "a variable changed and its hash did not")?;
    device.restore_variables(module)?;
    demand(device.variables(module)? == loaded, "a variable was not restored")?;
    Ok(format!("{names} are seen, and restored"))
}

fn guard_zones(bench: &mut DeviceBench<'_>) -> Answer {
    let count = 1001;
    let y = bench.allocate("y", count * 4)?;
    let clean = bench.device.check_guards()?;
    demand(clean.is_empty(), format!("damage before any launch: {clean:?}"))?;
    for offset in [-1i32, count as i32, count as i32 + 5000] {
        let arguments = vec![
            BoundArgument::Buffer(y),
            scalar((count as i32).to_le_bytes()),
            scalar(offset.to_le_bytes()),
        ];
        bench.launch(&[call("stray", 1, 32, arguments)])?;
        let damage = bench.device.check_guards()?;
        let right = damage.len() == 1 && damage[0].buffer == "y" && damage[0].offset / 4 == i64::from(offset);
        demand(right, format!("a write at element {offset} reads as {damage:?}"))?;
    }
    demand(bench.device.check_guards()?.is_empty(), "zones are not armed again after damage")?;
    Ok("writes before and behind a buffer are found and named".into())
}

fn missing_entry(bench: &mut DeviceBench<'_>) -> Answer {
    let refused = bench.device.load(&bench.image, &["nobody".to_string()]);
    let error = refused.err().ok_or("an entry that does not exist was loaded")?;
    demand(error.kind == VerdictKind::LoadError && !error.sticky, format!("{error:?}"))?;
    Ok(error.message)
}

fn memory_returns(bench: &mut DeviceBench<'_>) -> Answer {
    let device = &mut *bench.device;
    let free = |device: &mut dyn Device| device.memory_free().ok_or("free memory cannot be read");
    let before = free(device)?;
    let buffer = device.allocate("large", 1 << 30)?;
    let during = free(device)?;
    device.free(buffer)?;
    let after = free(device)?;
    demand(before - during >= 1 << 30 && after == before, format!("{before} → {during} → {after} bytes"))?;
    let refused = device.allocate("beyond", u64::MAX / 2).err().map(|error| error.kind);
    demand(refused == Some(VerdictKind::OutOfMemory), format!("a huge buffer gives {refused:?}"))?;
    Ok("one GiB came back; a huge request is out_of_memory".into())
}

fn sticky_error(bench: &mut DeviceBench<'_>) -> Answer {
    // Nobody frees it: the context is gone.
    let y = bench.device.allocate("y", 4)?;
    let launched = bench.launch(&[call("crash", 1, 1, vec![BoundArgument::Buffer(y)])]);
    let error = launched.err().ok_or("an illegal address went unnoticed")?;
    demand(error.kind == VerdictKind::CrashIllegalAddress && error.sticky, format!("{error:?}"))?;
    Ok(error.message)
}
