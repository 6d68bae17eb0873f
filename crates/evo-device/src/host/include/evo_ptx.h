// The host's half of `evo/ptx.cuh`: what the instructions do, and what they demand of whoever uses them.
//
// A warp's operands lie on the stacks of its lanes. The last lane to come to an instruction gets pointers to all of
// them, computes for the warp and lets the others go. A copy in the background lands at the wait for its group;
// until then its target holds ones, which are NaN in every floating-point type. What a GPU leaves undefined ends the
// launch with the line: misaligned addresses, lanes that are missing, addresses in the wrong memory.
#ifndef EVO_PTX_H
#define EVO_PTX_H
#pragma GCC system_header

#define EVO_AT int line = __builtin_LINE()
// Computes for other lanes, so its accesses are announced by those, not by the compiler.
#define EVO_FOR_WARP EVO_UNCHECKED static __attribute__((noinline, unused))

// Null for all lanes but the last, which gets the operands of all and must call `evo_release`.
EVO_INLINE const void* const* evo_gather(int kind, int line, const void* own) {
    evo_thread* self = evo_self();
    if (self->threads - (self->linear & ~31u) < 32)
        evo_stop(EVO_STOP_ILLEGAL, line, "a warp of fewer than 32 threads executes an instruction of the whole warp");
    return (const void* const*)self->runtime->warp(self, kind, line, 0xffffffffu, (uint64_t)(uintptr_t)own, 0);
}
EVO_INLINE void evo_release() {
    evo_thread* self = evo_self();
    self->runtime->warp(self, EVO_RELEASE, 0, 0xffffffffu, 0, 0);
}
EVO_INLINE void evo_demand_aligned(const void* at, unsigned bytes, int line, const char* text) {
    if ((uintptr_t)at % bytes != 0) evo_stop(EVO_STOP_MISALIGNED, line, text);
}
EVO_INLINE void evo_demand_shared(const void* at, unsigned bytes, int line, const char* text) {
    if (!evo_is_shared(at, bytes)) evo_stop(EVO_STOP_ILLEGAL, line, text);
}

