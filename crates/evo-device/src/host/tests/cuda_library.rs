//! libcu++, CUB and the small headers of CUDA: what they compute, and what they find.

use evo_protocol::verdict::VerdictKind;

use super::*;

/// Runs `k(const int* x, int* out)` on one block, where `x` holds 0, 1, 2, …, and gives `out`.
fn values(text: &str, threads: u32, count: usize) -> Vec<i32> {
    let (mut bench, out) = prepared(text, threads, count).unwrap();
    bench.values(out)
}

fn prepared(text: &str, threads: u32, count: usize) -> Result<(Bench, BufferId), DeviceError> {
    let mut bench = Bench::new(text, "k");
    let x = bench.buffer("x", &(0..4096).collect::<Vec<i32>>());
    let out = bench.buffer("out", &vec![0i32; count]);
    bench.run(1, threads, 0, vec![buffer(x), buffer(out)])?;
    Ok((bench, out))
}

#[test]
fn atomics_with_scopes() {
    let text = r#"
        #include <cuda/atomic>
        extern "C" __global__ void k(const int* x, int* out) {
            cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]);
            sum.fetch_add(x[threadIdx.x], cuda::std::memory_order_relaxed);
            cuda::atomic_ref<float> real(*(float*)&out[1]);
            real.fetch_add(0.5f);
            cuda::atomic_ref<int>(out[2]).fetch_max(x[threadIdx.x]);
            __shared__ cuda::atomic<int, cuda::thread_scope_block> own;
            if (threadIdx.x == 0) own.store(10);
            __syncthreads();
            own++;
            own -= 2;
            __syncthreads();
            if (threadIdx.x == 0) {
                out[3] = own.load(cuda::memory_order_acquire);
                int expected = 5;
                out[4] = own.compare_exchange_strong(expected, 7) * 1000 + expected;
                out[5] = own.compare_exchange_strong(expected, 7) * 1000 + own;
                cuda::std::atomic<int*> at(out);
                at.fetch_add(3);
                out[6] = (int)(at.load() - out);
            }
            cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
        }
    "#;
    let found = values(text, 64, 7);
    assert_eq!(found, [2016, 32f32.to_bits() as i32, 63, -54, -54, 1007, 3]);
}

#[test]
fn a_flag_that_another_warp_sets_is_waited_for() {
    let text = r#"
        #include <cuda/atomic>
        extern "C" __global__ void k(const int* x, int* out) {
            __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
            if (threadIdx.x == 0) flag.store(0);
            __syncthreads();
            if (threadIdx.x == 0) { flag.wait(0); out[0] = flag; }
            if (threadIdx.x == 40) { flag.store(x[9]); flag.notify_all(); }
        }
    "#;
    assert_eq!(values(text, 64, 1), [9]);
}

const BARRIER: &str = r#"
    #include <cuda/barrier>
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int* x, int* out) {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        __shared__ int tile[100];
        auto block = cg::this_thread_block();
        if (block.thread_rank() == 0) init(&bar, block.size());
        block.sync();
        for (int round = 0; round < 3; round++) {
            cuda::memcpy_async(block, tile, x + round, sizeof(int) * 99, bar);
            if (threadIdx.x == 0) cuda::memcpy_async(tile + 99, x + 7, cuda::aligned_size_t<4>(4), bar);
            auto token = bar.arrive();
            block.sync();
            out[threadIdx.x] = tile[threadIdx.x];
            block.sync();
            bar.wait(std::move(token));
            out[64 + threadIdx.x] = tile[99 - threadIdx.x];
            bar.arrive_and_wait();
        }
    }
"#;

#[test]
fn a_copy_on_a_barrier_lands_when_its_phase_ends() {
    let found = values(BARRIER, 64, 128);
    assert_eq!(found[..64], [-1; 64]);
    let expected: Vec<i32> = (0..64).map(|thread| if thread == 0 { 7 } else { 101 - thread }).collect();
    assert_eq!(found[64..], expected);
}

#[test]
fn a_thread_that_never_arrives_is_named() {
    let text = BARRIER
        .replace("bar.arrive_and_wait();", "if (threadIdx.x != 5) bar.arrive_and_wait(); else return;");
    let error = prepared(&text, 64, 128).err().unwrap();
    assert_eq!(error.kind, VerdictKind::DivergentBarrier, "{}", error.message);
    let expected = "threads 0-4, 6-63 wait at line 20 (`evo::mbarrier_wait` for parity 1, barrier in static shared memory, phase 1: 63 of 64 arrivals), thread 5 has returned";
    assert!(error.message.contains(expected), "{}", error.message);
}

