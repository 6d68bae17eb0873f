//! Clusters on this device: what blocks may do with each other's shared memory, and which mistakes are named.

use evo_protocol::verdict::VerdictKind;

use super::*;
use crate::device::{
    BlockTurns, NoteKind, RunConditions, Watch, WatchReport, WatchedBuffer, WatchedContents,
};

const ILLEGAL: VerdictKind = VerdictKind::CrashIllegalInstruction;

fn kernel(body: &str) -> String {
    format!(
        "#include <evo/ptx.cuh>\nextern \"C\" __global__ void k(unsigned* out) {{\n\
         extern __shared__ unsigned memory[];\n\
         unsigned* tile = (unsigned*)(((size_t)memory + 1023) & ~(size_t)1023); \
         evo::mbarrier* bar = (evo::mbarrier*)(tile + 1024); (void)bar; \
         const unsigned rank = evo::cluster_rank(), size = evo::cluster_size(), me = threadIdx.x; (void)rank; (void)size; (void)me;\n\
         {body}\n}}"
    )
}

const FIRST: u32 = 5;

/// Runs it on `blocks` blocks of 64 threads in clusters of `size`, in the orders of seeds.
fn runs(
    body: &str,
    (blocks, size): (u32, u32),
    orders: &[Option<u64>],
) -> Vec<Result<Vec<u32>, DeviceError>> {
    let mut bench = Bench::new(&kernel(body), "k");
    let mut run = |order: Option<u64>| {
        let out = bench.buffer("out", &(0..4096u32).collect::<Vec<_>>());
        let bound =
            BoundLaunch { cluster: Some([size, 1, 1]), ..bench.bound(blocks, 64, 8192, vec![buffer(out)]) };
        bench.device.set_conditions(RunConditions { order, ..RunConditions::default() }).unwrap();
        bench.device.launch(bench.module, &[bound])?;
        bench.device.synchronize()?;
        Ok(bench.values(out))
    };
    orders.iter().map(|order| run(*order)).collect()
}

fn run(body: &str, blocks: u32, size: u32) -> Result<Vec<u32>, DeviceError> {
    runs(body, (blocks, size), &[None]).swap_remove(0)
}

fn watched(body: &str, blocks: u32, size: u32) -> Vec<Result<WatchReport, DeviceError>> {
    let mut device = HostDevice::with_threads(2).unwrap();
    let module = device.load(&compile_as(&kernel(body), &["k"], true), &["k".to_string()]).unwrap();
    let mut bench = Bench { device, module, entry: "k".to_string() };
    let mut run = |order: u64| {
        let out = bench.buffer("out", &(0..4096u32).collect::<Vec<_>>());
        let bound =
            BoundLaunch { cluster: Some([size, 1, 1]), ..bench.bound(blocks, 64, 8192, vec![buffer(out)]) };
        let watch = Watch {
            buffers: vec![WatchedBuffer { buffer: out, contents: WatchedContents::Given }],
            order,
            turns: BlockTurns::OneByOne,
            residue: 0xffff_ffff,
            accesses_max: 1 << 22,
            time_max: std::time::Duration::from_secs(20),
        };
        Ok(bench.device.launch_watched(module, &[bound], &watch)?.unwrap())
    };
    [1, 2, 3].map(&mut run).into()
}

fn outcomes(body: &str, size: u32) -> Vec<Result<Vec<u32>, DeviceError>> {
    runs(body, (2 * size, size), &[None, Some(2), Some(3), Some(4), Some(5)])
}

fn values(body: &str, size: u32) -> Vec<u32> {
    let mut found: Vec<Vec<u32>> = outcomes(body, size).into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|own| *own == found[0]), "the order decides");
    found.swap_remove(0)
}

/// It is refused in every order, and in the first with these words and this line.
fn check(body: &str, size: u32, words: &str, line: u32) {
    for outcome in outcomes(body, size) {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ILLEGAL, "{}", error.message);
        assert!(error.message.contains(words), "{}", error.message);
        assert!(error.message.contains(&format!("line {}", FIRST + line)), "{}", error.message);
    }
}

