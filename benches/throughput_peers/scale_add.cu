// y = row_scale * x + column_shift in fp32: one factor a row, one summand a column. Any size.
//
// BX x BY threads a block; a thread moves ITEMS vectors along each of ROWS rows.
// BLOCKED: 1 gives a thread adjoining vectors, 0 those of the whole block in turns.
// LOAD: 0 plain, 1 read-only cache, 2 streaming. STORE: 0 plain, 1 streaming.

struct alignas(8) Pair { float at[2]; };
struct alignas(16) Quad { float at[4]; };
struct Single { float at[1]; };

template <int N> struct Vector;
template <> struct Vector<1> { using Type = Single; using Word = float; };
template <> struct Vector<2> { using Type = Pair; using Word = float2; };
template <> struct Vector<4> { using Type = Quad; using Word = float4; };
using Floats = Vector<VEC>::Type;
using Word = Vector<VEC>::Word;

__device__ __forceinline__ Floats load(const float* source) {
#if LOAD == 1
    const Word word = __ldg(reinterpret_cast<const Word*>(source));
    return *reinterpret_cast<const Floats*>(&word);
#elif LOAD == 2
    const Word word = __ldcs(reinterpret_cast<const Word*>(source));
    return *reinterpret_cast<const Floats*>(&word);
#else
    return *reinterpret_cast<const Floats*>(source);
#endif
}

__device__ __forceinline__ void store(float* target, const Floats& value) {
#if STORE == 1
    __stcs(reinterpret_cast<Word*>(target), *reinterpret_cast<const Word*>(&value));
#else
    *reinterpret_cast<Floats*>(target) = value;
#endif
}

extern "C" __global__ void __launch_bounds__(BX * BY)
    scale_add(const float* x, const float* row_scale, const float* column_shift, float* y, int rows, int columns) {
    const int first_row = (blockIdx.y * BY + threadIdx.y) * ROWS;
    const int first_column = blockIdx.x * BX * ITEMS * VEC;
    // Vectors are whole only where every row starts at one.
    const bool whole = columns % VEC == 0;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int row = first_row + r;
        if (row >= rows) return;
        const float scale = row_scale[row];
        const size_t start = static_cast<size_t>(row) * columns;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
#if BLOCKED
            const int column = first_column + (threadIdx.x * ITEMS + i) * VEC;
#else
            const int column = first_column + (i * BX + threadIdx.x) * VEC;
#endif
            if (whole && column < columns) {
                Floats value = load(x + start + column);
                const Floats shift = *reinterpret_cast<const Floats*>(column_shift + column);
#pragma unroll
                for (int e = 0; e < VEC; ++e) value.at[e] = scale * value.at[e] + shift.at[e];
                store(y + start + column, value);
            } else {
                for (int e = column; e < min(column + VEC, columns); ++e) {
                    y[start + e] = scale * x[start + e] + column_shift[e];
                }
            }
        }
    }
}
