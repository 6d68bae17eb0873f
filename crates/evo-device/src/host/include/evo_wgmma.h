// The host's half of `evo/ptx_sm90.cuh`, second part: products of a warpgroup.
//
// Each warp gathers its lanes' operands as for `mma`; then four warps meet, and the last computes for all. The sums go
// to memory of the runtime (`runner/warpgroup.rs`): the accumulators hold ones until `wgmma_wait`. Operands in shared
// memory are read when the product is issued and read again when the first thread has waited for it: they must be the
// same, as a GPU may read them at any moment in between.
#ifndef EVO_WGMMA_H
#define EVO_WGMMA_H
#pragma GCC system_header

enum { EVO_TRANS_A = 1 << 16, EVO_TRANS_B = 1 << 17, EVO_REGISTERS_A = 1 << 18 };

// The warps of a warpgroup come together: null for all lanes but one, which gets what the four warps gathered and must
// call `evo_part`.
EVO_INLINE const void* const* const* evo_meet(int kind, int line, const void* own, bool& leads) {
    evo_thread* self = evo_self();
    if (self->threads - (self->linear & ~127u) < 128)
        evo_stop(EVO_STOP_ILLEGAL, line, "a warpgroup of fewer than 128 threads executes an instruction of the whole warpgroup");
    const void* const* lanes = evo_gather(kind, line, own);
    leads = lanes != nullptr;
    if (!leads) return nullptr;
    return (const void* const* const*)evo_bar(EVO_GROUP_MEET, line, lanes, (uint64_t)kind);
}
EVO_INLINE void evo_part(int line) { evo_bar(EVO_GROUP_LEAVE, line, nullptr, 0); }

namespace evo {

// As `IssuedProduct` of `warpgroup.rs`.
struct evo_issued {
    uint64_t a, b, hash;
    unsigned shape;
    int line;
    unsigned group, number;
};
struct evo_wgmma_part {
    float* sums;
    uint64_t a, b;
    unsigned words[4];
    int scale_d;
};

// An operand in shared memory by its descriptor: start, leading and stride offset in units of 16 bytes, swizzle.
struct evo_operand {
    uintptr_t start, first, end, view;
    unsigned leading, stride, mode;
    bool mn_major;
};
EVO_FOR_WARP evo_operand evo_operand_of(uint64_t descriptor, bool mn_major, int line) {
    evo_operand own;
    if (!evo_bar(EVO_GROUP_LOCATE, line, &own, (descriptor & 0x3fff) << 4))
        evo_stop(EVO_STOP_ILLEGAL, line, "a descriptor of wgmma points outside of the block's shared memory");
    own.leading = (unsigned)(descriptor >> 16 & 0x3fff) << 4;
    own.stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4;
    // 1, 2, 3 stand for 128, 64, 32 bytes.
    own.mode = (4 - (unsigned)(descriptor >> 62)) & 3;
    own.mn_major = mn_major;
    if (descriptor >> 49 & 7) evo_stop(EVO_STOP_ILLEGAL, line, "a descriptor of wgmma has a base offset, which the host device lacks");
    if (own.start >> 7 & ((1u << own.mode) - 1))
        evo_stop(EVO_STOP_MISALIGNED, line, "misaligned operand of wgmma: its descriptor starts inside of a group of eight swizzled rows,");
    return own;
}
// Address of 8 elements, 16 bytes. K-major: `k` is 0 or 1 and `mn` a row. MN-major: `k` is a row and `mn` counts chunks.
EVO_INLINE uintptr_t evo_chunk(const evo_operand& own, unsigned mn, unsigned k) {
    unsigned row = own.mn_major ? k : mn, span = 16u << own.mode, within = row % 8 * span;
    uintptr_t at = own.start + within;
    if (!own.mn_major)
        at += (uintptr_t)(mn / 8) * own.stride + (uintptr_t)k * (own.mode ? 16 : own.leading);
    else if (own.mode == 0)
        at += (uintptr_t)mn * own.stride + (uintptr_t)(k / 8) * own.leading;
    else {
        unsigned chunks = 1u << own.mode;
        at += (uintptr_t)(mn / chunks) * own.leading + mn % chunks * 16 + (uintptr_t)(k / 8) * own.stride;
    }
    return evo_swizzled(at, own.mode);
}
// Each chunk of an operand of `extent` rows or columns, in order.
#define EVO_EACH_CHUNK(own, extent)                                                \
    for (unsigned k = 0; k < ((own).mn_major ? 16u : 2u); k++)                     \
        for (unsigned mn = 0; mn < ((own).mn_major ? (extent) / 8u : (extent)); mn++)

EVO_FOR_WARP void evo_check_operand(const evo_operand& own, unsigned extent, int line) {
    bool flying = evo_do(EVO_BULK_IN_FLIGHT, line, nullptr, nullptr, 0);
    EVO_EACH_CHUNK(own, extent) {
        uintptr_t at = evo_chunk(own, mn, k);
        if (at < own.first || at + 16 > own.end)
            evo_stop(EVO_STOP_ILLEGAL, line, "a descriptor of wgmma leads outside of the block's shared memory");
        if (flying) evo_do(EVO_BULK_IN_FLIGHT, line, (const void*)at, nullptr, 16);
        const volatile uint64_t* held = (const volatile uint64_t*)at;
        const uint64_t* seen = (const uint64_t*)(own.view + (at - own.first));
        uint64_t low, high;
        __builtin_memcpy(&low, seen, 8), __builtin_memcpy(&high, seen + 1, 8);
        if (held[0] != low || held[1] != high)
            evo_stop(EVO_STOP_ILLEGAL, line,
                     "wgmma reads shared memory that threads have written since their last fence_proxy_async");
    }
    EVO_EACH_CHUNK(own, extent) evo_watch_read((const void*)evo_chunk(own, mn, k), 16);
}
EVO_FOR_WARP uint64_t evo_hash_operand(const evo_operand& own, unsigned extent, uint64_t hash) {
    EVO_EACH_CHUNK(own, extent) {
        const volatile uint64_t* held = (const volatile uint64_t*)evo_chunk(own, mn, k);
        hash = (hash ^ held[0]) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ hash >> 29 ^ held[1]) * 0xbf58476d1ce4e5b9ull;
    }
    return hash ^ hash >> 32;
}
EVO_FOR_WARP uint64_t evo_hash_product(const evo_issued& issued) {
    uint64_t hash = 0;
    if (!(issued.shape & EVO_REGISTERS_A))
        hash = evo_hash_operand(evo_operand_of(issued.a, issued.shape & EVO_TRANS_A, issued.line), 64, hash);
    return evo_hash_operand(evo_operand_of(issued.b, issued.shape & EVO_TRANS_B, issued.line), issued.shape & 0xffff, hash);
}
template <class T> EVO_INLINE void evo_read_chunk(const evo_operand& own, unsigned mn, unsigned k, double (&values)[8]) {
    const volatile unsigned* words = (const volatile unsigned*)evo_chunk(own, mn, k);
    for (int i = 0; i < 4; i++) {
        unsigned word = words[i];
        values[2 * i] = evo_number<T>::wide(evo_half_of(word, 0));
        values[2 * i + 1] = evo_number<T>::wide(evo_half_of(word, 1));
    }
}

