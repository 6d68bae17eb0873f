//! What a module keeps from call to call.

use super::*;
use crate::host::initializers;

#[test]
fn the_memory_of_a_module_is_known_before_it_is_loaded() {
    let bytes = |declaration: &str| {
        let text = format!(
            "{declaration} extern \"C\" __global__ void k(float* y) {{ y[0] = table[threadIdx.x]; }}"
        );
        initializers::data_bytes(&compile(&text, &["k"]))
    };
    let small = bytes("__device__ float table[4];");
    assert!(small < 64 << 10, "{small}");
    for large in [
        "__device__ float table[1 << 18];",
        "__device__ float table[1 << 18] = {1, 2};",
        "__constant__ float table[1 << 18] = {1};",
    ] {
        assert!(
            bytes(large) >= (1 << 20) && bytes(large) < (1 << 20) + (64 << 10),
            "{large}: {}",
            bytes(large)
        );
    }
}

#[test]
fn variables_are_found_hashed_and_restored() {
    let text = r#"
        __device__ int calls;
        __device__ float table[4] = {1, 2, 3, 4};
        __constant__ float fixed[2] = {5, 6};
        namespace { __device__ unsigned hidden; }
        extern "C" __global__ void counts(int* y) {
            static int local = 7;
            y[0] = ++calls;
            y[1] = (int)(table[0] + fixed[1]);
            y[2] = ++local;
            y[3] = (int)++hidden;
            table[0] += 1;
        }
    "#;
    let mut bench = Bench::new(text, "counts");
    let y = bench.buffer("y", &[0i32; 4]);
    let module = bench.module;
    let loaded = bench.device.variables(module).unwrap();
    let mut names: Vec<&str> = loaded.iter().map(|own| own.name.as_str()).collect();
    names.sort();
    // Constant memory is memory like any other here.
    assert_eq!(names, ["calls", "fixed", "hidden", "local", "table"]);
    let call = |bench: &mut Bench| {
        bench.run(1, 1, 0, vec![buffer(y)]).unwrap();
        bench.values::<i32>(y)
    };
    assert_eq!(call(&mut bench), [1, 7, 8, 1]);
    assert_eq!(call(&mut bench), [2, 8, 9, 2]);
    let after = bench.device.variables(module).unwrap();
    let same = loaded.iter().zip(&after).filter(|(before, after)| before.hash == after.hash);
    assert_eq!(same.map(|(own, _)| own.name.as_str()).collect::<Vec<_>>(), ["fixed"]);
    bench.device.restore_variables(module).unwrap();
    assert_eq!(bench.device.variables(module).unwrap(), loaded);
    assert_eq!(call(&mut bench), [1, 7, 8, 1]);
}

#[test]
fn a_kernel_without_variables_has_none() {
    let text = r#"extern "C" __global__ void plain(int* y) { __shared__ int own; own = 1; y[0] = own; }"#;
    let mut bench = Bench::new(text, "plain");
    assert_eq!(bench.device.variables(bench.module).unwrap(), []);
}

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
fn a_barrier_of_the_grid_leaves_nothing_behind() {
    let text = "#include <cooperative_groups.h>
        __global__ void k() { for (int i = 0; i < 3; i++) cooperative_groups::this_grid().sync(); }";
    let mut bench = Bench::new(text, "k");
    let loaded = bench.device.variables(bench.module).unwrap();
    let bound = BoundLaunch { cooperative: true, ..bench.bound(2, 32, 0, vec![]) };
    bench.device.launch(bench.module, &[bound]).unwrap();
    assert_eq!(bench.device.variables(bench.module).unwrap(), loaded);
}
