// `cuda::atomic` and `cuda::atomic_ref` (libcu++, "Synchronization Primitives"). They are real: blocks run on several
// processor threads. Every scope is the widest one here, so a scope that is too narrow is not found.
#pragma GCC system_header
#ifndef EVO_CUDA_ATOMIC_H
#define EVO_CUDA_ATOMIC_H
#include <cuda/evo_std.h>

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
enum memory_order {
    memory_order_relaxed = __ATOMIC_RELAXED,
    memory_order_consume = __ATOMIC_CONSUME,
    memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL,
    memory_order_seq_cst = __ATOMIC_SEQ_CST
};

// Fences that order as much as a device's, or as a block's.
EVO_INLINE void atomic_thread_fence(memory_order, thread_scope scope = thread_scope_system) {
    if (scope == thread_scope_block) __threadfence_block();
    else if (scope != thread_scope_thread) __threadfence();
}

template <int Size> struct evo_word;
template <> struct evo_word<1> { typedef unsigned char type; };
template <> struct evo_word<2> { typedef unsigned short type; };
template <> struct evo_word<4> { typedef unsigned type; };
template <> struct evo_word<8> { typedef unsigned long type; };
template <class T> struct evo_step { typedef T type; };
template <class T> struct evo_step<T*> { typedef ptrdiff_t type; };

// What both classes do with the value at an address. Operations are sequentially consistent, which every order that a
// source asks for allows.
template <class T> class evo_atomic_at {
    static_assert(sizeof(T) <= 8, "the host device lacks atomics of 16 bytes; on CUDA this compiles");
    static_assert(__is_trivially_copyable(T), "an atomic holds a trivially copyable type");
    typedef typename evo_word<sizeof(T)>::type word;
    typedef typename evo_step<T>::type step;

    static T value_of(word bits) {
        T value;
        __builtin_memcpy((void*)&value, &bits, sizeof(T));
        return value;
    }
    static word bits_of(T value) {
        word bits;
        __builtin_memcpy(&bits, (const void*)&value, sizeof(T));
        return bits;
    }
    template <class F> T update(F next) const {
        word old = __atomic_load_n(at(), __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n(at(), &old, bits_of(next(value_of(old))), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
        return value_of(old);
    }

  protected:
    T* evo_address;
    explicit evo_atomic_at(T* address) : evo_address(address) {}
    word* at() const { return (word*)evo_address; }

  public:
    typedef T value_type;
    void store(T value, memory_order = memory_order_seq_cst) const { __atomic_store_n(at(), bits_of(value), __ATOMIC_SEQ_CST); }
    T load(memory_order = memory_order_seq_cst) const { return value_of(__atomic_load_n(at(), __ATOMIC_SEQ_CST)); }
    T exchange(T value, memory_order = memory_order_seq_cst) const {
        return value_of(__atomic_exchange_n(at(), bits_of(value), __ATOMIC_SEQ_CST));
    }
    bool compare_exchange_strong(T& expected, T value, memory_order = memory_order_seq_cst,
                                 memory_order = memory_order_seq_cst) const {
        word known = bits_of(expected);
        bool done = __atomic_compare_exchange_n(at(), &known, bits_of(value), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        expected = value_of(known);
        return done;
    }
    bool compare_exchange_weak(T& expected, T value, memory_order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const {
        return compare_exchange_strong(expected, value);
    }
    T fetch_add(step value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return (T)(old + value); }); }
    T fetch_sub(step value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return (T)(old - value); }); }
    T fetch_and(T value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return (T)(old & value); }); }
    T fetch_or(T value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return (T)(old | value); }); }
    T fetch_xor(T value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return (T)(old ^ value); }); }
    T fetch_min(T value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return value < old ? value : old; }); }
    T fetch_max(T value, memory_order = memory_order_seq_cst) const { return update([=](T old) { return old < value ? value : old; }); }
    void wait(T old, memory_order = memory_order_seq_cst) const {
        while (bits_of(load()) == bits_of(old)) __nanosleep(1);
    }
    void notify_one() const {}
    void notify_all() const {}
    bool is_lock_free() const { return true; }
    operator T() const { return load(); }
    T operator++() const { return fetch_add(1) + 1; }
    T operator++(int) const { return fetch_add(1); }
    T operator--() const { return fetch_sub(1) - 1; }
    T operator--(int) const { return fetch_sub(1); }
    T operator+=(step value) const { return fetch_add(value) + value; }
    T operator-=(step value) const { return fetch_sub(value) - value; }
    T operator&=(T value) const { return fetch_and(value) & value; }
    T operator|=(T value) const { return fetch_or(value) | value; }
    T operator^=(T value) const { return fetch_xor(value) ^ value; }
};

