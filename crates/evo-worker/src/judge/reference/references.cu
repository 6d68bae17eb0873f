// Built-in references on the device: fp64 answers, the trusted computation in f32 beside them, and the sums that
// bounds are made of. They compute what the Rust functions beside this file compute; where those add in plain order,
// so do these, without fused multiply-adds, so that both give the same bits. `exp` and sums over rows in fp64 may
// differ in the last places.
//
// The trusted computation is written as f32: it holds values that are rounded to the output's type already.

// EVO_REFERENCE, where it is defined, is the number of the one reference to compile: a study needs no other, and the
// compiler takes a while for all of them. For the same reason data types are told apart while a kernel runs, and loops are
// not unrolled where that gains nothing: a first verdict waits for this file.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned long long u64;

// NVRTC has no <cmath>, where INFINITY is.
__device__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }

// Data types by number, also those that outputs are rounded to.
constexpr int F32 = 0, F16 = 1, BF16 = 2;

// Values of an input, none of which is wider than f32.
struct Values {
    const void* data;
    int type;

    __device__ float single(u64 i) const {
        if (type == F16) return __half2float(((const __half*)data)[i]);
        if (type == BF16) return __bfloat162float(((const __nv_bfloat16*)data)[i]);
        return ((const float*)data)[i];
    }
    __device__ double wide(u64 i) const { return (double)single(i); }
};

// How an output is rounded.
__device__ float rounded(float value, int type) {
    if (type == F16) return __half2float(__float2half_rn(value));
    if (type == BF16) return __bfloat162float(__float2bfloat16_rn(value));
    return value;
}

// ---- c[m,n] = a[m,k] · b[k,n] ----

constexpr int TILE = 64, STEPS = 16, EACH = 4;

struct Tiles {
    float left[STEPS][TILE], right[STEPS][TILE];
};

// 256 threads a block of 64 × 64 outputs, 4 × 4 of them a thread; each sum in plain order of k.
__device__ void gemm(Values a, Values b, double* expected, float* trusted, int m, int k, int n, int type) {
    __shared__ Tiles tile;
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    const int own_row = threadIdx.x / 16 * EACH, own_column = threadIdx.x % 16;
    double sums[EACH][EACH] = {};
    float singles[EACH][EACH] = {};
    for (int start = 0; start < k; start += STEPS) {
#pragma unroll 1
        for (int at = threadIdx.x; at < TILE * STEPS; at += 256) {
            const int i = at / STEPS, p = at % STEPS;
            const bool inside = row + i < m && start + p < k;
            tile.left[p][i] = inside ? a.single((u64)(row + i) * k + start + p) : 0.0f;
            const int q = at / TILE, j = at % TILE;
            const bool within = start + q < k && column + j < n;
            tile.right[q][j] = within ? b.single((u64)(start + q) * n + column + j) : 0.0f;
        }
        __syncthreads();
        // Not beyond k: 0 · 0 adds nothing, but it would turn -0 into 0.
        const int steps = k - start < STEPS ? k - start : STEPS;
#pragma unroll 1
        for (int p = 0; p < steps; p++) {
            double right[EACH];
#pragma unroll
            for (int j = 0; j < EACH; j++) right[j] = (double)tile.right[p][own_column + 16 * j];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const float left_single = tile.left[p][own_row + i];
                const double left = (double)left_single;
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    const float right_single = tile.right[p][own_column + 16 * j];
                    sums[i][j] = __dadd_rn(sums[i][j], __dmul_rn(left, right[j]));
                    singles[i][j] = __fadd_rn(singles[i][j], __fmul_rn(left_single, right_single));
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            const int y = row + own_row + i, x = column + own_column + 16 * j;
            if (y < m && x < n) {
                expected[(u64)y * n + x] = sums[i][j];
                trusted[(u64)y * n + x] = rounded(singles[i][j], type);
            }
        }
    }
}

// ---- rows: softmax and RMSNorm, 256 threads a row ----

constexpr int ROW = 256;

