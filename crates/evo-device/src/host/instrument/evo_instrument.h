// Where a variant that is compiled with `-fsanitize=thread,alignment,object-size` tells the host device what it is about to do.
//
// The compiler puts a call before every access that might be shared. We define these calls ourselves and do not
// link the sanitizers' libraries: an access of the thread's own stack returns at once, every other one goes to
// the checker behind `evo_watch_slot`, which the device sets for the time of a launch. Atomic operations are
// calls as well, so they are carried out here.
#pragma GCC system_header

// What an access does. In `table.rs` under the same names.
enum { EVO_SEEN_WRITE = 1, EVO_SEEN_VOLATILE = 2, EVO_SEEN_ATOMIC = 4, EVO_SEEN_READ = 8 };
// What the checker answers.
enum { EVO_GO_ON, EVO_END_LAUNCH, EVO_GIVE_WAY };

struct evo_watch {
    void* checker;
    int (*access)(void* checker, evo_thread*, uintptr_t address, uint64_t bytes, uint32_t kind, uintptr_t from);
    void (*sync)(void* checker, evo_thread*, uint32_t moment, uint32_t detail);
    int (*mismatch)(void* checker, evo_thread*, uintptr_t address, uint32_t alignment, uint32_t local, uint32_t write,
                    uint32_t line);
    void (*heap)(void* checker, uintptr_t address, uint64_t bytes);
};
extern "C" {
// Null outside watched launches: initializers of global variables run when no thread of a block exists.
__attribute__((visibility("default"), used)) const evo_watch* volatile evo_watch_slot = nullptr;
}

#define EVO_FROM ((uintptr_t)__builtin_return_address(0))
#define EVO_HOOK extern "C" EVO_UNCHECKED __attribute__((noinline, used, visibility("hidden")))
#define EVO_QUIET EVO_UNCHECKED static inline __attribute__((always_inline, unused))

EVO_QUIET bool evo_is_own(const evo_thread* self, uintptr_t address) {
    return ((address ^ (uintptr_t)self) & ~(uintptr_t)(EVO_REGION - 1)) == 0 ||
           address - (uintptr_t)self->runtime < sizeof(evo_runtime);
}
EVO_UNCHECKED static __attribute__((noinline)) void evo_tell(evo_thread* self, uintptr_t address, uint64_t bytes,
                                                             uint32_t kind, uintptr_t from) {
    for (;;) {
        const evo_watch* watch = evo_watch_slot;
        switch (watch->access(watch->checker, self, address, bytes, kind, from)) {
        case EVO_GIVE_WAY: self->runtime->relax(self); break;
        case EVO_END_LAUNCH: self->runtime->stop(self, EVO_STOP_TRAP, 0, ""); break;
        default: return;
        }
    }
}
EVO_QUIET void evo_seen(const volatile void* at, uint64_t bytes, uint32_t kind, uintptr_t from) {
    if (!evo_watch_slot) return;
    evo_thread* self = evo_self();
    if (!evo_is_own(self, (uintptr_t)at)) evo_tell(self, (uintptr_t)at, bytes, kind, from);
}
EVO_UNCHECKED static __attribute__((noinline)) void evo_watch_sync(int moment, unsigned detail) {
    const evo_watch* watch = evo_watch_slot;
    if (watch) watch->sync(watch->checker, evo_self(), (uint32_t)moment, detail);
}
EVO_UNCHECKED static __attribute__((noinline)) void evo_watch_heap(void* block, size_t bytes) {
    const evo_watch* watch = evo_watch_slot;
    if (watch) watch->heap(watch->checker, (uintptr_t)block, bytes);
}

// Accesses of functions that the compiler does not watch, because one lane carries them out for others.
EVO_UNCHECKED static __attribute__((noinline)) void evo_watch_read(const void* at, size_t bytes) {
    evo_seen(at, bytes, EVO_SEEN_READ, EVO_FROM);
}
EVO_UNCHECKED static __attribute__((noinline)) void evo_watch_write(const void* at, size_t bytes) {
    evo_seen(at, bytes, EVO_SEEN_WRITE, EVO_FROM);
}

EVO_HOOK void __tsan_init() {}
EVO_HOOK void __tsan_func_entry(void*) {}
EVO_HOOK void __tsan_func_exit() {}
#define EVO_PLAIN(prefix, bytes, extra)                                                            \
    EVO_HOOK void __tsan_##prefix##read##bytes(void* at) { evo_seen(at, bytes, EVO_SEEN_READ | extra, EVO_FROM); } \
    EVO_HOOK void __tsan_##prefix##write##bytes(void* at) { evo_seen(at, bytes, EVO_SEEN_WRITE | extra, EVO_FROM); }
#define EVO_PLAIN_ALL(prefix, extra)                                                               \
    EVO_PLAIN(prefix, 1, extra) EVO_PLAIN(prefix, 2, extra) EVO_PLAIN(prefix, 4, extra)            \
    EVO_PLAIN(prefix, 8, extra) EVO_PLAIN(prefix, 16, extra)
EVO_PLAIN_ALL(, 0)
EVO_PLAIN_ALL(unaligned_, 0)
EVO_PLAIN_ALL(volatile_, EVO_SEEN_VOLATILE)
EVO_PLAIN_ALL(unaligned_volatile_, EVO_SEEN_VOLATILE)
#undef EVO_PLAIN_ALL
#undef EVO_PLAIN
EVO_HOOK void __tsan_read_range(void* at, unsigned long bytes) { evo_seen(at, bytes, EVO_SEEN_READ, EVO_FROM); }
EVO_HOOK void __tsan_write_range(void* at, unsigned long bytes) { evo_seen(at, bytes, EVO_SEEN_WRITE, EVO_FROM); }
EVO_HOOK void __tsan_vptr_read(void** at) { evo_seen(at, 8, EVO_SEEN_READ, EVO_FROM); }
EVO_HOOK void __tsan_vptr_update(void** at, void*) { evo_seen(at, 8, EVO_SEEN_WRITE, EVO_FROM); }

