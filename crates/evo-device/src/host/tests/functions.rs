//! CUDA's math functions and intrinsics, each against its value.
//!
//! Values of special functions were computed with 60 digits (mpmath 1.3); those of integer operations follow from the
//! definitions in the CUDA Math API.

use super::*;

fn evaluated<T: Copy + Default>(c_type: &str, expressions: &[&str]) -> Vec<T> {
    let store = |(at, expression): (usize, &&str)| format!("  out[{at}] = ({c_type})({expression});\n");
    let body: String = expressions.iter().enumerate().map(store).collect();
    let text = format!(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern \"C\" __global__ void k({c_type}* out) {{\n{body}}}\n"
    );
    let mut bench = Bench::new(&text, "k");
    let out = bench.buffer("out", &vec![T::default(); expressions.len()]);
    bench.run(1, 1, 0, vec![buffer(out)]).unwrap();
    bench.values(out)
}

fn check_doubles(rows: &[(&str, f64)], tolerance: f64) {
    let expressions: Vec<&str> = rows.iter().map(|(expression, _)| *expression).collect();
    for (found, (expression, expected)) in evaluated::<f64>("double", &expressions).into_iter().zip(rows) {
        let off = (found - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
        assert!(off <= tolerance || found == *expected, "{expression}: {found:e}, not {expected:e}");
    }
}

fn check_words(rows: &[(&str, u32)]) {
    let expressions: Vec<&str> = rows.iter().map(|(expression, _)| *expression).collect();
    for (found, (expression, expected)) in evaluated::<u32>("unsigned", &expressions).into_iter().zip(rows) {
        assert_eq!(found, *expected, "{expression}: 0x{found:08x}, not 0x{expected:08x}");
    }
}

#[test]
fn special_functions_are_exact_to_a_few_units() {
    let rows = [
        ("erfinv(0.5)", 0.4769362762044699),
        ("erfinv(-0.999)", -2.3267537655135246),
        ("erfinv(1e-300)", 8.86226925452758e-301),
        ("erfcinv(1e-200)", 21.37478304902626),
        ("erfcinv(0.25)", 0.8134198475976185),
        ("erfcinv(1.75)", -0.8134198475976185),
        ("erfcx(0.5)", 0.6156903441929259),
        ("erfcx(9.5)", 0.05906467835256389),
        ("erfcx(30.0)", 0.01879588886141675),
        ("erfcx(-3.0)", 16205.988853999586),
        ("normcdf(-1.0)", 0.15865525393145705),
        ("normcdf(-30.0)", 4.906713927148187e-198),
        ("normcdf(2.5)", 0.9937903346742238),
        ("normcdfinv(0.975)", 1.9599639845400538),
        ("normcdfinv(1e-100)", -21.273453560965326),
        ("cyl_bessel_i0(1.5)", 1.646723189772891),
        ("cyl_bessel_i0(60.0)", 5.894077055609801e+24),
        ("cyl_bessel_i0(712.0)", 2.4684110577627523e+307),
        ("cyl_bessel_i1(-2.0)", -1.590636854637329),
        ("cyl_bessel_i1(45.0)", 2.0601334620815772e+18),
        ("j0(1.0)", 0.7651976865579666),
        ("j1(2.0)", 0.5767248077568734),
        ("jn(3, 4.0)", 0.43017147387562193),
        ("y0(1.0)", 0.08825696421567696),
        ("y1(2.0)", -0.10703243154093754),
        ("yn(2, 3.0)", -0.16040039348492374),
        ("norm3d(2.0, 3.0, 6.0)", 7.0),
        ("rnorm3d(2.0, 3.0, 6.0)", 0.14285714285714285),
        ("norm4d(1.0, 1.0, 1.0, 1.0)", 2.0),
        ("norm3d(3e300, 4e300, 0.0)", 5e+300),
        ("rhypot(3.0, 4.0)", 0.2),
        ("rcbrt(27.0)", 0.3333333333333333),
        ("exp10(-3.0)", 0.001),
        ("sinpi(0.25)", std::f64::consts::FRAC_1_SQRT_2),
        ("logb(10.0)", 3.0),
        ("(double)ilogb(0.1)", -4.0),
        ("nextafter(1.0, 2.0)", 1.0000000000000002),
        ("scalbn(1.5, 4)", 24.0),
        ("(double)lrint(2.5)", 2.0),
        ("(double)llround(2.5)", 3.0),
    ];
    check_doubles(&rows, 4e-15);
}

#[test]
fn special_functions_of_floats_round_once() {
    let rows = [
        ("erfinvf(0.5f)", 0.476_936_28_f32),
        ("erfcinvf(0.25f)", 0.813_419_8),
        ("erfcxf(30.0f)", 0.018_795_889),
        ("normcdff(-1.0f)", 0.158_655_25),
        ("normcdfinvf(0.975f)", 1.959_964_4),
        ("cyl_bessel_i0f(1.5f)", 1.646_723_2),
        ("cyl_bessel_i1f(-2.0f)", -1.590_636_8),
        ("norm4df(1e30f, 1e30f, 1e30f, 1e30f)", 2e30),
        ("rnorm4df(1.0f, 1.0f, 1.0f, 1.0f)", 0.5),
        ("exp10f(2.0f)", 100.0),
        ("fmax(1, 2.5f)", 2.5),
        ("pow(2, 0.5)", std::f32::consts::SQRT_2),
        ("sqrt(4)", 2.0),
        ("std::pow(3.0f, 2)", 9.0),
        ("__saturatef(NAN)", 0.0),
        ("[] { int q; float r = remquof(7.0f, 4.0f, &q); return r + 10 * q; }()", 19.0),
    ];
    let expressions: Vec<&str> = rows.iter().map(|(expression, _)| *expression).collect();
    for (found, (expression, expected)) in evaluated::<f32>("float", &expressions).into_iter().zip(rows) {
        let units = (found.to_bits() as i64 - expected.to_bits() as i64).abs();
        assert!(units <= 1, "{expression}: {found:e}, not {expected:e}");
    }
}

#[test]
fn the_ends_of_special_functions() {
    let rows = [
        ("erfinv(1.0)", f64::INFINITY),
        ("erfinv(-1.0)", f64::NEG_INFINITY),
        ("erfcinv(0.0)", f64::INFINITY),
        ("erfcinv(2.0)", f64::NEG_INFINITY),
        ("isnan(erfinv(1.5))", 1.0),
        ("isnan(erfcinv(-0.5))", 1.0),
        ("erfcx(-100.0)", f64::INFINITY),
        ("normcdf(-INFINITY)", 0.0),
        ("normcdf(INFINITY)", 1.0),
        ("normcdfinv(0.0)", f64::NEG_INFINITY),
        ("cyl_bessel_i1(0.0)", 0.0),
        ("isnan(normcdf(NAN))", 1.0),
    ];
    check_doubles(&rows, 0.0);
}

#[test]
fn words_and_their_parts() {
    check_words(&[
        ("__funnelshift_lc(0x11111111u, 0x80000001u, 4)", 0x0000_0011),
        ("__funnelshift_lc(0x12345678u, 0xffffffffu, 40)", 0x1234_5678),
        ("__funnelshift_rc(0x12345678u, 0x9abcdef0u, 8)", 0xf012_3456),
        ("__funnelshift_rc(0x12345678u, 0x9abcdef0u, 33)", 0x9abc_def0),
        ("__mul64hi(-1ll, 5ll)", u32::MAX),
        ("__double2hiint(1.0)", 0x3ff0_0000),
        ("__double2loint(__hiloint2double(0x40000000, 7))", 7),
        ("__fns(0xb0u, 0, 2)", 5),
        ("__fns(0xb0u, 6, -1)", 5),
        ("__fns(0xb0u, 4, 0)", 4),
        ("__fns(0xb0u, 0, 4)", u32::MAX),
        ("__dp4a(0x01020304, (int)0xff010101, 10)", (10 + 4 + 3 + 2 - 1) as u32),
        ("__dp4a(make_char4(1, -2, 3, 4), make_char4(5, 6, 7, 8), 1)", 47),
        ("__dp2a_lo((int)0xfffe0003, (int)0x7f80fe02, 0)", 10),
        ("__dp2a_hi((int)0xfffe0003, (int)0x0504fe02, 0)", 2),
        ("__dp2a_lo(make_ushort2(2, 3), make_uchar4(200, 100, 1, 1), 1u)", 701),
        ("__vavgs4(0x01fefd80u, 0x02ff0080u)", 0x02fe_fe80),
        ("__vcmpges4(0x7f80ff01u, 0x00000001u)", 0xff00_00ff),
        ("__vsetgts2(0x8000ffffu, 0x00018000u)", 0x0000_0001),
        ("__vsetleu4(0x01020304u, 0x04030201u)", 0x0101_0000),
        ("__vnegss4(0x80017fffu)", 0x7fff_8101),
        ("__vabsss2(0x8000fffeu)", 0x7fff_0002),
        ("__vimax3_s32(-1, 5, 3)", 5),
        ("__vimin3_u32(9u, 5u, 7u)", 5),
        ("__vimax_s32_relu(-4, -2)", 0),
        ("__viaddmax_s32(2, 3, 4)", 5),
        ("__viaddmin_u32(2u, 3u, 4u)", 4),
        ("__vimax3_s16x2(0xfffe0001u, 0xffff0002u, 0x80000000u)", 0xffff_0002),
        ("__viaddmax_s16x2_relu(0x7fff0001u, 0x00010001u, 0x80018000u)", 0x0000_0002),
        ("umax(3u, 0xffffffffu)", u32::MAX),
        ("llmin(-1ll, 4ll)", u32::MAX),
        ("__finitef(INFINITY) + 2 * __isnanf(NAN) + 4 * (__signbitf(-0.0f) != 0)", 6),
    ]);
}

#[test]
fn halves_round_in_every_direction() {
    // 1 + 2^-11 lies in the middle of two halves, 1 + 2^-8 of two bfloat16; 70000 and the smallest double lie outside.
    let half = |expression: &str| format!("__half_as_ushort({expression})");
    let bfloat = |expression: &str| format!("__bfloat16_as_ushort({expression})");
    let rows: Vec<(String, u32)> = [
        (half("__float2half_rd(1.00048828125f)"), 0x3c00),
        (half("__float2half_ru(1.00048828125f)"), 0x3c01),
        (half("__float2half_rz(-1.00048828125f)"), 0xbc00),
        (half("__float2half_rd(-1.00048828125f)"), 0xbc01),
        (half("__float2half_rd(70000.0f)"), 0x7bff),
        (half("__float2half_ru(70000.0f)"), 0x7c00),
        (half("__float2half_rz(-70000.0f)"), 0xfbff),
        (half("__float2half_ru(1e-30f)"), 0x0001),
        (half("__float2half_rd(-1e-30f)"), 0x8001),
        (half("__int2half_rz(2049)"), 0x6800),
        (half("__int2half_ru(2049)"), 0x6801),
        (half("__ull2half_rn(65519ull)"), 0x7bff),
        (half("__ushort2half_rd((unsigned short)65535)"), 0x7bff),
        (bfloat("__float2bfloat16_rz(1.00390625f)"), 0x3f80),
        (bfloat("__float2bfloat16_ru(1.00390625f)"), 0x3f81),
        (bfloat("__ll2bfloat16_rd(-9007199254740993ll)"), 0xda01),
        (bfloat("__ll2bfloat16_rn(-9007199254740993ll)"), 0xda00),
    ]
    .into();
    let rows: Vec<(&str, u32)> = rows.iter().map(|(expression, bits)| (expression.as_str(), *bits)).collect();
    check_words(&rows);
    check_words(&[
        ("__half2int_rd(__half(-1.5f))", -2i32 as u32),
        ("__half2uint_rn(__half(-1.5f))", 0),
        ("__half2short_rz(CUDART_INF_FP16)", 32767),
        ("__half2short_rn(CUDART_NAN_FP16)", 0),
        ("__half2uchar_rz(__half(300.0f))", 255),
        ("__half2char_rz(__half(-300.0f))", -128i32 as u32),
        ("__bfloat162ushort_ru(__nv_bfloat16(1.25f))", 2),
        ("(unsigned)(__half2ll_rn(CUDART_INF_FP16) >> 32)", 0x7fff_ffff),
    ]);
}

#[test]
fn halves_compare_with_nan_and_make_masks() {
    let pair = "__half2(__half(1.0f), CUDART_NAN_FP16), __half2(__half(1.0f), __half(2.0f))";
    let rows: Vec<(String, u32)> = [
        (format!("__heq2_mask({pair})"), 0x0000_ffff),
        (format!("__hne2_mask({pair})"), 0),
        (format!("__hneu2_mask({pair})"), 0xffff_0000),
        (format!("__hgtu2_mask({pair})"), 0xffff_0000),
        (format!("__hbequ2({pair})"), 1),
        (format!("__hbeq2({pair})"), 0),
        ("__hne(CUDART_NAN_FP16, CUDART_ONE_FP16)".into(), 0),
        ("CUDART_NAN_FP16 != CUDART_ONE_FP16".into(), 1),
        ("__half_as_ushort(__hfma_sat(__half(2.0f), __half(3.0f), __half(1.0f)))".into(), 0x3c00),
        ("__half_as_ushort(__hcmadd(__half2(1.0f, 2.0f), __half2(3.0f, 4.0f), __half2(1.0f, 1.0f)).x)".into(), 0xc400),
        ("__half_as_ushort(__hcmadd(__half2(1.0f, 2.0f), __half2(3.0f, 4.0f), __half2(1.0f, 1.0f)).y)".into(), 0x4980),
        ("__half_as_ushort(__hfma2_relu(__half2(1.0f, 2.0f), __half2(-3.0f, 4.0f), __half2(1.0f, 1.0f)).x)".into(), 0),
    ]
    .into();
    let rows: Vec<(&str, u32)> = rows.iter().map(|(expression, bits)| (expression.as_str(), *bits)).collect();
    check_words(&rows);
}

#[test]
fn atomics_of_every_scope_and_of_vectors() {
    let text = r#"
        extern "C" __global__ void k(int* whole, unsigned* words, float* reals) {
            atomicSub_block(whole, 1);
            atomicCAS_block(whole + 1, (int)threadIdx.x, (int)threadIdx.x + 1);
            atomicInc_block(words, 40u);
            atomicDec_system(words + 1, 9u);
            atomicSub_system(words + 2, 2u);
            atomicAdd((float4*)reals, make_float4(1, 2, 3, 4));
            atomicAdd((float2*)(reals + 4), make_float2(5, 6));
            if (threadIdx.x == 0) reals[6] = __isShared(whole) + 2 * __isGlobal(whole) + 4 * __isLocal(&words);
        }
    "#;
    let mut bench = Bench::new(text, "k");
    let (whole, words) = (bench.buffer("whole", &[100i32, 0]), bench.buffer("words", &[0u32, 5, 100]));
    let reals = bench.buffer("reals", &[0f32; 7]);
    bench.run(1, 64, 0, vec![buffer(whole), buffer(words), buffer(reals)]).unwrap();
    assert_eq!(bench.values::<i32>(whole), [36, 64]);
    assert_eq!(bench.values::<u32>(words), [64 % 41, 1, u32::MAX - 27]);
    assert_eq!(bench.values::<f32>(reals), [64.0, 128.0, 192.0, 256.0, 320.0, 384.0, 6.0]);
}