// 16 rows of a warp. As for `mma`, products are exact and sums are rounded once.
template <int N> EVO_INLINE void evo_wgmma_rows(const double (*a)[16], const double (*b)[N], const void* const* lanes) {
    for (int row = 0; row < 16; row++) {
        alignas(64) double sums[N];
        int first = row / 8 * 2;
        const evo_wgmma_part* parts[4];
        for (int t = 0; t < 4; t++) parts[t] = (const evo_wgmma_part*)lanes[4 * (row % 8) + t];
        for (int n = 0; n < N; n++) {
            const evo_wgmma_part* part = parts[n % 8 / 2];
            sums[n] = part->scale_d ? (double)part->sums[n / 8 * 4 + first + n % 2] : 0.0;
        }
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < N; n++) sums[n] += a[row][k] * b[k][n];
        for (int n = 0; n < N; n++) parts[n % 8 / 2]->sums[n / 8 * 4 + first + n % 2] = (float)sums[n];
    }
}
template <class T, int N, int Shape> EVO_FOR_WARP void evo_wgmma_all(const void* const* const* warps, int line) {
    const evo_wgmma_part* own = (const evo_wgmma_part*)warps[0][0];
    for (int warp = 0; warp < 4; warp++)
        for (int lane = 0; lane < 32; lane++) {
            const evo_wgmma_part* part = (const evo_wgmma_part*)warps[warp][lane];
            bool same = part->b == own->b && (part->scale_d != 0) == (own->scale_d != 0) && part->a == own->a;
            if (!same) evo_stop(EVO_STOP_ILLEGAL, line, "the threads of a warpgroup pass different descriptors or scales to wgmma");
        }
    alignas(64) double a[64][16], b[16][N];
    double values[8];
    if constexpr ((Shape & EVO_REGISTERS_A) != 0) {
        for (int thread = 0; thread < 128; thread++) {
            const unsigned* words = ((const evo_wgmma_part*)warps[thread / 32][thread % 32])->words;
            int row = thread / 32 * 16 + thread % 32 / 4, t = thread % 4;
            for (int i = 0; i < 8; i++)
                a[row + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = evo_number<T>::wide(evo_half_of(words[i / 2], i % 2));
        }
    } else {
        evo_operand left = evo_operand_of(own->a, Shape & EVO_TRANS_A, line);
        evo_check_operand(left, 64, line);
        EVO_EACH_CHUNK(left, 64) {
            evo_read_chunk<T>(left, mn, k, values);
            for (unsigned i = 0; i < 8; i++) *(left.mn_major ? &a[8 * mn + i][k] : &a[mn][8 * k + i]) = values[i];
        }
    }
    evo_operand right = evo_operand_of(own->b, Shape & EVO_TRANS_B, line);
    evo_check_operand(right, N, line);
    EVO_EACH_CHUNK(right, N) {
        evo_read_chunk<T>(right, mn, k, values);
        for (unsigned i = 0; i < 8; i++) *(right.mn_major ? &b[k][8 * mn + i] : &b[8 * k + i][mn]) = values[i];
    }
    for (int warp = 0; warp < 4; warp++) evo_wgmma_rows<N>(a + 16 * warp, b, warps[warp]);
    evo_issued issued = {own->a, own->b, 0, N | Shape, line, 0, 0};
    issued.hash = evo_hash_product(issued);
    evo_bar(EVO_GROUP_NOTE, line, &issued, 0);
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, 2 + evo_self()->linear / 128);
}
template <class T, int N, int Shape> EVO_INLINE void evo_wgmma(float* d, evo_wgmma_part part, int line) {
    static_assert(N % 8 == 0 && N >= 8 && N <= 256, "N is a multiple of 8, up to 256");
    part.sums = (float*)evo_bar(EVO_GROUP_TAKE, line, d, (uint64_t)N / 2 << 1 | (part.scale_d != 0));
    bool leads;
    if (const void* const* const* warps = evo_meet(EVO_GATHER_WGMMA, line, &part, leads)) {
        evo_wgmma_all<T, N, Shape>(warps, line);
        evo_part(line);
    }
    if (leads) evo_release();
}
template <class T, int N, int TransB = 0, int TransA = 0>
EVO_INLINE void wgmma_m64k16(float (&d)[N / 2], unsigned long long a, unsigned long long b, int scale_d, EVO_AT) {
    evo_wgmma<T, N, (TransB ? EVO_TRANS_B : 0) | (TransA ? EVO_TRANS_A : 0)>(d, {nullptr, a, b, {}, scale_d}, line);
}
template <class T, int N, int TransB = 0>
EVO_INLINE void wgmma_m64k16(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, int scale_d, EVO_AT) {
    evo_wgmma<T, N, (TransB ? EVO_TRANS_B : 0) | EVO_REGISTERS_A>(d, {nullptr, 0, b, {a[0], a[1], a[2], a[3]}, scale_d}, line);
}
EVO_INLINE void wgmma_fence(EVO_AT) { evo_bar(EVO_GROUP_FENCE, line, nullptr, 0); }
EVO_INLINE void wgmma_commit(EVO_AT) { evo_bar(EVO_GROUP_COMMIT, line, nullptr, 0); }
EVO_FOR_WARP void evo_wait_products(unsigned left, int line) {
    evo_issued issued;
    while (evo_bar(EVO_GROUP_DUE, line, &issued, left)) {
        bool same = evo_hash_product(issued) == issued.hash;
        if (evo_bar(EVO_GROUP_COMPARED, line, nullptr, issued.number) && !same) {
            char text[160];
            __builtin_snprintf(text, sizeof text, "shared memory was overwritten while the wgmma of line %d read it, before wgmma_wait", issued.line);
            evo_stop(EVO_STOP_ILLEGAL, line, text);
        }
    }
    evo_watch_sync(EVO_WATCH_PHASE, 2 + evo_self()->linear / 128);
    evo_bar(EVO_GROUP_GIVE_BACK, line, nullptr, left);
}
template <int Left> EVO_INLINE void wgmma_wait(EVO_AT) { evo_wait_products(Left, line); }
template <int Count> EVO_INLINE void wgmma_hold(float (&)[Count]) {}

