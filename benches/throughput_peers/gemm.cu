// C = A B in fp32, row-major, tiled in shared memory and in registers. M, N and K are multiples of the tile.
//
// A block computes MWG x NWG of C with MDIM x NDIM threads, over steps of KWG. Parameters arrive as macros.

struct alignas(8) Pair { float at[2]; };
struct alignas(16) Quad { float at[4]; };
struct Single { float at[1]; };

template <int N> struct Vector;
template <> struct Vector<1> { using Type = Single; };
template <> struct Vector<2> { using Type = Pair; };
template <> struct Vector<4> { using Type = Quad; };
using Floats = Vector<VEC>::Type;

constexpr int ROWS = MWG / MDIM;
constexpr int COLUMNS = NWG / NDIM;
constexpr int THREADS = MDIM * NDIM;

extern "C" __global__ void __launch_bounds__(MDIM * NDIM)
    gemm(const float* a, const float* b, float* c, int m, int n, int depth) {
    // A is stored transposed, so that both operands are read along rows.
    __shared__ __align__(16) float a_tile[KWG * (MWG + PAD)];
    __shared__ __align__(16) float b_tile[KWG * (NWG + PAD)];
    const int lane = threadIdx.y * NDIM + threadIdx.x;
    const int first_row = blockIdx.y * MWG;
    const int first_column = blockIdx.x * NWG;

    float sum[ROWS][COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) sum[i][j] = 0.0f;
    }

    for (int k = 0; k < depth; k += KWG) {
#pragma unroll
        for (int i = 0; i < MWG * KWG / (THREADS * VEC); ++i) {
            const int at = (i * THREADS + lane) * VEC;
            const int row = at / KWG;
            const int column = at % KWG;
            const Floats part =
                *reinterpret_cast<const Floats*>(a + static_cast<size_t>(first_row + row) * depth + k + column);
#pragma unroll
            for (int e = 0; e < VEC; ++e) a_tile[(column + e) * (MWG + PAD) + row] = part.at[e];
        }
#pragma unroll
        for (int i = 0; i < NWG * KWG / (THREADS * VEC); ++i) {
            const int at = (i * THREADS + lane) * VEC;
            const int row = at / NWG;
            const int column = at % NWG;
            *reinterpret_cast<Floats*>(b_tile + row * (NWG + PAD) + column) =
                *reinterpret_cast<const Floats*>(b + static_cast<size_t>(k + row) * n + first_column + column);
        }
        __syncthreads();
#pragma unroll UNROLL
        for (int step = 0; step < KWG; ++step) {
            float left[ROWS];
            Floats right[COLUMNS / VEC];
#pragma unroll
            for (int i = 0; i < ROWS; ++i) left[i] = a_tile[step * (MWG + PAD) + threadIdx.y * ROWS + i];
            // A thread's columns are vectors set apart by those of its neighbors: a warp reads whole lines.
#pragma unroll
            for (int j = 0; j < COLUMNS / VEC; ++j) {
                right[j] = *reinterpret_cast<const Floats*>(b_tile + step * (NWG + PAD) + (j * NDIM + threadIdx.x) * VEC);
            }
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) sum[i][j] += left[i] * right[j / VEC].at[j % VEC];
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const size_t row = first_row + threadIdx.y * ROWS + i;
#pragma unroll
        for (int j = 0; j < COLUMNS / VEC; ++j) {
            Floats out;
#pragma unroll
            for (int e = 0; e < VEC; ++e) out.at[e] = sum[i][j * VEC + e];
            *reinterpret_cast<Floats*>(c + row * n + first_column + (j * NDIM + threadIdx.x) * VEC) = out;
        }
    }
}
