// CUDA's math functions and intrinsics, each against its value.
//@ arguments: int* out[1]
//@ launch: 1 x 1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__device__ bool near(double found, double expected) {
    return fabs(found - expected) <= 4e-15 * fabs(expected);
}
__device__ bool rounded(float found, float expected) {
    return abs(__float_as_int(found) - __float_as_int(expected)) <= 1;
}
__device__ bool same(unsigned found, unsigned expected) {
    return found == expected;
}

//@ case: special functions are exact to a few units: values with 60 digits by mpmath 1.3
assert(near(erfinv(0.5), 0.4769362762044699));
assert(near(erfinv(-0.999), -2.3267537655135246));
assert(near(erfinv(1e-300), 8.86226925452758e-301));
assert(near(erfcinv(1e-200), 21.37478304902626));
assert(near(erfcinv(0.25), 0.8134198475976185));
assert(near(erfcinv(1.75), -0.8134198475976185));
assert(near(erfcx(0.5), 0.6156903441929259));
assert(near(erfcx(9.5), 0.05906467835256389));
assert(near(erfcx(30.0), 0.01879588886141675));
assert(near(erfcx(-3.0), 16205.988853999586));
assert(near(normcdf(-1.0), 0.15865525393145705));
assert(near(normcdf(-30.0), 4.906713927148187e-198));
assert(near(normcdf(2.5), 0.9937903346742238));
assert(near(normcdfinv(0.975), 1.9599639845400538));
assert(near(normcdfinv(1e-100), -21.273453560965326));
assert(near(cyl_bessel_i0(1.5), 1.646723189772891));
assert(near(cyl_bessel_i0(60.0), 5.894077055609801e+24));
assert(near(cyl_bessel_i0(712.0), 2.4684110577627523e+307));
assert(near(cyl_bessel_i1(-2.0), -1.590636854637329));
assert(near(cyl_bessel_i1(45.0), 2.0601334620815772e+18));
assert(near(j0(1.0), 0.7651976865579666));
assert(near(j1(2.0), 0.5767248077568734));
assert(near(jn(3, 4.0), 0.43017147387562193));
assert(near(y0(1.0), 0.08825696421567696));
assert(near(y1(2.0), -0.10703243154093754));
assert(near(yn(2, 3.0), -0.16040039348492374));
assert(near(norm3d(2.0, 3.0, 6.0), 7.0));
assert(near(rnorm3d(2.0, 3.0, 6.0), 0.14285714285714285));
assert(near(norm4d(1.0, 1.0, 1.0, 1.0), 2.0));
assert(near(norm3d(3e300, 4e300, 0.0), 5e+300));
assert(near(rhypot(3.0, 4.0), 0.2));
assert(near(rcbrt(27.0), 0.3333333333333333));
assert(near(exp10(-3.0), 0.001));
assert(near(sinpi(0.25), M_SQRT1_2));
assert(near(logb(10.0), 3.0));
assert(near((double)ilogb(0.1), -4.0));
assert(near(nextafter(1.0, 2.0), 1.0000000000000002));
assert(near(scalbn(1.5, 4), 24.0));
assert(near((double)lrint(2.5), 2.0));
assert(near((double)llround(2.5), 3.0));

//@ case: special functions of floats round once
assert(rounded(erfinvf(0.5f), 0.47693628f));
assert(rounded(erfcinvf(0.25f), 0.8134198f));
assert(rounded(erfcxf(30.0f), 0.018795889f));
assert(rounded(normcdff(-1.0f), 0.15865525f));
assert(rounded(normcdfinvf(0.975f), 1.9599644f));
assert(rounded(cyl_bessel_i0f(1.5f), 1.6467232f));
assert(rounded(cyl_bessel_i1f(-2.0f), -1.5906368f));
assert(rounded(norm4df(1e30f, 1e30f, 1e30f, 1e30f), 2e30f));
assert(rounded(rnorm4df(1.0f, 1.0f, 1.0f, 1.0f), 0.5f));
assert(rounded(exp10f(2.0f), 100.0f));
assert(rounded(fmax(1, 2.5f), 2.5f));
assert(rounded(pow(2, 0.5), (float)M_SQRT2));
assert(rounded(sqrt(4), 2.0f));
assert(rounded(std::pow(3.0f, 2), 9.0f));
assert(rounded(__saturatef(NAN), 0.0f));
assert(rounded([] { int q; float r = remquof(7.0f, 4.0f, &q); return r + 10 * q; }(), 19.0f));

//@ case: the ends of special functions
assert(erfinv(1.0) == INFINITY);
assert(erfinv(-1.0) == -INFINITY);
assert(erfcinv(0.0) == INFINITY);
assert(erfcinv(2.0) == -INFINITY);
assert(isnan(erfinv(1.5)));
assert(isnan(erfcinv(-0.5)));
assert(erfcx(-100.0) == INFINITY);
assert(normcdf(-INFINITY) == 0.0);
assert(normcdf(INFINITY) == 1.0);
assert(normcdfinv(0.0) == -INFINITY);
assert(cyl_bessel_i1(0.0) == 0.0);
assert(isnan(normcdf(NAN)));

