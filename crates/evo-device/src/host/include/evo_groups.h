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

class thread_block {
  public:
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

// Lanes of one warp; `evo_members` are their bits, `evo_width` how far shuffles reach.
class evo_lanes {
  protected:
    unsigned evo_members;
    int evo_width;
    evo_lanes(unsigned members, int width) : evo_members(members), evo_width(width) {}

  public:
    void sync(EVO_LINE) const { __syncwarp(evo_members, line); }
    unsigned size() const { return (unsigned)__builtin_popcount(evo_members); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return (unsigned)__builtin_popcount(evo_members & ((1u << evo_rank_in_block() % 32) - 1));
    }
    int any(int predicate, EVO_LINE) const { return __any_sync(evo_members, predicate, line); }
    int all(int predicate, EVO_LINE) const { return __all_sync(evo_members, predicate, line); }
    unsigned ballot(int predicate, EVO_LINE) const {
        unsigned lanes = __ballot_sync(evo_members, predicate, line) & evo_members, packed = 0;
        for (unsigned lane = 0, place = 0; lane < 32; lane++)
            if (evo_members >> lane & 1) packed |= (lanes >> lane & 1) << place++;
        return packed;
    }
};

template <unsigned Size, class Parent = thread_block> class thread_block_tile : public evo_lanes {
    static_assert(Size > 0 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles have 1, 2, 4, 8, 16 or 32 threads here");

  public:
    thread_block_tile()
        : evo_lanes((Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1) << evo_rank_in_block() % 32 / Size * Size, Size) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned thread_rank() const { return evo_rank_in_block() % Size; }
    unsigned meta_group_rank() const { return evo_rank_in_block() / Size; }
    unsigned meta_group_size() const { return (this_thread_block().size() + Size - 1) / Size; }
    template <class T> T shfl(T value, int lane, EVO_LINE) const {
        return __shfl_sync(evo_members, value, lane, (int)Size, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, EVO_LINE) const {
        return __shfl_up_sync(evo_members, value, delta, (int)Size, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, EVO_LINE) const {
        return __shfl_down_sync(evo_members, value, delta, (int)Size, line);
    }
    template <class T> T shfl_xor(T value, int lanes, EVO_LINE) const {
        return __shfl_xor_sync(evo_members, value, lanes, (int)Size, line);
    }
};
template <unsigned Size, class Parent> EVO_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return thread_block_tile<Size, Parent>();
}

// Which lanes are together is the device's choice (ibid., "Coalesced Groups"). Here each lane is a group by itself: lanes
// that wait at one line may be in different rounds of a loop, where no GPU would put them together.
class coalesced_group : public evo_lanes {
  public:
    coalesced_group() : evo_lanes(1u << evo_rank_in_block() % 32, 32) {}
    template <class T> T shfl(T value, int, EVO_LINE) const { return (void)line, value; }
    template <class T> T shfl_up(T value, unsigned, EVO_LINE) const { return (void)line, value; }
    template <class T> T shfl_down(T value, unsigned, EVO_LINE) const { return (void)line, value; }
};
EVO_INLINE coalesced_group coalesced_threads() { return coalesced_group(); }

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

template <class T, class Operation> EVO_INLINE T reduce(const coalesced_group&, T value, Operation) { return value; }

} // namespace cooperative_groups

#undef EVO_LINE
#endif
