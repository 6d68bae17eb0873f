//! Watched launches of kernels that use groups, libcu++ and CUB: honest uses pass, and storage that is used again without
//! a barrier is a race.

use super::instrument::{Kernels, USUAL};

const CUB: &str = "#include <cub/cub.cuh>\nusing Sum = cub::BlockReduce<float, 64>;\nusing Scan = cub::BlockScan<float, 64>;";

#[test]
fn temporary_storage_is_used_again_behind_a_barrier_only() {
    let twice = |between: &str| {
        format!(
            "__shared__ Sum::TempStorage temp;\nfloat a = Sum(temp).Sum(in[t]);\n{between}\nfloat c = Sum(temp).Sum(in[t] + 1);\nif (t == 0) out[b] = a + c;"
        )
    };
    let scans = "__shared__ union { Sum::TempStorage sum; Scan::TempStorage scan; } temp;\nfloat all, own;\n\
                 Scan(temp.scan).ExclusiveSum(in[t], own, all);\n__syncthreads();\nall += Sum(temp.sum).Sum(own);\n\
                 if (t == 0) out[b] = all;";
    let mut kernels = Kernels::new();
    kernels
        .add(USUAL, CUB, &twice("__syncthreads();"), "honest")
        .add(USUAL, "", &twice(""), "nondeterministic:race | *")
        .add(USUAL, "", scans, "honest");
    kernels.check();
}

#[test]
fn copies_in_the_background_order_their_readers() {
    let prefix = "#include <cuda/pipeline>\n#include <cooperative_groups/memcpy_async.h>\nnamespace cg = cooperative_groups;";
    let group = |end: &str| {
        format!(
            "__shared__ float tile[64];\nauto block = cg::this_thread_block();\ncg::memcpy_async(block, tile, in, 256);\n{end}\nout[t % 50 + 50 * b] = tile[63 - t];"
        )
    };
    let barrier = "__shared__ float tile[64];\n__shared__ cuda::barrier<cuda::thread_scope_block> bar;\n\
                   auto block = cg::this_thread_block();\nif (t == 0) init(&bar, 64);\nblock.sync();\n\
                   for (int round = 0; round < 3; round++) {\n cuda::memcpy_async(block, tile, in, 256, bar);\n \
                   bar.arrive_and_wait();\n if (t < 50) out[t + 50 * b] = tile[63 - t];\n bar.arrive_and_wait();\n}";
    let stages = "__shared__ float tile[2][64];\n__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;\n\
                  auto block = cg::this_thread_block();\nauto pipe = cuda::make_pipeline(block, &state);\nfloat sum = 0;\n\
                  for (int at = 0, ahead = 0; at < 4; at++) {\n for (; ahead < 4 && ahead < at + 2; ahead++) {\n  \
                  pipe.producer_acquire();\n  cuda::memcpy_async(block, tile[ahead % 2], in, 256, pipe);\n  pipe.producer_commit();\n }\n \
                  pipe.consumer_wait();\n sum += tile[at % 2][63 - t];\n pipe.consumer_release();\n}\nif (t < 50) out[t + 50 * b] = sum;";
    let atomics = "cuda::atomic_ref<int, cuda::thread_scope_device> all(count[0]);\nall.fetch_add(1);\n\
                   cuda::atomic_ref<int>(count[1]).fetch_max(t);";
    let mut kernels = Kernels::new();
    kernels
        .add(USUAL, prefix, barrier, "honest")
        .add(
            USUAL,
            "",
            &group("cg::wait(block);").replace("out[t % 50 + 50 * b]", "if (t < 50) out[t + 50 * b]"),
            "honest",
        )
        .add(USUAL, "", stages, "honest")
        .add(USUAL, "", atomics, "honest");
    kernels.check();
}

#[test]
fn tiles_exchange_without_a_finding() {
    let prefix = "#include <cooperative_groups.h>\n#include <cooperative_groups/scan.h>\nnamespace cg = cooperative_groups;";
    let body = "__shared__ float own[64];\nauto tile = cg::tiled_partition<8>(cg::this_thread_block());\nown[t] = in[t];\n\
                tile.sync();\nfloat x = own[t ^ 7];\nx = cg::reduce(tile, x, cg::plus<float>()) + cg::exclusive_scan(tile, x);\n\
                if (t < 50) out[t + 50 * b] = x;";
    let mut kernels = Kernels::new();
    kernels.add(USUAL, prefix, body, "honest").add(
        USUAL,
        "",
        &body.replace("tile.sync();", ""),
        "nondeterministic:race | *",
    );
    kernels.check();
}

#[test]
fn the_lane_that_multiplies_for_a_warp_reads_what_the_others_hold() {
    let prefix = "#include <mma.h>\nusing namespace nvcuda;";
    let product = |between: &str| {
        format!(
            "__shared__ __align__(32) float tile[256];
        wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> y;
        wmma::fragment<wmma::accumulator, 16, 16, 8, float> z;
        for (int i = t; i < 256; i += 64) tile[i] = in[i % n];
        {between}
        wmma::fill_fragment(z, 0.0f);
        wmma::load_matrix_sync(x, tile, 16);
        wmma::load_matrix_sync(y, tile, 16);
        wmma::mma_sync(z, x, y, z);
        __syncthreads();
        if (t < 32) wmma::store_matrix_sync(tile, z, 16, wmma::mem_row_major);
        __syncthreads();
        if (t < 50) out[50 * b + t] = tile[t];"
        )
    };
    let mut kernels = Kernels::new();
    kernels.add(USUAL, prefix, &product("__syncthreads();"), "honest").add(
        USUAL,
        "",
        &product(""),
        "nondeterministic:race | *",
    );
    kernels.check();
}