__device__ double row_sum(double own) {
    __shared__ double parts[ROW];
    parts[threadIdx.x] = own;
    __syncthreads();
#pragma unroll 1
    for (int half = ROW / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    const double sum = parts[0];
    __syncthreads();
    return sum;
}

__device__ double row_max(double own) {
    __shared__ double parts[ROW];
    parts[threadIdx.x] = own;
    __syncthreads();
#pragma unroll 1
    for (int half = ROW / 2; half > 0; half /= 2) {
        // A NaN counts for nothing, as in the plain loop.
        if (threadIdx.x < half) parts[threadIdx.x] = fmax(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    const double max = parts[0];
    __syncthreads();
    return max;
}

// The sum of f32 terms in plain order: threads make 256 terms at a time, and one of them adds.
template <typename F>
__device__ float chain(u64 count, F term) {
    __shared__ float terms[ROW];
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    for (u64 start = 0; start < count; start += ROW) {
        const u64 at = start + threadIdx.x;
        if (at < count) terms[threadIdx.x] = term(at);
        __syncthreads();
        if (threadIdx.x == 0) {
            const int many = count - start < ROW ? (int)(count - start) : ROW;
            float own = sum;
#pragma unroll 4
            for (int i = 0; i < many; i++) own = __fadd_rn(own, terms[i]);
            sum = own;
        }
        __syncthreads();
    }
    const float result = sum;
    __syncthreads();
    return result;
}

__device__ void softmax(Values x, double* expected, float* trusted, u64 columns, int type) {
    const u64 start = blockIdx.x * columns;
    expected += start, trusted += start;
    double max = -infinity();
#pragma unroll 1
    for (u64 i = threadIdx.x; i < columns; i += ROW) max = fmax(max, x.wide(start + i));
    max = row_max(max);
    double sum = 0.0;
#pragma unroll 1
    for (u64 i = threadIdx.x; i < columns; i += ROW) sum += exp(x.wide(start + i) - max);
    sum = row_sum(sum);
    // The inputs are f32 at most, so the maximum is one too.
    const float most = (float)max;
    const float total = chain(columns, [&](u64 i) { return expf(x.single(start + i) - most); });
#pragma unroll 1
    for (u64 i = threadIdx.x; i < columns; i += ROW) {
        expected[i] = exp(x.wide(start + i) - max) / sum;
        trusted[i] = rounded(expf(x.single(start + i) - most) / total, type);
    }
}

__device__ void rmsnorm(Values x, Values w, double* expected, float* trusted, u64 columns, int type) {
    const u64 start = blockIdx.x * columns;
    expected += start, trusted += start;
    double square = 0.0;
#pragma unroll 1
    for (u64 i = threadIdx.x; i < columns; i += ROW) square += x.wide(start + i) * x.wide(start + i);
    const double factor = 1.0 / sqrt(row_sum(square) / (double)columns + 1e-6);
    const float squares = chain(columns, [&](u64 i) {
        const float value = x.single(start + i);
        return __fmul_rn(value, value);
    });
    const float factor_single = 1.0f / sqrtf(__fadd_rn(squares / (float)columns, 1e-6f));
#pragma unroll 1
    for (u64 i = threadIdx.x; i < columns; i += ROW) {
        expected[i] = x.wide(start + i) * factor * w.wide(i);
        trusted[i] = rounded(x.single(start + i) * factor_single * w.single(i), type);
    }
}

// ---- out[1] = Σ x[count] ----

// A thread for each chain of neighbors.
__device__ void reduce_chains(Values x, double* chains, u64 count, u64 length) {
    const u64 own = (u64)blockIdx.x * blockDim.x + threadIdx.x, many = (count + length - 1) / length;
    if (own >= many) return;
    const u64 end = own * length + length < count ? own * length + length : count;
    double sum = 0.0;
    float in_single = 0.0f;
    for (u64 i = own * length; i < end; i++) {
        const float value = x.single(i);
        sum += (double)value;
        in_single = __fadd_rn(in_single, value);
    }
    chains[own] = sum;
    chains[many + own] = (double)in_single;
}

// One block of 256 threads.
__device__ void reduce_all(const double* chains, double* expected, float* trusted, u64 many, int type) {
    double sum = 0.0;
    for (u64 i = threadIdx.x; i < many; i += ROW) sum += chains[i];
    sum = row_sum(sum);
    const float total = chain(many, [&](u64 i) { return (float)chains[many + i]; });
    if (threadIdx.x == 0) {
        expected[0] = sum;
        trusted[0] = rounded(total, type);
    }
}

// ---- y[columns,rows] = x[rows,columns]ᵀ ----

__device__ void transpose(Values x, double* expected, u64 rows, u64 columns) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
        expected[i] = x.wide(i % rows * columns + i / rows);
    }
}

// ---- o = softmax(q·kᵀ / √D + mask) · v ----

constexpr int ATTENTION = 128, QUERIES_MAX = 8;

struct Attention {
    int heads, heads_kv, queries, keys, depth, causal;
    // Queries of a block.
    int group;
    // How powers and outputs are rounded.
    int type_in, type;
};

// A block takes `group` queries of one head. Dynamic shared memory: logits in fp64, then in f32, `keys` of each for
// each query; the queries follow. `largest` gets the largest magnitude of a visible logit in the block.
__device__ void attention(Values q, Values k, Values v, double* expected, float* trusted, double* largest,
                          Attention own) {
    extern __shared__ double room[];
    double* logits = room;
    float* singles = (float*)(logits + own.group * own.keys);
    float* query = singles + own.group * own.keys;
    __shared__ double sums[QUERIES_MAX], magnitudes[ATTENTION];
    __shared__ float single_sums[QUERIES_MAX];
    const int pair = blockIdx.y, first = blockIdx.x * own.group;
    const int group = own.queries - first < own.group ? own.queries - first : own.group;
    const int head = pair % own.heads, batch = pair / own.heads;
    const u64 kv = ((u64)batch * own.heads_kv + head / (own.heads / own.heads_kv)) * own.keys * own.depth;
    const u64 start = ((u64)pair * own.queries + first) * own.depth;
    // How many keys a query of the block sees: aligned bottom-right.
    auto visible = [&](int of) {
        if (!own.causal) return own.keys;
        const int seen = first + of + 1 + own.keys - own.queries;
        return seen < 0 ? 0 : seen < own.keys ? seen : own.keys;
    };
    for (int i = threadIdx.x; i < group * own.depth; i += ATTENTION) query[i] = q.single(start + i);
    __syncthreads();
    const double scale = 1.0 / sqrt((double)own.depth);
    const float scale_single = (float)scale;
    double magnitude = 0.0;
    for (int j = threadIdx.x; j < own.keys; j += ATTENTION) {
        double sum[QUERIES_MAX] = {};
        float in_single[QUERIES_MAX] = {};
#pragma unroll 1
        for (int d = 0; d < own.depth; d++) {
            const float value = k.single(kv + (u64)j * own.depth + d);
            const double value_wide = (double)value;
#pragma unroll
            for (int of = 0; of < QUERIES_MAX; of++) {
                if (of < group) {
                    const float factor = query[of * own.depth + d];
                    sum[of] = __dadd_rn(sum[of], __dmul_rn((double)factor, value_wide));
                    in_single[of] = __fadd_rn(in_single[of], __fmul_rn(factor, value));
                }
            }
        }
#pragma unroll
        for (int of = 0; of < QUERIES_MAX; of++) {
            if (of < group) {
                const double logit = __dmul_rn(sum[of], scale);
                logits[of * own.keys + j] = logit;
                singles[of * own.keys + j] = __fmul_rn(in_single[of], scale_single);
                if (j < visible(of)) magnitude = fmax(magnitude, fabs(logit));
            }
        }
    }
    magnitudes[threadIdx.x] = magnitude;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 1; i < ATTENTION; i++) magnitude = fmax(magnitude, magnitudes[i]);
        largest[(u64)blockIdx.y * gridDim.x + blockIdx.x] = magnitude;
    }
    // Powers in place of logits, a warp for each query.
    for (int of = threadIdx.x / 32; of < group; of += ATTENTION / 32) {
        const int lane = threadIdx.x % 32, seen = visible(of);
        double* row = logits + of * own.keys;
        float* row_single = singles + of * own.keys;
        double max = -infinity();
        float max_single = -(float)infinity();
#pragma unroll 1
        for (int j = lane; j < seen; j += 32) {
            max = fmax(max, row[j]);
            max_single = fmaxf(max_single, row_single[j]);
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            max = fmax(max, __shfl_xor_sync(0xffffffffu, max, offset));
            max_single = fmaxf(max_single, __shfl_xor_sync(0xffffffffu, max_single, offset));
        }
#pragma unroll 1
        for (int j = lane; j < seen; j += 32) {
            row[j] = exp(row[j] - max);
            row_single[j] = expf(row_single[j] - max_single);
        }
        __syncwarp();
        if (lane == 0) {
            double sum = 0.0;
            float sum_single = 0.0f;
#pragma unroll 4
            for (int j = 0; j < seen; j++) {
                sum = __dadd_rn(sum, row[j]);
                sum_single = __fadd_rn(sum_single, row_single[j]);
            }
            sums[of] = sum;
            single_sums[of] = sum_single;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < group * own.depth; i += ATTENTION) {
        const int of = i / own.depth, d = i % own.depth, seen = visible(of);
        const double* row = logits + of * own.keys;
        const float* row_single = singles + of * own.keys;
        double sum = 0.0;
        float in_single = 0.0f;
#pragma unroll 4
        for (int j = 0; j < seen; j++) {
            const float value = v.single(kv + (u64)j * own.depth + d);
            sum = __dadd_rn(sum, __dmul_rn(row[j], (double)value));
            in_single = __fadd_rn(in_single, __fmul_rn(rounded(row_single[j], own.type_in), value));
        }
        expected[start + i] = seen > 0 ? sum / sums[of] : 0.0;
        trusted[start + i] = seen > 0 ? rounded(in_single / single_sums[of], own.type) : 0.0f;
    }
}

