//! Watched launches: kernels with one fault each and how it is named, and honest oddities that must pass.

use std::time::Duration;

use super::*;
use crate::device::{BlockTurns, NoteKind, Watch, WatchReport, WatchedBuffer, WatchedContents};

/// A kernel `k(const float* in, float* out, float* work, int* count, int n)` with 100 floats in `in` and `out`, 256
/// in `work`, 128 zeros in `count`, and `n` = 100.
pub(super) struct Watched {
    grid: u32,
    block: u32,
    shared: u32,
}

/// Two blocks of 64 threads with 256 bytes of dynamic shared memory.
pub(super) const USUAL: Watched = Watched { grid: 2, block: 64, shared: 256 };

pub(super) struct Kernels {
    cases: Vec<(String, Watched, String, String)>,
    cooperative: bool,
    turns: BlockTurns,
}

impl Kernels {
    pub(super) fn new() -> Kernels {
        Kernels { cases: Vec::new(), cooperative: false, turns: BlockTurns::OneByOne }
    }

    /// Adds a kernel with what must be found; `prefix` stands before it.
    pub(super) fn add(&mut self, shape: Watched, prefix: &str, body: &str, expected: &str) -> &mut Kernels {
        let name = format!("k{}", self.cases.len());
        let head =
            format!("__global__ void {name}(const float* in, float* out, float* work, int* count, int n)");
        let text = format!(
            "#line 1\n{prefix}\n{head} {{\nint t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;\n{body}\n}}"
        );
        self.cases.push((name, shape, text, expected.to_string()));
        self
    }

    pub(super) fn check(&self) {
        self.check_with(&[1, 0x1234_5678_9abc_def0]);
    }

    fn check_with(&self, seeds: &[u64]) {
        let entries: Vec<&str> = self.cases.iter().map(|(name, ..)| name.as_str()).collect();
        let text: Vec<&str> = self.cases.iter().map(|(_, _, text, _)| text.as_str()).collect();
        let binary = compile_as(&text.join("\n"), &entries, true);
        let mut device = HostDevice::with_threads(2).unwrap();
        let names: Vec<String> = entries.iter().map(|name| name.to_string()).collect();
        let module = device.load(&binary, &names).unwrap();
        for (name, shape, text, expected) in &self.cases {
            for order in seeds {
                let found = watch(&mut device, module, name, shape, *order, self);
                let found = match &found {
                    Ok(report) => report.notes.iter().map(|note| format!("{:?}", note.what)).collect(),
                    Err(error) => {
                        vec![error.verdict().label(), error.message.replace(&format!("`{name}`: "), "")]
                    }
                };
                let found = if found.is_empty() { "honest".to_string() } else { found.join(" | ") };
                assert!(matches(&found, expected), "{text}\nfound    {found}\nexpected {expected}");
            }
        }
    }
}

/// Whether a text begins as expected; `*` stands for anything.
fn matches(found: &str, expected: &str) -> bool {
    let mut rest = found;
    let mut parts = expected.split('*');
    let first = parts.next().unwrap_or("");
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || expected.ends_with('*')
}

