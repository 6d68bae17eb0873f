// Helper kernels of the CUDA device: guard zones, hashes, pattern counts and comparison with fp64.
// They run on the device because a 16 MB output is compared there in tens of microseconds, while
// copying it to the host costs milliseconds.
//
// Data types are told apart while a kernel runs, and loops are not unrolled: memory bounds these kernels either way, and
// the first verdict on a machine waits for the compiler, which took over a second with a kernel for each data type.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned long long u64;

struct Zone {
    unsigned char* start;
    u64 bytes;
};

// A guard zone as single bytes up to the first 16-byte boundary, words of 16 bytes, and the bytes behind them.
struct ZoneParts {
    unsigned char* start;
    u64 head, words, bytes;
    unsigned pattern, shifted;

    __device__ ZoneParts(Zone zone, unsigned pattern) : start((unsigned char*)zone.start), bytes(zone.bytes), pattern(pattern) {
        head = (16 - (u64)zone.start % 16) % 16;
        if (head > bytes) head = bytes;
        words = (bytes - head) / 16;
        // The pattern's phase is that of the zone's start, so the first word begins `head` bytes into it.
        shifted = __funnelshift_r(pattern, pattern, 8 * (head % 4));
    }

    __device__ unsigned char byte(u64 i) const { return (unsigned char)(pattern >> (8 * (i % 4))); }
};

// Blocks in x are zones, blocks in y share a zone.
extern "C" __global__ void evo_fill_zones(const Zone* zones, unsigned pattern) {
    ZoneParts own(zones[blockIdx.x], pattern);
    u64 first = (u64)blockIdx.y * blockDim.x + threadIdx.x, step = (u64)gridDim.y * blockDim.x;
    uint4* words = (uint4*)(own.start + own.head);
#pragma unroll 1
    for (u64 i = first; i < own.words; i += step) words[i] = make_uint4(own.shifted, own.shifted, own.shifted, own.shifted);
    for (u64 i = first; i < own.head; i += step) own.start[i] = own.byte(i);
    for (u64 i = own.head + 16 * own.words + first; i < own.bytes; i += step) own.start[i] = own.byte(i);
}

// The same blocks. report[2*zone] = first changed offset (or ~0), report[2*zone+1] = changed bytes; total counts
// the changed bytes of all zones.
extern "C" __global__ void evo_check_zones(const Zone* zones, unsigned pattern, u64* report, u64* total) {
    ZoneParts own(zones[blockIdx.x], pattern);
    u64 begin = (u64)blockIdx.y * blockDim.x + threadIdx.x, step = (u64)gridDim.y * blockDim.x;
    u64 first = ~0ull, changed = 0;
    auto look = [&](u64 from, u64 to) {
#pragma unroll 1
        for (u64 i = from; i < to; i++) {
            if (own.start[i] != own.byte(i)) {
                changed++;
                if (i < first) first = i;
            }
        }
    };
    const uint4* words = (const uint4*)(own.start + own.head);
#pragma unroll 1
    for (u64 i = begin; i < own.words; i += step) {
        uint4 word = words[i];
        if (((word.x ^ own.shifted) | (word.y ^ own.shifted) | (word.z ^ own.shifted) | (word.w ^ own.shifted)) != 0) {
            look(own.head + 16 * i, own.head + 16 * (i + 1));
        }
    }
    if (begin < own.head) look(begin, begin + 1);
    u64 tail = own.head + 16 * own.words + begin;
    if (tail < own.bytes) look(tail, tail + 1);
    if (changed) {
        atomicMin(&report[2 * blockIdx.x], first);
        atomicAdd(&report[2 * blockIdx.x + 1], changed);
        atomicAdd(total, changed);
    }
}

// Finalizer of a 64-bit mixer: every input bit reaches every output bit.
__device__ u64 mix(u64 x) {
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185ull;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44dull;
    return x ^ (x >> 33);
}

