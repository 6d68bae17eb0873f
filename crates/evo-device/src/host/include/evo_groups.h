// Cooperative groups: the grid, the block, tiles of a warp, and the lanes that are active together (CUDA C++ Programming
// Guide, "Cooperative Groups").
#ifndef EVO_GROUPS_H
#define EVO_GROUPS_H
#pragma GCC system_header

#define EVO_LINE int line = __builtin_LINE()

namespace cooperative_groups {

EVO_INLINE unsigned evo_rank_in_block() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

// A block, or lanes of one warp; `evo_members` are the bits of the lanes, 0 for a block.
class thread_group {
  protected:
    unsigned evo_members;

  public:
    explicit thread_group(unsigned members) : evo_members(members) {}
    void sync(EVO_LINE) const {
        if (evo_members) __syncwarp(evo_members, line);
        else evo_barrier(EVO_SYNC, line, 0);
    }
    unsigned size() const {
        return evo_members ? (unsigned)__builtin_popcount(evo_members) : blockDim.x * blockDim.y * blockDim.z;
    }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        if (!evo_members) return evo_rank_in_block();
        return (unsigned)__builtin_popcount(evo_members & ((1u << evo_rank_in_block() % 32) - 1));
    }
    bool is_valid() const { return true; }
    unsigned evo_mask() const { return evo_members; }
};

class thread_block : public thread_group {
  public:
    thread_block() : thread_group(0) {}
    void sync(EVO_LINE) const { evo_barrier(EVO_SYNC, line, 0); }
    unsigned thread_rank() const { return evo_rank_in_block(); }
    unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    unsigned num_threads() const { return size(); }
    dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    dim3 dim_threads() const { return group_dim(); }
};
EVO_INLINE thread_block this_thread_block() { return thread_block(); }

// A barrier of the grid for any number of uses: who has arrived waits for the others, and who comes back waits until
// all have left. Both counters are zero again behind it, so the module keeps no state.
static unsigned evo_grid_arrived, evo_grid_left;

// Needs a cooperative launch, as on a GPU: blocks that are not resident never arrive.
class grid_group {
  public:
    void sync(EVO_LINE) const {
        evo_barrier(EVO_SYNC, line, 0);
        if (evo_rank_in_block() == 0) {
            unsigned blocks = (unsigned)num_blocks();
            while (*(volatile unsigned*)&evo_grid_left != 0) {}
            __threadfence();
            atomicAdd(&evo_grid_arrived, 1u);
            while (*(volatile unsigned*)&evo_grid_arrived < blocks) {}
            __threadfence();
            if (atomicAdd(&evo_grid_left, 1u) == blocks - 1) {
                atomicExch(&evo_grid_arrived, 0u);
                __threadfence();
                atomicExch(&evo_grid_left, 0u);
            }
        }
        evo_barrier(EVO_SYNC, line, 0);
    }
    bool is_valid() const { return true; }
    unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    unsigned long long block_rank() const {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    dim3 group_dim() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    dim3 dim_blocks() const { return group_dim(); }
    unsigned long long size() const { return num_blocks() * this_thread_block().size(); }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const {
        return block_rank() * this_thread_block().size() + evo_rank_in_block();
    }
};
EVO_INLINE grid_group this_grid() { return grid_group(); }

// A shuffle moves eight bytes; longer values go in pieces, all lanes' first piece first.
template <class Move, class T> EVO_INLINE T evo_in_pieces(T value, Move move) {
    constexpr unsigned pieces = (sizeof(T) + 7) / 8;
    uint64_t bits[pieces] = {};
    __builtin_memcpy(bits, (const void*)&value, sizeof(T));
    for (unsigned piece = 0; piece < pieces; piece++) bits[piece] = move(bits[piece]);
    __builtin_memcpy((void*)&value, bits, sizeof(T));
    return value;
}

// Lanes of one warp. What they do together waits for all of them: lanes that never come are named, as at a barrier.
class evo_lanes : public thread_group {
  protected:
    explicit evo_lanes(unsigned members) : thread_group(members) {}
    // Bits of lanes, packed so that bit n is the lane of rank n.
    unsigned evo_packed(unsigned lanes) const {
        unsigned packed = 0;
        for (unsigned lane = 0, place = 0; lane < 32; lane++)
            if (evo_members >> lane & 1) packed |= (lanes >> lane & 1) << place++;
        return packed;
    }
    unsigned evo_lane_of(unsigned rank) const {
        for (unsigned lane = 0; lane < 32; lane++)
            if (evo_members >> lane & 1 && rank-- == 0) return lane;
        return evo_rank_in_block() % 32;
    }

