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
fn a_grid_waits_for_all_its_blocks_again_and_again() {
    let text = r#"
        #include <cooperative_groups.h>
        extern "C" __global__ void rounds(volatile int* y, int n) {
            auto grid = cooperative_groups::this_grid();
            int rank = (int)grid.thread_rank(), all = (int)grid.size();
            for (int round = 0; round < n; round++) {
                int other = y[(rank + 32) % all];
                grid.sync();
                y[rank] = other + 1;
                grid.sync();
            }
        }
    "#;
    let mut bench = Bench::on(HostDevice::with_threads(2).unwrap(), text, "rounds");
    let y = bench.buffer("y", &(0..64).collect::<Vec<i32>>());
    let bound = bench.bound(2, 32, 0, vec![buffer(y), int(50)]);
    let loaded = bench.device.variables(bench.module).unwrap();
    bench.device.launch(bench.module, &[BoundLaunch { cooperative: true, ..bound }]).unwrap();
    // An even number of rounds: each value is back where it was.
    assert_eq!(bench.values::<i32>(y), (50..114).collect::<Vec<i32>>());
    assert_eq!(bench.device.variables(bench.module).unwrap(), loaded);
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
        // A lane is a group by itself.
        let odd = if rank % 2 == 1 { 100 } else { 0 };
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

/// Sums that lanes share by opportunity add up whatever the lanes' paths.
#[test]
fn lanes_in_different_rounds_of_a_loop_are_not_one_group() {
    let text = r#"
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void count(const int* x, int* bits) {
            for (int bit = 0; bit < 4; bit++) {
                if (x[threadIdx.x] >> bit & 1) {
                    auto group = cg::coalesced_threads();
                    if (group.thread_rank() == 0) atomicAdd(bits + bit, (int)group.size());
                }
            }
        }
    "#;
    let mut bench = Bench::new(text, "count");
    let input: Vec<i32> = (0..32).collect();
    let (x, bits) = (bench.buffer("x", &input), bench.buffer("bits", &[0i32; 4]));
    bench.run(1, 32, 0, vec![buffer(x), buffer(bits)]).unwrap();
    assert_eq!(bench.values::<i32>(bits), [16; 4]);
}

#[test]
fn conversions_saturate_and_round_as_they_say() {
    let text = r#"
        extern "C" __global__ void convert(const float* x, int* y) {
            int i = threadIdx.x;
            y[6 * i] = __float2int_rn(x[i]);
            y[6 * i + 1] = __float2int_rd(x[i]);
            y[6 * i + 2] = __float2int_ru(x[i]);
            y[6 * i + 3] = (int)__float2uint_rz(x[i]);
            y[6 * i + 4] = (int)__double2uint_rz((double)x[i]);
            y[6 * i + 5] = (int)(__float2ll_rz(x[i]) >> 32);
        }
    "#;
    let mut bench = Bench::new(text, "convert");
    let x = bench.buffer("x", &[2.5f32, -2.5, 1e30, -1e30, f32::NAN, 3e9]);
    let y = bench.buffer("y", &[0i32; 36]);
    bench.run(1, 6, 0, vec![buffer(x), buffer(y)]).unwrap();
    let (most, least) = (i32::MAX, i32::MIN);
    assert_eq!(
        bench.values::<i32>(y),
        [
            [2, 2, 3, 2, 2, 0],
            [-2, -3, -2, 0, 0, -1],
            [most, most, most, -1, -1, most],
            [least, least, least, 0, 0, least],
            [0, 0, 0, 0, least, least],
            [most, most, most, -1_294_967_296, -1_294_967_296, 0],
        ]
        .concat()
    );
}

#[test]
fn directed_rounding_multiples_of_pi_and_parts_of_words() {
    let text = r#"
        extern "C" __global__ void rounded(float* y, unsigned* parts) {
            y[0] = __fadd_rd(1.0f, 1e-10f);
            y[1] = __fadd_ru(1.0f, 1e-10f);
            y[2] = __fmaf_rd(0.1f, 0.1f, 0.0f) < __fmaf_ru(0.1f, 0.1f, 0.0f) ? 1.0f : 0.0f;
            y[3] = __fdiv_rz(-1.0f, 3.0f) > __fdiv_rd(-1.0f, 3.0f) ? 1.0f : 0.0f;
            y[4] = 1.0f + 1e-10f;
            sincospif(-2.5f, y + 5, y + 6);
            y[7] = cospif(1e9f);
            parts[0] = __vadd4(0x01ff7f80u, 0x01010101u);
            parts[1] = __vaddss4(0x01ff7f80u, 0x01010180u);
            parts[2] = __vabsdiffu4(0x00ff1020u, 0xff002010u);
            parts[3] = __vsadu4(0x00ff1020u, 0xff002010u);
            parts[4] = __vmaxs2(0x8000ffffu, 0x00010001u);
            parts[5] = __vcmpgtu2(0x8000ffffu, 0x00010001u);
        }
    "#;
    let mut bench = Bench::new(text, "rounded");
    let (y, parts) = (bench.buffer("y", &[0f32; 8]), bench.buffer("parts", &[0u32; 6]));
    bench.run(1, 1, 0, vec![buffer(y), buffer(parts)]).unwrap();
    let above = 1.0 + f32::EPSILON;
    assert_eq!(bench.values::<f32>(y), [1.0, above, 1.0, 1.0, 1.0, -1.0, 0.0, 1.0]);
    assert_eq!(
        bench.values::<u32>(parts),
        [0x0200_8081, 0x0200_7f80, 0xffff_1010, 0x21e, 0x0001_0001, 0xffff_ffff]
    );
}