namespace evo {

struct f16 {};
struct bf16 {};

template <class T> struct evo_number;
template <> struct evo_number<f16> {
    EVO_INLINE float wide(unsigned short bits) { return evo_half_to_float(bits); }
    EVO_INLINE unsigned short narrow(float value) { return evo_float_to_half(value); }
};
template <> struct evo_number<bf16> {
    EVO_INLINE float wide(unsigned short bits) { return evo_bfloat_to_float(bits); }
    EVO_INLINE unsigned short narrow(float value) { return evo_float_to_bfloat(value); }
};
EVO_INLINE unsigned short evo_half_of(unsigned word, int part) { return (unsigned short)(word >> 16 * part); }

// Accumulators: fp32, or fp16 in pairs.
template <class C> struct evo_sums;
template <> struct evo_sums<float> {
    EVO_INLINE double get(const float* c, int i) { return c[i]; }
    EVO_INLINE void put(float* d, const double* sums) {
        for (int i = 0; i < 4; i++) d[i] = (float)sums[i];
    }
};
template <> struct evo_sums<unsigned> {
    EVO_INLINE double get(const unsigned* c, int i) { return evo_half_to_float(evo_half_of(c[i / 2], i % 2)); }
    EVO_INLINE void put(unsigned* d, const double* sums) {
        for (int i = 0; i < 2; i++)
            d[i] = evo_float_to_half(evo_round_odd(sums[2 * i])) | (unsigned)evo_float_to_half(evo_round_odd(sums[2 * i + 1])) << 16;
    }
};

struct evo_mma_part {
    const unsigned *a, *b;
    const void* c;
    void* d;
};

// Fragments as the PTX ISA has them ("Matrix fragments for mma.m16n8k16"): lane 4g + t holds of A the rows g and g + 8
// with columns 2t, 2t + 1 (and those + 8), of B the rows 2t, 2t + 1 (and + 8) of column g, of C and D the rows g and
// g + 8 with columns 2t, 2t + 1. Products of two halves are exact in double, and a sum of 17 of them is rounded once more
// at its end: closer than a GPU, whose tensor cores cut off what lies below the largest term.
template <class T, int K, class C> EVO_FOR_WARP void evo_mma_all(const void* const* lanes) {
    alignas(32) double a[16][K], b[K][8], c[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const evo_mma_part* part = (const evo_mma_part*)lanes[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < K / 4; i++)
            for (int e = 0; e < 2; e++)
                a[g + i % 2 * 8][2 * t + e + i / 2 * 8] = evo_number<T>::wide(evo_half_of(part->a[i], e));
        for (int i = 0; i < K / 8; i++)
            for (int e = 0; e < 2; e++) b[2 * t + e + 8 * i][g] = evo_number<T>::wide(evo_half_of(part->b[i], e));
        for (int i = 0; i < 4; i++) {
            c[g + i / 2 * 8][2 * t + i % 2] = evo_sums<C>::get((const C*)part->c, i);
        }
    }
    for (int row = 0; row < 16; row++) {
        alignas(32) double sums[8];
        for (int n = 0; n < 8; n++) sums[n] = c[row][n];
        for (int k = 0; k < K; k++)
            for (int n = 0; n < 8; n++) sums[n] += a[row][k] * b[k][n];
        for (int n = 0; n < 8; n++) c[row][n] = sums[n];
    }
    for (int lane = 0; lane < 32; lane++) {
        const evo_mma_part* part = (const evo_mma_part*)lanes[lane];
        int g = lane / 4, t = lane % 4;
        double own[4] = {c[g][2 * t], c[g][2 * t + 1], c[g + 8][2 * t], c[g + 8][2 * t + 1]};
        evo_sums<C>::put((C*)part->d, own);
    }
}
template <class T, int K, class C>
EVO_INLINE void evo_mma(void* d, const unsigned* a, const unsigned* b, const void* c, int line) {
    evo_mma_part part = {a, b, c, d};
    if (const void* const* lanes = evo_gather(EVO_GATHER_MMA, line, &part)) {
        evo_mma_all<T, K, C>(lanes);
        evo_release();
    }
}
template <class T>
EVO_INLINE void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], EVO_AT) {
    evo_mma<T, 16, float>(d, a, b, c, line);
}
template <class T>
EVO_INLINE void mma_m16n8k16(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2], const unsigned (&c)[2], EVO_AT) {
    static_assert(sizeof(T) && __is_same(T, f16), "fp16 accumulators go with fp16 operands");
    evo_mma<T, 16, unsigned>(d, a, b, c, line);
}
template <class T>
EVO_INLINE void mma_m16n8k8(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1], const float (&c)[4], EVO_AT) {
    evo_mma<T, 8, float>(d, a, b, c, line);
}
template <class T>
EVO_INLINE void mma_m16n8k8(unsigned (&d)[2], const unsigned (&a)[2], const unsigned (&b)[1], const unsigned (&c)[2], EVO_AT) {
    static_assert(sizeof(T) && __is_same(T, f16), "fp16 accumulators go with fp16 operands");
    evo_mma<T, 8, unsigned>(d, a, b, c, line);
}

