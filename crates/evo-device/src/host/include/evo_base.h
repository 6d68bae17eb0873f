// CUDA on this processor: qualifiers, indices and the way into the runtime.
//
// The same rendered CUDA source that NVRTC compiles for a GPU is compiled against these headers by the
// system's C++ compiler. A block's threads are fibers: each has a stack inside an aligned region, and
// its `evo_thread` lies in that region at a place computed from the stack pointer alone, so that
// `threadIdx` costs a load and needs no thread-local variable. The numbers below are repeated in
// `fiber.rs`, where a test compares them with this text.
//
// `EVO_HOST` is defined: a template that must know where it runs asks for it. `__CUDA_ARCH__` is a GPU's (see
// `translate.rs`), and stands behind this header, which therefore does not depend on it.
#ifndef EVO_BASE_H
#define EVO_BASE_H
#pragma GCC system_header
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define EVO_HOST 1
#define EVO_ABI 6
#define EVO_REGION 131072u
#define EVO_COLOR_START 114688u
#define EVO_COLOR_SHIFT 10
#define EVO_COLOR_MASK 16256u

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// CUDA promises the alignment of the type; compilers for GPUs give arrays 16 bytes, and what is misaligned should be so
// wherever a variable comes to lie. A variable that nothing writes must not become a constant: hence `used`.
#define __shared__ thread_local __attribute__((used, aligned(16)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __builtin_align__(n) __attribute__((aligned(n)))
#ifndef __clang__
#define __builtin_assume(condition)                                                                \
    do {                                                                                           \
        if (!(condition)) __builtin_unreachable();                                                 \
    } while (0)
#endif
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_ZERO_F 0.0f
#define CUDART_NEG_ZERO_F -0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_LOG2E_F CUDART_L2E_F
#define CUDART_L2T_F 3.321928094f
#define CUDART_LG2_F 0.301029996f
#define CUDART_LGE_F 0.434294482f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2OVERPI_F 0.636619772f
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_HALF 7.0710678118654757e-1
#define CUDART_SQRT_TWO 1.4142135623730951e+0
#define CUDART_L2E 1.4426950408889634e+0
#define CUDART_LN2 6.9314718055994529e-1
#define CUDART_PIO2 1.5707963267948966e+0
#define CUDART_PIO4 7.8539816339744828e-1
// What C's <math.h> defines; its own header is not read.
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#ifndef FLT_MAX
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define FLT_DIG __FLT_DIG__
#define DBL_DIG __DBL_DIG__
#define FLT_RADIX __FLT_RADIX__
#define FLT_MANT_DIG __FLT_MANT_DIG__
#define DBL_MANT_DIG __DBL_MANT_DIG__
#define FLT_MAX_EXP __FLT_MAX_EXP__
#define FLT_MIN_EXP __FLT_MIN_EXP__
#define DBL_MAX_EXP __DBL_MAX_EXP__
#define DBL_MIN_EXP __DBL_MIN_EXP__
#define FLT_TRUE_MIN __FLT_DENORM_MIN__
#define DBL_TRUE_MIN __DBL_DENORM_MIN__
#define DECIMAL_DIG __DECIMAL_DIG__
#endif
#ifndef INT_MAX
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#endif

#define EVO_INLINE static inline __attribute__((always_inline, unused))

// What an instrumented build adds (`instrument/evo_instrument.h`): nothing elsewhere.
// The numbers of `instrument/checker.rs`: but for the first two and the last, who arrives somewhere and who passes.
enum { EVO_WATCH_BEGIN, EVO_WATCH_END, EVO_WATCH_BARRIER_ARRIVE, EVO_WATCH_BARRIER, EVO_WATCH_WARP_ARRIVE, EVO_WATCH_WARP,
       EVO_WATCH_NAMED_ARRIVE, EVO_WATCH_NAMED, EVO_WATCH_PHASE_ARRIVE, EVO_WATCH_PHASE,
       EVO_WATCH_CLUSTER_ARRIVE, EVO_WATCH_CLUSTER, EVO_WATCH_ARRIVE_THERE, EVO_WATCH_FENCE = 14 };
#ifdef EVO_INSTRUMENTED
#define EVO_UNCHECKED __attribute__((no_sanitize("thread", "alignment")))
static void evo_watch_sync(int moment, unsigned detail);
static void evo_watch_heap(void* block, size_t bytes);
static void evo_watch_read(const void* at, size_t bytes);
static void evo_watch_write(const void* at, size_t bytes);
#else
#define EVO_UNCHECKED
EVO_INLINE void evo_watch_sync(int, unsigned) {}
EVO_INLINE void evo_watch_heap(void*, size_t) {}
EVO_INLINE void evo_watch_read(const void*, size_t) {}
EVO_INLINE void evo_watch_write(const void*, size_t) {}
#endif

