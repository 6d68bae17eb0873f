// The host's half of `evo/ptx_sm90.cuh`, first part: barriers that count bytes, copies of boxes and bytes, clusters.
//
// A copy to shared memory reads its source when it is issued and lands when a thread waits for its barrier's phase and
// nothing else is missing (`runner/mbarrier.rs`); until then its target holds ones. A store lands at its thread's wait.
// Copies see shared memory behind `fence_proxy_async` only (`runner/copies.rs`).
#ifndef EVO_BULK_H
#define EVO_BULK_H
#pragma GCC system_header

#define EVO_AT int line = __builtin_LINE()
#define EVO_FOR_WARP EVO_UNCHECKED static __attribute__((noinline, unused))

enum { EVO_PHASE_OPEN, EVO_PHASE_ENDED, EVO_PHASE_DUE };

EVO_INLINE uint64_t evo_bar(int what, int line, const void* at, uint64_t detail) {
    return evo_do(what, line, at, nullptr, detail);
}

// Volatile accesses, which no compiler turns into a call of `memcpy`: that would be announced again.
EVO_FOR_WARP void evo_move_bytes(void* to, const void* from, size_t bytes) {
    size_t at = 0;
    if ((((uintptr_t)to | (uintptr_t)from) & 7) == 0)
        for (; at + 8 <= bytes; at += 8)
            *(volatile uint64_t*)((char*)to + at) = *(const volatile uint64_t*)((const char*)from + at);
    for (; at < bytes; at++) ((volatile char*)to)[at] = ((const volatile char*)from)[at];
}
EVO_FOR_WARP bool evo_same_bytes(const void* one, const void* other, size_t bytes) {
    for (size_t at = 0; at < bytes; at++)
        if (((const volatile char*)one)[at] != ((const volatile char*)other)[at]) return false;
    return true;
}

// What a copy or a product reads of shared memory must have landed, and be behind a fence.
EVO_INLINE void evo_demand_visible(const void* from, unsigned bytes, int line) {
    if (evo_do(EVO_BULK_IN_FLIGHT, line, nullptr, nullptr, 0))
        evo_do(EVO_BULK_IN_FLIGHT, line, from, nullptr, bytes);
    const void* view = (const void*)evo_do(EVO_BULK_VIEW, line, from, nullptr, bytes);
    if (!evo_same_bytes(from, view, bytes))
        evo_stop(EVO_STOP_ILLEGAL, line,
                 "a bulk store reads shared memory that threads have written since their last fence_proxy_async");
}

// What a thread has not waited for at its end.
EVO_FOR_WARP void evo_land_stores(unsigned left, int line) {
    for (size_t index = 0;; index++) {
        uintptr_t run[3];
        if (!evo_do(EVO_BULK_DUE, line, run, (const void*)index, left)) break;
        evo_watch_write((void*)run[0], run[2]);
        evo_move_bytes((void*)run[0], (const void*)run[1], run[2]);
    }
    evo_do(EVO_BULK_LANDED, line, nullptr, nullptr, left);
}
EVO_FOR_WARP void evo_finish_stores() {
    evo_do(EVO_BULK_FINISH, 0, nullptr, nullptr, 0);
    evo_land_stores(0, 0);
}

