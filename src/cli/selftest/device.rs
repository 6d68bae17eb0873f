//! `evo selftest device`: every call of the `Device` trait against known answers.

use std::time::Instant;

use evo_device::device::{
    BoundArgument, BoundLaunch, BufferId, CopiedPart, Device, ModuleId, PlainErrors, SampleOrder, Tolerance,
    VariableState,
};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;

use super::bench::{open_device, probe_image};
use super::checks::SelftestReport;
use crate::cli::error::CliError;
use crate::cli::session::DeviceSetup;
use crate::timing::stats;

/// Kernels that the checks launch.
const PROBES: &str = include_str!("probes.cu");
/// Entry points in `PROBES`.
const ENTRIES: [&str; 6] = ["affine", "increment", "stray", "shared_sum", "remember", "crash"];

type Answer = Result<String, String>;

/// Runs all checks. The last one poisons a CUDA context, so the process should end afterwards.
pub fn run(setup: &DeviceSetup) -> Result<(DeviceInfo, SelftestReport), CliError> {
    let entries: Vec<String> = ENTRIES.iter().map(|entry| entry.to_string()).collect();
    let (image, hash) = probe_image(setup, PROBES, entries.clone())?;
    let mut device = open_device(setup)?;
    let mut report = SelftestReport::default();
    overheads(device.as_mut(), &mut report);
    calls(device.as_mut(), (&image, &hash), &entries, &mut report);
    Ok((device.info().clone(), report))
}

/// `binary` is `PROBES` compiled with `hash` as its variant hash.
fn calls(
    device: &mut dyn Device,
    (binary, hash): (&[u8], &ContentHash),
    entries: &[String],
    report: &mut SelftestReport,
) {
    report.add("copy_round_trip", round_trip(device));
    report.add("fill_and_count", fill_and_count(device));
    report.add("hash", hashes(device));
    report.add("compare", compares(device));
    let module = match device.load(binary, entries) {
        Ok(module) => module,
        Err(error) => return report.add("load", Err(error.to_string())),
    };
    report.add("echo", echo(device, module, hash));
    report.add("module_variables", module_variables(device, module));
    report.add("launch_in_order", launch_in_order(device, module));
    report.add("attributes", attributes(device, module));
    report.add("dynamic_shared_memory", dynamic_shared(device, module));
    report.add("too_much_shared_memory", too_much_shared(device, module));
    report.add("sampling", sampling(device, module));
    if device.info().kind == DeviceKind::Cuda {
        report.add("launch_attributes", launch_attributes(device, module));
        report.add("guard_zones", guard_zones(device, module));
        report.add("missing_entry", missing_entry(device, binary));
        report.add("memory_returns", memory_returns(device));
        report.add("sticky_error", sticky_error(device, module));
    } else {
        report.skip("guard_zones", "the host's guards are unmapped pages; its own tests fault on them");
        report.skip("sticky_error", "a crash ends a host worker; its own tests show it");
    }
}

fn text(error: DeviceError) -> String {
    error.to_string()
}

fn demand(holds: bool, message: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message.into()) }
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
}

fn buffer_of(device: &mut dyn Device, name: &str, bytes: &[u8]) -> Result<BufferId, String> {
    let buffer = device.allocate(name, bytes.len() as u64).map_err(text)?;
    device.write(buffer, bytes).map_err(text)?;
    Ok(buffer)
}

