// What the judge does to every element of large buffers: drawing inputs, converting them for the user's reference, moving
// their last bits, and the sums and order statistics that tell how sure its answers are. The Rust functions in
// `inputs.rs`, `perturb.rs`, `certainty.rs` and `bounds.rs` are the definition, and draw the same bits: random words come
// from ChaCha8, whose output is a function of key, stream and position, so that each thread makes its own, and makes a block
// of sixteen for each element: that takes the device a millisecond, and kernels that share blocks take the compiler seconds.

// Numbers of data types, in the order of `DType` in `elements.rs`.
enum ElementType { E_F16, E_BF16, E_F32, E_F64, E_I8, E_I16, E_I32, E_I64, E_U8, E_U16, E_U32, E_U64 };

__device__ __noinline__ double load_element(const void* data, int type, u64 i) {
    switch (type) {
    case E_F16: return (double)__half2float(((const __half*)data)[i]);
    case E_BF16: return (double)__bfloat162float(((const __nv_bfloat16*)data)[i]);
    case E_F32: return (double)((const float*)data)[i];
    case E_F64: return ((const double*)data)[i];
    case E_I8: return (double)((const signed char*)data)[i];
    case E_I16: return (double)((const short*)data)[i];
    case E_I32: return (double)((const int*)data)[i];
    case E_I64: return (double)((const long long*)data)[i];
    case E_U8: return (double)((const unsigned char*)data)[i];
    case E_U16: return (double)((const unsigned short*)data)[i];
    case E_U32: return (double)((const unsigned*)data)[i];
    default: return (double)((const u64*)data)[i];
    }
}

__device__ double within(double value, double low, double high) { return fmin(fmax(value, low), high); }

// Rounds to the type. Integers are cut off towards zero, at the ends of their range.
__device__ __noinline__ void store_element(void* data, int type, u64 i, double value) {
    switch (type) {
    case E_F16: ((__half*)data)[i] = __float2half_rn((float)value); break;
    case E_BF16: ((__nv_bfloat16*)data)[i] = __float2bfloat16_rn((float)value); break;
    case E_F32: ((float*)data)[i] = (float)value; break;
    case E_F64: ((double*)data)[i] = value; break;
    case E_I8: ((signed char*)data)[i] = (signed char)within(value, -128.0, 127.0); break;
    case E_I16: ((short*)data)[i] = (short)within(value, -32768.0, 32767.0); break;
    case E_I32: ((int*)data)[i] = (int)within(value, -2147483648.0, 2147483647.0); break;
    case E_I64: {
        const double end = 9223372036854775808.0;
        ((long long*)data)[i] = value >= end ? 0x7fffffffffffffffll : (long long)fmax(value, -end);
        break;
    }
    case E_U8: ((unsigned char*)data)[i] = (unsigned char)within(value, 0.0, 255.0); break;
    case E_U16: ((unsigned short*)data)[i] = (unsigned short)within(value, 0.0, 65535.0); break;
    case E_U32: ((unsigned*)data)[i] = (unsigned)within(value, 0.0, 4294967295.0); break;
    default: ((u64*)data)[i] = value >= 18446744073709551616.0 ? ~0ull : (u64)fmax(value, 0.0);
    }
}

// ---- ChaCha8 (Bernstein, "ChaCha, a variant of Salsa20", 2008): 64-bit counter and stream, as rand_chacha has it ----

__device__ unsigned rotate(unsigned x, int bits) { return x << bits | x >> (32 - bits); }

__device__ void quarter(unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
    a += b, d = rotate(d ^ a, 16);
    c += d, b = rotate(b ^ c, 12);
    a += b, d = rotate(d ^ a, 8);
    c += d, b = rotate(b ^ c, 7);
}

// Four neighboring words of the stream, from a place that is a multiple of four.
struct Words {
    unsigned word[4];
};

__device__ __noinline__ Words chacha8(const u64* key, u64 stream, u64 place) {
    const u64 block = place / 16;
    const unsigned start[16] = {
        0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u,
        (unsigned)key[0], (unsigned)(key[0] >> 32), (unsigned)key[1], (unsigned)(key[1] >> 32),
        (unsigned)key[2], (unsigned)(key[2] >> 32), (unsigned)key[3], (unsigned)(key[3] >> 32),
        (unsigned)block, (unsigned)(block >> 32), (unsigned)stream, (unsigned)(stream >> 32),
    };
    unsigned w[16];
#pragma unroll
    for (int i = 0; i < 16; i++) w[i] = start[i];
#pragma unroll 1
    for (int round = 0; round < 4; round++) {
        quarter(w[0], w[4], w[8], w[12]);
        quarter(w[1], w[5], w[9], w[13]);
        quarter(w[2], w[6], w[10], w[14]);
        quarter(w[3], w[7], w[11], w[15]);
        quarter(w[0], w[5], w[10], w[15]);
        quarter(w[1], w[6], w[11], w[12]);
        quarter(w[2], w[7], w[8], w[13]);
        quarter(w[3], w[4], w[9], w[14]);
    }
    Words found = {};
    // An index that is known only now would put all words in memory.
#pragma unroll
    for (int i = 0; i < 16; i++) {
        if (i / 4 == (int)(place / 4 % 4)) found.word[i % 4] = w[i] + start[i];
    }
    return found;
}