// ---- sums over answers and inputs ----

// What one thread, one block and at last the whole buffer found.
struct Measure {
    double finite, sum, square, largest;
    // Places of the first NaN and of the first value that is not finite, n where there is none; and that value.
    double first_nan, first_special, special;
};

__device__ void add(Measure& own, const Measure& other) {
    own.finite += other.finite;
    own.sum += other.sum;
    own.square += other.square;
    own.largest = fmax(own.largest, other.largest);
    own.first_nan = fmin(own.first_nan, other.first_nan);
    if (other.first_special < own.first_special) {
        own.first_special = other.first_special;
        own.special = other.special;
    }
}

struct Weight {
    double distance, scaled_square, scaled_fourth;
    double error_square, error_sum, error_dot, pair_square, error_max;
    // How often the trusted computation is not finite where the answer is.
    double overflows;
};

__device__ void add(Weight& own, const Weight& other) {
    own.distance += other.distance;
    own.scaled_square += other.scaled_square;
    own.scaled_fourth += other.scaled_fourth;
    own.error_square += other.error_square;
    own.error_sum += other.error_sum;
    own.error_dot += other.error_dot;
    own.pair_square += other.pair_square;
    own.error_max = fmax(own.error_max, other.error_max);
    own.overflows += other.overflows;
}