namespace evo {

using mbarrier = unsigned long long;

EVO_INLINE void evo_demand_barrier(const mbarrier* barrier, int line) {
    evo_demand_aligned(barrier, 8, line, "misaligned barrier: 8 bytes are needed,");
    evo_demand_shared(barrier, 8, line, "a barrier is not shared memory of the block");
}
EVO_INLINE unsigned evo_place(const mbarrier* barrier) { return (unsigned)(uintptr_t)barrier; }

EVO_INLINE void mbarrier_init(mbarrier* barrier, unsigned count, EVO_AT) {
    evo_demand_barrier(barrier, line);
    evo_watch_write(barrier, 8);
    evo_bar(EVO_BAR_INIT, line, barrier, count);
}
EVO_INLINE void mbarrier_inval(mbarrier* barrier, EVO_AT) {
    evo_demand_barrier(barrier, line);
    evo_watch_write(barrier, 8);
    evo_bar(EVO_BAR_INVALIDATE, line, barrier, 0);
}
// Gives the number of the phase that the arrival belongs to.
EVO_INLINE unsigned evo_mbarrier_arrive(mbarrier* barrier, int line) {
    evo_demand_barrier(barrier, line);
    evo_watch_read(barrier, 8);
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, evo_place(barrier));
    return (unsigned)evo_bar(EVO_BAR_ARRIVE, line, barrier, 0);
}
EVO_INLINE void mbarrier_arrive(mbarrier* barrier, EVO_AT) { evo_mbarrier_arrive(barrier, line); }
EVO_INLINE unsigned cluster_rank() { return (unsigned)evo_bar(EVO_BAR_CLUSTER_RANK, 0, nullptr, 0); }
EVO_INLINE unsigned cluster_size() { return (unsigned)evo_bar(EVO_BAR_CLUSTER_SIZE, 0, nullptr, 0); }
EVO_FOR_WARP void mbarrier_arrive_cluster(mbarrier* barrier, unsigned rank, EVO_AT) {
    if (rank == cluster_rank()) return mbarrier_arrive(barrier, line);
    evo_demand_barrier(barrier, line);
    evo_watch_sync(EVO_WATCH_ARRIVE_THERE, evo_place(barrier));
    evo_bar(EVO_BAR_ARRIVE_THERE, line, barrier, rank);
}
EVO_INLINE void mbarrier_expect_tx(mbarrier* barrier, unsigned bytes, EVO_AT) {
    evo_demand_barrier(barrier, line);
    evo_watch_read(barrier, 8);
    evo_bar(EVO_BAR_EXPECT, line, barrier, bytes);
}
EVO_INLINE void mbarrier_arrive_expect_tx(mbarrier* barrier, unsigned bytes, EVO_AT) {
    mbarrier_expect_tx(barrier, bytes, line);
    mbarrier_arrive(barrier, line);
}
// The copies of a phase land: behind all arrivals, before whoever waits.
EVO_FOR_WARP void evo_land_loads(mbarrier* barrier, int line) {
    evo_watch_sync(EVO_WATCH_PHASE, evo_place(barrier));
    for (uintptr_t index = 0;; index++) {
        uintptr_t place[2] = {index, 0};
        if (!evo_bar(EVO_BAR_DUE, line, barrier, (uint64_t)(uintptr_t)place)) break;
        evo_watch_write((void*)place[0], place[1]);
    }
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, evo_place(barrier));
    evo_bar(EVO_BAR_LAND, line, barrier, 0);
}
EVO_FOR_WARP bool evo_wait_phase(int what, mbarrier* barrier, unsigned parity, int line) {
    evo_demand_barrier(barrier, line);
    if (parity > 1) evo_stop(EVO_STOP_ILLEGAL, line, "the parity of a phase is 0 or 1");
    evo_watch_read(barrier, 8);
    for (;;) {
        uint64_t state = evo_bar(what, line, barrier, parity);
        if (state == EVO_PHASE_OPEN) return false;
        if (state == EVO_PHASE_ENDED) break;
        evo_land_loads(barrier, line);
    }
    evo_watch_sync(EVO_WATCH_PHASE, evo_place(barrier));
    return true;
}
EVO_INLINE bool mbarrier_try_wait(mbarrier* barrier, unsigned parity, EVO_AT) {
    return evo_wait_phase(EVO_BAR_TRY, barrier, parity, line);
}
EVO_INLINE void mbarrier_wait(mbarrier* barrier, unsigned parity, EVO_AT) {
    evo_wait_phase(EVO_BAR_WAIT, barrier, parity, line);
}
EVO_INLINE void fence_mbarrier_init(EVO_AT) { evo_bar(EVO_BAR_ANNOUNCE, line, nullptr, 0); }
EVO_INLINE void fence_proxy_async(EVO_AT) { evo_bar(EVO_BAR_FENCE, line, nullptr, 0); }