struct uint3 {
    unsigned int x, y, z;
};
struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

struct evo_thread;

// What the runtime does for a kernel. `line` is the source line of the call: it is how a divergent
// barrier is named.
struct evo_runtime {
    uint64_t (*barrier)(evo_thread*, int kind, int line, int predicate);
    uint64_t (*warp)(evo_thread*, int kind, int line, unsigned mask, uint64_t value, unsigned parameter);
    void (*stop)(evo_thread*, int kind, int line, const char* text);
    void (*print)(evo_thread*, const char* text, size_t bytes);
    void (*relax)(evo_thread*);
    uint64_t (*operation)(evo_thread*, int what, int line, uintptr_t at, uintptr_t from, uint64_t detail);
};

// One thread of a block.
struct evo_thread {
    unsigned thread_x, thread_y, thread_z, linear;
    unsigned block_x, block_y, block_z, clock;
    unsigned block_dim_x, block_dim_y, block_dim_z, threads;
    unsigned grid_dim_x, grid_dim_y, grid_dim_z, bulk_stores;
    void* shared;
    const evo_runtime* runtime;
    uint64_t owner[3];
    uint64_t clock_start, clock_began, clock_readings;
};

// As in `runner/operations.rs`.
enum evo_operation {
    EVO_IS_SHARED, EVO_NAMED,
    EVO_COPY_ISSUE, EVO_COPY_COMMIT, EVO_COPY_DUE, EVO_COPY_LANDED,
    EVO_BAR_INIT, EVO_BAR_INVALIDATE, EVO_BAR_ARRIVE, EVO_BAR_EXPECT, EVO_BAR_WAIT, EVO_BAR_TRY, EVO_BAR_DUE,
    EVO_BAR_LAND, EVO_BAR_ANNOUNCE, EVO_BAR_FENCE, EVO_BAR_CLUSTER_ARRIVE, EVO_BAR_CLUSTER_WAIT, EVO_BAR_CLUSTER_RANK,
    EVO_BAR_CLUSTER_SIZE, EVO_BAR_MAPA, EVO_BAR_USE_THERE, EVO_BAR_ARRIVE_THERE,
    EVO_BULK_STAGE, EVO_BULK_LOAD, EVO_BULK_STORE, EVO_BULK_RUN, EVO_BULK_COMMIT, EVO_BULK_READ, EVO_BULK_DUE,
    EVO_BULK_LANDED, EVO_BULK_VIEW, EVO_BULK_IN_FLIGHT, EVO_BULK_FINISH, EVO_BULK_LOAD_THERE,
    EVO_GROUP_MEET, EVO_GROUP_LEAVE, EVO_GROUP_TAKE, EVO_GROUP_FENCE, EVO_GROUP_COMMIT, EVO_GROUP_NOTE, EVO_GROUP_DUE,
    EVO_GROUP_GIVE_BACK, EVO_GROUP_REGISTERS, EVO_GROUP_LOCATE, EVO_GROUP_COMPARED
};
enum { EVO_SYNC, EVO_SYNC_COUNT, EVO_SYNC_AND, EVO_SYNC_OR };
enum {
    EVO_WARP_SYNC,
    EVO_SHFL_INDEX,
    EVO_SHFL_UP,
    EVO_SHFL_DOWN,
    EVO_SHFL_XOR,
    EVO_BALLOT,
    EVO_ANY,
    EVO_ALL,
    EVO_ACTIVE,
    EVO_REDUCE_ADD,
    EVO_REDUCE_MIN,
    EVO_REDUCE_MAX,
    EVO_REDUCE_MIN_SIGNED,
    EVO_REDUCE_MAX_SIGNED,
    EVO_REDUCE_AND,
    EVO_REDUCE_OR,
    EVO_REDUCE_XOR,
    EVO_MATCH_ANY,
    EVO_MATCH_ALL,
    // The last lane to come gets what all handed over; the others wait until it says EVO_RELEASE.
    EVO_GATHER_MMA,
    EVO_GATHER_LDMATRIX,
    EVO_GATHER_STMATRIX,
    EVO_GATHER_BAR_SYNC,
    EVO_GATHER_BAR_ARRIVE,
    EVO_RELEASE,
    EVO_GATHER_WGMMA,
    EVO_GATHER_SETMAXNREG,
    EVO_GATHER_ELECT
};
enum { EVO_STOP_TRAP, EVO_STOP_ASSERT, EVO_STOP_MISALIGNED, EVO_STOP_ILLEGAL };