#[test]
fn pipelines_of_a_block_and_of_a_thread() {
    let text = r#"
        #include <cuda/pipeline>
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void k(const int* x, int* out) {
            __shared__ int tile[2][64];
            __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state, roles;
            auto block = cg::this_thread_block();
            int rank = block.thread_rank(), sum = 0, early = 0;
            auto pipe = cuda::make_pipeline(block, &state);
            for (int at = 0, ahead = 0; at < 5; at++) {
                for (; ahead < 5 && ahead < at + 2; ahead++) {
                    pipe.producer_acquire();
                    cuda::memcpy_async(block, tile[ahead % 2], x + 64 * ahead, sizeof(int) * 64, pipe);
                    pipe.producer_commit();
                }
                block.sync();
                early += tile[at % 2][63 - rank] == -1;
                block.sync();
                pipe.consumer_wait();
                sum += tile[at % 2][63 - rank];
                pipe.consumer_release();
            }
            out[rank] = sum;
            out[64 + rank] = early;
            block.sync();
            auto own = cuda::make_pipeline();
            int late = 0;
            for (int at = 0; at < 2; at++) {
                own.producer_acquire();
                cuda::memcpy_async(&tile[at][rank], x + 100 * at + rank, sizeof(int), own);
                own.producer_commit();
            }
            cuda::pipeline_consumer_wait_prior<1>(own);
            late = tile[0][rank] * 1000 + tile[1][rank];
            own.consumer_release();
            own.consumer_wait();
            out[128 + rank] = late;
            out[192 + rank] = tile[1][rank];
            block.sync();
            auto split = cuda::make_pipeline(block, &roles, rank < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
            auto half = cg::tiled_partition<32>(block);
            for (int at = 0; at < 4; at++) {
                if (rank < 32) {
                    split.producer_acquire();
                    cuda::memcpy_async(half, tile[at % 2], x + 10 * at, sizeof(int) * 32, split);
                    split.producer_commit();
                } else {
                    split.consumer_wait();
                    out[256 + rank] += tile[at % 2][63 - rank];
                    split.consumer_release();
                }
            }
        }
    "#;
    let found = values(text, 64, 320);
    for rank in 0..64 {
        let row: Vec<i32> = (0..5).map(|part| found[64 * part + rank as usize]).collect();
        let split = if rank < 32 { 0 } else { 60 + 4 * (63 - rank) };
        let expected = [640 + 5 * (63 - rank), 5, rank * 1000 - 1, 100 + rank, split];
        assert_eq!(row, expected, "thread {rank}");
    }
}

const CUB: &str = r#"
    #include <cub/cub.cuh>
    constexpr int BLOCK = 96, ITEMS = 4;
    struct Running { int total; __device__ int operator()(int all) { int old = total; total += all; return old; } };
    extern "C" __global__ void k(const int* x, int* out) {
        typedef cub::BlockReduce<int, BLOCK> Reduce;
        typedef cub::BlockScan<int, BLOCK> Scan;
        typedef cub::BlockLoad<int, BLOCK, ITEMS, cub::BLOCK_LOAD_TRANSPOSE> Load;
        typedef cub::BlockLoad<int, BLOCK, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> LoadWarp;
        typedef cub::BlockStore<int, BLOCK, ITEMS, cub::BLOCK_STORE_TRANSPOSE> Store;
        typedef cub::BlockRadixSort<int, BLOCK, ITEMS, short> Sort;
        typedef cub::BlockExchange<int, BLOCK, ITEMS> Exchange;
        __shared__ union {
            typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; typename Load::TempStorage load;
            typename LoadWarp::TempStorage load_warp; typename Store::TempStorage store; typename Sort::TempStorage sort;
            typename Exchange::TempStorage exchange;
        } temp;
        int rank = threadIdx.x, items[ITEMS], sums[ITEMS], all;
        Load(temp.load).Load(x, items);
        __syncthreads();
        Scan(temp.scan).ExclusiveSum(items, sums, all);
        __syncthreads();
        Store(temp.store).Store(out, sums);
        __syncthreads();
        int sum = Reduce(temp.reduce).Sum(items);
        __syncthreads();
        int most = Reduce(temp.reduce).Reduce(rank % 50, cub::Max(), 70);
        __syncthreads();
        out[384 + rank] = rank == 0 ? sum == all : sum;
        if (rank == 0) out[480] = most;
        LoadWarp(temp.load_warp).Load(x, items, 101, -7);
        __syncthreads();
        out[481 + rank] = items[0] + items[3];
        Running running = {1000};
        int before;
        Scan(temp.scan).ExclusiveSum(1, before, running);
        __syncthreads();
        out[577 + rank] = before;
        short values[ITEMS];
        for (int item = 0; item < ITEMS; item++) items[item] = (rank * ITEMS + item) * 37 % 101 - 50, values[item] = rank * ITEMS + item;
        Sort(temp.sort).Sort(items, values);
        __syncthreads();
        Exchange(temp.exchange).BlockedToStriped(items);
        for (int item = 0; item < ITEMS; item++) out[673 + item * BLOCK + rank] = items[item], out[1057 + rank * ITEMS + item] = values[item];
        typedef cub::WarpReduce<int, 16> Part;
        __shared__ typename Part::TempStorage parts[6];
        int part = Part(parts[rank / 16]).Sum(rank, 10);
        out[1441 + rank] = part;
        typedef cub::WarpScan<int> WarpScan;
        __shared__ typename WarpScan::TempStorage scans[3];
        int inclusive, warp_all;
        WarpScan(scans[rank / 32]).InclusiveSum(rank, inclusive, warp_all);
        out[1537 + rank] = inclusive * 10 + (warp_all == 496 + rank / 32 * 1024);
    }
"#;

#[test]
fn block_and_warp_primitives_of_cub() {
    let found = values(CUB, 96, 1633);
    let sum_to = |end: i32| end * (end - 1) / 2;
    assert_eq!(found[..384], (0..384).map(sum_to).collect::<Vec<i32>>());
    // The sum is the first thread's.
    assert_eq!((found[384], &found[385..480]), (1, &[-1; 95][..]));
    assert_eq!(found[480], 49);
    let item = |at: i32| if at < 101 { at } else { -7 };
    assert_eq!(
        found[481..577],
        (0..96).map(|rank| item(4 * rank) + item(4 * rank + 3)).collect::<Vec<i32>>()
    );
    assert_eq!(found[577..673], (1000..1096).collect::<Vec<i32>>());
    let mut keyed: Vec<(i32, i32)> = (0..384).map(|at| (at * 37 % 101 - 50, at)).collect();
    keyed.sort();
    assert_eq!(found[673..1057], keyed.iter().map(|(key, _)| *key).collect::<Vec<i32>>());
    assert_eq!(found[1057..1441], keyed.iter().map(|(_, value)| *value).collect::<Vec<i32>>());
    for rank in 0..96 {
        let first = rank / 16 * 16;
        let part = if rank == first { 10 * first + 45 } else { -1 };
        let inclusive = sum_to(rank + 1) - sum_to(rank / 32 * 32);
        let at = rank as usize;
        assert_eq!((found[1441 + at], found[1537 + at]), (part, inclusive * 10 + 1), "thread {rank}");
    }
}

#[test]
fn a_block_of_another_size_and_threads_that_stay_away_are_told() {
    let sum = "#include <cub/block/block_reduce.cuh>\nextern \"C\" __global__ void k(const int* x, int* out) {\n typedef cub::BlockReduce<int, 64> Reduce;\n __shared__ Reduce::TempStorage temp;\n if (threadIdx.x < LIMIT)\n  out[0] = Reduce(temp).Sum(x[0]);\n}";
    let error = prepared(&sum.replace("LIMIT", "96"), 96, 1).err().unwrap();
    assert!(error.message.contains("block of another size"), "{}", error.message);
    let error = prepared(&sum.replace("LIMIT", "63"), 64, 1).err().unwrap();
    assert_eq!(error.kind, VerdictKind::DivergentBarrier);
    assert!(error.message.contains("at line 6 (`__shfl_sync`"), "{}", error.message);
}

#[test]
fn numbers_of_eight_bits() {
    let text = r#"
        #include <cuda_fp8.h>
        __device__ int bits(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
            return __nv_cvt_double_to_fp8(x, saturate, kind);
        }
        extern "C" __global__ void k(const int* x, int* out) {
            double given[] = {1.0, -0.15625, 448.0, 464.0, 465.0, 1e30, 0x1p-9, 0x1p-10, 0x1.8p-10, 1.0625, 1.1875, -0.0};
            for (int at = 0; at < 12; at++) {
                out[2 * at] = bits(given[at], __NV_SATFINITE, __NV_E4M3) << 8 | bits(given[at], __NV_NOSAT, __NV_E4M3);
                out[2 * at + 1] = bits(given[at], __NV_SATFINITE, __NV_E5M2) << 8 | bits(given[at], __NV_NOSAT, __NV_E5M2);
            }
            int wrong = 0;
            for (int code = 0; code < 256; code++) {
                __nv_fp8_e4m3 a; __nv_fp8_e5m2 b;
                a.__x = b.__x = (unsigned char)code;
                float wide = float(a), wider = float(b);
                wrong += wide == wide && __nv_fp8_e4m3(wide).__x != code;
                wrong += wider == wider && !isinf(wider) && __nv_fp8_e5m2(wider).__x != code;
                wrong += isnan(wide) != ((code & 127) == 127);
            }
            out[24] = wrong;
            float4 four = float4(__nv_fp8x4_e4m3(make_float4(1, 2, 3.3f, -500)));
            out[25] = (int)(four.x + 10 * four.y + 100 * four.z + four.w);
            out[26] = __half_as_ushort(__half(__nv_cvt_fp8_to_halfraw(0x7e, __NV_E4M3)));
        }
    "#;
    let expected = [
        0x3838, 0x3c3c, 0xa2a2, 0xb1b1, 0x7e7e, 0x5f5f, 0x7e7e, 0x5f5f, 0x7e7f, 0x5f5f, 0x7e7f, 0x7b7c,
        0x0101, 0x1818, 0x0000, 0x1414, 0x0101, 0x1616, 0x3838, 0x3c3c, 0x3a3a, 0x3d3d, 0x8080, 0x8080,
    ];
    let found = values(text, 1, 27);
    assert_eq!(found[..24], expected, "{:x?}", &found[..24]);
    assert_eq!(found[24..], [0, 1 + 20 + 325 - 448, 0x5f00]);
}

#[test]
fn the_library_of_the_device_and_its_targets() {
    let text = r#"
        #include <cuda/std/array>
        #include <cuda/std/bit>
        #include <cuda/std/cmath>
        #include <cuda/std/cstdint>
        #include <cuda/std/limits>
        #include <cuda/std/span>
        #include <cuda/std/tuple>
        #include <cuda/std/type_traits>
        #include <nv/target>
        #include <cuComplex.h>
        template <class Number> __device__ cuda::std::enable_if_t<cuda::std::is_integral_v<Number>, int> kind(Number) { return 1; }
        template <class Number> __device__ cuda::std::enable_if_t<cuda::std::is_floating_point_v<Number>, int> kind(Number) { return 2; }
        extern "C" __global__ void k(const int* x, int* out) {
            cuda::std::array<int, 3> three = {1, 2, 3};
            cuda::std::span<const int> seen(x, 10);
            out[0] = three.size() + three[2] + seen.subspan(4)[1];
            out[1] = cuda::std::get<1>(cuda::std::make_tuple(1, 5)) + kind(1) + 10 * kind(1.0f);
            out[2] = (int)cuda::std::sqrt(49.0f) + (cuda::std::numeric_limits<cuda::std::uint8_t>::max() == 255);
            out[3] = cuda::std::popcount(0xf0u) + 10 * cuda::std::countl_zero((unsigned char)1) + 1000 * cuda::std::bit_ceil(5u);
            out[4] = cuda::std::bit_cast<int>(1.0f);
            NV_IF_TARGET(NV_PROVIDES_SM_80, (out[5] = 1;), (out[5] = 2;))
            NV_DISPATCH_TARGET(NV_PROVIDES_SM_100, (out[6] = 1;), NV_PROVIDES_SM_70, (out[6] = 2;))
            cuFloatComplex product = cuCmulf(make_cuFloatComplex(1, 2), make_cuFloatComplex(3, -4));
            cuDoubleComplex ratio = cuCdiv(make_cuDoubleComplex(11, 2), make_cuDoubleComplex(3, -4));
            out[7] = (int)(product.x * 100 + product.y);
            out[8] = (int)(cuCabs(make_cuDoubleComplex(3, 4)) + 10 * ratio.x + 100 * ratio.y);
        }
    "#;
    assert_eq!(values(text, 1, 9), [11, 26, 8, 8074, 0x3f80_0000, 1, 2, 1102, 215]);
}