// As evo encodes it for this device: strides in bytes, extents innermost first.
struct alignas(64) tensor_map {
    uint64_t magic, base;
    uint32_t dims[5], reserved;
    uint64_t strides[4];
    uint32_t box[5];
    uint8_t rank, element_bytes, swizzle, fill;
    uint64_t rest[4];
};
static_assert(sizeof(tensor_map) == 128, "as on a GPU");

// Chunks of 16 bytes change places within 32, 64 or 128 bytes; the address decides (bits 4 to 6 and 7 to 9).
EVO_INLINE uintptr_t evo_swizzled(uintptr_t address, unsigned mode) {
    return address ^ ((address >> 7 & ((1u << mode) - 1)) << 4);
}

// A box at its place: rows of `row_bytes`, of which those of the tensor have an address.
struct evo_box {
    const tensor_map* map;
    int at[5];
    unsigned row_bytes, rows;
};
EVO_FOR_WARP evo_box evo_box_of(const tensor_map& map, int rank, const int* at, int line) {
    if (map.magic != 0x0070616d5f6f7665ull)
        evo_stop(EVO_STOP_ILLEGAL, line, "a copy uses a tensor map that evo has not made");
    if (map.rank != rank)
        evo_stop(EVO_STOP_ILLEGAL, line, "a copy has another number of dimensions than its tensor map");
    evo_box box = {&map, {}, map.box[0] * map.element_bytes, 1};
    for (int axis = 0; axis < rank; axis++) {
        box.at[axis] = at[axis];
        if (axis > 0) box.rows *= map.box[axis];
        if (axis > 0 && map.strides[axis - 1] % 16 != 0)
            evo_stop(EVO_STOP_MISALIGNED, line, "misaligned tensor map: strides are multiples of 16 bytes,");
    }
    if (map.base % 16 != 0) evo_stop(EVO_STOP_MISALIGNED, line, "misaligned tensor map: its base is a multiple of 16 bytes,");
    // Seen on an H200, where it is an illegal instruction.
    if ((int64_t)at[0] * map.element_bytes % 16 != 0)
        evo_stop(EVO_STOP_ILLEGAL, line, "a box starts within its rows at a multiple of 16 bytes: its first coordinate is another,");
    if (box.row_bytes % 16 != 0 || (map.swizzle && box.row_bytes > 16u << map.swizzle))
        evo_stop(EVO_STOP_MISALIGNED, line, "misaligned box: its rows are multiples of 16 bytes, and no longer than the swizzle,");
    // A GPU lays such rows a span apart, and how it counts their bytes is not documented.
    if (map.swizzle && rank > 1 && box.row_bytes < 16u << map.swizzle)
        evo_stop(EVO_STOP_ILLEGAL, line, "rows of a box are shorter than its swizzle, which only a GPU can copy");
    return box;
}
EVO_INLINE void evo_demand_box_place(const evo_box& box, const void* shared, int line) {
    evo_demand_aligned(shared, 128, line, "misaligned box in shared memory: 128 bytes are needed,");
    if (box.map->swizzle)
        evo_demand_aligned(shared, 128u << box.map->swizzle, line,
                           "misaligned box in shared memory: a swizzle starts anew each 256, 512 or 1024 bytes (32B, 64B, 128B),");
    evo_demand_shared(shared, box.row_bytes * box.rows, line, "a box is not inside shared memory of the block");
}
// Address of a row's first element that the box names, and which bytes of the row are inside the tensor.
EVO_INLINE uintptr_t evo_box_row(const evo_box& box, unsigned row, unsigned& first, unsigned& end) {
    const tensor_map& map = *box.map;
    int64_t inner = box.at[0], size = map.dims[0], width = map.box[0];
    int64_t from = inner < 0 ? -inner : 0, to = size - inner < width ? size - inner : width;
    uintptr_t address = map.base + inner * map.element_bytes;
    for (int axis = 1; axis < map.rank; axis++) {
        int64_t place = (int64_t)box.at[axis] + row % map.box[axis];
        row /= map.box[axis];
        if (place < 0 || place >= map.dims[axis]) to = from;
        address += place * (int64_t)map.strides[axis - 1];
    }
    first = (unsigned)(from < width ? from : width) * map.element_bytes;
    end = to > from ? (unsigned)to * map.element_bytes : first;
    return address;
}
EVO_FOR_WARP void evo_issue_load(void* to, mbarrier* barrier, unsigned bytes, int line) {
    evo_watch_read(barrier, 8);
    if (bytes) evo_watch_write(to, bytes);
    evo_do(EVO_BULK_LOAD, line, to, barrier, 0);
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, evo_place(barrier));
}
// The same bytes go to the same place in each block of `blocks`, and count at the barrier there.
EVO_FOR_WARP void evo_issue_loads(void* to, mbarrier* barrier, unsigned bytes, unsigned blocks, int line) {
    for (unsigned rank = 0; blocks >> rank; rank++) {
        if (!(blocks >> rank & 1)) continue;
        if (rank == cluster_rank()) {
            evo_issue_load(to, barrier, bytes, line);
            continue;
        }
        evo_watch_write((void*)evo_bar(EVO_BAR_MAPA, line, to, rank), bytes);
        evo_do(EVO_BULK_LOAD_THERE, line, to, barrier, rank);
        evo_watch_sync(EVO_WATCH_ARRIVE_THERE, evo_place(barrier));
    }
}
EVO_FOR_WARP void evo_load_box(const tensor_map& map, int rank, const int* at, void* to, mbarrier* barrier, int line,
                               unsigned blocks = 0) {
    evo_box box = evo_box_of(map, rank, at, line);
    evo_demand_box_place(box, to, line);
    evo_demand_barrier(barrier, line);
    unsigned bytes = box.row_bytes * box.rows, element = map.element_bytes;
    char* image = (char*)evo_do(EVO_BULK_STAGE, line, nullptr, nullptr, bytes);
    for (unsigned i = 0; i < bytes; i++) image[i] = !map.fill ? 0 : i % element == element - 1 ? 0x7f : (char)0xff;
    for (unsigned row = 0; row < box.rows; row++) {
        unsigned first, end;
        uintptr_t address = evo_box_row(box, row, first, end);
        if (first == end) continue;
        evo_watch_read((const void*)(address + first), end - first);
        for (unsigned chunk = first & ~15u; chunk < end; chunk += 16) {
            unsigned from = chunk < first ? first : chunk, until = chunk + 16 < end ? chunk + 16 : end;
            uintptr_t dense = (uintptr_t)to + row * box.row_bytes + chunk;
            char* place = image + (evo_swizzled(dense, map.swizzle) - (uintptr_t)to);
            evo_move_bytes(place + (from - chunk), (const void*)(address + from), until - from);
        }
    }
    if (blocks) evo_issue_loads(to, barrier, bytes, blocks, line);
    else evo_issue_load(to, barrier, bytes, line);
}
EVO_FOR_WARP void evo_store_box(const tensor_map& map, int rank, const int* at, const void* from, int line) {
    evo_box box = evo_box_of(map, rank, at, line);
    for (int axis = 0; axis < rank; axis++)
        if (at[axis] < 0) evo_stop(EVO_STOP_ILLEGAL, line, "a store of a box has a coordinate below 0, which only loads may have");
    evo_demand_box_place(box, from, line);
    unsigned bytes = box.row_bytes * box.rows;
    evo_demand_visible(from, bytes, line);
    evo_watch_read(from, bytes);
    evo_do(EVO_BULK_STORE, line, nullptr, from, bytes);
    for (unsigned row = 0; row < box.rows; row++) {
        unsigned first, end;
        uintptr_t address = evo_box_row(box, row, first, end);
        for (unsigned chunk = first & ~15u; chunk < end; chunk += 16) {
            uintptr_t dense = (uintptr_t)from + row * box.row_bytes + chunk;
            uintptr_t offset = evo_swizzled(dense, map.swizzle) - (uintptr_t)from;
            // Whole, as a GPU does it, also where the tensor's rows end within these 16 bytes.
            evo_do(EVO_BULK_RUN, line, (const void*)(address + chunk), (const void*)offset, 16);
        }
    }
}
#define EVO_COORDINATES                                                                                    \
    static_assert(Rank >= 1 && Rank <= 5 && sizeof...(coordinates) == Rank, "one coordinate a dimension"); \
    const int at[Rank] = {(int)coordinates...};
