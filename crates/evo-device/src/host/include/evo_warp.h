// Barriers and everything a warp does together. Each call hands its source line to the runtime, which lets
// the other threads run until all that must take part have come.
//
// Values up to 8 bytes travel as bits; the runtime moves them and knows no types.
#ifndef EVO_WARP_H
#define EVO_WARP_H
#pragma GCC system_header

#define EVO_LINE int line = __builtin_LINE()
EVO_INLINE int evo_barrier(int kind, int line, int predicate) {
    evo_thread* self = evo_self();
    evo_watch_sync(EVO_WATCH_BARRIER_ARRIVE, 0);
    int result = (int)self->runtime->barrier(self, kind, line, predicate);
    evo_watch_sync(EVO_WATCH_BARRIER, 0);
    return result;
}
EVO_INLINE void __syncthreads(EVO_LINE) { evo_barrier(EVO_SYNC, line, 0); }
EVO_INLINE int __syncthreads_count(int predicate, EVO_LINE) { return evo_barrier(EVO_SYNC_COUNT, line, predicate != 0); }
EVO_INLINE int __syncthreads_and(int predicate, EVO_LINE) { return evo_barrier(EVO_SYNC_AND, line, predicate != 0); }
EVO_INLINE int __syncthreads_or(int predicate, EVO_LINE) { return evo_barrier(EVO_SYNC_OR, line, predicate != 0); }
EVO_INLINE void __barrier_sync(unsigned number, EVO_LINE) {
    if (number != 0) evo_stop(EVO_STOP_ILLEGAL, line, "__barrier_sync of a barrier other than 0: evo/ptx.cuh has bar_sync");
    evo_barrier(EVO_SYNC, line, 0);
}

EVO_INLINE uint64_t evo_warp(int kind, int line, unsigned mask, uint64_t value, unsigned parameter) {
    evo_thread* self = evo_self();
    evo_watch_sync(EVO_WATCH_WARP_ARRIVE, mask);
    uint64_t result = self->runtime->warp(self, kind, line, mask, value, parameter);
    evo_watch_sync(EVO_WATCH_WARP, mask);
    return result;
}
EVO_INLINE void __syncwarp(unsigned mask = 0xffffffffu, EVO_LINE) { evo_warp(EVO_WARP_SYNC, line, mask, 0, 0); }
EVO_INLINE unsigned __ballot_sync(unsigned mask, int predicate, EVO_LINE) {
    return (unsigned)evo_warp(EVO_BALLOT, line, mask, predicate != 0, 0);
}
EVO_INLINE int __any_sync(unsigned mask, int predicate, EVO_LINE) {
    return (int)evo_warp(EVO_ANY, line, mask, predicate != 0, 0);
}
EVO_INLINE int __all_sync(unsigned mask, int predicate, EVO_LINE) {
    return (int)evo_warp(EVO_ALL, line, mask, predicate != 0, 0);
}
EVO_INLINE unsigned __activemask(EVO_LINE) { return (unsigned)evo_warp(EVO_ACTIVE, line, 0, 0, 0); }
// `__half` must stay usable before its own header is read, so sizes, not types, decide here.
template <class T> EVO_INLINE uint64_t evo_bits(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> EVO_INLINE T evo_value(uint64_t bits) {
    T value;
    __builtin_memcpy((void*)&value, &bits, sizeof(T));
    return value;
}
// `parameter` is the lane or distance in the low half, the width in the high half.
template <class T> EVO_INLINE T evo_shuffle(int kind, int line, unsigned mask, T value, unsigned lane, int width) {
    return evo_value<T>(evo_warp(kind, line, mask, evo_bits(value), (lane & 0xffffu) | (unsigned)width << 16));
}
template <class T> EVO_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EVO_LINE) {
    return evo_shuffle(EVO_SHFL_INDEX, line, mask, value, (unsigned)lane, width);
}
template <class T> EVO_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EVO_LINE) {
    return evo_shuffle(EVO_SHFL_UP, line, mask, value, delta, width);
}
template <class T> EVO_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EVO_LINE) {
    return evo_shuffle(EVO_SHFL_DOWN, line, mask, value, delta, width);
}
template <class T> EVO_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EVO_LINE) {
    return evo_shuffle(EVO_SHFL_XOR, line, mask, value, (unsigned)lanes, width);
}

#define EVO_REDUCE(name, T, kind)                                                                  \
    EVO_INLINE T __reduce_##name##_sync(unsigned mask, T value, EVO_LINE) {                        \
        return (T)evo_warp(kind, line, mask, (unsigned)value, 0);                                  \
    }
EVO_REDUCE(add, unsigned, EVO_REDUCE_ADD) EVO_REDUCE(add, int, EVO_REDUCE_ADD)
EVO_REDUCE(min, unsigned, EVO_REDUCE_MIN) EVO_REDUCE(min, int, EVO_REDUCE_MIN_SIGNED)
EVO_REDUCE(max, unsigned, EVO_REDUCE_MAX) EVO_REDUCE(max, int, EVO_REDUCE_MAX_SIGNED)
EVO_REDUCE(and, unsigned, EVO_REDUCE_AND)
EVO_REDUCE(or, unsigned, EVO_REDUCE_OR)
EVO_REDUCE(xor, unsigned, EVO_REDUCE_XOR)
#undef EVO_REDUCE
template <class T> EVO_INLINE unsigned __match_any_sync(unsigned mask, T value, EVO_LINE) {
    return (unsigned)evo_warp(EVO_MATCH_ANY, line, mask, evo_bits(value), 0);
}
template <class T> EVO_INLINE unsigned __match_all_sync(unsigned mask, T value, int* agree, EVO_LINE) {
    unsigned found = (unsigned)evo_warp(EVO_MATCH_ALL, line, mask, evo_bits(value), 0);
    *agree = found != 0;
    return found;
}
#undef EVO_LINE
#endif