fn round_trip(device: &mut dyn Device) -> Answer {
    let sizes = [1usize, 3, 5, 256, 65_537, 1_000_003];
    for size in sizes {
        let data: Vec<u8> = (0..size).map(|index| (index * 31 % 251) as u8).collect();
        let buffer = buffer_of(device, "data", &data)?;
        demand(device.read(buffer).map_err(text)? == data, format!("{size} bytes came back changed"))?;
        let twin = device.allocate("twin", size as u64).map_err(text)?;
        device.copy(buffer, twin).map_err(text)?;
        demand(device.read(twin).map_err(text)? == data, format!("{size} bytes were copied wrongly"))?;
        demand(device.write_at(twin, size as u64, &[1]).is_err(), "a byte was written behind a buffer")?;
        let middle = size / 2;
        device.write_at(twin, middle as u64, &data[..size - middle]).map_err(text)?;
        let parts = [&data[..middle], &data[..size - middle]].concat();
        demand(
            device.read(twin).map_err(text)? == parts,
            format!("part of {size} bytes was written elsewhere"),
        )?;
        let (half, rest) = (middle as u64, (size - middle) as u64);
        for part in [
            CopiedPart { source: half, target: 0, bytes: rest },
            CopiedPart { source: 0, target: rest, bytes: half },
        ] {
            device.copy_part(buffer, twin, part).map_err(text)?;
        }
        let beyond = CopiedPart { source: 0, target: 1, bytes: size as u64 };
        demand(device.copy_part(buffer, twin, beyond).is_err(), "a copy reached behind a buffer")?;
        let turned = [&data[middle..], &data[..middle]].concat();
        demand(device.read(twin).map_err(text)? == turned, format!("{size} bytes were turned wrongly"))?;
        device.free(buffer).map_err(text)?;
        device.free(twin).map_err(text)?;
    }
    Ok(format!("{} sizes, the odd ones too", sizes.len()))
}

fn fill_and_count(device: &mut dyn Device) -> Answer {
    let pattern = 0x1234_5678;
    for (dtype, elements) in [(DType::U8, 1003u64), (DType::F16, 1001), (DType::F32, 999), (DType::F64, 501)]
    {
        let buffer = device.allocate("data", elements * dtype.bytes()).map_err(text)?;
        device.fill(buffer, pattern).map_err(text)?;
        let count = device.count_pattern(buffer, dtype, pattern).map_err(text)?;
        demand(count == elements, format!("{}: {count} of {elements} hold the pattern", dtype.as_str()))?;
        device.write(buffer, &vec![0xffu8; dtype.bytes() as usize * 7]).map_err(text)?;
        let count = device.count_pattern(buffer, dtype, pattern).map_err(text)?;
        demand(count == elements - 7, format!("{}: {count} left after seven were written", dtype.as_str()))?;
        device.free(buffer).map_err(text)?;
    }
    Ok("element sizes 1, 2, 4 and 8".into())
}

fn hashes(device: &mut dyn Device) -> Answer {
    let mut data = vec![7u8; 100_003];
    let first = buffer_of(device, "a", &data)?;
    let base = device.hash(first).map_err(text)?;
    demand(device.hash(first).map_err(text)? == base, "the same contents hash differently")?;
    for position in [0usize, 1, 4_096, 99_999, 100_002] {
        data[position] ^= 1;
        device.write(first, &data).map_err(text)?;
        demand(
            device.hash(first).map_err(text)? != base,
            format!("a change at byte {position} is not seen"),
        )?;
        data[position] ^= 1;
    }
    data.swap(0, 1);
    data[0] = 8;
    device.free(first).map_err(text)?;
    Ok("repeats, and sees single-bit changes".into())
}

fn compares(device: &mut dyn Device) -> Answer {
    let expected: Vec<f64> = (0..50_001).map(|index| f64::from(index % 97) - 48.0).collect();
    let wide: Vec<u8> = expected.iter().flat_map(|value| value.to_le_bytes()).collect();
    let reference = buffer_of(device, "expected", &wide)?;
    let mut actual: Vec<f32> = expected.iter().map(|value| *value as f32).collect();
    let tolerance = Tolerance { atol: 0.25, rtol: 0.0 };
    let buffer = buffer_of(device, "actual", &bytes_of(&actual))?;
    let clean = device.compare(buffer, DType::F32, reference, tolerance).map_err(text)?;
    demand(clean.mismatches == 0 && clean.abs_error_max == 0.0, format!("equal values differ: {clean:?}"))?;
    actual[123] += 0.125;
    actual[40_000] -= 4.0;
    actual[45_000] = f32::NAN;
    actual[50_000] = f32::INFINITY;
    device.write(buffer, &bytes_of(&actual)).map_err(text)?;
    let found = device.compare(buffer, DType::F32, reference, tolerance).map_err(text)?;
    let facts = (found.mismatches, found.non_finite, found.first_bad, found.abs_error_max_index);
    demand(facts == (3, 2, Some(40_000), 40_000), format!("planted errors read as {found:?}"))?;
    demand(
        found.abs_error_max == 4.0 && found.first_bad_actual == f64::from(actual[40_000]),
        "values differ",
    )?;
    let halves: Vec<u8> =
        expected.iter().flat_map(|value| half::f16::from_f64(*value).to_bits().to_le_bytes()).collect();
    let narrow = buffer_of(device, "halves", &halves)?;
    let same = device.compare(narrow, DType::F16, reference, tolerance).map_err(text)?;
    demand(same.mismatches == 0, format!("halves differ: {same:?}"))?;
    plain_errors(device, buffer, (&actual, &expected), reference)?;
    for buffer in [reference, buffer, narrow] {
        device.free(buffer).map_err(text)?;
    }
    every_type(device)?;
    Ok("planted errors, NaN and infinity found where they are, in every data type".into())
}