// Behind the coordinates there is no room for the line, so the map brings it.
struct evo_map_here {
    const tensor_map& map;
    int line;
    evo_map_here(const tensor_map& map, EVO_AT) : map(map), line(line) {}
};
template <int Rank, class... C>
EVO_INLINE void tma_load(void* to, evo_map_here own, mbarrier* barrier, C... coordinates) {
    EVO_COORDINATES
    evo_load_box(own.map, Rank, at, to, barrier, own.line);
}
template <int Rank, class... C>
EVO_INLINE void tma_load_hint(void* to, evo_map_here own, mbarrier* barrier, unsigned long long, C... coordinates) {
    EVO_COORDINATES
    evo_load_box(own.map, Rank, at, to, barrier, own.line);
}
template <int Rank, class... C>
EVO_INLINE void tma_load_multicast(void* to, evo_map_here own, mbarrier* barrier, unsigned short blocks, C... coordinates) {
    EVO_COORDINATES
    if (blocks == 0 || blocks >> cluster_size())
        evo_stop(EVO_STOP_ILLEGAL, own.line, "a copy goes to blocks that its cluster has not");
    evo_load_box(own.map, Rank, at, to, barrier, own.line, blocks);
}
template <int Rank, class... C> EVO_INLINE void tma_store(evo_map_here own, const void* from, C... coordinates) {
    EVO_COORDINATES
    evo_store_box(own.map, Rank, at, from, own.line);
}
template <int Rank, class... C> EVO_INLINE void tma_prefetch_box(evo_map_here own, C... coordinates) {
    EVO_COORDINATES
    evo_box_of(own.map, Rank, at, own.line);
}
#undef EVO_COORDINATES
EVO_INLINE void tma_prefetch(const tensor_map& map, EVO_AT) {
    const int at[5] = {};
    evo_box_of(map, map.rank, at, line);
}

