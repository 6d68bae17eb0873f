// Copies to shared memory in the background as CUDA C++ writes them (CUDA C++ Programming Guide, "Pipeline Primitives" and
// `cooperative_groups::memcpy_async`). Each lands at its wait; until then its target holds ones.
#ifndef EVO_ASYNC_H
#define EVO_ASYNC_H
#pragma GCC system_header

#define EVO_LINE int line = __builtin_LINE()

EVO_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0, EVO_LINE) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        evo_stop(EVO_STOP_ILLEGAL, line, "__pipeline_memcpy_async of a size other than 4, 8 or 16");
    if (zeros > bytes) evo_stop(EVO_STOP_ILLEGAL, line, "__pipeline_memcpy_async with more zeros than bytes");
    evo::evo_copy(to, from, (unsigned)bytes, (unsigned)(bytes - zeros), line);
}
EVO_INLINE void __pipeline_commit() { evo::cp_async_commit(); }
EVO_INLINE void __pipeline_wait_prior(size_t left) { evo::evo_land((unsigned)left); }

// At most 16 bytes, wherever they lie. Only copies from elsewhere to shared memory are left for later, as on a GPU.
EVO_INLINE void evo_copy_piece(void* to, const void* from, unsigned bytes) {
    alignas(16) unsigned char data[16] = {}, ones[16];
    evo_watch_read(from, bytes);
    evo::evo_take_bytes(data, from, bytes);
    evo_watch_write(to, bytes);
    bool later = evo_is_shared(to, bytes) && !evo_is_shared(from, bytes);
    if (!later) {
        evo::evo_put_bytes(to, data, bytes);
        return;
    }
    for (int at = 0; at < 16; at++) ones[at] = 0xff;
    evo::evo_put_bytes(to, ones, bytes);
    evo_do(EVO_COPY_ISSUE, 0, to, data, bytes);
}
// This thread's share of a copy by `threads` threads: every `threads`-th piece of as many bytes as both places allow.
EVO_INLINE void evo_copy_share(void* to, const void* from, size_t bytes, unsigned rank, unsigned threads) {
    uintptr_t places = (uintptr_t)to | (uintptr_t)from;
    size_t piece = places % 16 == 0 ? 16 : places % 8 == 0 ? 8 : places % 4 == 0 ? 4 : 1;
    for (size_t at = rank * piece; at < bytes; at += threads * piece)
        evo_copy_piece((char*)to + at, (const char*)from + at, (unsigned)(bytes - at < piece ? bytes - at : piece));
}

namespace cuda {
// A number of bytes that is a multiple of `Alignment`, as are the addresses.
template <size_t Alignment> struct aligned_size_t {
    static constexpr size_t align = Alignment;
    size_t value;
    explicit constexpr aligned_size_t(size_t size) : value(size) {}
    constexpr operator size_t() const { return value; }
};
}

namespace cooperative_groups {
// `count` bytes; each call is one group of copies.
template <class Group> EVO_INLINE void evo_copy_bytes(const Group& group, void* to, const void* from, size_t count) {
    evo_copy_share(to, from, count, group.thread_rank(), group.size());
    evo::cp_async_commit();
}
template <class Group, class T, class U>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, size_t bytes) {
    evo_copy_bytes(group, to, from, bytes);
}
template <class Group, class T, class U, size_t Alignment>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, const cuda::aligned_size_t<Alignment>& bytes, EVO_LINE) {
    evo_demand_aligned(to, Alignment, line, "misaligned target of memcpy_async: its address is no multiple of the promised size,");
    evo_demand_aligned(from, Alignment, line, "misaligned source of memcpy_async: its address is no multiple of the promised size,");
    evo_copy_bytes(group, to, from, bytes);
}
// Elements: as many as both layouts hold.
template <class Group, class T>
EVO_INLINE void memcpy_async(const Group& group, T* to, size_t to_count, const T* from, size_t from_count) {
    evo_copy_bytes(group, to, from, sizeof(T) * (to_count < from_count ? to_count : from_count));
}
// All threads have come before the first copy lands: what any of them reads earlier is wrong in every order.
template <unsigned Left, class Group> EVO_INLINE void wait_prior(const Group& group, EVO_LINE) {
    group.sync(line);
    evo::evo_land(Left);
    group.sync(line);
}
template <class Group> EVO_INLINE void wait(const Group& group, EVO_LINE) {
    group.sync(line);
    evo::cp_async_wait_all();
    group.sync(line);
}
} // namespace cooperative_groups

#undef EVO_LINE
#endif