/// The plain errors of these values beside those of a loop, to the bit.
fn plain_errors(
    device: &mut dyn Device,
    buffer: BufferId,
    (actual, expected): (&[f32], &[f64]),
    reference: BufferId,
) -> Result<(), String> {
    let tolerances = [(1e-3, 1e-3), (0.125, 0.125), (0.1, 0.02)].map(|(atol, rtol)| Tolerance { atol, rtol });
    let Some(found) = device.plain_errors(buffer, DType::F32, reference, tolerances).map_err(text)? else {
        return Ok(());
    };
    let pairs = actual.iter().zip(expected);
    let looped = pairs
        .fold(PlainErrors::default(), |seen, (own, right)| seen.with(f64::from(*own), *right, &tolerances));
    demand(found == looped && found.outside[0] == 4, format!("{found:?}, and by a loop {looped:?}"))
}

/// Small values as a buffer of a data type holds them.
fn stored(values: &[f64], dtype: DType) -> Vec<u8> {
    let one = |value: &f64| match dtype {
        DType::F16 => half::f16::from_f64(*value).to_bits().to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(*value).to_bits().to_le_bytes().to_vec(),
        DType::F32 => (*value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::I8 | DType::U8 => vec![*value as u8],
        DType::I16 | DType::U16 => (*value as u16).to_le_bytes().to_vec(),
        DType::I32 | DType::U32 => (*value as u32).to_le_bytes().to_vec(),
        DType::I64 | DType::U64 => (*value as u64).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

/// Small values that every data type holds: equal ones, and one that is off.
fn every_type(device: &mut dyn Device) -> Result<(), String> {
    use DType::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let values: Vec<f64> = (0..1_003).map(|index| f64::from(index % 101)).collect();
    let tolerance = Tolerance { atol: 0.5, rtol: 0.0 };
    let expected = buffer_of(device, "expected", &stored(&values, F64))?;
    for dtype in [F16, Bf16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64] {
        let mut own = values.clone();
        let buffer = buffer_of(device, "actual", &stored(&own, dtype))?;
        let same = device.compare(buffer, dtype, expected, tolerance).map_err(text)?;
        demand(same.mismatches == 0, format!("{}: equal values differ: {same:?}", dtype.as_str()))?;
        own[777] += 3.0;
        device.write(buffer, &stored(&own, dtype)).map_err(text)?;
        let found = device.compare(buffer, dtype, expected, tolerance).map_err(text)?;
        let facts = (found.mismatches, found.first_bad, found.abs_error_max);
        demand(facts == (1, Some(777), 3.0), format!("{}: {found:?}", dtype.as_str()))?;
        let block = device.compare_blocks(buffer, dtype, expected, 100, 1e-3).map_err(text)?;
        demand(block.index == 7 && block.ratio > 0.0, format!("{}: {block:?}", dtype.as_str()))?;
        device.free(buffer).map_err(text)?;
    }
    device.free(expected).map_err(text)
}

fn echo(device: &mut dyn Device, module: ModuleId, hash: &ContentHash) -> Answer {
    let echoed = device.echo(module).map_err(text)?;
    demand(echoed.as_deref() == Some(hash.as_str()), format!("the module says {echoed:?}, not {hash}"))?;
    Ok("the module carries its variant's hash".into())
}

fn call(entry: &str, grid: u32, block: u32, arguments: Vec<BoundArgument>) -> BoundLaunch {
    BoundLaunch {
        entry: entry.into(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared_bytes: 0,
        cluster: None,
        cooperative: false,
        programmatic: false,
        l2_persist: None,
        arguments,
    }
}

fn scalar<const N: usize>(bytes: [u8; N]) -> BoundArgument {
    BoundArgument::Scalar(bytes.to_vec())
}

/// x, y and the pair of launches y = 3 x + 0.5 − 2; y += 1.
fn chain(
    device: &mut dyn Device,
    count: u32,
) -> Result<(Vec<f32>, BufferId, BufferId, Vec<BoundLaunch>), String> {
    let values: Vec<f32> = (0..count).map(|index| (index % 1000) as f32).collect();
    let x = buffer_of(device, "x", &bytes_of(&values))?;
    let y = device.allocate("y", u64::from(count) * 4).map_err(text)?;
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
    let launches = vec![
        call("affine", grid, 256, affine),
        call("increment", grid, 256, vec![BoundArgument::Buffer(y), n]),
    ];
    Ok((values, x, y, launches))
}

fn launch_in_order(device: &mut dyn Device, module: ModuleId) -> Answer {
    let (values, x, y, launches) = chain(device, 100_001)?;
    device.launch(module, &launches).map_err(text)?;
    device.synchronize().map_err(text)?;
    let answers = floats(&device.read(y).map_err(text)?);
    let wrong = answers.iter().zip(&values).position(|(y, x)| *y != 3.0 * x - 0.5);
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    demand(wrong.is_none(), format!("element {wrong:?} is wrong"))?;
    Ok("two launches, four scalar types".into())
}

fn attributes(device: &mut dyn Device, module: ModuleId) -> Answer {
    let kind = device.info().kind;
    let (x, y, launch) = sum_launch(device, 256)?;
    let found = device.attributes(module, &launch).map_err(text)?;
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    if kind == DeviceKind::Cuda {
        demand(
            found.registers.is_some_and(|own| own > 0) && found.shared_static_bytes >= 128,
            format!("{found:?}"),
        )?;
        demand(found.blocks_per_multiprocessor.unwrap_or(0) > 0, format!("no block fits: {found:?}"))?;
    }
    Ok(format!("{found:?}"))
}

fn sum_launch(device: &mut dyn Device, count: u32) -> Result<(BufferId, BufferId, BoundLaunch), String> {
    let x = buffer_of(device, "x", &bytes_of(&vec![1.0; count as usize]))?;
    let y = device.allocate("y", 4).map_err(text)?;
    let arguments =
        vec![BoundArgument::Buffer(x), BoundArgument::Buffer(y), scalar((count as i32).to_le_bytes())];
    Ok((x, y, BoundLaunch { shared_bytes: 4 * count, ..call("shared_sum", 1, 256, arguments) }))
}

fn dynamic_shared(device: &mut dyn Device, module: ModuleId) -> Answer {
    // 80,000 bytes: above the 48 KiB that need no opt-in, below every supported device's limit.
    let (x, y, launch) = sum_launch(device, 20_000)?;
    device.launch(module, &[launch]).map_err(text)?;
    device.synchronize().map_err(text)?;
    let sum = floats(&device.read(y).map_err(text)?)[0];
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    demand(sum == 20_000.0, format!("the sum is {sum}"))?;
    Ok("80,000 bytes after opting in".into())
}

fn too_much_shared(device: &mut dyn Device, module: ModuleId) -> Answer {
    let (x, y, launch) = sum_launch(device, 70_000)?;
    let refused = device.launch(module, &[launch]).and_then(|()| device.synchronize());
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    match refused {
        Ok(()) => Err("280,000 bytes of shared memory were accepted".into()),
        Err(error) => {
            let right = error.kind == VerdictKind::LaunchFail && error.cause.as_deref() == Some("smem");
            demand(right && !error.sticky, format!("refused, but as {error:?}"))?;
            Ok(error.message)
        }
    }
}

fn sampling(device: &mut dyn Device, module: ModuleId) -> Answer {
    let (_, x, y, launches) = chain(device, 1 << 20)?;
    let mut words = Vec::new();
    for (mode, batch) in
        [(TimingMode::Hot, 1), (TimingMode::Hot, 20), (TimingMode::Cold, 1), (TimingMode::Eager, 1)]
    {
        let rotation = std::slice::from_ref(&launches);
        let order = SampleOrder { rotation, mode, samples: 33, batch, untouched: false };
        let mut samples = device.sample(module, order).map_err(text)?;
        demand(samples.len() == 33, format!("{} samples of 33", samples.len()))?;
        demand(samples.iter().all(|sample| *sample > 0.0), "a sample is not positive")?;
        samples.sort_by(f64::total_cmp);
        words.push(format!("{} ×{batch}: {:.2} µs", mode.as_str(), samples[16] / 1e3));
    }
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    Ok(words.join(", "))
}

fn launch_attributes(device: &mut dyn Device, module: ModuleId) -> Answer {
    let (values, x, y, mut launches) = chain(device, 256 * 64)?;
    launches[0].cooperative = true;
    launches[1].programmatic = true;
    device.launch(module, &launches).map_err(text)?;
    device.synchronize().map_err(text)?;
    let clusters = device.info().limits.cluster;
    if clusters > 1 {
        launches[0].cooperative = false;
        launches[0].cluster = Some([2, 1, 1]);
        device.launch(module, &launches).map_err(text)?;
        device.synchronize().map_err(text)?;
    }
    let answers = floats(&device.read(y).map_err(text)?);
    device.free(x).map_err(text)?;
    device.free(y).map_err(text)?;
    demand(answers[77] == 3.0 * values[77] - 0.5, "wrong answer")?;
    Ok(format!(
        "cooperative, programmatic, clusters {}",
        if clusters > 1 { "of 2" } else { "not on this device" }
    ))
}

/// What a kernel keeps in variables is seen and restored.
fn module_variables(device: &mut dyn Device, module: ModuleId) -> Answer {
    let names = |states: &[VariableState]| {
        let mut names: Vec<String> = states.iter().map(|own| own.name.clone()).collect();
        names.sort();
        names.join(", ")
    };
    let loaded = device.variables(module).map_err(text)?;
    demand(
        names(&loaded) == "hidden_calls, known_calls, local_calls, table",
        format!("the module has {}", names(&loaded)),
    )?;
    let y = device.allocate("y", 12).map_err(text)?;
    let remember = [call("remember", 1, 1, vec![BoundArgument::Buffer(y)])];
    for expected in [[1, 6, 1], [2, 7, 2]] {
        device.launch(module, &remember).map_err(text)?;
        let bytes = device.read(y).map_err(text)?;
        let found: Vec<i32> =
            bytes.chunks_exact(4).map(|own| i32::from_le_bytes([own[0], own[1], own[2], own[3]])).collect();
        demand(found == expected, format!("calls counted {found:?}, not {expected:?}"))?;
    }
    let after = device.variables(module).map_err(text)?;
    let same = loaded.iter().zip(&after).filter(|(before, after)| before.hash == after.hash).count();
    demand(same == 0, "a variable changed and its hash did not")?;
    device.restore_variables(module).map_err(text)?;
    demand(device.variables(module).map_err(text)? == loaded, "a variable was not restored")?;
    device.free(y).map_err(text)?;
    Ok(format!("{} are seen, and restored", names(&loaded)))
}

fn guard_zones(device: &mut dyn Device, module: ModuleId) -> Answer {
    let count = 1001;
    let y = device.allocate("y", count * 4).map_err(text)?;
    let clean = device.check_guards().map_err(text)?;
    demand(clean.is_empty(), format!("damage before any launch: {clean:?}"))?;
    for offset in [-1i32, count as i32, count as i32 + 5000] {
        let arguments = vec![
            BoundArgument::Buffer(y),
            scalar((count as i32).to_le_bytes()),
            scalar(offset.to_le_bytes()),
        ];
        device.launch(module, &[call("stray", 1, 32, arguments)]).map_err(text)?;
        device.synchronize().map_err(text)?;
        let damage = device.check_guards().map_err(text)?;
        let right = damage.len() == 1 && damage[0].buffer == "y" && damage[0].offset / 4 == i64::from(offset);
        demand(right, format!("a write at element {offset} reads as {damage:?}"))?;
    }
    let again = device.check_guards().map_err(text)?;
    device.free(y).map_err(text)?;
    demand(again.is_empty(), "zones are not armed again after damage")?;
    Ok("writes before and behind a buffer are found and named".into())
}

fn missing_entry(device: &mut dyn Device, binary: &[u8]) -> Answer {
    match device.load(binary, &["nobody".to_string()]) {
        Ok(_) => Err("an entry that does not exist was loaded".into()),
        Err(error) => {
            demand(error.kind == VerdictKind::LoadError && !error.sticky, format!("{error:?}"))?;
            Ok(error.message)
        }
    }
}

fn memory_returns(device: &mut dyn Device) -> Answer {
    let before = device.memory_free().ok_or("free memory cannot be read")?;
    let buffer = device.allocate("large", 1 << 30).map_err(text)?;
    let during = device.memory_free().ok_or("free memory cannot be read")?;
    device.free(buffer).map_err(text)?;
    let after = device.memory_free().ok_or("free memory cannot be read")?;
    demand(before - during >= 1 << 30 && after == before, format!("{before} → {during} → {after} bytes"))?;
    let refused = device.allocate("beyond", u64::MAX / 2).err().map(|error| error.kind);
    demand(refused == Some(VerdictKind::OutOfMemory), format!("a huge buffer gives {refused:?}"))?;
    Ok("one GiB came back; a huge request is out_of_memory".into())
}

fn sticky_error(device: &mut dyn Device, module: ModuleId) -> Answer {
    let y = device.allocate("y", 4).map_err(text)?;
    let launched = device.launch(module, &[call("crash", 1, 1, vec![BoundArgument::Buffer(y)])]);
    match launched.and_then(|()| device.synchronize()) {
        Ok(()) => Err("an illegal address went unnoticed".into()),
        Err(error) => {
            demand(error.kind == VerdictKind::CrashIllegalAddress && error.sticky, format!("{error:?}"))?;
            Ok(error.message)
        }
    }
}

/// Times the gates' own work on an open device: buffers of 16 MiB, as a 2048² fp32 matrix has.
fn overheads(device: &mut dyn Device, report: &mut SelftestReport) {
    let bytes = 16u64 << 20;
    let mut buffers = Vec::new();
    for name in ["a", "b", "c"] {
        match device.allocate(name, bytes) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => return report.add("allocate", Err(error.to_string())),
        }
    }
    let (a, b) = (buffers[0], buffers[1]);
    report.add("poison_16_mib", timed(device, |device| device.fill(a, 0x7fc1_7fc1)));
    report.add("copy_16_mib", timed(device, |device| device.copy(a, b)));
    report.add("hash_16_mib", timed(device, |device| device.hash(a).map(drop)));
    report
        .add("count_poison_16_mib", timed(device, |device| device.count_pattern(a, DType::F32, 1).map(drop)));
    report.add("check_guards_3_buffers", timed(device, |device| device.check_guards().map(drop)));
    report.add("arm_guards_3_buffers", timed(device, |device| device.arm_guards(0x7fff_7fff)));
    for buffer in buffers {
        let _ = device.free(buffer);
    }
}

fn timed(
    device: &mut dyn Device,
    mut call: impl FnMut(&mut dyn Device) -> Result<(), DeviceError>,
) -> Result<String, String> {
    let mut samples = Vec::new();
    // The first is a warm-up, which does not count.
    for _ in 0..=20 {
        let began = Instant::now();
        call(device).and_then(|()| device.synchronize()).map_err(text)?;
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(spread(samples.split_off(1), "µs"))
}

/// Samples as a person reads them.
pub fn spread(mut samples: Vec<f64>, unit: &str) -> String {
    samples.sort_by(f64::total_cmp);
    let last = samples.len() - 1;
    format!(
        "median {:.1} {unit} (min {:.1}, max {:.1}, n {})",
        stats::median(&samples),
        samples[0],
        samples[last],
        samples.len()
    )
}
