//! `evo/ptx_sm90.cuh` on this device: what its functions demand, and when their effects are seen.
//! What they compute is checked by `evo-selftest ptx` on every device.

use evo_protocol::verdict::VerdictKind;

use super::*;

fn kernel(body: &str) -> String {
    format!(
        "#include <evo/ptx.cuh>\nextern \"C\" __global__ void k(unsigned* out) {{\n\
         extern __shared__ unsigned memory[];\n\
         unsigned* tile = (unsigned*)(((size_t)memory + 1023) & ~(size_t)1023); \
         evo::mbarrier* bar = (evo::mbarrier*)(tile + 4096); (void)bar;\n{body}\n}}"
    )
}

const FIRST: u32 = 5;

fn bench(body: &str) -> (Bench, BufferId) {
    let mut bench = Bench::new(&kernel(body), "k");
    let out = bench.buffer("out", &(0..4096u32).collect::<Vec<_>>());
    (bench, out)
}

fn values(body: &str, threads: u32) -> Vec<u32> {
    let (mut bench, out) = bench(body);
    bench.run(1, threads, 20_480, vec![buffer(out)]).unwrap();
    bench.values(out)
}

fn refused(body: &str, threads: u32) -> (VerdictKind, String) {
    let (mut bench, out) = bench(body);
    let error = bench.run(1, threads, 20_480, vec![buffer(out)]).unwrap_err();
    (error.kind, error.message)
}

fn check(body: &str, threads: u32, kind: VerdictKind, words: &str, line: u32) {
    let (found, message) = refused(body, threads);
    assert_eq!(found, kind, "{message}");
    assert!(message.contains(words), "{message}");
    assert!(message.contains(&format!("line {}, thread", FIRST + line)), "{message}");
}

const ILLEGAL: VerdictKind = VerdictKind::CrashIllegalInstruction;
const MISALIGNED: VerdictKind = VerdictKind::CrashMisaligned;

/// Makes a barrier of one arrival that copies may use.
const BARRIER: &str =
    "if (threadIdx.x == 0) { evo::mbarrier_init(bar, 1); evo::fence_mbarrier_init(); } __syncthreads();\n";

#[test]
fn a_bulk_copy_lands_when_its_phase_is_waited_for_and_no_earlier() {
    let body = format!(
        "{BARRIER}
        if (threadIdx.x == 0) {{
            tile[0] = 7;
            evo::mbarrier_arrive_expect_tx(bar, 64);
            evo::bulk_copy_load(tile, out + 100, 32, bar);
            evo::bulk_copy_load(tile + 8, out + 200, 32, bar);
            out[0] = tile[0], out[1] = tile[15];
        }}
        __syncthreads();
        out[2] = tile[0];
        __syncthreads();
        evo::mbarrier_wait(bar, 0);
        if (threadIdx.x == 40) out[3] = tile[0], out[4] = tile[15];"
    );
    let none = u32::MAX;
    assert_eq!(values(&body, 64)[..5], [none, none, none, 100, 207]);
}

#[test]
fn stores_reach_global_memory_at_the_wait_or_at_the_end() {
    let body = "
        if (threadIdx.x == 0) for (int i = 0; i < 8; i++) tile[i] = 500 + i;
        evo::fence_proxy_async();
        if (threadIdx.x == 0) {
            evo::bulk_copy_store(out + 8, tile, 16); evo::bulk_commit();
            evo::bulk_copy_store(out + 12, tile + 4, 16); evo::bulk_commit();
            evo::bulk_wait_read<0>();
            out[0] = out[8];
            evo::bulk_wait<1>();
            out[1] = out[8], out[2] = out[12];
        }";
    let found = values(body, 32);
    assert_eq!(found[..3], [8, 500, 12]);
    assert_eq!(found[8..16], [500, 501, 502, 503, 504, 505, 506, 507]);
}