/// Blocks read what their neighbors hold, then write there.
const EXCHANGE: &str = "__shared__ unsigned fixed[64]; __shared__ float4 wide[64];
        tile[me] = 100 * blockIdx.x + me; fixed[me] = 7 * blockIdx.x + me;
        wide[me] = make_float4(blockIdx.x, 0, 0, me);
        evo::cluster_sync();
        const unsigned next = (rank + 1) % size;
        const unsigned sum = evo::dsmem_load(evo::mapa(tile, next) + 63 - me) + evo::dsmem_load(evo::mapa(fixed + me, next));
        const float4 theirs = evo::dsmem_load(evo::mapa(wide, next) + me);
        const float2 half = evo::dsmem_load(evo::mapa((const float2*)(wide + me) + 1, rank));
        evo::cluster_sync();
        evo::dsmem_store(evo::mapa(fixed, next) + me, sum);
        evo::dsmem_store((float*)evo::mapa(tile, next) + me, theirs.x + theirs.w + half.y);
        evo::cluster_sync();
        out[blockIdx.x * 64 + me] = fixed[me];
        out[1024 + blockIdx.x * 64 + me] = (unsigned)((float*)tile)[me] + 1000 * size + 100 * rank;";

#[test]
fn blocks_read_and_write_each_others_memory_between_barriers() {
    let body = EXCHANGE;
    for size in [1u32, 2, 4] {
        let found = values(body, size);
        for (block, me) in (0..2 * size).flat_map(|block| (0..64u32).map(move |me| (block, me))) {
            let rank = block % size;
            // The block before has read from this one.
            let expected = 100 * block + 63 - me + 7 * block + me;
            assert_eq!(found[(block * 64 + me) as usize], expected, "{size} {block} {me}");
            let expected = block + me + me + 1000 * size + 100 * rank;
            assert_eq!(found[(1024 + block * 64 + me) as usize], expected, "{size} {block} {me}");
        }
    }
}

/// All threads of a cluster arrive at each block's barrier.
const ARRIVALS: &str = "if (me == 0) { evo::mbarrier_init(bar, 64 * size); evo::fence_mbarrier_init(); }
        evo::cluster_arrive_relaxed(); evo::cluster_wait();
        for (unsigned turn = 0; turn < 3; ++turn) {
            for (unsigned block = 0; block < size; ++block) evo::mbarrier_arrive_cluster(bar, block);
            if (me % 2) evo::mbarrier_wait(bar, turn % 2); else while (!evo::mbarrier_try_wait(bar, turn % 2)) {}
        }
        out[blockIdx.x * 64 + me] = 5;
        evo::cluster_sync();";

#[test]
fn arrivals_reach_the_barrier_of_another_block() {
    for size in [2, 4] {
        assert!(values(ARRIVALS, size)[..128].iter().all(|own| *own == 5));
    }
}

/// Each block fetches its row of the tile for all blocks.
const MULTICAST: &str = "evo::tensor_map map = {0x0070616d5f6f7665ull, (uint64_t)out, {64, 32}, 0, {128}, {64, 4}, 2, 2, 3, 0};
    if (me == 0) { evo::mbarrier_init(bar, 1); evo::fence_mbarrier_init(); evo::mbarrier_arrive_expect_tx(bar, 512 * size); }
    evo::cluster_sync();
    if (me == 0) evo::tma_load_multicast<2>(tile + 256 * rank, map, bar, (1 << size) - 1, 0, 4 * rank);
    evo::mbarrier_wait(bar, 0);
    for (unsigned part = 0; part < size; ++part)
        out[2048 + blockIdx.x * 256 + part * 64 + me] = tile[256 * part + (me ^ (me / 32 << 2))];
    evo::cluster_sync();";