// The upper half of the threads leaves its sums, and the lower half takes them over, in the same order each time. A result
// for each block of 256 threads, merged in order by the caller, so that sums repeat to the bit.
template <typename Sums>
__device__ void keep(Sums own, Sums* parts) {
    __shared__ Sums all[128];
#pragma unroll 1
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x >= half && threadIdx.x < 2 * half) all[threadIdx.x - half] = own;
        __syncthreads();
        if (threadIdx.x < half) add(own, all[threadIdx.x]);
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = own;
}

template <typename Value>
__device__ void measure(Value value_at, u64 n, Measure* parts) {
    Measure own = {0, 0, 0, 0, (double)n, (double)n, 0};
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double value = value_at(i);
        if (isfinite(value)) {
            own.finite += 1.0;
            own.sum += value;
            own.square += value * value;
            own.largest = fmax(own.largest, fabs(value));
            continue;
        }
        if (isnan(value) && own.first_nan == (double)n) own.first_nan = (double)i;
        if (own.first_special == (double)n) own.first_special = (double)i, own.special = value;
    }
    keep(own, parts);
}

extern "C" __global__ void evo_reference_measure(const void* data, int type, u64 n, Measure* parts) {
    const Values values = {data, type};
    measure([&](u64 i) { return values.wide(i); }, n, parts);
}