  public:
    int any(int predicate, EVO_LINE) const { return __any_sync(evo_members, predicate, line); }
    int all(int predicate, EVO_LINE) const { return __all_sync(evo_members, predicate, line); }
    unsigned ballot(int predicate, EVO_LINE) const {
        return evo_packed(__ballot_sync(evo_members, predicate, line) & evo_members);
    }
    template <class T> unsigned match_any(T value, EVO_LINE) const {
        return evo_packed(__match_any_sync(evo_members, value, line) & evo_members);
    }
    template <class T> unsigned match_all(T value, int& agree, EVO_LINE) const {
        return evo_packed(__match_all_sync(evo_members, value, &agree, line) & evo_members);
    }
};

template <unsigned Size, class Parent = void> class thread_block_tile : public evo_lanes {
    static_assert(Size <= 32, "the host device lacks tiles of more than 32 threads; on CUDA this compiles");
    static_assert(Size > 0 && (Size & (Size - 1)) == 0, "the size of a tile is a power of two");

  public:
    thread_block_tile()
        : evo_lanes((Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << evo_rank_in_block() % 32 / Size * Size) {}
    // A tile forgets what it is a part of where it is handed on.
    template <class Other> thread_block_tile(const thread_block_tile<Size, Other>&) : thread_block_tile() {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned thread_rank() const { return evo_rank_in_block() % Size; }
    unsigned meta_group_rank() const { return evo_rank_in_block() / Size; }
    unsigned meta_group_size() const { return (this_thread_block().size() + Size - 1) / Size; }
    template <class T> T shfl(T value, int lane, EVO_LINE) const {
        return evo_in_pieces(value, [&](uint64_t bits) { return __shfl_sync(evo_members, bits, lane, (int)Size, line); });
    }
    template <class T> T shfl_up(T value, unsigned delta, EVO_LINE) const {
        return evo_in_pieces(value, [&](uint64_t bits) { return __shfl_up_sync(evo_members, bits, delta, (int)Size, line); });
    }
    template <class T> T shfl_down(T value, unsigned delta, EVO_LINE) const {
        return evo_in_pieces(value, [&](uint64_t bits) { return __shfl_down_sync(evo_members, bits, delta, (int)Size, line); });
    }
    template <class T> T shfl_xor(T value, int lanes, EVO_LINE) const {
        return evo_in_pieces(value, [&](uint64_t bits) { return __shfl_xor_sync(evo_members, bits, lanes, (int)Size, line); });
    }
};
template <unsigned Size, unsigned Whole, class Parent>
EVO_INLINE thread_block_tile<Size, thread_block_tile<Whole, Parent>> tiled_partition(const thread_block_tile<Whole, Parent>& parent) {
    static_assert(Size <= Whole, "a tile is no larger than the tile that it is a part of");
    return thread_block_tile<Size, thread_block_tile<Whole, Parent>>();
}
template <unsigned Size> EVO_INLINE thread_block_tile<Size, thread_block> tiled_partition(const thread_block&) {
    return thread_block_tile<Size, thread_block>();
}

// Some lanes of a warp, in their order.
class coalesced_group : public evo_lanes {
    unsigned evo_rank_among, evo_groups;

  public:
    explicit coalesced_group(unsigned members, unsigned rank = 0, unsigned groups = 1)
        : evo_lanes(members), evo_rank_among(rank), evo_groups(groups) {}
    unsigned meta_group_rank() const { return evo_rank_among; }
    unsigned meta_group_size() const { return evo_groups; }
    template <class T> T shfl(T value, unsigned rank, EVO_LINE) const {
        int lane = (int)evo_lane_of(rank);
        return evo_in_pieces(value, [&](uint64_t bits) { return __shfl_sync(evo_members, bits, lane, 32, line); });
    }
    // A lane whose partner would be outside keeps its own value, as in a tile.
    template <class T> T shfl_up(T value, unsigned delta, EVO_LINE) const {
        unsigned rank = thread_rank();
        return shfl(value, rank >= delta ? rank - delta : rank, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, EVO_LINE) const {
        unsigned rank = thread_rank();
        return shfl(value, rank + delta < size() ? rank + delta : rank, line);
    }
};
// Which lanes are together is the device's choice (ibid., "Coalesced Groups"). Here each lane is a group by itself: lanes
// that wait at one line may be in different rounds of a loop, where no GPU would put them together.
EVO_INLINE coalesced_group coalesced_threads() { return coalesced_group(1u << evo_rank_in_block() % 32); }

// Groups of a size that is known when the kernel runs.
EVO_INLINE thread_group tiled_partition(const thread_block&, unsigned size, EVO_LINE) {
    if (size == 0 || size > 32 || (size & (size - 1)) != 0)
        evo_stop(EVO_STOP_ILLEGAL, line, "tiled_partition with a size other than 1, 2, 4, 8, 16 or 32");
    unsigned lanes = size == 32 ? 0xffffffffu : (1u << size % 32) - 1;
    return thread_group(lanes << evo_rank_in_block() % 32 / size * size);
}
EVO_INLINE coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
    unsigned members = 0, first = parent.thread_rank() / size * size, rank = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (parent.evo_mask() >> lane & 1 && rank++ - first < size) members |= 1u << lane;
    return coalesced_group(members, first / size, (parent.size() + size - 1) / size);
}
// Lanes of a group that hold the same label.
template <class T, class Group> EVO_INLINE coalesced_group labeled_partition(const Group& group, T label, EVO_LINE) {
    static_assert(__is_base_of(evo_lanes, Group), "labeled_partition divides a tile or a coalesced group");
    return coalesced_group(__match_any_sync(group.evo_mask(), label, line) & group.evo_mask());
}
template <class Group> EVO_INLINE coalesced_group binary_partition(const Group& group, bool side, EVO_LINE) {
    static_assert(__is_base_of(evo_lanes, Group), "binary_partition divides a tile or a coalesced group");
    unsigned held = __ballot_sync(group.evo_mask(), side, line) & group.evo_mask();
    return coalesced_group(side ? held : group.evo_mask() & ~held, side, 2);
}

template <class Group> EVO_INLINE void sync(const Group& group, EVO_LINE) { group.sync(line); }
template <class Group> EVO_INLINE unsigned thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> EVO_INLINE unsigned group_size(const Group& group) { return group.size(); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };
template <unsigned Size, class Parent, class T, class Operation>
EVO_INLINE T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operation operation, EVO_LINE) {
    for (int lanes = Size / 2; lanes > 0; lanes /= 2) value = operation(value, tile.shfl_xor(value, lanes, line));
    return value;
}
// By doubling distances from the lane with rank 0, which hands the result to all.
template <class T, class Operation>
EVO_INLINE T reduce(const coalesced_group& group, T value, Operation operation, EVO_LINE) {
    unsigned rank = group.thread_rank(), size = group.size();
    for (unsigned distance = 1; distance < size; distance *= 2) {
        T other = group.shfl_down(value, distance, line);
        if (rank + distance < size) value = operation(value, other);
    }
    return group.shfl(value, 0, line);
}
template <class Group, class T, class Operation>
EVO_INLINE T inclusive_scan(const Group& group, T value, Operation operation, EVO_LINE) {
    unsigned rank = group.thread_rank(), size = group.size();
    for (unsigned distance = 1; distance < size; distance *= 2) {
        T before = group.shfl_up(value, distance, line);
        if (rank >= distance) value = operation(before, value);
    }
    return value;
}
template <class Group, class T> EVO_INLINE T inclusive_scan(const Group& group, T value, EVO_LINE) {
    return inclusive_scan(group, value, plus<T>(), line);
}
// The thread of rank 0, which has nobody before it, gets a value-initialized T.
template <class Group, class T, class Operation>
EVO_INLINE T exclusive_scan(const Group& group, T value, Operation operation, EVO_LINE) {
    T before = group.shfl_up(inclusive_scan(group, value, operation, line), 1, line);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> EVO_INLINE T exclusive_scan(const Group& group, T value, EVO_LINE) {
    return exclusive_scan(group, value, plus<T>(), line);
}
// One thread, chosen by the device; here the first.
template <class Group, class F> EVO_INLINE void invoke_one(const Group& group, F&& call) {
    if (group.thread_rank() == 0) call();
}

} // namespace cooperative_groups

#undef EVO_LINE
#endif