#[test]
fn a_box_reaches_each_block_of_the_mask() {
    // Boxes of four rows lie in spans of eight: a span of its own for each.
    let body = MULTICAST;
    for size in [2u32, 4] {
        let found = values(body, size);
        for (block, part, me) in
            (0..2 * size).flat_map(|b| (0..size).flat_map(move |p| (0..64u32).map(move |m| (b, p, m))))
        {
            let at = (2048 + block * 256 + part * 64 + me) as usize;
            assert_eq!(found[at], part * 128 + me, "{size} {block} {part} {me}");
        }
    }
    check(&body.replace("(1 << size) - 1", "1 << size"), 2, "its cluster has not", 3);
    check(
        &body.replace("    evo::cluster_sync();\n    if", "    __syncthreads();\n    if"),
        2,
        "may not have begun",
        3,
    );
}

#[test]
fn what_is_missing_around_remote_uses_is_named() {
    let read = "out[me] = evo::dsmem_load(evo::mapa(tile, (rank + 1) % size) + me);";
    let whole = format!("tile[me] = 3;\nevo::cluster_sync();\n{read}\nevo::cluster_sync();");
    assert_eq!(values(&whole, 2)[5], 3);
    // The last barrier, the first one, both.
    check(
        &format!("tile[me] = 3;\nevo::cluster_sync();\n{read}"),
        2,
        "the last use needs a barrier of the cluster behind it",
        2,
    );
    check(&format!("tile[me] = 3;\n\n{read}\nevo::cluster_sync();"), 2, "may not have begun", 2);
    check(
        "evo::cluster_sync();\nevo::mapa(tile, size);",
        2,
        "rank 2 is outside of the cluster, which has 2 blocks",
        1,
    );
    check("evo::cluster_sync();\nevo::mapa(out, 0);", 2, "mapa of what is not shared memory", 1);
    let behind = "evo::cluster_sync();\nout[me] = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + 2048);\nevo::cluster_sync();";
    check(behind, 2, "not inside that of any of its blocks", 1);
    let barrier = "evo::cluster_sync();\nevo::mbarrier_arrive_cluster(bar, rank ^ 1);\nevo::cluster_sync();";
    check(barrier, 2, "mbarrier_init has not made", 1);
}

#[test]
fn an_arrival_that_somebody_waits_for_needs_no_barrier_behind_it() {
    let body = |waits: &str| {
        format!(
            "if (me == 0) {{ evo::mbarrier_init(bar, 64); evo::fence_mbarrier_init(); }}
            evo::cluster_sync();
            evo::mbarrier_arrive_cluster(bar, rank ^ 1);
            {waits}"
        )
    };
    values(&body("evo::mbarrier_wait(bar, 0);"), 2);
    // In some order the block has ended before, in others it ends behind: both are told.
    let late = body("if (rank == 0) evo::mbarrier_wait(bar, 0);").replace(", 64)", ", 65)");
    for outcome in outcomes(&late.replace("evo::mbarrier_wait(bar, 0)", ";"), 2) {
        let error = outcome.unwrap_err();
        assert!(error.message.contains("the last use needs a barrier of the cluster"), "{}", error.message);
    }
}

#[test]
fn a_cluster_in_which_nobody_goes_on_is_described() {
    let error = run("if (rank == 1) __syncthreads();\nif (rank == 0 || me < 32) evo::cluster_sync();\nelse { evo::mbarrier_init(bar + me, 2); evo::mbarrier_wait(bar + me, 0); }", 2, 2).unwrap_err();
    assert_eq!(error.kind, VerdictKind::DivergentBarrier);
    let words = [
        "threads 0-63 wait at line 6 (`evo::cluster_wait`, barrier of the cluster: 96 of 128 threads) (block 0,0,0)",
        "threads 0-31 wait at line 6 (`evo::cluster_wait`",
        "thread 40 waits at line 7 (`evo::mbarrier_wait` for parity 0",
        "(block 1,0,0) (cluster of 2 blocks, 0 ended)",
    ];
    assert!(words.iter().all(|words| error.message.contains(words)), "{}", error.message);
    assert_eq!(error.evidence["cluster"][1]["block"], serde_json::json!([1, 0, 0]));
    // The barrier waits for those alone who have not returned.
    assert_eq!(
        run("if (me < 32 && rank == 1) return;\nevo::cluster_sync();\nout[blockIdx.x * 64 + me] = 1;", 2, 2)
            .unwrap()[0],
        1
    );
}

