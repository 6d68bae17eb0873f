//! Tensor maps as kernels get them here: by value, aligned, and with the address that the buffer has at the launch.

use evo_protocol::tensor_map::{OutsideFill, TensorMap};
use evo_protocol::verdict::VerdictKind;

use super::*;
use crate::host::tensor_map::encode;
use crate::tensor_maps::example;

/// Each thread reads its own copy of the map: the words of thread 3 go to `out`, sums of a row through the base too.
const COPY: &str = r#"
struct alignas(64) tensor_map { unsigned long long words[16]; };
extern "C" __global__ void copy(float scale, const __grid_constant__ tensor_map map, unsigned long long* out, float* sums) {
    const tensor_map* where = &map;
    if ((unsigned long long)where % 64 != 0) __trap();
    if (threadIdx.x == 3) for (int i = 0; i < 16; i++) out[i] = where->words[i];
    const float* base = (const float*)where->words[1];
    unsigned columns = (unsigned)where->words[2];
    float sum = 0;
    for (unsigned c = 0; c < columns; c++) sum += base[threadIdx.x * columns + c];
    sums[threadIdx.x] = scale * sum;
}"#;

fn map() -> TensorMap {
    example::rows(8, 4, [8, 2], OutsideFill::Nan)
}

fn arguments(x: BufferId, out: BufferId, sums: BufferId) -> Vec<BoundArgument> {
    let scale = BoundArgument::Scalar(2.0f32.to_le_bytes().to_vec());
    vec![scale, BoundArgument::TensorMap { buffer: x, map: map() }, buffer(out), buffer(sums)]
}

fn filled(bench: &mut Bench) -> [BufferId; 3] {
    let x = bench.buffer("x", &(0..32).map(|value| value as f32).collect::<Vec<_>>());
    [x, bench.buffer("out", &[0u64; 16]), bench.buffer("sums", &[0f32; 4])]
}

const SUMS: [f32; 4] = [56.0, 184.0, 312.0, 440.0];

#[test]
fn a_map_comes_by_value_and_follows_its_buffer() {
    let mut bench = Bench::new(COPY, "copy");
    let [x, out, sums] = filled(&mut bench);
    let mut bases = Vec::new();
    for placement in [Placement::End, Placement::Start, Placement::End] {
        bench.device.set_conditions(RunConditions { placement, ..RunConditions::default() }).unwrap();
        bench.run(1, 4, 0, arguments(x, out, sums)).unwrap();
        let words: Vec<u64> = bench.values(out);
        assert_eq!(words, encode(&map(), words[1]).0);
        bases.push(words[1]);
        assert_eq!(bench.values::<f32>(sums), SUMS);
    }
    assert!(bases[0] != bases[1] && bases[0] == bases[2], "encoded for the place of each launch: {bases:?}");
}

#[test]
fn a_map_is_compared_with_the_signature_and_with_its_buffer() {
    let mut bench = Bench::new(COPY, "copy");
    let [x, out, sums] = filled(&mut bench);
    let full = arguments(x, out, sums);
    let mut check = |change: &dyn Fn(&mut Vec<BoundArgument>), cause: &str, message: &str| {
        let mut changed = full.clone();
        change(&mut changed);
        let error = bench.run(1, 4, 0, changed).unwrap_err();
        assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some(cause)));
        assert!(error.message.contains(message), "{}", error.message);
    };
    check(
        &|all| all.swap(0, 1),
        "arguments",
        "argument 1 of `copy` is a value of 4 bytes, the launch gives a tensor map",
    );
    check(
        &|all| all.swap(1, 2),
        "arguments",
        "argument 2 of `copy` is not a pointer, the launch gives a buffer",
    );
    check(&|all| all[2] = all[1].clone(), "arguments", "argument 3 of `copy` is a pointer of 8 bytes");
    let broken = BoundArgument::TensorMap { buffer: x, map: TensorMap { dims: vec![8, 5], ..map() } };
    check(&|all| all[1] = broken.clone(), "tensor_map", "makes the map 160 bytes long: its buffer has 128");
    let gone = BoundArgument::TensorMap { buffer: BufferId(77), map: map() };
    let mut arguments = full.clone();
    arguments[1] = gone;
    assert_eq!(bench.run(1, 4, 0, arguments).unwrap_err().kind, VerdictKind::HarnessError);
}

#[test]
fn an_instrumented_build_reads_maps_too_and_what_they_lead_to_is_watched() {
    let mut bench = Bench::watched(COPY, "copy");
    let [x, out, sums] = filled(&mut bench);
    let contents = [WatchedContents::Input, WatchedContents::Output, WatchedContents::Output];
    let watched: Vec<_> = [x, out, sums].into_iter().zip(contents).collect();
    let watch = watch(&watched, 1);
    let mut run = |threads: u32| {
        let bound = bench.bound(1, threads, 0, arguments(x, out, sums));
        bench.device.launch_watched(bench.module, &[bound], &watch).map(|report| report.unwrap())
    };
    assert!(run(4).unwrap().notes.is_empty());
    let error = run(5).unwrap_err();
    assert_eq!(error.kind, VerdictKind::OobRead, "{}", error.message);
    assert!(error.message.contains("behind the end of `x` (128 bytes long)"), "{}", error.message);
    assert_eq!(bench.values::<f32>(sums), SUMS);
}
