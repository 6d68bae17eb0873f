// `__half` and `__nv_bfloat16`, bit for bit, against what their bits mean.
//@ arguments: int* out[1]
//@ launch: 1 x 32
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/// What the bits of a half or, with 8 bits of exponent, a bfloat without a sign mean; infinity one above the largest.
__device__ double value_of(unsigned bits, int exponents) {
    int fraction = 15 - exponents, bias = (1 << (exponents - 1)) - 1;
    int exponent = bits >> fraction;
    long long mantissa = bits & ((1u << fraction) - 1);
    if (exponent) mantissa |= 1 << fraction;
    return ldexp((double)mantissa, (exponent ? exponent : 1) - bias - fraction);
}
__device__ bool is_nan(unsigned bits, int exponents) {
    return (bits & 0x7fff) > (((1u << exponents) - 1) << (15 - exponents));
}
__device__ bool is_infinite(unsigned bits, int exponents) {
    return (bits & 0x7fff) == (((1u << exponents) - 1) << (15 - exponents));
}
__device__ bool same(float found, unsigned bits, int exponents) {
    if (is_nan(bits, exponents)) return isnan(found);
    double value = is_infinite(bits, exponents) ? INFINITY : value_of(bits & 0x7fff, exponents);
    return fabs((double)found) == value && signbit(found) == (bits >> 15 != 0);
}
/// What a float becomes that lies at, or next to, the middle between the values of two neighbors.
template <class Narrow> __device__ void halfway(int exponents, unsigned infinity, Narrow narrow) {
    for (unsigned bits = threadIdx.x; bits < infinity; bits += blockDim.x) {
        float low = (float)value_of(bits, exponents), step = (float)(value_of(bits + 1, exponents) - (double)low);
        float middle = (float)((double)low + (double)step / 2);
        unsigned even = bits + bits % 2;
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1 : 1;
            assert(narrow(s * low) == (bits | sign));
            assert(narrow(s * middle) == (even | sign));
            assert(narrow(s * nextafterf(middle, INFINITY)) == ((bits + 1) | sign));
            assert(narrow(s * nextafterf(middle, 0.0f)) == (bits | sign));
        }
    }
}

//@ case: every half and bfloat becomes the right float
for (unsigned bits = threadIdx.x; bits < 0x10000; bits += blockDim.x) {
    assert(same(__half2float(__ushort_as_half(bits)), bits, 5));
    assert(same(evo_half_to_float_plain(bits), bits, 5));
    assert(same(__bfloat162float(__ushort_as_bfloat16(bits)), bits, 8));
    assert(__float_as_uint(__bfloat162float(__ushort_as_bfloat16(bits))) == bits << 16);
}

//@ case: floats round to the nearest half, and to the even one of two, with the processor's instructions and without
//@ with NARROW: __half_as_ushort(__float2half(x))
//@ finds: honest
//@ with NARROW: evo_float_to_half_plain(x)
//@ finds: honest
auto narrow = [](float x) -> unsigned { return NARROW; };
halfway(5, 0x7c00, narrow);
assert(narrow(65519.99f) == 0x7bff && narrow(65520.0f) == 0x7c00);
assert(narrow(INFINITY) == 0x7c00 && narrow(-3.4e38f) == 0xfc00);
assert(narrow(1.17549435e-38f) == 0 && narrow(-1e-45f) == 0x8000);

//@ case: floats round to the nearest bfloat, and to the even one of two
auto narrow = [](float x) -> unsigned { return __bfloat16_as_ushort(__float2bfloat16(x)); };
// Above the smallest ones, whose middles are as small as floats get.
halfway(8, 0x7f80, narrow);
assert(narrow(INFINITY) == 0x7f80 && narrow(3.4028234e38f) == 0x7f80 && narrow(-1e-45f) == 0x8000);

//@ case: half arithmetic rounds once
for (unsigned bits = threadIdx.x; bits < 0x10000; bits += blockDim.x) {
    __half a = __ushort_as_half(bits), b = __ushort_as_half((unsigned short)(bits * 40503u));
    float product = __half2float(__float2half(__half2float(a) * __half2float(b)));
    unsigned expected = __half_as_ushort(__float2half(product + 0.25f));
    unsigned found = __half_as_ushort(a * b + __float2half(0.25f));
    assert(found == expected || is_nan(found, 5) && is_nan(expected, 5));
}

//@ case: fused halves round once and doubles do not round twice
// (1 + 2^-10)^2 - 1 keeps the last bit that a rounded product would lose.
const unsigned chosen[] = {0x3c01, 0x0001, 0x7bff};
for (unsigned bits : chosen) {
    double value = value_of(bits, 5), fused = value * value - 1;
    __half found = __hfma(__ushort_as_half(bits), __ushort_as_half(bits), __float2half(-1.0f));
    assert(__half_as_ushort(found) == __half_as_ushort(__float2half((float)fused)));
}
// Just above a middle of halves, by less than a float can hold: rounding to float first would hit the tie.
const double tie = 1 + ldexp(1.0, -11), little = ldexp(1.0, -40);
assert(__half_as_ushort(__double2half(tie + little)) == 0x3c01);
assert(__half_as_ushort(__double2half(tie)) == 0x3c00);
assert(__half_as_ushort(__double2half(tie - little)) == 0x3c00);

//@ case: bits are counted, turned around and moved
for (unsigned i = threadIdx.x; i < 1004; i += blockDim.x) {
    unsigned x = i < 1000 ? i * 2654435761u : i == 1000 ? 0 : i == 1001 ? 1 : i == 1002 ? ~0u : 1u << 31;
    unsigned count = 0, reversed = 0, bytes = 0;
    int lowest = 0, highest = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (!(x >> bit & 1)) continue;
        count++;
        reversed |= 1u << (31 - bit);
        bytes |= 1u << (bit ^ 24);
        if (!lowest) lowest = bit + 1;
        highest = bit + 1;
    }
    assert(__popc(x) == count && __ffs(x) == lowest && __clz(x) == 32 - highest);
    assert(__brev(x) == reversed && __byte_perm(x, 0, 0x0123) == bytes);
    assert(__umulhi(x, x) == (unsigned)((unsigned long long)x * x >> 32));
    assert(min(x, 7u) == (x < 7 ? x : 7) && max(3, 5) == 5);
}