#[test]
fn phases_of_two_roles_take_turns() {
    let body = "
        if (threadIdx.x == 0) {
            evo::mbarrier_init(bar, 1); evo::mbarrier_init(bar + 1, 2); evo::fence_mbarrier_init();
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            if (threadIdx.x == 0) for (int i = 0; i < 5; i++) {
                evo::mbarrier_wait(bar + 1, (i & 1) ^ 1);
                evo::mbarrier_arrive_expect_tx(bar, 128);
                evo::bulk_copy_load(tile, out + 256 + 32 * i, 128, bar);
            }
        } else for (int i = 0; i < 5; i++) {
            while (!evo::mbarrier_try_wait(bar, i & 1)) {}
            unsigned own = tile[threadIdx.x % 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) evo::mbarrier_arrive(bar + 1);
            if (threadIdx.x < 64) out[32 * i + threadIdx.x % 32] = own;
        }";
    let expected: Vec<u32> = (256..416).collect();
    assert_eq!(values(body, 96)[..160], expected);
}

#[test]
fn misused_barriers_are_named() {
    let init = "if (threadIdx.x == 0) evo::mbarrier_init(bar, 1); __syncthreads();\n";
    check("evo::mbarrier_arrive(bar);", 1, ILLEGAL, "mbarrier_init has not made", 0);
    check("evo::mbarrier_init((evo::mbarrier*)(tile + 1), 1);", 1, MISALIGNED, "misaligned barrier", 0);
    check("evo::mbarrier_init((evo::mbarrier*)out, 1);", 1, ILLEGAL, "not shared memory", 0);
    check("evo::mbarrier_init(bar, 0);", 1, ILLEGAL, "count outside", 0);
    check(&format!("{init}*bar = 3;\nevo::mbarrier_arrive(bar);"), 1, ILLEGAL, "overwritten", 2);
    check(&format!("{init}evo::mbarrier_wait(bar, 2);"), 1, ILLEGAL, "0 or 1", 1);
    let more = "evo::mbarrier_expect_tx(bar, 16);\nevo::mbarrier_arrive(bar);\nevo::mbarrier_arrive(bar);";
    check(&format!("{init}{more}"), 1, ILLEGAL, "more arrivals", 3);
    let copy = "evo::mbarrier_arrive_expect_tx(bar, 16);\nevo::bulk_copy_load(tile, out, 32, bar);";
    check(&format!("{init}{copy}"), 1, ILLEGAL, "without fence_mbarrier_init", 2);
    check(&format!("{BARRIER}{copy}"), 1, ILLEGAL, "more bytes than the phase", 2);
    let left = format!(
        "{BARRIER}evo::mbarrier_arrive_expect_tx(bar, 16);\nevo::bulk_copy_load(tile, out, 16, bar);"
    );
    let (kind, message) = refused(&left, 1);
    assert!(
        kind == ILLEGAL && message.contains("the block ends before the copy of line 7 has landed"),
        "{message}"
    );
}

#[test]
fn roles_that_wait_for_each_other_are_described() {
    let body = "
        if (threadIdx.x == 0) { evo::mbarrier_init(bar, 1); evo::mbarrier_init(bar + 1, 2); evo::fence_mbarrier_init(); }
        __syncthreads();
        if (threadIdx.x < 32) {
            if (threadIdx.x == 0) {
                evo::mbarrier_arrive_expect_tx(bar, 256);
                evo::bulk_copy_load(tile, out, 128, bar);
                evo::mbarrier_wait(bar + 1, 0);
            }
        } else {
            evo::mbarrier_wait(bar, 0);
        }";
    let (kind, message) = refused(body, 96);
    assert_eq!(kind, VerdictKind::DivergentBarrier);
    let expected = [
        "thread 0 waits at line 12 (`evo::mbarrier_wait` for parity 0, barrier at byte ",
        "phase 0: 0 of 2 arrivals)",
        "threads 32-95 wait at line 15 (`evo::mbarrier_wait` for parity 0, barrier at byte ",
        "phase 0: 1 of 1 arrivals, 128 of 256 bytes)",
    ];
    assert!(expected.iter().all(|words| message.contains(words)), "{message}");
    // A loop of tries is stuck as well.
    let tries = "evo::mbarrier_init(bar, 1); evo::mbarrier_init(bar + 1, 1);
        for (int i = 0; !evo::mbarrier_try_wait(bar + i % 2, 0); i++) {}";
    let (kind, message) = refused(tries, 1);
    assert!(kind == VerdictKind::DivergentBarrier && message.contains("evo::mbarrier_try_wait"), "{message}");
}

