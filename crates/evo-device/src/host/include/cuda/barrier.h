// `cuda::barrier` of a block and copies that count on it (libcu++, "Asynchronous Operations"). It is a transaction barrier
// (`evo_bulk.h`): a copy lands when a thread waits for its phase and nothing else is missing, and a wait that
// cannot end is named with its line.
#pragma GCC system_header
#ifndef EVO_CUDA_BARRIER_H
#define EVO_CUDA_BARRIER_H
#include <cuda/atomic>

#define EVO_LINE int line = __builtin_LINE()

namespace cuda {
class evo_arrival {
    unsigned evo_parity;

  public:
    explicit evo_arrival(unsigned parity) : evo_parity(parity) {}
    evo_arrival(evo_arrival&&) = default;
    evo_arrival& operator=(evo_arrival&&) = default;
    unsigned evo_phase() const { return evo_parity; }
};

template <thread_scope Scope> class barrier {
    static_assert(Scope == thread_scope_block || Scope == thread_scope_thread,
                  "the host device lacks barriers of a scope wider than a block; on CUDA this compiles");
    evo::mbarrier evo_state;

  public:
    typedef evo_arrival arrival_token;
    barrier() = default;
    explicit barrier(ptrdiff_t count, EVO_LINE) { evo_init(count, line); }
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    void evo_init(ptrdiff_t count, int line) {
        evo::mbarrier_init(&evo_state, (unsigned)count, line);
        evo::fence_mbarrier_init(line);
    }
    evo::mbarrier* evo_handle() { return &evo_state; }
    [[nodiscard]] arrival_token arrive(ptrdiff_t count = 1, EVO_LINE) {
        unsigned parity = 0;
        // All arrivals of one call belong to one phase, which the last of them may end.
        for (ptrdiff_t at = 0; at < count; at++) {
            unsigned phase = evo::evo_mbarrier_arrive(&evo_state, line);
            if (at == 0) parity = phase & 1;
        }
        return arrival_token(parity);
    }
    void wait(arrival_token&& token, EVO_LINE) { evo::mbarrier_wait(&evo_state, token.evo_phase(), line); }
    void wait_parity(bool parity, EVO_LINE) { evo::mbarrier_wait(&evo_state, parity, line); }
    bool try_wait(arrival_token&& token, EVO_LINE) { return evo::mbarrier_try_wait(&evo_state, token.evo_phase(), line); }
    void arrive_and_wait(EVO_LINE) { wait(arrive(1, line), line); }
    friend void init(barrier* own, ptrdiff_t count, int line = __builtin_LINE()) { own->evo_init(count, line); }
};

// This thread's share of a copy on a barrier's present phase.
EVO_INLINE void evo_copy_on(evo::mbarrier* barrier, void* to, const void* from, size_t bytes, unsigned rank,
                            unsigned threads, int line) {
    size_t share = (bytes + threads - 1) / threads, first = share * rank;
    if (first >= bytes) return;
    if (share > bytes - first) share = bytes - first;
    char* target = (char*)to + first;
    const char* source = (const char*)from + first;
    bool later = evo_is_shared(target, share) && !evo_is_shared(source, share);
    if (!later) {
        evo_watch_read(source, share);
        evo_watch_write(target, share);
        evo_move_bytes(target, source, share);
        return;
    }
    evo::mbarrier_expect_tx(barrier, (unsigned)share, line);
    evo_watch_read(source, share);
    evo_move_bytes((void*)evo_do(EVO_BULK_STAGE, line, nullptr, nullptr, share), source, share);
    evo_watch_write(target, share);
    evo_do(EVO_BULK_LOAD, line, target, barrier, 0);
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, evo::evo_place(barrier));
}
template <size_t Alignment> EVO_INLINE void evo_demand_promised(const void* to, const void* from, int line) {
    evo_demand_aligned(to, Alignment, line, "misaligned target of memcpy_async: its address is no multiple of the promised size,");
    evo_demand_aligned(from, Alignment, line, "misaligned source of memcpy_async: its address is no multiple of the promised size,");
}
template <class Group, class T, class U, thread_scope Scope>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, size_t bytes, barrier<Scope>& own, EVO_LINE) {
    evo_copy_on(own.evo_handle(), to, from, bytes, group.thread_rank(), group.size(), line);
}
template <class T, class U, thread_scope Scope>
EVO_INLINE void memcpy_async(T* to, const U* from, size_t bytes, barrier<Scope>& own, EVO_LINE) {
    evo_copy_on(own.evo_handle(), to, from, bytes, 0, 1, line);
}
template <class Group, class T, class U, size_t Alignment, thread_scope Scope>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, aligned_size_t<Alignment> bytes, barrier<Scope>& own, EVO_LINE) {
    evo_demand_promised<Alignment>(to, from, line);
    evo_copy_on(own.evo_handle(), to, from, bytes, group.thread_rank(), group.size(), line);
}
template <class T, class U, size_t Alignment, thread_scope Scope>
EVO_INLINE void memcpy_async(T* to, const U* from, aligned_size_t<Alignment> bytes, barrier<Scope>& own, EVO_LINE) {
    evo_demand_promised<Alignment>(to, from, line);
    evo_copy_on(own.evo_handle(), to, from, bytes, 0, 1, line);
}
namespace std {
template <class T = void> using barrier = ::cuda::barrier<thread_scope_block>;
}
} // namespace cuda
#undef EVO_LINE
#endif