//@ case: words and their parts, as the CUDA Math API defines them
assert(same(__funnelshift_lc(0x11111111u, 0x80000001u, 4), 0x00000011));
assert(same(__funnelshift_lc(0x12345678u, 0xffffffffu, 40), 0x12345678));
assert(same(__funnelshift_rc(0x12345678u, 0x9abcdef0u, 8), 0xf0123456));
assert(same(__funnelshift_rc(0x12345678u, 0x9abcdef0u, 33), 0x9abcdef0));
assert(same(__mul64hi(-1ll, 5ll), 0xffffffffu));
assert(same(__double2hiint(1.0), 0x3ff00000));
assert(same(__double2loint(__hiloint2double(0x40000000, 7)), 7));
assert(same(__fns(0xb0u, 0, 2), 5));
assert(same(__fns(0xb0u, 6, -1), 5));
assert(same(__fns(0xb0u, 4, 0), 4));
assert(same(__fns(0xb0u, 0, 4), 0xffffffffu));
assert(same(__dp4a(0x01020304, (int)0xff010101, 10), (10 + 4 + 3 + 2 - 1)));
assert(same(__dp4a(make_char4(1, -2, 3, 4), make_char4(5, 6, 7, 8), 1), 47));
assert(same(__dp2a_lo((int)0xfffe0003, (int)0x7f80fe02, 0), 10));
assert(same(__dp2a_hi((int)0xfffe0003, (int)0x0504fe02, 0), 2));
assert(same(__dp2a_lo(make_ushort2(2, 3), make_uchar4(200, 100, 1, 1), 1u), 701));
assert(same(__vavgs4(0x01fefd80u, 0x02ff0080u), 0x02fefe80));
assert(same(__vcmpges4(0x7f80ff01u, 0x00000001u), 0xff0000ff));
assert(same(__vsetgts2(0x8000ffffu, 0x00018000u), 0x00000001));
assert(same(__vsetleu4(0x01020304u, 0x04030201u), 0x01010000));
assert(same(__vnegss4(0x80017fffu), 0x7fff8101));
assert(same(__vabsss2(0x8000fffeu), 0x7fff0002));
assert(same(__vimax3_s32(-1, 5, 3), 5));
assert(same(__vimin3_u32(9u, 5u, 7u), 5));
assert(same(__vimax_s32_relu(-4, -2), 0));
assert(same(__viaddmax_s32(2, 3, 4), 5));
assert(same(__viaddmin_u32(2u, 3u, 4u), 4));
assert(same(__vimax3_s16x2(0xfffe0001u, 0xffff0002u, 0x80000000u), 0xffff0002));
assert(same(__viaddmax_s16x2_relu(0x7fff0001u, 0x00010001u, 0x80018000u), 0x00000002));
assert(same(umax(3u, 0xffffffffu), 0xffffffffu));
assert(same(llmin(-1ll, 4ll), 0xffffffffu));
assert(same(__finitef(INFINITY) + 2 * __isnanf(NAN) + 4 * (__signbitf(-0.0f) != 0), 6));

//@ case: halves round in every direction
// 1 + 2^-11 lies in the middle of two halves, 1 + 2^-8 of two bfloat16; 70000 and the smallest double lie outside.
assert(same(__half_as_ushort(__float2half_rd(1.00048828125f)), 0x3c00));
assert(same(__half_as_ushort(__float2half_ru(1.00048828125f)), 0x3c01));
assert(same(__half_as_ushort(__float2half_rz(-1.00048828125f)), 0xbc00));
assert(same(__half_as_ushort(__float2half_rd(-1.00048828125f)), 0xbc01));
assert(same(__half_as_ushort(__float2half_rd(70000.0f)), 0x7bff));
assert(same(__half_as_ushort(__float2half_ru(70000.0f)), 0x7c00));
assert(same(__half_as_ushort(__float2half_rz(-70000.0f)), 0xfbff));
assert(same(__half_as_ushort(__float2half_ru(1e-30f)), 0x0001));
assert(same(__half_as_ushort(__float2half_rd(-1e-30f)), 0x8001));
assert(same(__half_as_ushort(__int2half_rz(2049)), 0x6800));
assert(same(__half_as_ushort(__int2half_ru(2049)), 0x6801));
assert(same(__half_as_ushort(__ull2half_rn(65519ull)), 0x7bff));
assert(same(__half_as_ushort(__ushort2half_rd((unsigned short)65535)), 0x7bff));
assert(same(__bfloat16_as_ushort(__float2bfloat16_rz(1.00390625f)), 0x3f80));
assert(same(__bfloat16_as_ushort(__float2bfloat16_ru(1.00390625f)), 0x3f81));
assert(same(__bfloat16_as_ushort(__ll2bfloat16_rd(-9007199254740993ll)), 0xda01));
assert(same(__bfloat16_as_ushort(__ll2bfloat16_rn(-9007199254740993ll)), 0xda00));
assert(same(__half2int_rd(__half(-1.5f)), -2));
assert(same(__half2uint_rn(__half(-1.5f)), 0));
assert(same(__half2short_rz(CUDART_INF_FP16), 32767));
assert(same(__half2short_rn(CUDART_NAN_FP16), 0));
assert(same(__half2uchar_rz(__half(300.0f)), 255));
assert(same(__half2char_rz(__half(-300.0f)), -128));
assert(same(__bfloat162ushort_ru(__nv_bfloat16(1.25f)), 2));
assert(same((unsigned)(__half2ll_rn(CUDART_INF_FP16) >> 32), 0x7fffffff));