#[test]
fn misused_copies_are_named() {
    let load = |call: &str| format!("{BARRIER}evo::mbarrier_expect_tx(bar, 64);\n{call}");
    check(
        &load("evo::bulk_copy_load(tile + 1, out, 16, bar);"),
        1,
        MISALIGNED,
        "in shared memory is a multiple",
        2,
    );
    check(
        &load("evo::bulk_copy_load(tile, out + 1, 16, bar);"),
        1,
        MISALIGNED,
        "in global memory is a multiple",
        2,
    );
    check(&load("evo::bulk_copy_load(tile, out, 24, bar);"), 1, MISALIGNED, "its size is a multiple", 2);
    check(&load("evo::bulk_copy_load(out, out, 16, bar);"), 1, ILLEGAL, "not inside shared memory", 2);
    let store = "evo::bulk_copy_store(out, tile, 16);";
    check(&format!("tile[1] = 5;\n{store}"), 1, ILLEGAL, "fence_proxy_async", 1);
    let late = format!(
        "evo::fence_proxy_async();\n{store} evo::bulk_commit();\ntile[1] = 5;\nevo::bulk_wait_read<0>();"
    );
    check(&late, 1, ILLEGAL, "overwritten while the bulk store of line 6 read it", 3);
    let (_, message) = refused(&format!("evo::fence_proxy_async();\n{store} evo::bulk_commit();"), 1);
    assert!(message.contains("a thread returns while its bulk store of line 6"), "{message}");
    let flying = "evo::mbarrier_expect_tx(bar, 16);\nevo::bulk_copy_load(tile, out, 16, bar);\nevo::bulk_copy_store(out, tile, 16);";
    check(&format!("{BARRIER}{flying}"), 1, ILLEGAL, "the copy of line 7 is on its way", 3);
}

#[test]
fn a_block_alone_is_a_cluster() {
    let body = "
        evo::cluster_arrive();
        tile[threadIdx.x] = 5;
        evo::cluster_wait();
        evo::cluster_sync();
        out[threadIdx.x] = evo::dsmem_load(evo::mapa(tile, evo::cluster_rank()) + (threadIdx.x + 32) % 64) + evo::cluster_size();
        evo::dsmem_store(evo::mapa(tile, 0), 3u);
        evo::grid_dependency_wait(); evo::grid_dependency_launch();
        if (evo::elect_one()) out[100 + threadIdx.x] = 1;";
    let found = values(body, 64);
    assert_eq!((found[0], found[63], found[100], found[101], found[132]), (6, 6, 1, 101, 1));
    check("evo::mapa(tile, 1);", 1, ILLEGAL, "rank 1 is outside of the cluster, which has 1 block", 0);
    check("evo::cluster_wait();", 1, ILLEGAL, "not called in turn", 0);
    let (kind, message) = refused("if (threadIdx.x != 3) (void)evo::elect_one();", 32);
    assert!(kind == VerdictKind::DivergentBarrier && message.contains("evo::elect_one"), "{message}");
}

/// A map of `out` as rows of 64 numbers of 2 bytes, boxes of 8 rows of `columns`, in the form of this device.
fn mapped(columns: u32, swizzle: u32, fill: u32) -> String {
    format!(
        "evo::tensor_map map = {{0x0070616d5f6f7665ull, (uint64_t)out, {{64, 20}}, 0, {{128}}, {{{columns}, 8}}, 2, 2, \
         {swizzle}, {fill}}};\n"
    )
}

#[test]
fn boxes_are_swizzled_and_filled_behind_the_edge() {
    for (columns, swizzle) in [(64, 0), (16, 1), (32, 2), (64, 3)] {
        let body = format!(
            "{}{BARRIER}if (threadIdx.x == 0) {{
                evo::mbarrier_arrive_expect_tx(bar, 16 * {columns});
                evo::tma_load<2>(tile, map, bar, 16, 16);
            }}
            evo::mbarrier_wait(bar, 0);
            out[1000 + threadIdx.x] = tile[threadIdx.x];",
            mapped(columns, swizzle, 1)
        );
        let (words, chunks) = (columns as usize / 2, columns as usize / 8);
        let found = &values(&body, 256)[1000..1000 + 8 * words];
        for (at, own) in found.iter().enumerate() {
            let (row, word) = (at / words, at % words);
            let line = 4 * at / 128;
            let chunk = (word / 4) ^ if swizzle == 0 { 0 } else { line % chunks };
            let (x, y) = (8 + 4 * chunk + word % 4, 16 + row);
            let expected = if x < 32 && y < 20 { 32 * y + x } else { 0x7fff_7fff };
            assert_eq!(*own as usize, expected, "swizzle {swizzle}, row {row}, word {word}");
        }
    }
}

