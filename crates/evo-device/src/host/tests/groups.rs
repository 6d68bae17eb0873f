//! Cooperative groups: what they compute, copies that land at their wait, and groups that never meet.

use evo_protocol::verdict::VerdictKind;

use super::*;

const USING: &str = "#include <cooperative_groups.h>\n#include <cooperative_groups/scan.h>\nnamespace cg = cooperative_groups;\n";

fn rows(columns: usize, body: &str) -> Vec<Vec<i32>> {
    let text = format!(
        "{USING}extern \"C\" __global__ void k(int* out) {{\n auto block = cg::this_thread_block();\n \
         int rank = block.thread_rank(); int* row = out + {columns} * rank;\n{body}\n}}\n"
    );
    let mut bench = Bench::new(&text, "k");
    let out = bench.buffer("out", &vec![0i32; 64 * columns]);
    bench.run(1, 64, 0, vec![buffer(out)]).unwrap();
    bench.values::<i32>(out).chunks(columns).map(<[i32]>::to_vec).collect()
}

#[test]
fn scans_and_partitions_of_tiles() {
    let found = rows(
        8,
        r#"
        auto tile = cg::tiled_partition<16>(block);
        row[0] = cg::inclusive_scan(tile, rank);
        row[1] = cg::exclusive_scan(tile, rank, cg::greater<int>());
        auto same = cg::labeled_partition(tile, rank % 3);
        row[2] = same.size() * 100 + same.thread_rank();
        row[3] = cg::reduce(same, rank, cg::plus<int>());
        auto half = cg::binary_partition(tile, rank % 4 == 0);
        row[4] = half.size() * 100 + half.meta_group_rank();
        row[5] = half.shfl(rank, half.size() - 1);
        row[6] = tile.match_any(rank / 2);
        double wide = tile.shfl_xor((double)rank, 1);
        struct { int a, b, c; } three = {rank, 2 * rank, 3 * rank};
        row[7] = (int)wide + tile.shfl(three, 5).c;"#,
    );
    for (rank, row) in found.iter().enumerate() {
        let (first, place) = (rank / 16 * 16, rank % 16);
        let alike: Vec<usize> = (first..first + 16).filter(|other| other % 3 == rank % 3).collect();
        let side: Vec<usize> =
            (first..first + 16).filter(|other| (other % 4 == 0) == (rank % 4 == 0)).collect();
        let among = alike.iter().filter(|other| **other < rank).count();
        let expected = [
            (first..=rank).sum::<usize>(),
            if place == 0 { 0 } else { rank - 1 },
            alike.len() * 100 + among,
            alike.iter().sum(),
            side.len() * 100 + usize::from(rank % 4 == 0),
            *side.last().unwrap(),
            3 << (place / 2 * 2),
            (rank ^ 1) + 3 * (first + 5),
        ];
        assert_eq!(*row, expected.map(|value| value as i32), "thread {rank}");
    }
}

#[test]
fn groups_of_sizes_that_are_known_late() {
    let found = rows(
        4,
        r#"
        cg::thread_group whole = block, quarter = cg::tiled_partition(block, 8);
        __shared__ int sum[8];
        if (quarter.thread_rank() == 0) sum[rank / 8] = 0;
        quarter.sync();
        atomicAdd(&sum[rank / 8], rank);
        cg::sync(quarter);
        row[0] = sum[rank / 8];
        row[1] = whole.size() * 1000 + whole.thread_rank();
        row[2] = quarter.size() * 1000 + quarter.thread_rank();
        cg::invoke_one(block, [&] { row[3] = 7; });"#,
    );
    for (rank, row) in found.iter().enumerate() {
        let first = rank / 8 * 8;
        let expected =
            [(first..first + 8).sum(), 64_000 + rank, 8_000 + rank % 8, if rank == 0 { 7 } else { 0 }];
        assert_eq!(*row, expected.map(|value| value as i32), "thread {rank}");
    }
}

#[test]
fn a_group_copy_lands_at_its_wait_and_no_earlier() {
    let text = format!(
        "{USING}#include <cooperative_groups/memcpy_async.h>\n#include <cuda_pipeline.h>\n{}",
        r#"
        extern "C" __global__ void k(const int* x, int* out) {
            __shared__ int tile[2][96];
            __shared__ int more[64];
            auto block = cg::this_thread_block();
            cg::memcpy_async(block, tile[0], x, sizeof(int) * 96);
            cg::memcpy_async(block, tile[1], 96, x + 1, 1000);
            out[block.thread_rank()] = tile[0][block.thread_rank()];
            cg::wait_prior<1>(block);
            out[64 + block.thread_rank()] = tile[0][95 - block.thread_rank()];
            cg::wait(block);
            out[128 + block.thread_rank()] = tile[1][95 - block.thread_rank()];
            __pipeline_memcpy_async(&more[threadIdx.x], x + threadIdx.x, 4);
            __pipeline_commit();
            out[192 + threadIdx.x] = more[threadIdx.x];
            __pipeline_wait_prior(0);
            out[256 + threadIdx.x] = more[threadIdx.x];
        }"#
    );
    let mut bench = Bench::new(&text, "k");
    let x = bench.buffer("x", &(0..100).collect::<Vec<i32>>());
    let out = bench.buffer("out", &[0i32; 320]);
    bench.run(1, 64, 0, vec![buffer(x), buffer(out)]).unwrap();
    let found = bench.values::<i32>(out);
    for rank in 0..64 {
        let at = rank as usize;
        let row = [found[at], found[64 + at], found[128 + at], found[192 + at], found[256 + at]];
        assert_eq!(row, [-1, 95 - rank, 96 - rank, -1, rank], "thread {rank}");
    }
}

#[test]
fn lanes_that_never_come_to_their_tile_are_named() {
    let text = format!(
        "{USING}extern \"C\" __global__ void k(int* out) {{\n auto tile = cg::tiled_partition<8>(cg::this_thread_block());\n \
         if (threadIdx.x % 8 < 3)\n  out[0] = tile.shfl_down(1, 1);\n}}"
    );
    let mut bench = Bench::new(&text, "k");
    let out = bench.buffer("out", &[0i32; 1]);
    let error = bench.run(1, 8, 0, vec![buffer(out)]).unwrap_err();
    assert_eq!(error.kind, VerdictKind::DivergentBarrier);
    assert_eq!(
        error.message,
        "`k`: threads 0-2 wait at line 7 (`__shfl_down_sync`, mask 0x000000ff), threads 3-7 have returned (block 0,0,0)"
    );
}
