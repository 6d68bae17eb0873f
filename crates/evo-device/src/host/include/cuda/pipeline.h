// `cuda::pipeline` (libcu++, "Asynchronous Operations"): of one thread, whose copies land in order, and of a block, whose
// stages are pairs of barriers.
#pragma GCC system_header
#ifndef EVO_CUDA_PIPELINE_H
#define EVO_CUDA_PIPELINE_H
#include <cuda/barrier>

#define EVO_LINE int line = __builtin_LINE()

namespace cuda {
enum class pipeline_role { producer, consumer };

// `full` and `empty` of each stage.
template <thread_scope Scope, unsigned char Stages> class pipeline_shared_state {
  public:
    evo::mbarrier evo_full[Stages], evo_empty[Stages];
    pipeline_shared_state() = default;
    pipeline_shared_state(const pipeline_shared_state&) = delete;
};

template <thread_scope Scope> class pipeline {
    evo::mbarrier *full, *empty;
    unsigned stages, head = 0, tail = 0;

  public:
    pipeline(evo::mbarrier* full_barriers, evo::mbarrier* empty_barriers, unsigned count)
        : full(full_barriers), empty(empty_barriers), stages(count) {}
    pipeline(pipeline&&) = default;
    void producer_acquire(EVO_LINE) {
        if (stages && head >= stages) evo::mbarrier_wait(&empty[head % stages], (head / stages - 1) & 1, line);
    }
    void producer_commit(EVO_LINE) {
        if (stages) evo::mbarrier_arrive(&full[head % stages], line);
        else evo::cp_async_commit();
        head++;
    }
    void consumer_wait(EVO_LINE) {
        if (stages) evo::mbarrier_wait(&full[tail % stages], tail / stages & 1, line);
        else evo::evo_land(head - tail - 1);
    }
    void consumer_release(EVO_LINE) {
        if (stages) evo::mbarrier_arrive(&empty[tail % stages], line);
        tail++;
    }
    bool quit() { return true; }
    void evo_wait_prior(unsigned left, int line) {
        if (!stages) evo::evo_land(left);
        else if (head > left) evo::mbarrier_wait(&full[(head - left - 1) % stages], (head - left - 1) / stages & 1, line);
    }
    void evo_copy(void* to, const void* from, size_t bytes, unsigned rank, unsigned threads, int line) {
        if (stages) evo_copy_on(&full[head % stages], to, from, bytes, rank, threads, line);
        else evo_copy_share(to, from, bytes, rank, threads);
    }
};

EVO_INLINE pipeline<thread_scope_thread> make_pipeline() {
    return pipeline<thread_scope_thread>(nullptr, nullptr, 0);
}
template <class Group, thread_scope Scope, unsigned char Stages>
EVO_INLINE pipeline<Scope> evo_make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state,
                                             unsigned producers, unsigned consumers, int line) {
    static_assert(Scope == thread_scope_block, "the host device lacks pipelines of a scope wider than a block; on CUDA this compiles");
    if (group.thread_rank() == 0) {
        for (unsigned stage = 0; stage < Stages; stage++) {
            evo::mbarrier_init(&state->evo_full[stage], producers, line);
            evo::mbarrier_init(&state->evo_empty[stage], consumers, line);
        }
        evo::fence_mbarrier_init(line);
    }
    group.sync(line);
    return pipeline<Scope>(state->evo_full, state->evo_empty, Stages);
}
template <class Group, thread_scope Scope, unsigned char Stages>
EVO_INLINE pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state, EVO_LINE) {
    return evo_make_pipeline(group, state, group.size(), group.size(), line);
}
// The first threads are producers, or each says what it is.
template <class Group, thread_scope Scope, unsigned char Stages>
EVO_INLINE pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state, size_t producers, EVO_LINE) {
    return evo_make_pipeline(group, state, (unsigned)producers, group.size() - (unsigned)producers, line);
}
template <thread_scope Scope, unsigned char Stages>
EVO_INLINE pipeline<Scope> make_pipeline(const cooperative_groups::thread_block& group, pipeline_shared_state<Scope, Stages>* state,
                                         pipeline_role role, EVO_LINE) {
    unsigned producers = (unsigned)__syncthreads_count(role == pipeline_role::producer, line);
    return evo_make_pipeline(group, state, producers, group.size() - producers, line);
}
template <unsigned char Left, thread_scope Scope> EVO_INLINE void pipeline_consumer_wait_prior(pipeline<Scope>& own, EVO_LINE) {
    own.evo_wait_prior(Left, line);
}
template <thread_scope Scope> EVO_INLINE void pipeline_producer_commit(pipeline<Scope>& own, EVO_LINE) { own.producer_commit(line); }

template <class Group, class T, class U, thread_scope Scope>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, size_t bytes, pipeline<Scope>& own, EVO_LINE) {
    own.evo_copy(to, from, bytes, group.thread_rank(), group.size(), line);
}
template <class T, class U, thread_scope Scope>
EVO_INLINE void memcpy_async(T* to, const U* from, size_t bytes, pipeline<Scope>& own, EVO_LINE) {
    own.evo_copy(to, from, bytes, 0, 1, line);
}
template <class Group, class T, class U, size_t Alignment, thread_scope Scope>
EVO_INLINE void memcpy_async(const Group& group, T* to, const U* from, aligned_size_t<Alignment> bytes, pipeline<Scope>& own, EVO_LINE) {
    evo_demand_promised<Alignment>(to, from, line);
    own.evo_copy(to, from, bytes, group.thread_rank(), group.size(), line);
}
template <class T, class U, size_t Alignment, thread_scope Scope>
EVO_INLINE void memcpy_async(T* to, const U* from, aligned_size_t<Alignment> bytes, pipeline<Scope>& own, EVO_LINE) {
    evo_demand_promised<Alignment>(to, from, line);
    own.evo_copy(to, from, bytes, 0, 1, line);
}
} // namespace cuda
#undef EVO_LINE
#endif