//@ case: halves compare with NaN and make masks
//@ with PAIR: __half2(__half(1.0f), CUDART_NAN_FP16), __half2(__half(1.0f), __half(2.0f))
//@ finds: honest
assert(same(__heq2_mask(PAIR), 0x0000ffff));
assert(same(__hne2_mask(PAIR), 0));
assert(same(__hneu2_mask(PAIR), 0xffff0000));
assert(same(__hgtu2_mask(PAIR), 0xffff0000));
assert(same(__hbequ2(PAIR), 1));
assert(same(__hbeq2(PAIR), 0));
assert(same(__hne(CUDART_NAN_FP16, CUDART_ONE_FP16), 0));
assert(same(CUDART_NAN_FP16 != CUDART_ONE_FP16, 1));
assert(same(__half_as_ushort(__hfma_sat(__half(2.0f), __half(3.0f), __half(1.0f))), 0x3c00));
assert(same(__half_as_ushort(__hcmadd(__half2(1.0f, 2.0f), __half2(3.0f, 4.0f), __half2(1.0f, 1.0f)).x), 0xc400));
assert(same(__half_as_ushort(__hcmadd(__half2(1.0f, 2.0f), __half2(3.0f, 4.0f), __half2(1.0f, 1.0f)).y), 0x4980));
assert(same(__half_as_ushort(__hfma2_relu(__half2(1.0f, 2.0f), __half2(-3.0f, 4.0f), __half2(1.0f, 1.0f)).x), 0));

//@ case: atomics of every scope and of vectors
//@ arguments: int* whole[2], unsigned* words[3], float* reals[7]
//@ launch: 1 x 64
atomicSub_block(whole, 1);
atomicCAS_block(whole + 1, (int)threadIdx.x, (int)threadIdx.x + 1);
atomicInc_block(words, 40u);
atomicDec_system(words + 1, 9u);
atomicSub_system(words + 2, 2u);
atomicAdd((float4*)reals, make_float4(1, 2, 3, 4));
atomicAdd((float2*)(reals + 4), make_float2(5, 6));
if (threadIdx.x == 0) reals[6] = __isShared(whole) + 2 * __isGlobal(whole) + 4 * __isLocal(&words);
//@ gives:
whole[0] = -64;
whole[1] = 64;
words[0] = 64 % 41;
words[1] = 6;
words[2] = -128;
for (int i = 0; i < 6; i++) reals[i] = 64 * (i + 1);
reals[6] = 6;

//@ case: conversions saturate and round as they say
//@ arguments: int* y[36]
//@ launch: 1 x 6
const float x[] = {2.5f, -2.5f, 1e30f, -1e30f, NAN, 3e9f};
int i = threadIdx.x;
y[6 * i] = __float2int_rn(x[i]);
y[6 * i + 1] = __float2int_rd(x[i]);
y[6 * i + 2] = __float2int_ru(x[i]);
y[6 * i + 3] = (int)__float2uint_rz(x[i]);
y[6 * i + 4] = (int)__double2uint_rz((double)x[i]);
y[6 * i + 5] = (int)(__float2ll_rz(x[i]) >> 32);
//@ gives:
const int most = 0x7fffffff, least = -most - 1;
const int expected[] = {
    2, 2, 3, 2, 2, 0,
    -2, -3, -2, 0, 0, -1,
    most, most, most, -1, -1, most,
    least, least, least, 0, 0, least,
    0, 0, 0, 0, least, least,
    most, most, most, -1294967296, -1294967296, 0,
};
for (int i = 0; i < 36; i++) y[i] = expected[i];

//@ case: directed rounding, multiples of pi, and parts of words
//@ arguments: float* y[8], unsigned* parts[6]
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
//@ gives:
const float expected[] = {1, nextafterf(1, 2), 1, 1, 1, -1, 0, 1};
for (int i = 0; i < 8; i++) y[i] = expected[i];
const unsigned words[] = {0x02008081, 0x02007f80, 0xffff1010, 0x21e, 0x00010001, 0xffffffff};
for (int i = 0; i < 6; i++) parts[i] = words[i];