extern "C" __global__ void evo_reference_measure_f64(const double* data, u64 n, Measure* parts) {
    measure([&](u64 i) { return data[i]; }, n, parts);
}

// The distance of an answer from its mean, its tail, and the trusted computation's error where there is one.
extern "C" __global__ void evo_reference_weigh(const double* expected, const float* trusted, u64 n, int is_trusted,
                                               double mean, double largest, Weight* parts) {
    Weight own = {};
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double e = expected[i];
        if (!isfinite(e)) continue;
        const double scaled = (e / largest) * (e / largest);
        own.distance += (e - mean) * (e - mean);
        own.scaled_square += scaled;
        own.scaled_fourth += scaled * scaled;
        if (!is_trusted) continue;
        const double t = (double)trusted[i];
        if (!isfinite(t)) {
            own.overflows += 1.0;
            continue;
        }
        const double error = t - e;
        own.error_square += error * error;
        own.error_sum += error;
        own.error_dot += error * e;
        own.pair_square += e * e;
        own.error_max = fmax(own.error_max, fabs(error));
    }
    keep(own, parts);
}

#ifndef EVO_REFERENCE
#define EVO_REFERENCE 0
#endif

#if EVO_REFERENCE == 0 || EVO_REFERENCE == 1
extern "C" __global__ void __launch_bounds__(256)
evo_reference_gemm(const void* a, const void* b, double* expected, float* trusted, int m, int k, int n, int type_in,
                   int type) {
    gemm({a, type_in}, {b, type_in}, expected, trusted, m, k, n, type);
}
#endif
#if EVO_REFERENCE == 0 || EVO_REFERENCE == 2
extern "C" __global__ void evo_reference_softmax(const void* x, double* expected, float* trusted, u64 columns,
                                                 int type_in, int type) {
    softmax({x, type_in}, expected, trusted, columns, type);
}
#endif
#if EVO_REFERENCE == 0 || EVO_REFERENCE == 3
extern "C" __global__ void evo_reference_rmsnorm(const void* x, const void* w, double* expected, float* trusted,
                                                 u64 columns, int type_in, int type) {
    rmsnorm({x, type_in}, {w, type_in}, expected, trusted, columns, type);
}
#endif
#if EVO_REFERENCE == 0 || EVO_REFERENCE == 4
extern "C" __global__ void evo_reference_chains(const void* x, double* chains, u64 count, u64 length, int type_in) {
    reduce_chains({x, type_in}, chains, count, length);
}
extern "C" __global__ void evo_reference_reduce(const double* chains, double* expected, float* trusted, u64 many,
                                                int type) {
    reduce_all(chains, expected, trusted, many, type);
}
#endif
#if EVO_REFERENCE == 0 || EVO_REFERENCE == 5
extern "C" __global__ void evo_reference_transpose(const void* x, double* expected, u64 rows, u64 columns,
                                                   int type_in) {
    transpose({x, type_in}, expected, rows, columns);
}
#endif
#if EVO_REFERENCE == 0 || EVO_REFERENCE == 6
extern "C" __global__ void __launch_bounds__(128)
evo_reference_attention(const void* q, const void* k, const void* v, double* expected, float* trusted, double* largest,
                        int heads, int heads_kv, int queries, int keys, int depth, int causal, int group, int type_in,
                        int type) {
    attention({q, type_in}, {k, type_in}, {v, type_in}, expected, trusted, largest,
              Attention{heads, heads_kv, queries, keys, depth, causal, group, type_in, type});
}
#endif
