//! `__half` and `__nv_bfloat16` against the `half` crate, bit for bit.

use half::{bf16, f16};

use super::*;

fn map<In: Copy, Out: Copy + Default>(body: &str, types: (&str, &str), input: &[In]) -> Vec<Out> {
    let (from, to) = types;
    let text = format!(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__global__ void k(const {from}* x, {to}* y, int n) {{\n\
         for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = {body};\n}}"
    );
    let mut bench = Bench::new(&text, "k");
    let x = bench.buffer("x", input);
    let y = bench.buffer("y", &vec![Out::default(); input.len()]);
    bench.run(8, 256, 0, vec![buffer(x), buffer(y), int(input.len() as i32)]).unwrap();
    bench.values(y)
}

fn all_bits() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// Every value of a half type, the midpoints between neighbors, and their neighbors in float.
fn hard_floats(value: impl Fn(u16) -> f32) -> Vec<f32> {
    let mut floats = Vec::new();
    for bits in 0..0x7fffu16 {
        let (low, high) = (value(bits), value(bits + 1));
        let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
        for float in [low, middle, middle.next_up(), middle.next_down()] {
            floats.extend([float, -float]);
        }
    }
    floats.extend([f32::INFINITY, f32::MAX, 65_519.99, 65_520.0, f32::MIN_POSITIVE, 1e-45]);
    floats.retain(|float| !float.is_nan());
    floats
}

#[test]
fn every_half_becomes_the_right_float() {
    let wide: Vec<u32> = map(
        "__float_as_uint(__half2float(__ushort_as_half(x[i])))",
        ("unsigned short", "unsigned"),
        &all_bits(),
    );
    for (bits, wide) in all_bits().into_iter().zip(wide) {
        let (expected, wide) = (f16::from_bits(bits).to_f32(), f32::from_bits(wide));
        assert!(expected.to_bits() == wide.to_bits() || (expected.is_nan() && wide.is_nan()), "{bits:#x}");
    }
}

#[test]
fn every_bfloat_becomes_the_right_float() {
    let body = "__float_as_uint(__bfloat162float(__ushort_as_bfloat16(x[i])))";
    let wide: Vec<u32> = map(body, ("unsigned short", "unsigned"), &all_bits());
    for (bits, wide) in all_bits().into_iter().zip(wide) {
        assert_eq!(u32::from(bits) << 16, wide);
    }
}

#[test]
fn floats_round_to_the_nearest_even_half() {
    let input = hard_floats(|bits| f16::from_bits(bits).to_f32());
    let narrow: Vec<u16> = map("__half_as_ushort(__float2half(x[i]))", ("float", "unsigned short"), &input);
    for (float, narrow) in input.iter().zip(narrow) {
        assert_eq!(f16::from_f32(*float).to_bits(), narrow, "{float:e}");
    }
}

#[test]
fn floats_round_to_the_nearest_even_bfloat() {
    let input = hard_floats(|bits| bf16::from_bits(bits).to_f32());
    let narrow: Vec<u16> =
        map("__bfloat16_as_ushort(__float2bfloat16(x[i]))", ("float", "unsigned short"), &input);
    for (float, narrow) in input.iter().zip(narrow) {
        assert_eq!(bf16::from_f32(*float).to_bits(), narrow, "{float:e}");
    }
}