EVO_INLINE unsigned long long wgmma_descriptor(const void* tile, unsigned leading, unsigned stride, unsigned swizzle, EVO_AT) {
    evo_demand_shared(tile, 16, line, "a descriptor of wgmma for what is not shared memory of the block");
    unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return ((uintptr_t)tile & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4 & 0x3fff) << 16 |
           (unsigned long long)(stride >> 4 & 0x3fff) << 32 | mode << 62;
}
EVO_INLINE unsigned long long wgmma_advance(unsigned long long descriptor, unsigned bytes) {
    return descriptor + (bytes >> 4);
}

template <int Registers> EVO_INLINE void evo_set_registers(int line) {
    static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256, "24 to 256 in steps of 8");
    bool leads;
    if (evo_meet(EVO_GATHER_SETMAXNREG, line, nullptr, leads)) {
        evo_bar(EVO_GROUP_REGISTERS, line, nullptr, Registers);
        evo_part(line);
    }
    if (leads) evo_release();
}
template <int Registers> EVO_INLINE void setmaxnreg_inc(EVO_AT) { evo_set_registers<Registers>(line); }
template <int Registers> EVO_INLINE void setmaxnreg_dec(EVO_AT) { evo_set_registers<Registers>(line); }

} // namespace evo

#undef EVO_EACH_CHUNK
#undef EVO_AT
#undef EVO_FOR_WARP
#endif