EVO_INLINE evo_thread* evo_self() {
#if defined(__x86_64__)
    // Not volatile: within one call of a kernel every value of the stack pointer gives the same answer,
    // so the compiler may compute it once.
    uintptr_t stack;
    __asm__("movq %%rsp, %0" : "=r"(stack));
#else
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
#endif
    return (evo_thread*)((stack & ~(uintptr_t)(EVO_REGION - 1)) + EVO_COLOR_START +
                         ((stack >> EVO_COLOR_SHIFT) & EVO_COLOR_MASK));
}

EVO_INLINE uint64_t evo_do(int what, int line, const void* at, const void* from, uint64_t detail) {
    evo_thread* self = evo_self();
    return self->runtime->operation(self, what, line, (uintptr_t)at, (uintptr_t)from, detail);
}
EVO_INLINE bool evo_is_shared(const void* at, size_t bytes) { return evo_do(EVO_IS_SHARED, 0, at, nullptr, bytes); }

// Indices are constant while a thread runs. Loading them by a non-volatile asm tells the compiler so;
// a plain load would be repeated after every store through a pointer.
#if defined(__x86_64__)
#define EVO_FIELD(name)                                                                            \
    ([](evo_thread* thread) __attribute__((always_inline)) -> unsigned {                           \
        unsigned value;                                                                            \
        __asm__("movl %c1(%2), %0" : "=r"(value) : "i"(offsetof(evo_thread, name)), "r"(thread));  \
        return value;                                                                              \
    }(evo_self()))
#else
#define EVO_FIELD(name) (evo_self()->name)
#endif
EVO_INLINE uint3 evo_thread_index() {
    return uint3{EVO_FIELD(thread_x), EVO_FIELD(thread_y), EVO_FIELD(thread_z)};
}
EVO_INLINE uint3 evo_block_index() {
    return uint3{EVO_FIELD(block_x), EVO_FIELD(block_y), EVO_FIELD(block_z)};
}
EVO_INLINE dim3 evo_block_dim() {
    return dim3(EVO_FIELD(block_dim_x), EVO_FIELD(block_dim_y), EVO_FIELD(block_dim_z));
}
EVO_INLINE dim3 evo_grid_dim() {
    return dim3(EVO_FIELD(grid_dim_x), EVO_FIELD(grid_dim_y), EVO_FIELD(grid_dim_z));
}
#define threadIdx (evo_thread_index())
#define blockIdx (evo_block_index())
#define blockDim (evo_block_dim())
#define gridDim (evo_grid_dim())
static constexpr int warpSize = 32;

// `extern __shared__ T name[];` is rewritten to a pointer made by this (see `rewrite.rs`).
template <class T> EVO_INLINE T* evo_dynamic_shared() { return (T*)evo_self()->shared; }

