//! What kernels use of CUDA's device library beside plain functions: the heap, and groups of threads.

use super::*;

#[test]
fn the_device_heap_is_small_and_what_is_kept_of_it_shows() {
    let text = r#"
        extern "C" __global__ void heap(int* y, int keep) {
            int* own = (int*)malloc(4 * 100);
            for (int at = 0; at < 100; at++) own[at] = at + threadIdx.x;
            y[threadIdx.x] = own[99] + (malloc(9 << 20) == nullptr ? 0 : 1000);
            if (!keep) free(own);
        }
    "#;
    let mut bench = Bench::new(text, "heap");
    let y = bench.buffer("y", &[0i32; 4]);
    let loaded = bench.device.variables(bench.module).unwrap();
    assert_eq!(loaded.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["evo_heap_in_use"]);
    bench.run(1, 4, 0, vec![buffer(y), int(0)]).unwrap();
    assert_eq!(bench.values::<i32>(y), [99, 100, 101, 102]);
    assert_eq!(bench.device.variables(bench.module).unwrap(), loaded);
    bench.run(1, 4, 0, vec![buffer(y), int(1)]).unwrap();
    assert_ne!(bench.device.variables(bench.module).unwrap(), loaded);
}

#[test]
fn groups_synchronize_shuffle_and_reduce() {
    let text = r#"
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void groups(int* y) {
            auto block = cg::this_thread_block();
            auto tile = cg::tiled_partition<16>(block);
            auto pair = cg::tiled_partition<2>(tile);
            __shared__ int own[64];
            int rank = block.thread_rank(), value = rank;
            own[rank] = rank;
            block.sync();
            for (int lanes = tile.size() / 2; lanes > 0; lanes /= 2) value += tile.shfl_down(value, lanes);
            int sum = tile.shfl(value, 0), most = cg::reduce(tile, rank, cg::greater<int>());
            int odd = 0;
            if (rank % 2 == 1) {
                auto some = cg::coalesced_threads();
                odd = some.size() * 100 + some.thread_rank();
            }
            y[6 * rank] = sum;
            y[6 * rank + 1] = most;
            y[6 * rank + 2] = tile.meta_group_rank() * 100 + tile.thread_rank();
            y[6 * rank + 3] = pair.any(rank == 5);
            y[6 * rank + 4] = odd;
            y[6 * rank + 5] = own[63 - rank];
        }
    "#;
    let mut bench = Bench::new(text, "groups");
    let y = bench.buffer("y", &[0i32; 6 * 64]);
    bench.run(1, 64, 0, vec![buffer(y)]).unwrap();
    let values = bench.values::<i32>(y);
    for rank in 0..64 {
        let first = rank / 16 * 16;
        let odd = if rank % 2 == 1 { 1600 + rank % 32 / 2 } else { 0 };
        let expected = [
            16 * first + 120,
            first + 15,
            rank / 16 * 100 + rank % 16,
            i32::from(rank / 2 == 2),
            odd,
            63 - rank,
        ];
        assert_eq!(values[6 * rank as usize..][..6], expected, "thread {rank}");
    }
}