#[test]
fn the_conversions_without_instructions_round_the_same() {
    // The two formulas that are used where the processor has no conversion instructions.
    let soft = super::super::headers::HEADER.replace("defined(__F16C__)", "0");
    let input = hard_floats(|bits| f16::from_bits(bits).to_f32());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("evo_cuda.h"), soft).unwrap();
    let text = "#include \"evo_cuda.h\"\nextern \"C\" __attribute__((visibility(\"default\"))) void narrow(const float* x, unsigned short* y, float* z, long n) {\n\
                for (long i = 0; i < n; i++) { y[i] = evo_float_to_half(x[i]); z[i] = evo_half_to_float(y[i]); } }";
    let (unit, library) = (folder.path().join("u.cpp"), folder.path().join("u.so"));
    std::fs::write(&unit, text).unwrap();
    let mut command = Command::new("c++");
    command.args(translate::flags()).arg("-I").arg(folder.path()).arg("-o").arg(&library).arg(&unit);
    assert!(command.status().unwrap().success());
    let (mut narrow, mut wide) = (vec![0u16; input.len()], vec![0f32; input.len()]);
    // SAFETY: the library holds the function above, whose buffers have `input.len()` elements each.
    unsafe {
        let library = libloading::Library::new(&library).unwrap();
        type Narrow = unsafe extern "C" fn(*const f32, *mut u16, *mut f32, i64);
        let function = library.get::<Narrow>(b"narrow\0").unwrap();
        function(input.as_ptr(), narrow.as_mut_ptr(), wide.as_mut_ptr(), input.len() as i64);
    }
    for ((float, narrow), wide) in input.iter().zip(narrow).zip(wide) {
        assert_eq!(f16::from_f32(*float).to_bits(), narrow, "{float:e}");
        assert_eq!(f16::from_bits(narrow).to_f32(), wide, "{float:e}");
    }
}

#[test]
fn half_arithmetic_rounds_once() {
    let body = "__half_as_ushort(__ushort_as_half(x[i]) * __ushort_as_half((unsigned short)(x[i] * 40503u)) + __float2half(0.25f))";
    let found: Vec<u16> = map(body, ("unsigned short", "unsigned short"), &all_bits());
    for (bits, found) in all_bits().into_iter().zip(found) {
        let (a, b) = (f16::from_bits(bits), f16::from_bits((u32::from(bits).wrapping_mul(40503)) as u16));
        let product = f16::from_f32(a.to_f32() * b.to_f32());
        let expected = f16::from_f32(product.to_f32() + 0.25);
        let found = f16::from_bits(found);
        assert!(expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan()), "{a} * {b}");
    }
}

#[test]
fn fused_halves_round_once_and_doubles_do_not_round_twice() {
    let input: Vec<u16> = vec![0x3c01, 0x0001, 0x7bff];
    // (1 + 2^-10)^2 - 1 keeps the last bit that a rounded product would lose.
    let body =
        "__half_as_ushort(__hfma(__ushort_as_half(x[i]), __ushort_as_half(x[i]), __float2half(-1.0f)))";
    let found: Vec<u16> = map(body, ("unsigned short", "unsigned short"), &input);
    for (bits, found) in input.iter().zip(found) {
        let value = f16::from_bits(*bits).to_f64();
        assert_eq!(f16::from_f64(value * value - 1.0).to_bits(), found);
    }
    // Just above a midpoint of halves, by less than a float can hold: rounding to float first would hit the tie.
    let doubles =
        [1.0 + 2f64.powi(-11) + 2f64.powi(-40), 1.0 + 2f64.powi(-11), 1.0 + 2f64.powi(-11) - 2f64.powi(-40)];
    let found: Vec<u16> =
        map("__half_as_ushort(__double2half(x[i]))", ("double", "unsigned short"), &doubles);
    assert_eq!(found, [0x3c01, 0x3c00, 0x3c00]);
}

#[test]
fn bit_tricks_agree_with_rust() {
    let input: Vec<u32> =
        (0..1000u32).map(|i| i.wrapping_mul(2_654_435_761)).chain([0, 1, u32::MAX, 1 << 31]).collect();
    let check = |body: &str, expected: &dyn Fn(u32) -> u32| {
        let found: Vec<u32> = map(body, ("unsigned", "unsigned"), &input);
        for (word, found) in input.iter().zip(found) {
            assert_eq!(found, expected(*word), "{body} of {word:#x}");
        }
    };
    check("__popc(x[i]) + 100 * __clz(x[i]) + 10000 * __ffs(x[i])", &|x| {
        x.count_ones() + 100 * x.leading_zeros() + 10_000 * if x == 0 { 0 } else { x.trailing_zeros() + 1 }
    });
    check("__brev(x[i]) ^ __byte_perm(x[i], 0, 0x0123)", &|x| x.reverse_bits() ^ x.swap_bytes());
    check("__umulhi(x[i], x[i]) + min(x[i], 7u) + max(3, 5)", &|x| {
        (((u64::from(x) * u64::from(x)) >> 32) as u32).wrapping_add(x.min(7) + 5)
    });
}