#[test]
fn boxes_are_stored_inside_the_edge_only() {
    let body = format!(
        "{}for (int i = threadIdx.x; i < 256; i += 32) tile[i] = 5000 + i;
        evo::fence_proxy_async();
        __syncwarp();
        if (threadIdx.x == 0) {{
            evo::tma_store<2>(map, tile, 8, 17);
            evo::bulk_commit(), evo::bulk_wait<0>();
        }}",
        mapped(64, 3, 0)
    );
    let found = values(&body, 32);
    for (at, own) in found.iter().enumerate().take(1000) {
        let (row, word) = (at as i64 / 32 - 17, at as i64 % 32 - 4);
        let inside = (0..3).contains(&row) && word >= 0;
        let from = row * 32 + ((word / 4) ^ row) * 4 + word % 4;
        assert_eq!(i64::from(*own), if inside { 5000 + from } else { at as i64 }, "{at}");
    }
}

#[test]
fn misused_maps_are_named() {
    let load = |map: &str, call: &str| {
        format!("{}{BARRIER}{map}evo::mbarrier_expect_tx(bar, 1024);\n{call}", mapped(64, 3, 0))
    };
    let call = "evo::tma_load<2>(tile, map, bar, 0, 0);";
    check(&load("map.magic = 0; ", call), 1, ILLEGAL, "tensor map that evo has not made", 3);
    check(&load("", "evo::tma_load<1>(tile, map, bar, 0);"), 1, ILLEGAL, "another number of dimensions", 3);
    check(&load("", "evo::tma_load<2>(tile, map, bar, 4, 0);"), 1, ILLEGAL, "a multiple of 16 bytes", 3);
    let store = format!("{}evo::tma_store<2>(map, tile, 0, -1);", mapped(64, 3, 0));
    check(&store, 1, ILLEGAL, "which only loads may have", 1);
    check(&load("map.strides[0] = 136; ", call), 1, MISALIGNED, "strides are multiples of 16", 3);
    check(&load("map.base += 8; ", call), 1, MISALIGNED, "base is a multiple of 16", 3);
    check(&load("map.swizzle = 2; ", call), 1, MISALIGNED, "no longer than the swizzle", 3);
    check(&load("map.box[0] /= 2; ", call), 1, ILLEGAL, "shorter than its swizzle", 3);
    check(
        &load("", "evo::tma_load<2>(tile + 16, map, bar, 0, 0);"),
        1,
        MISALIGNED,
        "128 bytes are needed",
        3,
    );
    check(
        &load("", "evo::tma_load<2>(tile + 32, map, bar, 0, 0);"),
        1,
        MISALIGNED,
        "each 256, 512 or 1024",
        3,
    );
    check(&load("", "evo::tma_load<2>(tile + 5120, map, bar, 0, 0);"), 1, ILLEGAL, "a box is not inside", 3);
    check(
        &load("", "evo::tma_load_multicast<2>(tile, map, bar, 3, 0, 0);"),
        1,
        ILLEGAL,
        "its cluster has not",
        3,
    );
}

/// Zeros in both operands, a fence, and a product of 64 x 16 x 16.
const PRODUCT: &str = "for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = 0x3c003c00;
    const unsigned long long a = evo::wgmma_descriptor(tile, 128, 256, 0), b = a; float d[8] = {};\n";

#[test]
fn accumulators_are_nobodys_until_the_wait() {
    let body = format!(
        "{PRODUCT}evo::fence_proxy_async(); __syncthreads();
        evo::wgmma_fence();
        evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 0);
        evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);
        evo::wgmma_commit();
        out[threadIdx.x] = __float_as_uint(d[5]);
        evo::wgmma_wait<0>();
        out[128 + threadIdx.x] = __float_as_uint(d[5]);"
    );
    let found = values(&body, 128);
    assert!(found[..128].iter().all(|word| *word == u32::MAX), "{found:?}");
    assert!(found[128..256].iter().all(|word| f32::from_bits(*word) == 32.0), "{found:?}");
}