EVO_INLINE void evo_demand_pieces(const void* shared, const void* global, unsigned bytes, int line) {
    evo_demand_aligned(shared, 16, line, "misaligned bulk copy: its address in shared memory is a multiple of 16,");
    evo_demand_aligned(global, 16, line, "misaligned bulk copy: its address in global memory is a multiple of 16,");
    if (bytes % 16 != 0) evo_stop(EVO_STOP_MISALIGNED, line, "misaligned bulk copy: its size is a multiple of 16,");
    evo_demand_shared(shared, bytes, line, "a bulk copy is not inside shared memory of the block");
}
EVO_FOR_WARP void bulk_copy_load(void* to, const void* from, unsigned bytes, mbarrier* barrier, EVO_AT) {
    evo_demand_pieces(to, from, bytes, line);
    evo_demand_barrier(barrier, line);
    if (bytes) evo_watch_read(from, bytes);
    evo_move_bytes((void*)evo_do(EVO_BULK_STAGE, line, nullptr, nullptr, bytes), from, bytes);
    evo_issue_load(to, barrier, bytes, line);
}
EVO_FOR_WARP void bulk_copy_store(void* to, const void* from, unsigned bytes, EVO_AT) {
    evo_demand_pieces(from, to, bytes, line);
    evo_demand_visible(from, bytes, line);
    if (bytes) evo_watch_read(from, bytes);
    evo_do(EVO_BULK_STORE, line, nullptr, from, bytes);
    evo_do(EVO_BULK_RUN, line, to, nullptr, bytes);
}
EVO_INLINE void bulk_commit(EVO_AT) { evo_do(EVO_BULK_COMMIT, line, nullptr, nullptr, 0); }
template <int Left> EVO_INLINE void bulk_wait_read(EVO_AT) { evo_do(EVO_BULK_READ, line, nullptr, nullptr, Left); }
template <int Left> EVO_INLINE void bulk_wait(EVO_AT) {
    bulk_wait_read<Left>(line);
    evo_land_stores(Left, line);
}