EVO_INLINE void evo_stop(int kind, int line, const char* text) {
    evo_thread* self = evo_self();
    self->runtime->stop(self, kind, line, text);
    __builtin_unreachable();
}
EVO_INLINE void __trap(int line = __builtin_LINE()) { evo_stop(EVO_STOP_TRAP, line, ""); }
EVO_INLINE void __brkpt(int line = __builtin_LINE()) { evo_stop(EVO_STOP_TRAP, line, ""); }
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : evo_stop(EVO_STOP_ASSERT, __LINE__, #condition))
#endif

__attribute__((format(printf, 1, 2), noinline, unused)) static int evo_printf(const char* format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int length = __builtin_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    evo_thread* self = evo_self();
    if (length > 0) self->runtime->print(self, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    return length;
}
#define printf evo_printf

EVO_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// Threads of a block share a processor thread, so a fence among them need not stop the processor.
EVO_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
EVO_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// A waiting thread lets the others of its block run.
EVO_INLINE void __nanosleep(unsigned) {
    evo_thread* self = evo_self();
    self->runtime->relax(self);
}
EVO_INLINE uint64_t evo_time() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return __builtin_readcyclecounter();
#endif
}
// Some checked runs ask for a clock that starts where they like: a kernel that is wrong at one moment in a thousand is
// then wrong here. Readings are one apart at first, later they differ as time does: a wait for some ticks still ends.
__attribute__((noinline, unused)) static uint64_t evo_other_clock(evo_thread* self) {
    const uint64_t steps = 16;
    uint64_t now = evo_time(), readings = self->clock_readings++;
    if (readings == 0) self->clock_began = now;
    if (readings < steps) return self->clock_start + readings;
    return self->clock_start + steps + (now - self->clock_began);
}
EVO_INLINE long long clock64() {
    evo_thread* self = evo_self();
    return (long long)(self->clock ? evo_other_clock(self) : evo_time());
}
// Declared as the C library does, so that its headers may follow; calls are always inlined.
extern "C" long clock(void) noexcept;
extern "C" inline __attribute__((always_inline, gnu_inline)) long clock(void) noexcept { return (long)clock64(); }
EVO_INLINE unsigned long long globaltimer() { return (unsigned long long)clock64(); }

// The module's table of entry points. A kernel's own signature says how to unpack its arguments.
struct evo_argument {
    uint32_t bytes;
    uint32_t kind;
};
struct evo_entry {
    const char* name;
    void (*run)(void** arguments);
    const evo_argument* arguments;
    uint32_t count;
    uint32_t threads_max;
};
struct evo_module {
    uint32_t abi;
    uint32_t count;
    const evo_entry* entries;
    void (*touch)();
    const char* hash;
    // With which dynamic shared memory is declared.
    uint64_t shared_alignment;
    // The names of the source's kernels, with spaces between them.
    const char* kernels;
};

template <class T> struct evo_kind {
    static constexpr uint32_t value = 3;
};
template <class T> struct evo_kind<T*> {
    static constexpr uint32_t value = 1;
};
template <> struct evo_kind<float> {
    static constexpr uint32_t value = 2;
};
template <> struct evo_kind<double> {
    static constexpr uint32_t value = 2;
};
template <class T> struct evo_plain {
    typedef T type;
};
template <class T> struct evo_plain<const T> {
    typedef T type;
};
template <class T> struct evo_plain<T&> {
    typedef typename evo_plain<T>::type type;
};
template <int... I> struct evo_indices {};
template <int N, int... I> struct evo_count : evo_count<N - 1, N - 1, I...> {};
template <int... I> struct evo_count<0, I...> {
    typedef evo_indices<I...> type;
};
// Carries out the bulk stores that a thread has not waited for (`evo_bulk.h`).
static void evo_finish_stores();
// A kernel among functions of its name, such as `norm` of CUDA's: those return something.
template <class... A> constexpr auto evo_kernel(void (*function)(A...)) -> void (*)(A...) { return function; }
template <class F, F function> struct evo_launcher;
template <class... A, void (*function)(A...)> struct evo_launcher<void (*)(A...), function> {
    template <int... I> EVO_INLINE void call(void** arguments, evo_indices<I...>) {
        (void)arguments;
        function(*(typename evo_plain<A>::type*)arguments[I]...);
    }
    EVO_UNCHECKED static void evo_run(void** arguments) {
        evo_watch_sync(EVO_WATCH_BEGIN, 0);
        call(arguments, typename evo_count<sizeof...(A)>::type());
        if (evo_self()->bulk_stores) evo_finish_stores();
        evo_watch_sync(EVO_WATCH_END, 0);
    }
    static constexpr uint32_t evo_arity = sizeof...(A);
    static constexpr evo_argument evo_signature[sizeof...(A) + 1] = {
        {(uint32_t)sizeof(A), evo_kind<typename evo_plain<A>::type>::value}..., {0, 0}};
};
template <class... A, void (*function)(A...)>
constexpr evo_argument evo_launcher<void (*)(A...), function>::evo_signature[sizeof...(A) + 1];

// `touch` makes the calling thread's copy of the static shared memory exist. What it touches has a value, so it lies
// before all shared variables, which have none: it is the zone before the first (`zones.rs`).
#define EVO_MODULE(entries, count, hash, alignment, kernels)                                       \
    __attribute__((used)) static thread_local volatile char evo_anchor[256] = {1};                 \
    EVO_UNCHECKED static void evo_touch() { evo_anchor[0] = evo_anchor[0]; }                       \
    extern "C" {                                                                                   \
    extern __attribute__((visibility("default"), used)) const evo_module evo_module_table;         \
    const evo_module evo_module_table = {EVO_ABI, count, entries, evo_touch, hash, alignment, kernels}; \
    }
#endif