#[test]
fn misused_products_are_named() {
    let mma = "evo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);";
    let after = |text: &str| format!("{PRODUCT}evo::fence_proxy_async(); __syncthreads();\n{text}");
    let fenced = |text: &str| after(&format!("evo::wgmma_fence();\n{text}"));
    let check = |body: String, words: &str, line: u32| check(&body, 128, ILLEGAL, words, line);
    check(
        format!("{PRODUCT}__syncthreads(); evo::wgmma_fence();\n{mma}"),
        "since their last fence_proxy_async",
        3,
    );
    check(after(mma), "without a wgmma_fence", 3);
    check(fenced(&format!("{mma}\nd[3] = 1;\n{mma}")), "written before wgmma_wait", 6);
    check(
        fenced(&format!("{mma} evo::wgmma_commit();\nd[3] = 1; evo::wgmma_wait<0>();")),
        "written before wgmma_wait",
        5,
    );
    let again = format!("{mma} evo::wgmma_commit(); evo::wgmma_wait<0>();\nd[3] *= 2;\n{mma}");
    check(fenced(&again), "since the last wgmma_fence", 6);
    let late = format!("{mma} evo::wgmma_commit();\ntile[threadIdx.x] = 0;\nevo::wgmma_wait<0>();");
    check(fenced(&late), "overwritten while the wgmma of line 9 read it", 6);
    let outside = "evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(out, 128, 256, 0), b, 1);";
    check(fenced(outside), "for what is not shared memory", 4);
    let far = "evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_advance(a, 20480), b, 1);";
    check(fenced(far), "points outside of the block's shared memory", 4);
    check(
        fenced("evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(tile, 128, 16384, 0), b, 1);"),
        "leads outside",
        4,
    );
    check(
        fenced("evo::wgmma_m64k16<evo::f16, 16>(d, a + (threadIdx.x == 70), b, 1);"),
        "different descriptors",
        4,
    );
    check(
        fenced(&format!("if (threadIdx.x == 9) evo::wgmma_commit();\n{mma}")),
        "different numbers of times",
        5,
    );
    let (kind, message) = refused(
        &after(
            "evo::wgmma_fence(); evo::wgmma_m64k16<evo::f16, 16>(d, evo::wgmma_descriptor(tile + 32, 1, 1024, 128), b, 1);",
        ),
        128,
    );
    assert!(kind == MISALIGNED && message.contains("inside of a group of eight"), "{message}");
    let (kind, message) = refused(
        &after("evo::wgmma_fence(); if (threadIdx.x < 96)\nevo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);"),
        128,
    );
    assert_eq!(kind, VerdictKind::DivergentBarrier);
    assert!(
        message.contains(
            "threads 0-95 wait at line 9 (`evo::wgmma`, mask 0xffffffff), threads 96-127 have returned"
        ),
        "{message}"
    );
    let (_, message) =
        refused(&after("evo::wgmma_fence();\nevo::wgmma_m64k16<evo::f16, 16>(d, a, b, 1);"), 64);
    assert!(message.contains("a warpgroup of fewer than 128 threads"), "{message}");
}

#[test]
fn registers_are_set_by_whole_warpgroups_and_fit() {
    let set = "if (threadIdx.x < 128) evo::setmaxnreg_dec<24>(); else if (threadIdx.x < 256)\nevo::setmaxnreg_inc<240>(); else\nevo::setmaxnreg_inc<REG>();";
    assert_eq!(values(&set.replace("REG", "240"), 384)[0], 0);
    check(&set.replace("REG", "256"), 384, ILLEGAL, "exceed 65536", 2);
    let (kind, message) = refused("if (threadIdx.x != 5) evo::setmaxnreg_dec<40>();", 128);
    assert!(kind == VerdictKind::DivergentBarrier && message.contains("evo::setmaxnreg"), "{message}");
    let two = "if (threadIdx.x < 64)\nevo::setmaxnreg_dec<40>(); else\nevo::setmaxnreg_dec<24>();";
    let (kind, message) = refused(two, 128);
    assert!(kind == ILLEGAL && message.contains("different instructions"), "{message}");
}