template <class T, thread_scope Scope = thread_scope_system> class atomic_ref : public evo_atomic_at<T> {
  public:
    explicit atomic_ref(T& value) : evo_atomic_at<T>(&value) {}
    T operator=(T value) const { this->store(value); return value; }
};

// Without a constructor of its own, so that it may be shared memory.
template <class T, thread_scope Scope = thread_scope_system> class atomic {
    alignas(sizeof(T)) T evo_value;

  public:
    typedef T value_type;
    typedef atomic_ref<T, Scope> evo_ref;
    atomic() = default;
    constexpr atomic(T value) : evo_value(value) {}
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;
    evo_ref evo_at() const { return evo_ref(const_cast<T&>(evo_value)); }
#define EVO_FORWARD(name)                                                                          \
    template <class... A> auto name(A&&... arguments) { return evo_at().name(static_cast<A&&>(arguments)...); } \
    template <class... A> auto name(A&&... arguments) volatile { return const_cast<atomic*>(this)->name(static_cast<A&&>(arguments)...); }
    EVO_FORWARD(store) EVO_FORWARD(exchange) EVO_FORWARD(compare_exchange_strong) EVO_FORWARD(compare_exchange_weak)
    EVO_FORWARD(fetch_add) EVO_FORWARD(fetch_sub) EVO_FORWARD(fetch_and) EVO_FORWARD(fetch_or) EVO_FORWARD(fetch_xor)
    EVO_FORWARD(fetch_min) EVO_FORWARD(fetch_max) EVO_FORWARD(operator+=) EVO_FORWARD(operator-=) EVO_FORWARD(operator&=) EVO_FORWARD(operator|=) EVO_FORWARD(operator^=)
#undef EVO_FORWARD
    T operator++() { return ++evo_at(); }
    T operator++(int) { return evo_at()++; }
    T operator--() { return --evo_at(); }
    T operator--(int) { return evo_at()--; }
    T load(memory_order = memory_order_seq_cst) const { return evo_at().load(); }
    void wait(T old, memory_order = memory_order_seq_cst) const { evo_at().wait(old); }
    void notify_one() {}
    void notify_all() {}
    bool is_lock_free() const { return true; }
    operator T() const { return load(); }
    T operator=(T value) { store(value); return value; }
};

namespace std {
using ::cuda::memory_order;
using ::cuda::memory_order_acq_rel;
using ::cuda::memory_order_acquire;
using ::cuda::memory_order_consume;
using ::cuda::memory_order_relaxed;
using ::cuda::memory_order_release;
using ::cuda::memory_order_seq_cst;
template <class T> using atomic = ::cuda::atomic<T, thread_scope_system>;
template <class T> using atomic_ref = ::cuda::atomic_ref<T, thread_scope_system>;
typedef atomic<int> atomic_int;
typedef atomic<unsigned> atomic_uint;
typedef atomic<bool> atomic_bool;
EVO_INLINE void atomic_thread_fence(memory_order order) { ::cuda::atomic_thread_fence(order); }
} // namespace std
} // namespace cuda
#endif
