//! `evo/ptx.cuh` on this device: what its functions demand, and that copies land when they are waited for.
//! What they compute is checked by `evo-selftest ptx` on every device.

use evo_protocol::verdict::VerdictKind;

use super::*;

fn kernel(body: &str) -> String {
    format!("#include <evo/ptx.cuh>\nextern \"C\" __global__ void k(unsigned* out) {{\n{body}\n}}")
}

fn values(body: &str, threads: u32) -> Vec<u32> {
    let mut bench = Bench::new(&kernel(body), "k");
    let out = bench.buffer("out", &(0..1024u32).collect::<Vec<_>>());
    bench.run(1, threads, 4096, vec![buffer(out)]).unwrap();
    bench.values(out)
}

fn refused(body: &str, threads: u32) -> (VerdictKind, String) {
    let mut bench = Bench::new(&kernel(body), "k");
    let out = bench.buffer("out", &[0u32; 1024]);
    let error = bench.run(1, threads, 4096, vec![buffer(out)]).unwrap_err();
    (error.kind, error.message)
}

#[test]
fn a_copy_lands_at_its_wait_and_no_earlier() {
    let body = r#"
        extern __shared__ unsigned tile[];
        for (int i = 0; i < 4; i++) tile[i] = 7;
        for (int i = 0; i < 3; i++) { evo::cp_async_ca<4>(tile + i, out + 100 + i); evo::cp_async_commit(); }
        evo::cp_async_ca_zfill<4>(tile + 3, out + 103, 1);
        for (int i = 0; i < 4; i++) out[i] = tile[i];
        evo::cp_async_wait<1>();
        for (int i = 0; i < 4; i++) out[4 + i] = tile[i];
        evo::cp_async_wait<0>();
        for (int i = 0; i < 4; i++) out[8 + i] = tile[i];
        evo::cp_async_wait_all();
        for (int i = 0; i < 4; i++) out[12 + i] = tile[i];"#;
    let none = u32::MAX;
    let expected = [none, none, none, none, 100, 101, none, none, 100, 101, 102, none, 100, 101, 102, 103];
    assert_eq!(values(body, 1)[..16], expected);
}

#[test]
fn a_thread_starts_without_the_copies_of_the_one_before() {
    let body = r#"
        __shared__ unsigned tile[64];
        tile[threadIdx.x] = threadIdx.x;
        if (threadIdx.x == 0) evo::cp_async_ca<4>(tile, out + 500);
        evo::cp_async_commit();
        if (threadIdx.x > 0) evo::cp_async_wait_all();
        out[threadIdx.x] = tile[threadIdx.x];"#;
    assert_eq!(values(body, 64)[..3], [u32::MAX, 1, 2]);
}

#[test]
fn operations_of_a_warp_want_all_of_it() {
    let mma = "unsigned a[2] = {}, b[1] = {}; float c[4] = {};\nif (threadIdx.x != 5)\nevo::mma_m16n8k8<evo::f16>(c, a, b, c);";
    assert_eq!(
        refused(mma, 32).1,
        "`k`: threads 0-4, 6-31 wait at line 5 (`evo::mma`, mask 0xffffffff), thread 5 has returned (block 0,0,0)"
    );
    let whole = mma.replace("!= 5", ">= 0");
    let (kind, message) = refused(&whole, 48);
    assert_eq!(kind, VerdictKind::CrashIllegalInstruction);
    assert!(
        message.contains("fewer than 32 threads") && message.contains("line 5, thread 32,0,0"),
        "{message}"
    );
}

#[test]
fn addresses_are_checked() {
    let check = |body: &str, kind: VerdictKind, words: &str| {
        let text = format!("extern __shared__ unsigned tile[]; unsigned r;\n{body}");
        let (found, message) = refused(&text, 32);
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(words) && message.contains("line 4, thread"), "{message}");
    };
    let (misaligned, illegal) = (VerdictKind::CrashMisaligned, VerdictKind::CrashIllegalInstruction);
    check("evo::ldmatrix_x1(r, tile + threadIdx.x);", misaligned, "misaligned row of ldmatrix");
    check("evo::ldmatrix_x1(r, out);", illegal, "not shared memory");
    check("evo::ldmatrix_x1(r, tile + 1024);", illegal, "not shared memory");
    check("evo::stmatrix_x1(out, 0u);", illegal, "not shared memory");
    check("evo::cp_async_cg(tile + 4, out + 2);", misaligned, "misaligned source of cp.async");
    check("evo::cp_async_ca<8>(tile + 1, out);", misaligned, "misaligned target of cp.async");
    check("evo::cp_async_ca<4>(out, out);", illegal, "not shared memory");
    check("evo::cp_async_cg_zfill(tile, out, 17);", illegal, "more bytes");
}

#[test]
fn rows_of_static_shared_memory_are_shared_memory() {
    let body = r#"
        __shared__ uint4 rows[8];
        if (threadIdx.x < 8) rows[threadIdx.x] = make_uint4(threadIdx.x, 0, 0, 0);
        __syncwarp();
        unsigned r;
        evo::ldmatrix_x1(r, rows + threadIdx.x % 8);
        out[threadIdx.x] = r;"#;
    assert_eq!(values(body, 32)[..9], [0, 0, 0, 0, 1, 0, 0, 0, 2]);
}

#[test]
fn named_barriers_are_checked_and_their_deadlocks_described() {
    let (kind, message) = refused("if (threadIdx.x < 64)\nevo::bar_sync(3, 96);", 96);
    assert_eq!(kind, VerdictKind::DivergentBarrier);
    assert_eq!(
        message,
        "`k`: threads 0-63 wait at line 4 (`evo::bar_sync`, barrier 3, 64 of 96 threads), \
         threads 64-95 have returned (block 0,0,0)"
    );
    let lanes = refused("if (threadIdx.x < 16) evo::bar_arrive(3, 32);", 32).1;
    assert!(lanes.contains("threads 0-15 wait at line 3 (`evo::bar_arrive`"), "{lanes}");
    let check = |body: &str, words: &str| {
        let (kind, message) = refused(body, 64);
        assert!(kind == VerdictKind::CrashIllegalInstruction && message.contains(words), "{message}");
    };
    check("evo::bar_sync(0, 64);", "belongs to __syncthreads");
    check("evo::bar_sync(16, 64);", "barriers 0 to 15");
    check("evo::bar_sync(1, 48);", "multiple of 32");
    check("evo::bar_sync(1, threadIdx.x < 32 ? 64 : 96);", "different numbers of threads");
}