__device__ unsigned word_of(const u64* key, u64 stream, u64 place) {
    const Words four = chacha8(key, stream, place / 4 * 4);
    const unsigned low = place % 2 ? four.word[1] : four.word[0], high = place % 2 ? four.word[3] : four.word[2];
    return place / 2 % 2 ? high : low;
}

// ---- drawing inputs ----

enum DrawKind { CONSTANT, PLAIN, RAMP, SPIKES, ZEROS };

// `DrawRule` in `drawn.rs`: eight bytes a field.
struct Rule {
    u64 key[4];
    u64 count, type, kind, is_bell, is_whole;
    // A bell is a whole number times `unit` times `scale`; a flat distribution is `low` and a part of `width`.
    double unit, scale, low, width;
    double factor, value, from, span;
    u64 descending, second, row, rows;
    u64 spike;
    double spike_high, spike_low;
    u64 is_signed, has_signs;
    u64 turned_first, turned_length;
};

constexpr u64 DRAW_CHUNK = 1 << 15;

__device__ u64 mixed(u64 index, u64 bits) { return ((index ^ bits) * 0x9E3779B97F4A7C15ull) >> 32; }

__device__ double whole(const Rule& rule, double value) { return rule.is_whole ? floor(value) : value; }

__device__ double ramp(const Rule& rule, u64 index) {
    const u64 steps = (rule.count < 2 ? 2 : rule.count) - 1;
    const bool keeps = (rule.rows >> 1 & 1) == 1 && index % rule.row < rule.row / 2;
    const u64 dice = mixed(index, rule.rows);
    const u64 place = rule.second && !keeps && dice % 37 == 0 ? dice / 37 % rule.count : index;
    double part = (double)place / (double)steps;
    const bool turns = rule.second && index / rule.row % 2 == 1;
    if ((rule.descending != 0) != turns) part = __dsub_rn(1.0, part);
    return whole(rule, __dadd_rn(rule.from, __dmul_rn(rule.span, part)));
}

__device__ double zero(const Rule& rule, u64 index) {
    if (rule.second && index == rule.count - 1) return rule.value;
    return rule.has_signs && mixed(index, rule.rows) % 3 == 0 ? -0.0 : 0.0;
}

// A value of the distribution that the file asks for.
__device__ double base(const Rule& rule, u64 chunk, u64 offset) {
    if (rule.is_bell) {
        const Words four = chacha8(rule.key, chunk, 4 * offset);
        unsigned sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) sum += (four.word[k] & 0xffffu) + (four.word[k] >> 16);
        return __dmul_rn(__dmul_rn((double)sum - 4.0 * 65535.0, rule.unit), rule.scale);
    }
    const Words four = chacha8(rule.key, chunk, 2 * offset / 4 * 4);
    const unsigned low = four.word[offset % 2 ? 2 : 0], high = four.word[offset % 2 ? 3 : 1];
    const double part = __dmul_rn((double)(((u64)high << 32 | low) >> 11), 1.0 / 9007199254740992.0);
    return whole(rule, __dadd_rn(rule.low, __dmul_rn(rule.width, part)));
}

__device__ double drawn(const Rule& rule, u64 index) {
    if (rule.kind == CONSTANT) return rule.value;
    if (rule.kind == RAMP) return ramp(rule, index);
    if (rule.kind == ZEROS) return zero(rule, index);
    const u64 chunk = index / DRAW_CHUNK, offset = index % DRAW_CHUNK;
    const double value = base(rule, chunk, offset);
    if (rule.kind == PLAIN) return __dmul_rn(value, rule.factor);
    if (index == rule.spike) return rule.spike_high;
    if (index == (rule.spike + rule.count / 2) % rule.count && rule.is_signed) return rule.spike_low;
    // Words of the base distribution begin with the stream; those of spikes follow, half a word for each element.
    const u64 left = rule.count - chunk * DRAW_CHUNK, length = left < DRAW_CHUNK ? left : DRAW_CHUNK;
    const unsigned dice = word_of(rule.key, chunk, (rule.is_bell ? 4 : 2) * length + offset / 2);
    return (dice >> (16 * (offset % 2)) & 0xffffu) < 64 ? __dmul_rn(value, rule.factor) : value;
}

extern "C" __global__ void evo_elements_draw(const Rule* given, void* out) {
    const Rule& rule = *given;
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < rule.count; index += step) {
        const bool is_turned = index >= rule.turned_first && index - rule.turned_first < rule.turned_length;
        const u64 place = is_turned ? 2 * rule.turned_first + rule.turned_length - 1 - index : index;
        store_element(out, (int)rule.type, place, drawn(rule, index));
    }
}

// ---- what the reference is given ----