// Order-independent sum of mixed (position, word) pairs; equal contents give equal sums.
extern "C" __global__ void evo_hash(const unsigned char* data, u64 bytes, u64* result) {
    u64 sum = 0, words = bytes / 4, step = (u64)gridDim.x * blockDim.x;
    const unsigned* word = (const unsigned*)data;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        sum += mix(word[i] + 0x9e3779b97f4a7c15ull * (i + 1));
    }
    if (blockIdx.x == 0 && threadIdx.x < bytes % 4) {
        u64 i = words * 4 + threadIdx.x;
        sum += mix(data[i] + 0xd1b54a32d192ed03ull * (i + 1));
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

// The device heap cannot be asked how much is taken, so one thread takes all that is left, block by block, and gives it
// back. Each block holds the address of the one before.
extern "C" __global__ void evo_heap_left(u64* result) {
    if (threadIdx.x != 0) return;
    void** last = nullptr;
    u64 count = 0;
    while (void** block = (void**)malloc(4096)) {
        *block = last;
        last = block;
        count++;
    }
    while (last) {
        void** before = (void**)*last;
        free(last);
        last = before;
    }
    *result = count;
}

// Elements of `size` bytes that hold the pattern; narrower than four bytes, they take turns with its parts.
extern "C" __global__ void evo_count(const unsigned char* data, u64 elements, unsigned size, u64 pattern, u64* result) {
    u64 count = 0, step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) {
        switch (size) {
        case 1: count += data[i] == (unsigned char)(pattern >> (8 * (i % 4))); break;
        case 2: count += ((const unsigned short*)data)[i] == (unsigned short)(pattern >> (16 * (i % 2))); break;
        case 4: count += ((const unsigned*)data)[i] == (unsigned)pattern; break;
        default: count += ((const u64*)data)[i] == pattern;
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) count += __shfl_xor_sync(0xffffffffu, count, offset);
    if (threadIdx.x % 32 == 0 && count) atomicAdd(result, count);
}

// Laid out as `Comparison` in numbers.rs.
struct Comparison {
    u64 elements, non_finite, special, mismatches, first_bad_index;
    double first_bad_actual, first_bad_expected, abs_error_max;
    u64 abs_error_max_index;
    double error_square_sum, expected_square_sum, error_sum, error_dot_sum;
};

// Values of any data type; the numbers are their places in `DType`.
struct Values {
    const void* data;
    int type;

    __device__ double operator[](u64 i) const {
        switch (type) {
        case 0: return (double)__half2float(((const __half*)data)[i]);
        case 1: return (double)__bfloat162float(((const __nv_bfloat16*)data)[i]);
        case 2: return (double)((const float*)data)[i];
        case 3: return ((const double*)data)[i];
        case 4: return (double)((const signed char*)data)[i];
        case 5: return (double)((const short*)data)[i];
        case 6: return (double)((const int*)data)[i];
        case 7: return (double)((const long long*)data)[i];
        case 8: return (double)((const unsigned char*)data)[i];
        case 9: return (double)((const unsigned short*)data)[i];
        case 10: return (double)((const unsigned*)data)[i];
        default: return (double)((const u64*)data)[i];
        }
    }
};

__device__ void merge(Comparison& a, const Comparison& b) {
    if (b.mismatches > 0 && (a.mismatches == 0 || b.first_bad_index < a.first_bad_index)) {
        a.first_bad_index = b.first_bad_index;
        a.first_bad_actual = b.first_bad_actual;
        a.first_bad_expected = b.first_bad_expected;
    }
    if (b.abs_error_max > a.abs_error_max ||
        (b.abs_error_max == a.abs_error_max && b.abs_error_max_index < a.abs_error_max_index)) {
        a.abs_error_max = b.abs_error_max;
        a.abs_error_max_index = b.abs_error_max_index;
    }
    a.elements += b.elements;
    a.non_finite += b.non_finite;
    a.special += b.special;
    a.mismatches += b.mismatches;
    a.error_square_sum += b.error_square_sum;
    a.expected_square_sum += b.expected_square_sum;
    a.error_sum += b.error_sum;
    a.error_dot_sum += b.error_dot_sum;
}

// 256 threads a block; one comparison a block, merged in order on the host, so that sums repeat to the bit.
extern "C" __global__ void evo_compare(const void* data, int type, const double* expected, u64 n, double atol, double rtol,
                                       Comparison* out) {
    const Values actual = {data, type};
    Comparison own = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        double a = actual[i], e = expected[i], error = a - e, size = fabs(error);
        bool lost = !isfinite(a) && isfinite(e);
        // NaN is right where NaN is expected, an infinity where the same one is, and both where one of these NaNs is
        // (see `Comparison::INFINITY_OR_NAN` and those after it).
        u64 bits = (u64)__double_as_longlong(e) & 0x7fffffffffffffffull;
        bool either = bits == 0x7ff865766f000001ull && signbit(a) == signbit(e);
        bool any = bits == 0x7ff865766f000002ull;
        bool same = a == e || (isnan(a) && isnan(e)) || ((either || any) && isinf(a)) || bits == 0x7ff865766f000003ull;
        own.elements++;
        if (isfinite(e)) own.expected_square_sum += e * e;
        own.non_finite += lost;
        own.special += !same && !isfinite(e);
        if (isfinite(error)) {
            own.error_square_sum += error * error;
            own.error_sum += error;
            own.error_dot_sum += error * e;
            if (size > own.abs_error_max) {
                own.abs_error_max = size;
                own.abs_error_max_index = i;
            }
        }
        if (!same && !(size <= atol + rtol * fabs(e)) && own.mismatches++ == 0) {
            own.first_bad_index = i;
            own.first_bad_actual = a;
            own.first_bad_expected = e;
        }
    }
    __shared__ Comparison parts[256];
    parts[threadIdx.x] = own;
    __syncthreads();
#pragma unroll 1
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) merge(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}

