// What the judge does to every element of large buffers: drawing inputs, converting them for the user's reference, moving
// their last bits, and the sums and order statistics that tell how sure its answers are. The Rust functions in
// `inputs.rs`, `perturb.rs` and `bounds.rs` are the definition, and draw the same bits: random words come from ChaCha8,
// whose output is a function of key, stream and position, so that each thread makes its own.

// Numbers of data types, in the order of `DType` in `elements.rs`.
enum ElementType { E_F16, E_BF16, E_F32, E_F64, E_I8, E_I16, E_I32, E_I64, E_U8, E_U16, E_U32, E_U64 };

__device__ double load_element(const void* data, int type, u64 i) {
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
__device__ void store_element(void* data, int type, u64 i, double value) {
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

struct Words {
    unsigned word[16];
};

__device__ Words chacha8(const u64* key, u64 stream, u64 block) {
    const unsigned start[16] = {
        0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u,
        (unsigned)key[0], (unsigned)(key[0] >> 32), (unsigned)key[1], (unsigned)(key[1] >> 32),
        (unsigned)key[2], (unsigned)(key[2] >> 32), (unsigned)key[3], (unsigned)(key[3] >> 32),
        (unsigned)block, (unsigned)(block >> 32), (unsigned)stream, (unsigned)(stream >> 32),
    };
    Words x;
#pragma unroll
    for (int i = 0; i < 16; i++) x.word[i] = start[i];
#pragma unroll 1
    for (int round = 0; round < 4; round++) {
        unsigned* w = x.word;
        quarter(w[0], w[4], w[8], w[12]);
        quarter(w[1], w[5], w[9], w[13]);
        quarter(w[2], w[6], w[10], w[14]);
        quarter(w[3], w[7], w[11], w[15]);
        quarter(w[0], w[5], w[10], w[15]);
        quarter(w[1], w[6], w[11], w[12]);
        quarter(w[2], w[7], w[8], w[13]);
        quarter(w[3], w[4], w[9], w[14]);
    }
#pragma unroll
    for (int i = 0; i < 16; i++) x.word[i] += start[i];
    return x;
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
// Elements of a thread: what a block of sixteen words gives for a bell.
constexpr int DRAW_EACH = 4;

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

extern "C" __global__ void evo_elements_draw(const Rule* given, void* out) {
    const Rule rule = *given;
    const u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * DRAW_EACH;
    if (first >= rule.count) return;
    const u64 chunk = first / DRAW_CHUNK, offset = first % DRAW_CHUNK;
    const u64 left = rule.count - chunk * DRAW_CHUNK, length = left < DRAW_CHUNK ? left : DRAW_CHUNK;
    const bool is_random = rule.kind == PLAIN || rule.kind == SPIKES;
    Words base = {}, dice = {};
    const u64 each = rule.is_bell ? 4 : 2;
    // Words of the base distribution begin with the stream; those of spikes follow, half a word for each element.
    const u64 dice_at = each * length + offset / 2;
    if (is_random) base = chacha8(rule.key, chunk, offset * each / 16);
    if (rule.kind == SPIKES) dice = chacha8(rule.key, chunk, dice_at / 16);
#pragma unroll
    for (int j = 0; j < DRAW_EACH; j++) {
        const u64 index = first + j;
        if (index >= rule.count) return;
        double value = rule.value;
        if (rule.kind == RAMP) value = ramp(rule, index);
        if (rule.kind == ZEROS) value = zero(rule, index);
        if (is_random && rule.is_bell) {
            unsigned sum = 0;
#pragma unroll
            for (int k = 0; k < 4; k++) sum += (base.word[4 * j + k] & 0xffffu) + (base.word[4 * j + k] >> 16);
            value = __dmul_rn(__dmul_rn((double)sum - 4.0 * 65535.0, rule.unit), rule.scale);
        } else if (is_random) {
            // The upper half of a block where the first element is an odd multiple of four.
            const bool upper = offset * each / 8 % 2 == 1;
            const unsigned low = upper ? base.word[8 + 2 * j] : base.word[2 * j];
            const unsigned high = upper ? base.word[9 + 2 * j] : base.word[2 * j + 1];
            const double part = __dmul_rn((double)(((u64)high << 32 | low) >> 11), 1.0 / 9007199254740992.0);
            value = whole(rule, __dadd_rn(rule.low, __dmul_rn(rule.width, part)));
        }
        if (rule.kind == PLAIN) value = __dmul_rn(value, rule.factor);
        if (rule.kind == SPIKES) {
            unsigned word = 0;
            // Of sixteen words those at the thread's place: an index that is known only now would put them all in memory.
#pragma unroll
            for (int k = 0; k < 16; k++) word = k == (int)((dice_at + j / 2) % 16) ? dice.word[k] : word;
            if ((word >> (16 * (j % 2)) & 0xffffu) < 64) value = __dmul_rn(value, rule.factor);
            if (index == rule.spike) value = rule.spike_high;
            else if (index == (rule.spike + rule.count / 2) % rule.count && rule.is_signed) value = rule.spike_low;
        }
        const bool is_turned = index >= rule.turned_first && index - rule.turned_first < rule.turned_length;
        const u64 place = is_turned ? 2 * rule.turned_first + rule.turned_length - 1 - index : index;
        store_element(out, (int)rule.type, place, value);
    }
}

// ---- what the reference is given ----

enum Change { AS_IS, NUDGED, SCALED, JIGGLED };

constexpr u64 NUDGE_CHUNK = 1 << 16;

// Values of one type as another, after their last bits were drawn anew or they were multiplied. Streams have the number of
// their chunk of elements; sixteen elements a thread share a block of words. Jiggled values stay between `low` and `high`.
extern "C" __global__ void evo_elements_convert(const void* from, int from_type, void* to, int to_type, u64 n, int change,
                                                double factor, double low, double high, u64 key0, u64 key1, u64 key2,
                                                u64 key3) {
    const u64 key[4] = {key0, key1, key2, key3};
    const u64 first = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 16;
    if (first >= n) return;
    const bool is_half = from_type == E_F16 || from_type == E_BF16;
    Words dice = {};
    const bool is_moved = change == NUDGED || change == JIGGLED;
    if (is_moved) dice = chacha8(key, first / NUDGE_CHUNK, first % NUDGE_CHUNK / 16);
#pragma unroll
    for (int j = 0; j < 16; j++) {
        const u64 i = first + j;
        if (i >= n) return;
        double value;
        // One bit, or four: the error of a few operations in f32. A zero stays what it is then.
        const bool is_zero = load_element(from, from_type, i) == 0.0;
        const unsigned drawn = dice.word[j], bits = change == NUDGED ? drawn >> 31 : is_zero ? 0u : drawn >> 28;
        if (is_moved && is_half) {
            // A half has so few bits that its last one is an error larger than that of any arithmetic.
            unsigned short half = ((const unsigned short*)from)[i];
            if (drawn % 256 == 0) half ^= drawn >> 31 | 1u;
            value = load_element(&half, from_type, 0);
        } else if (is_moved && from_type == E_F32) {
            value = (double)__uint_as_float(((const unsigned*)from)[i] ^ bits);
        } else if (is_moved) {
            value = __longlong_as_double(((const long long*)from)[i] ^ (long long)bits);
        } else {
            value = load_element(from, from_type, i);
        }
        if (change == SCALED) {
            // Rounded to the declared type, as the variant would be given it.
            double rounded;
            value = __dmul_rn(value, factor);
            store_element(&rounded, from_type, 0, value);
            value = load_element(&rounded, from_type, 0);
        }
        if (change == JIGGLED && !(value >= low && value < high)) value = load_element(from, from_type, i);
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
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) single[(u64)list[2 * i]] = (float)infinity();
}