enum Change { AS_IS, NUDGED, SCALED, JIGGLED };

constexpr u64 NUDGE_CHUNK = 1 << 16;

// A value with its last bit drawn anew, or its last four: the error of a few operations in f32. A zero stays what it is then.
__device__ double moved(const void* from, int type, u64 i, unsigned drawn, bool is_jiggled) {
    if (type == E_F16 || type == E_BF16) {
        // A half has so few bits that its last one is an error larger than that of any arithmetic.
        unsigned short half = ((const unsigned short*)from)[i];
        if (drawn % 256 == 0) half ^= drawn >> 31 | 1u;
        return load_element(&half, type, 0);
    }
    unsigned bits = is_jiggled ? drawn >> 28 : drawn >> 31;
    if (type == E_F32) {
        const unsigned value = ((const unsigned*)from)[i];
        return (double)__uint_as_float(value ^ (is_jiggled && value == 0 ? 0 : bits));
    }
    const long long value = ((const long long*)from)[i];
    return __longlong_as_double(value ^ (long long)(is_jiggled && value == 0 ? 0 : bits));
}

// Values of one type as another, after their last bits were drawn anew or they were multiplied. Streams have the number of
// their chunk of elements. Jiggled values stay between `low` and `high`.
extern "C" __global__ void evo_elements_convert(const void* from, int from_type, void* to, int to_type, u64 n, int change,
                                                double factor, double low, double high, u64 key0, u64 key1, u64 key2,
                                                u64 key3) {
    const u64 key[4] = {key0, key1, key2, key3};
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double before = load_element(from, from_type, i);
        double value = before;
        if (change == NUDGED || change == JIGGLED) {
            const unsigned drawn = word_of(key, i / NUDGE_CHUNK, i % NUDGE_CHUNK);
            value = moved(from, from_type, i, drawn, change == JIGGLED);
        }
        if (change == JIGGLED && !(value >= low && value < high)) value = before;
        if (change == SCALED) {
            // Rounded to the declared type, as the variant would be given it.
            double rounded;
            store_element(&rounded, from_type, 0, __dmul_rn(before, factor));
            value = load_element(&rounded, from_type, 0);
        }
        store_element(to, to_type, i, value);
    }
}

// ---- how far answers move ----

// |expected − other|, or the larger of that and what stands there already. A NaN is not larger than anything.
extern "C" __global__ void evo_elements_distance(const double* expected, const void* other, int type, double* distances,
                                                 u64 n, int widens) {
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double own = fabs(expected[i] - load_element(other, type, i));
        distances[i] = widens ? fmax(distances[i], own) : own;
    }
}

// The largest second difference of three neighboring runs and of those before.
extern "C" __global__ void evo_elements_bend(const double* first, const double* second, const double* third,
                                             double* largest, u64 n, int widens) {
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double own = fabs(__dadd_rn(__dsub_rn(first[i], __dmul_rn(2.0, second[i])), third[i]));
        largest[i] = fmax(widens ? largest[i] : 0.0, own);
    }
}

// How many finite values that are not negative have these leading bits, by the eleven bits that follow: the order of such
// values is that of their bits.
extern "C" __global__ void evo_elements_digits(const double* values, u64 n, u64 leading, int known, u64* counts) {
    __shared__ unsigned own[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) own[i] = 0;
    __syncthreads();
    const int shift = 64 - known - 11;
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const u64 bits = (u64)__double_as_longlong(values[i]);
        if (!isfinite(values[i]) || (known > 0 && bits >> (64 - known) != leading)) continue;
        // The last digit has fewer bits than the others.
        atomicAdd(&own[(shift >= 0 ? bits >> shift : bits << -shift) & 2047], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) {
        if (own[i]) atomicAdd(&counts[i], (u64)own[i]);
    }
}

struct Below {
    double square, count;
};

__device__ void add(Below& own, const Below& other) {
    own.square += other.square;
    own.count += other.count;
}

// The values below a limit: their squares and their number.
extern "C" __global__ void evo_elements_below(const double* values, u64 n, double limit, Below* parts) {
    Below own = {};
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double value = values[i];
        if (!(value < limit)) continue;
        own.square += value * value;
        own.count += 1.0;
    }
    keep(own, parts);
}

// Elements that are far less certain than the others: counted, and listed in any order as far as there is room.
extern "C" __global__ void evo_elements_uncertain(const double* errors, const double* expected, u64 n, double least,
                                                  double units, u64 room, double* list, u64* count) {
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const double error = errors[i];
        if (!isfinite(error) || !(error > least) || !(error > units * fabs(expected[i]))) continue;
        const u64 place = atomicAdd(count, 1ull);
        if (place < room) list[2 * place] = (double)i, list[2 * place + 1] = error;
    }
}

// Takes the elements of a list out of the computation in single precision: what is not finite is not weighed.
extern "C" __global__ void evo_elements_leave_out(float* single, const double* list, u64 count) {
    const u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        single[(u64)list[2 * i]] = (float)infinity();
    }
}