EVO_INLINE void l2_prefetch(const void*) {}
EVO_INLINE void l2_prefetch_bulk(const void* from, unsigned bytes, EVO_AT) {
    if ((uintptr_t)from % 16 != 0 || bytes % 16 != 0)
        evo_stop(EVO_STOP_MISALIGNED, line, "misaligned prefetch: address and size are multiples of 16,");
}
EVO_INLINE unsigned long long cache_policy_evict_first() { return 1; }
EVO_INLINE unsigned long long cache_policy_evict_last() { return 2; }

// The barrier of a cluster. A relaxed arrival orders no memory accesses between blocks.
EVO_INLINE void cluster_arrive_relaxed(EVO_AT) {
    evo_watch_sync(EVO_WATCH_PHASE_ARRIVE, 1);
    evo_bar(EVO_BAR_CLUSTER_ARRIVE, line, nullptr, 0);
}
EVO_INLINE void cluster_arrive(EVO_AT) {
    evo_watch_sync(EVO_WATCH_CLUSTER_ARRIVE, 0);
    cluster_arrive_relaxed(line);
}
EVO_INLINE void cluster_wait(EVO_AT) {
    evo_bar(EVO_BAR_CLUSTER_WAIT, line, nullptr, 0);
    evo_watch_sync(EVO_WATCH_PHASE, 1);
    evo_watch_sync(EVO_WATCH_CLUSTER, 0);
}
EVO_INLINE void cluster_sync(EVO_AT) {
    cluster_arrive(line);
    cluster_wait(line);
}
template <class T> EVO_INLINE T* mapa(T* own, unsigned rank, EVO_AT) {
    evo_demand_shared(own, 1, line, "mapa of what is not shared memory of the block");
    return (T*)evo_bar(EVO_BAR_MAPA, line, own, rank);
}
template <class T> EVO_INLINE T* evo_there(T* at, int line) {
    evo_demand_aligned(at, sizeof(T), line, "misaligned access of a cluster's shared memory: a multiple of its size is needed,");
    evo_bar(EVO_BAR_USE_THERE, line, at, sizeof(T));
    return at;
}
EVO_INLINE unsigned dsmem_load(const unsigned* from, EVO_AT) { return *evo_there(from, line); }
EVO_INLINE float dsmem_load(const float* from, EVO_AT) { return *evo_there(from, line); }
EVO_INLINE float2 dsmem_load(const float2* from, EVO_AT) { return *evo_there(from, line); }
EVO_INLINE float4 dsmem_load(const float4* from, EVO_AT) { return *evo_there(from, line); }
EVO_INLINE void dsmem_store(unsigned* to, unsigned value, EVO_AT) { *evo_there(to, line) = value; }
EVO_INLINE void dsmem_store(float* to, float value, EVO_AT) { *evo_there(to, line) = value; }
EVO_INLINE void dsmem_store(float4* to, float4 value, EVO_AT) { *evo_there(to, line) = value; }

// Launches of this device run one behind the other.
EVO_INLINE void grid_dependency_wait() {}
EVO_INLINE void grid_dependency_launch() {}

EVO_INLINE bool elect_one(EVO_AT) {
    if (evo_gather(EVO_GATHER_ELECT, line, nullptr)) evo_release();
    return evo_self()->linear % 32 == 0;
}

} // namespace evo

#endif