#[test]
fn a_thread_may_wait_for_what_another_block_writes() {
    let body = "if (me < 2) tile[me] = 0;
        evo::cluster_sync();
        if (me == 0) evo::dsmem_store(evo::mapa(tile, (rank + 1) % size) + 1, 7u);
        if (me == 40 && rank % 2 == 0) while (*(volatile unsigned*)(tile + 1) != 7) {}
        if (me == 40 && rank % 2 == 1) while (*(volatile unsigned*)(tile + 1) != 7) __nanosleep(5);
        evo::cluster_sync();
        out[blockIdx.x * 64 + me] = tile[1];";
    assert_eq!(values(body, 4)[..8], [7; 8]);
}

#[test]
fn a_missing_barrier_shows_in_one_of_two_orders() {
    // A block writes what the other has not read yet.
    let body = "tile[me] = rank;
        evo::cluster_sync();
        const unsigned theirs = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + me);
        tile[me] = 50;
        evo::cluster_sync();
        out[blockIdx.x * 64 + me] = theirs;";
    let right = |found: &[u32]| (0..256).all(|at| found[at] == 1 - at as u32 / 64 % 2);
    for orders in [[2, 3], [4, 5]] {
        let found = runs(body, (4, 2), &orders.map(Some));
        assert!(found.into_iter().any(|own| !right(&own.unwrap())));
    }
    let fixed =
        body.replace("        tile[me] = 50;", "        evo::cluster_sync();\n        tile[me] = 50;");
    assert!(right(&values(&fixed, 2)));
}

#[test]
fn blocks_of_a_cluster_keep_their_own_memory_and_barriers() {
    let body = "__shared__ unsigned sum; __shared__ evo::mbarrier own;
        const unsigned left = memory[500];
        if (me == 0) { sum = 0; evo::mbarrier_init(&own, 64); }
        __syncthreads();
        atomicAdd(&sum, blockIdx.x);
        evo::bar_sync(1, 64);
        evo::mbarrier_arrive(&own);
        evo::mbarrier_wait(&own, 0);
        evo::cluster_sync();
        out[blockIdx.x * 64 + me] = sum + (left == 0xffffffffu ? 0 : 1000000);
        memory[500] = 3;";
    let found = values(body, 4);
    for block in 0..8 {
        assert_eq!(found[block * 64 + 9], 64 * block as u32);
    }
    let beside = run(
        "evo::cluster_sync();\nif (blockIdx.x == 3 && me == 0) ((volatile unsigned*)memory)[-1] = 5;",
        4,
        2,
    );
    assert!(beside.unwrap_err().message.contains("block 3,0,0 writes 4 bytes before the start of"));
}

#[test]
fn accesses_of_a_clusters_blocks_are_in_order_behind_its_barriers_alone() {
    for (body, size) in [(EXCHANGE, 4), (ARRIVALS, 2), (MULTICAST, 2)] {
        for report in watched(body, 2 * size, size) {
            let report = report.unwrap_or_else(|error| panic!("{}", error.message));
            let unwritten = report.notes.iter().find(|note| note.what == NoteKind::Unwritten);
            assert!(report.accesses > 500 && unwritten.is_none(), "{unwritten:?}");
        }
    }
    // What a block has read is overwritten, or read before it is written.
    let early = "tile[me] = 1;
        evo::cluster_sync();
        tile[me] = me + 2;
        out[blockIdx.x * 64 + me] = evo::dsmem_load(evo::mapa(tile, rank ^ 1) + me);
        evo::cluster_sync();";
    // A relaxed arrival orders nothing.
    let relaxed =
        EXCHANGE.replacen("evo::cluster_sync();", "evo::cluster_arrive_relaxed(); evo::cluster_wait();", 1);
    for body in [early, &relaxed] {
        for outcome in watched(body, 4, 2) {
            let error = outcome.unwrap_err();
            assert_eq!(error.cause.as_deref(), Some("race"), "{}", error.message);
            assert!(error.message.contains("with no barrier of the cluster in between"), "{}", error.message);
        }
    }
}