// Rows of 8x8 matrices of 16-bit elements: lane i has the address of row i % 8 of matrix i / 8.
struct evo_matrix_part {
    unsigned short* row;
    unsigned* r[4];
};
template <int Count, bool Transposed> EVO_FOR_WARP void evo_load_all(const void* const* lanes) {
    for (int matrix = 0; matrix < Count; matrix++)
        for (int lane = 0; lane < 32; lane++) {
            int g = lane / 4, t = lane % 4;
            unsigned word = 0;
            for (int e = 0; e < 2; e++) {
                int row = Transposed ? 2 * t + e : g, column = Transposed ? g : 2 * t + e;
                word |= (unsigned)((const evo_matrix_part*)lanes[8 * matrix + row])->row[column] << 16 * e;
            }
            *((const evo_matrix_part*)lanes[lane])->r[matrix] = word;
        }
}
template <int Count, bool Transposed> EVO_FOR_WARP void evo_store_all(const void* const* lanes) {
    for (int matrix = 0; matrix < Count; matrix++)
        for (int lane = 0; lane < 32; lane++) {
            int g = lane / 4, t = lane % 4;
            unsigned word = *((const evo_matrix_part*)lanes[lane])->r[matrix];
            for (int e = 0; e < 2; e++) {
                int row = Transposed ? 2 * t + e : g, column = Transposed ? g : 2 * t + e;
                ((const evo_matrix_part*)lanes[8 * matrix + row])->row[column] = evo_half_of(word, e);
            }
        }
}
template <int Count, bool Transposed>
EVO_INLINE void evo_load_matrices(evo_matrix_part part, int line) {
    if (evo_self()->linear % 32 < 8 * Count) {
        evo_demand_aligned(part.row, 16, line, "misaligned row of ldmatrix: 16 bytes are needed,");
        evo_demand_shared(part.row, 16, line, "ldmatrix reads what is not shared memory of the block");
        evo_watch_read(part.row, 16);
    }
    if (const void* const* lanes = evo_gather(EVO_GATHER_LDMATRIX, line, &part)) {
        evo_load_all<Count, Transposed>(lanes);
        evo_release();
    }
}
template <int Count, bool Transposed>
EVO_INLINE void evo_store_matrices(evo_matrix_part part, int line) {
    if (evo_self()->linear % 32 < 8 * Count) {
        evo_demand_aligned(part.row, 16, line, "misaligned row of stmatrix: 16 bytes are needed,");
        evo_demand_shared(part.row, 16, line, "stmatrix writes what is not shared memory of the block");
        evo_watch_write(part.row, 16);
    }
    if (const void* const* lanes = evo_gather(EVO_GATHER_STMATRIX, line, &part)) {
        evo_store_all<Count, Transposed>(lanes);
        evo_release();
    }
}
#define EVO_MATRICES(suffix, transposed)                                                           \
    EVO_INLINE void ldmatrix_x1##suffix(unsigned& r0, const void* row, EVO_AT) {                   \
        evo_load_matrices<1, transposed>({(unsigned short*)row, {&r0}}, line);                     \
    }                                                                                              \
    EVO_INLINE void ldmatrix_x2##suffix(unsigned& r0, unsigned& r1, const void* row, EVO_AT) {     \
        evo_load_matrices<2, transposed>({(unsigned short*)row, {&r0, &r1}}, line);                \
    }                                                                                              \
    EVO_INLINE void ldmatrix_x4##suffix(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, const void* row, EVO_AT) { \
        evo_load_matrices<4, transposed>({(unsigned short*)row, {&r0, &r1, &r2, &r3}}, line);      \
    }                                                                                              \
    EVO_INLINE void stmatrix_x1##suffix(void* row, unsigned r0, EVO_AT) {                          \
        evo_store_matrices<1, transposed>({(unsigned short*)row, {&r0}}, line);                    \
    }                                                                                              \
    EVO_INLINE void stmatrix_x2##suffix(void* row, unsigned r0, unsigned r1, EVO_AT) {             \
        evo_store_matrices<2, transposed>({(unsigned short*)row, {&r0, &r1}}, line);               \
    }                                                                                              \
    EVO_INLINE void stmatrix_x4##suffix(void* row, unsigned r0, unsigned r1, unsigned r2, unsigned r3, EVO_AT) { \
        evo_store_matrices<4, transposed>({(unsigned short*)row, {&r0, &r1, &r2, &r3}}, line);     \
    }
EVO_MATRICES(, false)
EVO_MATRICES(_trans, true)
#undef EVO_MATRICES

// Copies in the background. As `Grouped<PendingCopy>` of `copies.rs`.
struct evo_pending {
    unsigned group;
    struct {
        unsigned char* to;
        unsigned bytes;
        unsigned char data[16];
    } copy;
};