fn watch(
    device: &mut HostDevice,
    module: ModuleId,
    entry: &str,
    shape: &Watched,
    order: u64,
    kernels: &Kernels,
) -> Result<WatchReport, DeviceError> {
    let buffers = [("in", 400), ("out", 400), ("work", 1024), ("count", 512)].map(|(name, bytes)| {
        let id = device.allocate(name, bytes).unwrap();
        device.fill(id, if name == "count" { 0 } else { 0x3f80_0000 }).unwrap();
        id
    });
    let contents =
        [WatchedContents::Input, WatchedContents::Output, WatchedContents::Scratch, WatchedContents::Given];
    let pairs = buffers.iter().zip(contents);
    let watch = Watch {
        buffers: pairs.map(|(buffer, contents)| WatchedBuffer { buffer: *buffer, contents }).collect(),
        order,
        turns: kernels.turns,
        residue: 0xffff_ffff,
        accesses_max: 1 << 22,
        time_max: Duration::from_secs(20),
    };
    let mut arguments: Vec<BoundArgument> = buffers.map(buffer).into();
    arguments.push(int(100));
    let bound = BoundLaunch {
        entry: entry.to_string(),
        grid: [shape.grid, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared,
        cluster: None,
        cooperative: kernels.cooperative,
        programmatic: false,
        l2_persist: None,
        arguments,
    };
    let result = device.launch_watched(module, &[bound], &watch);
    buffers.iter().for_each(|buffer| device.free(*buffer).unwrap());
    result.map(|report| report.unwrap())
}

#[test]
fn accesses_outside_of_memory_are_found_to_the_byte() {
    let mut kernels = Kernels::new();
    kernels
        .add(
            USUAL,
            "",
            "if (t == 3) out[n] = 1;",
            "oob_write | thread 3,0,0 of block 0,0,0 writes directly behind the end of `out` (400 bytes long) (line 4)",
        )
        .add(USUAL, "", "out[t] = in[t] > 2 ? in[-1] : in[t + b * 37];", "oob_read | thread 63,0,0 of block 1,0,0 reads directly behind the end of `in`*")
        .add(USUAL, "", "if (t == 0) out[0] = in[-2];", "oob_read | *4 bytes before the start of `in` (line 4)")
        .add(USUAL, "", "if (t == 5) *(char*)((char*)out + 402) = 0;", "oob_write | *2 bytes behind the end of `out`*")
        .add(USUAL, "", "if (t == 5 && in[n + 9] == 17) out[0] = 1;", "oob_read | *36 bytes behind the end of `in`*")
        .add(USUAL, "", "extern __shared__ float s[]; s[t + b] = 1;", "oob_write:shared | *`dynamic shared memory` (256 bytes long)*")
        .add(USUAL, "", "__shared__ float tile[60]; tile[t] = 1; __syncthreads(); out[t] = tile[59];", "oob_write:shared | *directly behind the end of `tile`*")
        .add(USUAL, "", "*(volatile int*)8 = n;", "crash_illegal_address | *an address outside all buffers*")
        .add(USUAL, "", "if (t == 0) __builtin_memcpy(out + 90, in + 90, n);", "oob_read | *across the end of `in`*")
        .check();
}

#[test]
fn blocks_of_the_device_heap_are_memory_like_any_other() {
    let mut kernels = Kernels::new();
    kernels
        .add(
            USUAL,
            "",
            "__shared__ float* own; if (t == 0) own = (float*)malloc(4 * blockDim.x); __syncthreads(); own[t] = in[t]; \
             __syncthreads(); if (b == 0) out[t] = own[blockDim.x - 1 - t]; __syncthreads(); if (t == 0) free(own);",
            "honest",
        )
        .add(
            USUAL,
            "",
            "float* own = (float*)malloc(8); own[0] = in[t]; own[t == 3 ? 2 : 1] = 1; out[t] = own[0]; free(own);",
            "oob_write | thread 3,0,0 of block *,0,0 writes directly behind the end of `a block of the device heap`*",
        )
        .add(
            USUAL,
            "struct Op { __device__ virtual float of(float x) = 0; __device__ virtual ~Op() {} };\n\
             struct Twice : Op { __device__ float of(float x) override { return 2 * x; } };",
            "Op* op = new Twice; float* own = new float[3]; own[2] = op->of(in[t]); if (b == 0) out[t] = own[2]; \
             delete[] own; delete op;",
            "honest",
        )
        .add(
            USUAL,
            "",
            "float* own = new float[2]; own[t == 3 ? 2 : 1] = 1; if (b == 0) out[t] = own[1]; delete[] own;",
            "oob_write | thread 3,0,0 of block *,0,0 writes directly behind the end of `a block of the device heap`*",
        );
    kernels.check();
}

/// A variable that lies behind another one is memory like any other, so only the source tells what was meant.
#[test]
fn accesses_outside_of_the_variable_that_the_source_names_are_found() {
    let mut kernels = Kernels::new();
    let local = "volatile float own[8]; for (int i = 0; i < 8; i++) own[i] = in[t];";
    kernels
        .add(USUAL, "", &format!("{local}\nfloat x = own[8 + (n > 200)]; if (x == 1e30f) out[t] = x;"), "oob_read:local | thread *,0,0 of block 0,0,0 reads outside of the local variable that the source names (line 5)")
        .add(USUAL, "", "float own[8]; for (int i = 0; i <= 8 - (n > 200); i++) own[i] = in[t]; if (b == 0) out[t] = own[t % 8];", "oob_write:local | *writes outside of the local variable*")
        .add(USUAL, "struct Two { float a[4], b[4]; };", "Two own; for (int i = 0; i < 8 + (n > 50); i++) own.a[i] = in[t]; if (b == 0) out[t] = own.b[t % 4];", "oob_write:local | *")
        // One array of two extents, used as one of one; the address behind the last element; a longer tail.
        .add(USUAL, "", "float own[4][8]; for (int i = 0; i < 32; i++) own[0][i] = in[t]; if (b == 0) out[t] = own[t % 4][n % 8];", "honest")
        .add(USUAL, "", "float own[8], sum = 0; for (float* p = own; p != own + 8; ++p) *p = in[t]; const float* end = &own[8]; for (const float* p = own; p < end; ++p) sum += *p; if (b == 0) out[t] = sum;", "honest")
        .add(USUAL, "struct Tail { int n; float d[1]; };", "__align__(16) char raw[64]; Tail* own = (Tail*)raw; for (int i = 0; i < 8; i++) own->d[i] = in[t]; if (b == 0) out[t] = own->d[t % 8];", "honest")
        .add(USUAL, "", "__shared__ float s[4][16]; s[0][t] = in[t]; __syncthreads(); if (b == 0) out[t] = s[3 - t / 16][t % 16];", "honest")
        .add(USUAL, "", "float4 own = make_float4(1, 2, 3, 4); float* p = (float*)&own; if (b == 0) out[t] = p[t % 4];", "honest")
        .check();
}

/// Each block waits for the other one, so neither can run alone to its end.
#[test]
fn blocks_that_run_side_by_side_meet_each_other_half_way() {
    let mut kernels = Kernels::new();
    kernels.turns = BlockTurns::SideBySide;
    let wait = "if (t == 0 && b < 2) { atomicExch(&count[b], 1); while (!atomicAdd(&count[1 - b], 0)) {} out[b] = 1; }";
    kernels.add(USUAL, "", wait, "honest").check();
}

#[test]
fn misaligned_accesses_are_found_before_the_processor_takes_them() {
    let mut kernels = Kernels::new();
    kernels
        .add(
            USUAL,
            "",
            "if (t < 8) ((float2*)(out + 1))[t] = make_float2(1, 2);",
            "crash_misaligned | *writes 8 bytes at offset *as a value that must be 8-byte aligned (line 4)",
        )
        .add(
            USUAL,
            "",
            "if (t < 8) out[t] = ((const float4*)(in + 2))[t].x;",
            "crash_misaligned | *16-byte aligned*",
        )
        .add(
            USUAL,
            "",
            "if (t < 4) ((float4*)out)[t] = *(const float4*)((const char*)in + 8 + 16 * t);",
            "crash_misaligned | *16-byte aligned*",
        )
        .add(
            USUAL,
            "",
            "if (t == 0) out[0] = *(const float*)((const char*)in + 2);",
            "crash_misaligned | *4-byte aligned*",
        )
        .check();
}

#[test]
fn inputs_are_not_written() {
    let mut kernels = Kernels::new();
    kernels
        .add(USUAL, "", "if (t == 1) ((float*)in)[7] = 5; out[t] = in[t];", "input_mutated | *writes `in[7]` of an input (line 4)")
        .add(USUAL, "", "float* x = (float*)in; if (t == 1 && b == 0) { float old = x[0]; x[0] = 5; out[0] = x[0]; x[0] = old; }", "input_mutated | *")
        .add(USUAL, "", "if (t == 0) atomicAdd((float*)&in[3], 0.0f);", "input_mutated | *")
        .check();
}

#[test]
fn races_are_found_whatever_the_order() {
    let mut kernels = Kernels::new();
    let one = || Watched { grid: 1, block: 64, shared: 256 };
    kernels
        .add(one(), "", "__shared__ float tile[64];\ntile[t] = in[t];\nout[t] = tile[63 - t];", "nondeterministic:race | thread *`tile[*without a barrier in between (block 0,0,0)")
        .add(one(), "", "__shared__ float tile[64]; tile[t] = in[t]; __syncwarp(); out[t] = tile[(t + 32) % 64];", "nondeterministic:race | *")
        .add(one(), "", "__shared__ float s; if (t == 0) s = 0; atomicAdd(&s, in[t]); __syncthreads(); out[t] = s;", "nondeterministic:race | *`s`*")
        .add(one(), "", "__shared__ float s[64]; s[t] = t; __syncthreads(); for (int w = 32; w > 0; w /= 2) if (t < w) s[t] += s[t + w]; if (t == 0) out[0] = s[0];", "nondeterministic:race | *")
        .add(USUAL, "", "out[t] = b;", "nondeterministic:race | *of block 1,0,0 writes `out[*block 0,0,0 writes*")
        .add(USUAL, "", "if (b == 0) work[t] = t; else out[t] = work[t];", "nondeterministic:race | *`work[*with no fence and atomic operation in between")
        .add(USUAL, "", "work[b * 64 + t] = t; __syncthreads(); __shared__ int last; if (t == 0) last = atomicAdd(count, 1) == 1; __syncthreads(); if (last) out[t] = work[t] + work[64 + t];", "nondeterministic:race | *`work[*")
        .add(USUAL, "", "if (b == 0) { work[t] = 1; if (t == 0) *(volatile int*)count = 1; } else if (t == 0) { if (*(volatile int*)count) out[0] = work[5]; }", "nondeterministic:race | *`work[5]`*")
        .add(USUAL, "", "work[b * 64 + t] = t; __threadfence_block(); __syncthreads(); __shared__ int last; if (t == 0) last = atomicAdd(count, 1) == 1; __syncthreads(); if (last) out[t] = work[t];", "nondeterministic:race | *`work[*")
        .check();
}

#[test]
fn reads_of_what_nobody_wrote_are_noted() {
    let mut kernels = Kernels::new();
    kernels
        .add(USUAL, "", "__shared__ float s[64]; if (t < 60) s[t] = 1; __syncthreads(); if (b == 0) out[t] = s[t];", "Unwritten")
        .add(USUAL, "", "extern __shared__ float s[]; s[0] = 1; __syncthreads(); if (b == 0 && t == 0) out[0] = fminf(s[1], 1);", "SameValue | Unwritten")
        .add(USUAL, "", "__shared__ float never[64]; if (b == 0) out[t] = never[t];", "Unwritten")
        .add(USUAL, "", "if (b == 0) { work[t] += 1; out[t] = work[t]; }", "Unwritten")
        .add(USUAL, "", "if (b == 0) out[t] += in[t];", "UnwrittenOutput")
        .add(USUAL, "", "if (b == 0 && t == 0) { work[0] = 1; out[0] = *(unsigned long long*)work; }", "PartlyWritten")
        .check();
}

#[test]
fn honest_oddities_pass() {
    let mut kernels = Kernels::new();
    let one = || Watched { grid: 1, block: 64, shared: 256 };
    let wide = || Watched { grid: 4, block: 96, shared: 0 };
    kernels
        // Sums by float atomics.
        .add(wide(), "", "atomicAdd((float*)count, in[t]);", "honest")
        // The last block reduces what all blocks left.
        .add(wide(), "", "__shared__ bool last; if (t == 0) { work[b] = in[b]; __threadfence(); last = atomicInc((unsigned*)count, gridDim.x - 1) == gridDim.x - 1; } __syncthreads(); if (last && t == 0) { float sum = 0; for (int i = 0; i < gridDim.x; i++) sum += work[i]; out[0] = sum; }", "honest")
        // The same, where every thread fences its own part and the counter is a module variable.
        .add(Watched { grid: 2, block: 64, shared: 0 }, "__device__ int tickets;", "work[b * 64 + t] = t; __threadfence(); __syncthreads(); __shared__ int ticket; if (t == 0) ticket = atomicAdd(&tickets, 1); __syncthreads(); if (ticket % 2 == 1) { out[t] = work[t] + work[64 + t]; }", "honest")
        // Shuffles of a part of the warp, and a warp that exchanges through shared memory.
        .add(one(), "", "__shared__ float s[64]; float v = in[t]; if (t % 32 < 16) v += __shfl_xor_sync(0xffff, v, 8); s[t] = v; __syncwarp(); out[t] = s[t ^ 31]; __syncwarp(); s[t] = 0;", "honest")
        // Shared memory used again as another type.
        .add(one(), "", "extern __shared__ float s[]; s[t] = in[t]; __syncthreads(); float v = s[63 - t]; __syncthreads(); half* h = (half*)s; h[t] = __float2half(v); __syncthreads(); out[t] = __half2float(h[63 - t]);", "honest")
        // Two buffers and one barrier for each step.
        .add(one(), "", "__shared__ float s[2][64]; float sum = 0; s[0][t] = in[t]; for (int i = 0; i < 8; i++) { __syncthreads(); s[(i + 1) & 1][t] = in[(t + i) % n]; sum += s[i & 1][63 - t]; } out[t] = sum;", "honest")
        // Vector loads with a tail behind a branch.
        .add(one(), "", "int at = 4 * t; if (at + 3 < n) *(float4*)(out + at) = *(const float4*)(in + at); else for (; at < n; at++) out[at] = in[at];", "honest")
        // A stride over the grid.
        .add(wide(), "", "for (int i = b * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];", "honest")
        // A histogram in shared memory.
        .add(one(), "", "__shared__ int bins[8]; if (t < 8) bins[t] = 0; __syncthreads(); atomicAdd(&bins[t % 8], 1); __syncthreads(); if (t < 8) out[t] = bins[t];", "honest")
        // Everybody says the same.
        .add(one(), "", "__shared__ int any; any = 0; __syncthreads(); if (in[t] > 0) any = 1; __syncthreads(); out[t] = any;", "SameValue")
        // A lock around plain memory.
        .add(wide(), "", "if (t == 0) { while (atomicCAS(count, 0, 1) != 0) {} __threadfence(); ((float*)count)[1] += in[b]; __threadfence(); atomicExch(count, 0); }", "honest")
        // A chain of blocks, each of which waits for the one before.
        .add(wide(), "", "if (t == 0) { volatile int* flag = count; while (*flag != b) {} __threadfence(); work[b] = b ? work[b - 1] + 1 : 1; out[b] = work[b]; __threadfence(); *flag = b + 1; }", "honest")
        // One warp produces, another consumes, with a flag in shared memory.
        .add(one(), "", "__shared__ float s[32]; __shared__ volatile int ready; if (t == 0) ready = 0; __syncthreads(); if (t < 32) { s[t] = in[t]; __threadfence_block(); __syncwarp(); if (t == 0) ready = 1; } else { while (!ready) {} __threadfence_block(); out[t] = s[t - 32]; }", "honest")
        // Neighbors in the bytes of one word.
        .add(one(), "", "((unsigned char*)out)[t] = t; ((half*)work)[t] = __float2half(in[t]);", "honest")
        // Types with constructors, which C++ would initialize.
        .add(one(), "struct Sum { float value; __device__ Sum() {} };", "__shared__ half a[8][9], h[64]; __shared__ Sum s[64]; a[t / 8][t % 8] = h[t] = __float2half(in[t]); s[t].value = in[t]; __syncthreads(); out[t] = __half2float(a[t % 8][t / 8]) + __half2float(h[63 - t]) + s[t ^ 1].value;", "honest")
        // Lanes that give way on their way here are active all the same.
        .add(one(), "", "int bin = (int)in[t] & 3; unsigned active = __activemask(), peers = __match_any_sync(active, bin); if (t % 32 == __ffs(peers) - 1) atomicAdd(&count[bin], __popc(peers)); if (active == 0xffffffffu) out[t] = 1;", "honest")
        // Read first, then lower.
        .add(wide(), "", "int* least = count; if (*least > -t) atomicMin(least, -t);", "UnorderedAtomic")
        .check();
}

/// Seeds of tests in which blocks wait for each other, so that what overlaps differs.
const SEEDS: [u64; 6] = [1, 2, 3, 0x1234_5678_9abc_def0, 77, 0x9e37_79b9_7f4a_7c15];

/// A grid barrier by hand: how thread 0 arrives and waits, and the fences around that.
fn grid_barrier(before: &str, wait: &str, after: &str) -> String {
    let write = "work[b * 64 + t] = 2 * in[t];";
    let read = "out[b * 32 + t % 32] = ((volatile float*)work)[127 - b * 64 - t % 32];";
    format!(
        "unsigned* c = (unsigned*)count; {write} {before} if (t == 0) {{ {wait} }} {after} if (t < 32) {read}"
    )
}

#[test]
fn grid_barriers_by_hand_are_in_order() {
    let mut kernels = Kernels { cooperative: true, ..Kernels::new() };
    let all = "__threadfence(); __syncthreads();";
    let one = "__syncthreads(); if (t == 0) __threadfence();";
    let spin = "atomicAdd(c, 1u); while (*(volatile unsigned*)c < gridDim.x) {}";
    let spin_atomic = "atomicAdd(c, 1u); while (atomicAdd(c, 0u) < gridDim.x) {}";
    let last = "if (atomicAdd(c, 1u) < gridDim.x - 1) while (*(volatile unsigned*)c < gridDim.x) {}";
    let generation = "volatile unsigned* g = c + 1; unsigned old = *g; __threadfence(); if (atomicAdd(c, 1u) == gridDim.x - 1) { *c = 0; __threadfence(); *g = old + 1; } else while (*g == old) {}";
    for wait in [spin, spin_atomic, last, generation] {
        for before in [all, one] {
            for after in ["__threadfence(); __syncthreads();", "__syncthreads();"] {
                kernels.add(USUAL, "", &grid_barrier(before, wait, after), "honest");
            }
        }
    }
    let group = "cooperative_groups::this_grid().sync();";
    kernels.add(USUAL, "", &grid_barrier(group, "", ""), "honest");
    let missing = "nondeterministic:race | *`work[*";
    kernels
        .add(USUAL, "", &grid_barrier("__syncthreads();", spin, "__syncthreads();"), missing)
        .add(
            USUAL,
            "",
            &grid_barrier("__threadfence_block(); __syncthreads();", spin, "__syncthreads();"),
            missing,
        )
        .check_with(&SEEDS);
}

/// Each block leaves a partial result; the last one reads them all.
fn last_block(store: &str, load: &str) -> String {
    format!(
        "__shared__ bool last; volatile float* part = work; (void)part; if (t == 0) {{ {store} last = \
         atomicInc((unsigned*)count, gridDim.x - 1) == gridDim.x - 1; }} __syncthreads(); if (last && t == 0) {{ \
         float sum = 0; for (int i = 0; i < gridDim.x; i++) sum += {load}; out[0] = sum; }}"
    )
}

#[test]
fn a_volatile_access_needs_a_fence_as_any_other() {
    let mut kernels = Kernels::new();
    let wide = || Watched { grid: 12, block: 32, shared: 0 };
    let missing = "nondeterministic:race | thread 0,0,0 of block * reads `work[*";
    kernels
        .add(wide(), "", &last_block("part[b] = in[b]; __threadfence();", "part[i]"), "honest")
        .add(wide(), "", &last_block("part[b] = in[b]; __threadfence();", "__ldcg(&work[i])"), "honest")
        .add(wide(), "", &last_block("work[b] = in[b]; __threadfence();", "part[i]"), "honest")
        .add(wide(), "", &last_block("part[b] = in[b];", "part[i]"), missing)
        .add(wide(), "", &last_block("__threadfence(); part[b] = in[b];", "part[i]"), missing)
        .add(wide(), "", &last_block("__threadfence(); work[b] = in[b];", "part[i]"), missing)
        .add(wide(), "", &last_block("part[b] = in[b]; __threadfence_block();", "part[i]"), missing)
        .add(wide(), "", &last_block("part[b] = in[b];", "work[i]"), missing)
        .check_with(&SEEDS);
}

#[test]
fn scans_that_look_back_need_one_fence() {
    let mut kernels = Kernels::new();
    let wide = || Watched { grid: 12, block: 32, shared: 0 };
    // A ticket, then a sum and a flag of its own for each block: `count[1 + id]` says that `work[id]` is there.
    let chain = |fence: &str, set: &str, poll: &str, load: &str| {
        format!(
            "if (t == 0) {{ volatile float* sums = work; volatile int* flag = count + 1; \
             int id = atomicAdd(count, 1); float before = 0; if (id) {{ {poll} {load} }} sums[id] = before + in[id]; \
             {fence} {set} out[id] = before; }}"
        )
    };
    let atomic = "while (atomicAdd((int*)&flag[id - 1], 0) != 7) {}";
    let volatile = "while (flag[id - 1] != 7) {}";
    let fenced = "__threadfence(); before = sums[id - 1];";
    let missing = "nondeterministic:race | thread 0,0,0 of block * reads `work[*";
    for (set, poll) in [("atomicExch((int*)&flag[id], 7);", atomic), ("flag[id] = 7;", volatile)] {
        for load in [fenced, "before = sums[id - 1];", "__threadfence(); before = __ldcg(&work[id - 1]);"] {
            kernels.add(wide(), "", &chain("__threadfence();", set, poll, load), "honest");
            kernels.add(wide(), "", &chain("", set, poll, load), missing);
        }
    }
    // Flag and sum in one word need no fence, also where blocks draw one ticket after the other.
    let packed = "volatile unsigned long long* state = (unsigned long long*)count + 1; if (t == 0) for (;;) { int id = atomicAdd(count, 1); if (id >= 48) break; int sum = 0; for (int i = id - 1; i >= 0; i--) { unsigned long long seen; do seen = state[i]; while (seen >> 32 != 7 && seen >> 32 != 8); sum += (int)seen; if (seen >> 32 == 8) break; } if (id % 3) state[id] = 7ull << 32 | 1u; state[id] = 8ull << 32 | (unsigned)(sum + 1); out[id] = sum; }";
    for grid in [2, 4, 12] {
        kernels.add(Watched { grid, block: 32, shared: 0 }, "", packed, "honest");
    }
    kernels.check_with(&SEEDS);
}

/// A counter that threads read and write without atomic operations loses counts only where they take turns in
/// between.
#[test]
fn threads_give_way_at_accesses() {
    let text = "__global__ void k(int* count) { volatile int* own = count; int old = *own; *own = old + 1; }";
    let mut device = HostDevice::with_threads(2).unwrap();
    let module = device.load(&compile_as(text, &["k"], true), &["k".to_string()]).unwrap();
    let mut counted = |order: u64| {
        let count = device.allocate("count", 4).unwrap();
        device.fill(count, 0).unwrap();
        let watch = Watch {
            buffers: vec![WatchedBuffer { buffer: count, contents: WatchedContents::Given }],
            order,
            turns: BlockTurns::OneByOne,
            residue: 0,
            accesses_max: 1000,
            time_max: Duration::from_secs(20),
        };
        let bound = BoundLaunch {
            entry: "k".to_string(),
            grid: [1; 3],
            block: [128, 1, 1],
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: vec![buffer(count)],
        };
        let report = device.launch_watched(module, &[bound], &watch).unwrap().unwrap();
        assert!(report.accesses >= 256, "{report:?}");
        let bytes = device.read(count).unwrap();
        device.free(count).unwrap();
        i32::from_le_bytes(bytes.try_into().unwrap())
    };
    let (one, again, other) = (counted(7), counted(7), counted(8));
    assert!(one < 128 && other < 128, "{one} {other}");
    assert_eq!(one, again, "the same seed takes the same turns");
}

/// One processor thread runs all blocks, so an order that puts a block before the one it waits for would never end.
#[test]
fn blocks_may_wait_for_earlier_ones_in_every_order_of_threads() {
    let text = "__global__ void k(int* flags) { if (threadIdx.x) return; if (blockIdx.x) \
        while (atomicAdd(&flags[blockIdx.x - 1], 0) == 0) {} __threadfence(); atomicExch(&flags[blockIdx.x], 1); }";
    let mut device = HostDevice::with_threads(2).unwrap();
    let module = device.load(&compile_as(text, &["k"], true), &["k".to_string()]).unwrap();
    let flags = device.allocate("flags", 48).unwrap();
    for order in 0..4 {
        device.fill(flags, 0).unwrap();
        let watch = Watch {
            buffers: vec![WatchedBuffer { buffer: flags, contents: WatchedContents::Given }],
            order,
            turns: BlockTurns::OneByOne,
            residue: 0,
            accesses_max: 1 << 16,
            time_max: Duration::from_secs(20),
        };
        let bound = BoundLaunch {
            entry: "k".to_string(),
            grid: [12, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: vec![buffer(flags)],
        };
        device.set_conditions(RunConditions { order: Some(order), ..RunConditions::default() }).unwrap();
        device.launch_watched(module, &[bound], &watch).unwrap().unwrap();
        assert!(device.read(flags).unwrap().chunks(4).all(|own| own == [1, 0, 0, 0]));
    }
}

#[test]
fn a_run_that_takes_too_long_is_given_up() {
    let mut kernels = Kernels::new();
    kernels.add(USUAL, "", "float v = 0; for (int i = 0; i < 100000; i++) v += *(volatile const float*)&in[i % n]; out[b * 2] = v;", "harness_error:budget | the instrumented run takes too long").check();
}

#[test]
fn a_module_without_instruments_is_not_watched() {
    let mut bench = Bench::new("__global__ void k(int* out) { out[0] = 1; }", "k");
    let out = bench.buffer("out", &[0i32]);
    let bound = bench.bound(1, 1, 0, vec![buffer(out)]);
    let watch = Watch {
        buffers: vec![WatchedBuffer { buffer: out, contents: WatchedContents::Output }],
        order: 1,
        turns: BlockTurns::OneByOne,
        residue: 0,
        accesses_max: 1,
        time_max: Duration::ZERO,
    };
    assert_eq!(bench.device.launch_watched(bench.module, &[bound], &watch), Ok(None));
    assert_ne!(NoteKind::SameValue, NoteKind::Unwritten);
}

/// A warp that fills a ring of two stages and one that reads it; `FULL` and `EMPTY` are their waits.
const RING: &str = r#"
extern __shared__ __align__(128) float ring[];
evo::mbarrier* full = (evo::mbarrier*)(ring + 64); evo::mbarrier* empty = full + 2;
if (t == 0) {
    for (int i = 0; i < 2; i++) { evo::mbarrier_init(full + i, 1); evo::mbarrier_init(empty + i, 1); }
    evo::fence_mbarrier_init();
}
__syncthreads();
if (t == 0) for (int i = 0; i < 3; i++) {
    EMPTY
    evo::mbarrier_arrive_expect_tx(full + i % 2, 128);
    evo::bulk_copy_load(ring + i % 2 * 32, in + 32 * i, 128, full + i % 2);
}
if (t >= 32) for (int i = 0; i < 3; i++) {
    FULL
    float own = ring[i % 2 * 32 + t - 32];
    __syncwarp();
    if (t == 32) evo::mbarrier_arrive(empty + i % 2);
    if (b == 0) out[32 * i + t - 32] = own;
}
"#;

#[test]
fn copies_in_the_background_are_in_order_with_those_that_wait_for_them() {
    let include = "#include <evo/ptx.cuh>";
    let shape = || Watched { grid: 2, block: 64, shared: 320 };
    let ring = |full: &str, empty: &str| RING.replace("FULL", full).replace("EMPTY", empty);
    let (full, empty) = (
        "evo::mbarrier_wait(full + i % 2, i / 2 & 1);",
        "evo::mbarrier_wait(empty + i % 2, (i / 2 & 1) ^ 1);",
    );
    let by_one = "if (t == 32) evo::mbarrier_wait(full + i % 2, i / 2 & 1); __syncwarp();";
    let too_few = "if (t < 40) evo::mbarrier_wait(full + i % 2, i / 2 & 1);";
    let race = "nondeterministic:race | *without a barrier in between*";
    let product = |fence: &str| {
        format!(
            "extern __shared__ __align__(128) unsigned tile[];
        for (int i = t; i < 256; i += 128) tile[i] = 0;
        float d[4] = {{}};
        {fence} __syncthreads();
        const unsigned long long place = evo::wgmma_descriptor(tile, 128, 256, 0);
        evo::wgmma_fence();
        for (int i = 0; i < 2; i++) evo::wgmma_m64k16<evo::f16, 8>(d, place, place, i);
        evo::wgmma_commit(); evo::wgmma_wait<0>();
        if (t < 25 && b == 0) for (int i = 0; i < 4; i++) out[4 * t + i] = d[i];"
        )
    };
    Kernels::new()
        .add(shape(), include, &ring(full, empty), "honest")
        .add(shape(), include, &ring(by_one, empty), "honest")
        .add(shape(), include, &ring(too_few, empty), race)
        .add(
            Watched { grid: 1, block: 128, shared: 4096 },
            include,
            &product("evo::fence_proxy_async();"),
            "Unwritten*",
        )
        .check();
}