#define EVO_FETCH(bits, T, name)                                                                   \
    EVO_HOOK T __tsan_atomic##bits##_fetch_##name(volatile T* at, T value, int) {                  \
        evo_seen(at, sizeof(T), EVO_SEEN_READ | EVO_SEEN_WRITE | EVO_SEEN_ATOMIC, EVO_FROM);       \
        return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST);                                 \
    }
// A comparison that fails is a read, but that is known only afterwards; taking it for a write costs nothing,
// because two atomic operations never conflict.
#define EVO_COMPARE(bits, T, name)                                                                 \
    EVO_HOOK bool __tsan_atomic##bits##_compare_exchange_##name(volatile T* at, T* expected, T value, int, int) { \
        evo_seen(at, sizeof(T), EVO_SEEN_READ | EVO_SEEN_WRITE | EVO_SEEN_ATOMIC, EVO_FROM);       \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define EVO_ATOMIC_HOOKS(bits, T)                                                                  \
    EVO_HOOK T __tsan_atomic##bits##_load(const volatile T* at, int) {                             \
        evo_seen(at, sizeof(T), EVO_SEEN_READ | EVO_SEEN_ATOMIC, EVO_FROM);                        \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    EVO_HOOK void __tsan_atomic##bits##_store(volatile T* at, T value, int) {                      \
        evo_seen(at, sizeof(T), EVO_SEEN_WRITE | EVO_SEEN_ATOMIC, EVO_FROM);                       \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    EVO_HOOK T __tsan_atomic##bits##_exchange(volatile T* at, T value, int) {                      \
        evo_seen(at, sizeof(T), EVO_SEEN_READ | EVO_SEEN_WRITE | EVO_SEEN_ATOMIC, EVO_FROM);       \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                   \
    }                                                                                              \
    EVO_HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int, int) { \
        evo_seen(at, sizeof(T), EVO_SEEN_READ | EVO_SEEN_WRITE | EVO_SEEN_ATOMIC, EVO_FROM);       \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected;                                                                           \
    }                                                                                              \
    EVO_FETCH(bits, T, add) EVO_FETCH(bits, T, sub) EVO_FETCH(bits, T, and)                        \
    EVO_FETCH(bits, T, or) EVO_FETCH(bits, T, xor) EVO_FETCH(bits, T, nand)                        \
    EVO_COMPARE(bits, T, strong) EVO_COMPARE(bits, T, weak)
EVO_ATOMIC_HOOKS(8, unsigned char)
EVO_ATOMIC_HOOKS(16, unsigned short)
EVO_ATOMIC_HOOKS(32, unsigned int)
EVO_ATOMIC_HOOKS(64, unsigned long)
#undef EVO_ATOMIC_HOOKS
#undef EVO_COMPARE
#undef EVO_FETCH
// The order tells fences of a block from fences of the device (see `__threadfence_block`).
EVO_HOOK void __tsan_atomic_thread_fence(int order) {
    evo_watch_sync(EVO_WATCH_FENCE, order == __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EVO_HOOK void __tsan_atomic_signal_fence(int) {}

// Accesses whose address the language requires to be aligned, as a GPU does, and accesses outside of their variable.
struct evo_mismatch {
    const char* file;
    uint32_t line, column;
    const void* type;
    unsigned char log_alignment, kind;
};
EVO_HOOK void __ubsan_handle_type_mismatch_v1(evo_mismatch* mismatch, uintptr_t address) {
    const evo_watch* watch = evo_watch_slot;
    if (!watch) return;
    evo_thread* self = evo_self();
    // An address that is aligned is reported because it lies outside of the variable that the source names.
    if (watch->mismatch(watch->checker, self, address, 1u << mismatch->log_alignment, evo_is_own(self, address),
                        mismatch->kind == 1, mismatch->line))
        self->runtime->stop(self, EVO_STOP_TRAP, 0, "");
}

// Calls that the compiler leaves alone: block moves of sizes that it does not know.
#if defined(__x86_64__)
EVO_QUIET void evo_move(void* to, const void* from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
EVO_HOOK void* memcpy(void* to, const void* from, size_t bytes) {
    if (bytes) evo_seen(from, bytes, EVO_SEEN_READ, EVO_FROM), evo_seen(to, bytes, EVO_SEEN_WRITE, EVO_FROM);
    evo_move(to, from, bytes);
    return to;
}
EVO_HOOK void* memset(void* to, int byte, size_t bytes) {
    if (bytes) evo_seen(to, bytes, EVO_SEEN_WRITE, EVO_FROM);
    void* at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(byte) : "memory");
    return to;
}
#endif

// A source must not be able to tell this build from the usual one, nor to exempt itself.
#undef EVO_FROM
#undef EVO_HOOK
#undef EVO_QUIET
#undef EVO_INSTRUMENTED
#undef __SANITIZE_THREAD__
#define no_sanitize(...) unused
#define __no_sanitize__(...) unused
#define no_sanitize_thread unused
#define __no_sanitize_thread__ unused
#define no_sanitize_undefined unused
#define __no_sanitize_undefined__ unused
#define disable_sanitizer_instrumentation unused