// Both use volatile accesses, which no compiler turns into a call of `memcpy`: that would be announced again.
EVO_FOR_WARP void evo_take_bytes(unsigned char* data, const void* from, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) data[i] = ((const volatile unsigned char*)from)[i];
}
EVO_FOR_WARP void evo_put_bytes(void* to, const unsigned char* data, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) ((volatile unsigned char*)to)[i] = data[i];
}
// The list is the runtime's, of whose memory no checker knows.
EVO_FOR_WARP void evo_read_pending(const evo_pending* from, evo_pending* own) { *own = *from; }
EVO_INLINE void evo_copy(void* to, const void* from, unsigned bytes, unsigned source_bytes, int line) {
    evo_demand_aligned(to, bytes, line, "misaligned target of cp.async: its address is no multiple of its size,");
    evo_demand_aligned(from, bytes, line, "misaligned source of cp.async: its address is no multiple of its size,");
    evo_demand_shared(to, bytes, line, "cp.async writes what is not shared memory of the block");
    if (source_bytes > bytes) evo_stop(EVO_STOP_ILLEGAL, line, "cp.async reads more bytes than it writes");
    alignas(16) unsigned char data[16] = {}, ones[16];
    if (source_bytes) {
        evo_watch_read(from, source_bytes);
        evo_take_bytes(data, from, source_bytes);
    }
    for (int i = 0; i < 16; i++) ones[i] = 0xff;
    evo_watch_write(to, bytes);
    evo_put_bytes(to, ones, bytes);
    evo_do(EVO_COPY_ISSUE, line, to, data, bytes);
}
EVO_INLINE void evo_land(unsigned left) {
    evo_pending* due = nullptr;
    size_t count = evo_do(EVO_COPY_DUE, 0, nullptr, &due, left);
    for (size_t i = 0; i < count; i++) {
        evo_pending own;
        evo_read_pending(due + i, &own);
        evo_watch_write(own.copy.to, own.copy.bytes);
        evo_put_bytes(own.copy.to, own.copy.data, own.copy.bytes);
    }
    evo_do(EVO_COPY_LANDED, 0, nullptr, nullptr, count);
}
template <int Bytes> EVO_INLINE void cp_async_ca(void* to, const void* from, EVO_AT) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    evo_copy(to, from, Bytes, Bytes, line);
}
template <int Bytes> EVO_INLINE void cp_async_ca_zfill(void* to, const void* from, unsigned source_bytes, EVO_AT) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    evo_copy(to, from, Bytes, source_bytes, line);
}
template <int Prefetch = 0> EVO_INLINE void cp_async_cg(void* to, const void* from, EVO_AT) {
    evo_copy(to, from, 16, 16, line);
}
template <int Prefetch = 0> EVO_INLINE void cp_async_cg_zfill(void* to, const void* from, unsigned source_bytes, EVO_AT) {
    evo_copy(to, from, 16, source_bytes, line);
}
EVO_INLINE void cp_async_commit() {
    evo_do(EVO_COPY_COMMIT, 0, nullptr, nullptr, 0);
}
template <int Left> EVO_INLINE void cp_async_wait() { evo_land(Left); }
EVO_INLINE void cp_async_wait_all() {
    cp_async_commit();
    evo_land(0);
}

// Barriers of a part of the block.
EVO_INLINE void evo_named(bool waits, unsigned number, unsigned threads, int line) {
    if (number == 0) evo_stop(EVO_STOP_ILLEGAL, line, "barrier 0 belongs to __syncthreads");
    if (number > 15) evo_stop(EVO_STOP_ILLEGAL, line, "a block has the barriers 0 to 15");
    if (threads == 0 || threads % 32 != 0)
        evo_stop(EVO_STOP_ILLEGAL, line, "the threads of a named barrier are no multiple of 32");
    evo_watch_sync(EVO_WATCH_NAMED_ARRIVE, number);
    // The lanes of a warp come together, as the aligned form demands.
    if (evo_gather(waits ? EVO_GATHER_BAR_SYNC : EVO_GATHER_BAR_ARRIVE, line, nullptr)) evo_release();
    if (evo_do(EVO_NAMED, line, (const void*)(uintptr_t)number, (const void*)(uintptr_t)threads, waits))
        evo_stop(EVO_STOP_ILLEGAL, line, "warps come to one named barrier with different numbers of threads");
    if (waits) evo_watch_sync(EVO_WATCH_NAMED, number);
}
EVO_INLINE void bar_sync(unsigned number, unsigned threads, EVO_AT) { evo_named(true, number, threads, line); }
EVO_INLINE void bar_arrive(unsigned number, unsigned threads, EVO_AT) { evo_named(false, number, threads, line); }

// Rounded once, where a GPU is within two units of its last place.
EVO_INLINE float ex2(float x) { return __builtin_exp2f(x); }
EVO_INLINE float evo_flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
EVO_INLINE float ex2_ftz(float x) { return evo_flushed(__builtin_exp2f(evo_flushed(x))); }

template <class T> EVO_INLINE unsigned pack(float low, float high) {
    return evo_number<T>::narrow(low) | (unsigned)evo_number<T>::narrow(high) << 16;
}

template <class T> EVO_INLINE void unpack(unsigned word, float& low, float& high) {
    low = evo_number<T>::wide(evo_half_of(word, 0));
    high = evo_number<T>::wide(evo_half_of(word, 1));
}

template <int Lanes> EVO_INLINE float warp_sum(float value, EVO_AT) {
    static_assert(Lanes > 0 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "1, 2, 4, 8, 16 or 32 lanes");
    for (int distance = Lanes / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance, 32, line);
    return value;
}
template <int Lanes> EVO_INLINE float warp_max(float value, EVO_AT) {
    static_assert(Lanes > 0 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "1, 2, 4, 8, 16 or 32 lanes");
    for (int distance = Lanes / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance, 32, line));
    return value;
}

} // namespace evo

#undef EVO_AT
#undef EVO_FOR_WARP
#endif