struct BlockPartial {
    double ratio;
    u64 index;
};

// A warp for each block of elements; one result a CUDA block, merged on the host.
extern "C" __global__ void evo_blocks(const void* data, int type, const double* expected, u64 n, u64 block, double floor,
                                      BlockPartial* out) {
    const Values actual = {data, type};
    __shared__ BlockPartial parts[8];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    BlockPartial own = {0, 0};
    u64 blocks = (n + block - 1) / block;
    for (u64 b = (u64)blockIdx.x * 8 + warp; b < blocks; b += (u64)gridDim.x * 8) {
        u64 end = b * block + block < n ? b * block + block : n;
        double errors = 0, sizes = 0;
#pragma unroll 1
        for (u64 i = b * block + lane; i < end; i += 32) {
            double e = expected[i], error = actual[i] - e;
            if (isfinite(error)) {
                errors += error * error;
                sizes += e * e;
            }
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            errors += __shfl_xor_sync(0xffffffffu, errors, offset);
            sizes += __shfl_xor_sync(0xffffffffu, sizes, offset);
        }
        double size = sqrt(sizes) + floor * sqrt((double)(end - b * block));
        double ratio = size > 0 ? sqrt(errors) / size : 0;
        if (ratio > own.ratio) own = {ratio, b};
    }
    if (lane == 0) parts[warp] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int other = 1; other < 8; other++) {
            if (parts[other].ratio > own.ratio) own = parts[other];
        }
        out[blockIdx.x] = own;
    }
}

// Leaves a pattern in the shared memory of every multiprocessor, where the next kernel finds it if it reads what it
// has not written. Each block takes all shared memory, so there is one block to a multiprocessor at a time.
extern "C" __global__ void __launch_bounds__(1024) evo_smear(unsigned pattern, unsigned words) {
    extern __shared__ volatile unsigned shared[];
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = pattern;
    __syncthreads();
    // A use, so that nothing above is dropped.
    if (shared[threadIdx.x % words] == ~pattern) __trap();
}

// Keeps parts of the multiprocessors busy for a while that differs from block to block, so that the blocks of the
// kernel beside it start in another order and at other times.
extern "C" __global__ void __launch_bounds__(512) evo_delay(u64 seed, unsigned cycles) {
    long long until = clock64() + (long long)(mix(seed + blockIdx.x) % cycles);
    while (clock64() < until) {
    }
}
