//! What evo includes before every CUDA source: it leaves nothing in a binary, and takes no name away.

use std::fs;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::compile::{Bench, source};

/// Parameters of a space are macros, whatever they are called.
#[test]
fn what_evo_includes_has_no_names_that_a_parameter_may_have() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let text =
        "extern \"C\" __global__ void f(float* out, int n) { out[0] = sqrt(n) + pow(n, 2.5) + A + B; }";
    let mut own = source("a", text, "f");
    let names = ["A", "B", "N", "is_whole", "only_if"];
    own.options.extend(names.iter().map(|name| format!("-D{name}=3")));
    bench.binary(own);
}

/// Each would be hashed and restored around the calls of every variant.
#[test]
fn what_evo_includes_leaves_no_variable_in_a_binary() {
    let Some(bench) = Bench::cuda("sm_80") else { return };
    let variables = |text: &str| -> Vec<String> {
        let binary = fs::read(bench.binary(source("a", text, "f")).path).unwrap();
        let file = object::File::parse(&*binary).unwrap();
        let is_variable = |own: &object::Symbol<'_, '_>| {
            let section = own.section_index().and_then(|index| file.section_by_index(index).ok());
            section.is_some_and(|section| section.name().is_ok_and(|name| name.starts_with(".nv.global")))
        };
        let names = file.symbols().filter(is_variable).filter(|own| own.size() > 0);
        // The hash of a variant's source, which is not taken for the kernel's.
        let names = names.map(|own| own.name().unwrap().to_string());
        names.filter(|name| name != "evo_variant_hash").collect()
    };
    let body = "extern \"C\" __global__ void f(float* y, int n) { y[0] = sqrt(n) + pow(n, 2.5); }";
    assert!(variables(body).is_empty(), "{:?}", variables(body));
    // The same look finds what there is.
    let counting = body.replace("y[0] =", "y[0] = ++calls +");
    assert_eq!(variables(&format!("__device__ int calls;\n{counting}")), ["calls"]);
}
