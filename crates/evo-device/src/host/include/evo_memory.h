// The device heap: malloc and free inside kernels.
//
// As on a GPU the heap is small (8 MiB unless a program asks for more; CUDA C++ Programming Guide, "Dynamic Global
// Memory Allocation"), and beyond it malloc gives null. What is in use is counted in a variable of the module, so a
// kernel that never frees leaves it larger with every call, which the gates see as they see any variable.
#ifndef EVO_MEMORY_H
#define EVO_MEMORY_H
#pragma GCC system_header

#define EVO_HEAP_LIMIT (8ull << 20)
static unsigned long long evo_heap_in_use;

EVO_UNCHECKED static inline void* malloc(size_t evo_bytes) {
    unsigned long long evo_whole = evo_bytes + 16;
    if (__atomic_add_fetch(&evo_heap_in_use, evo_whole, __ATOMIC_RELAXED) > EVO_HEAP_LIMIT || evo_whole < 16) {
        __atomic_sub_fetch(&evo_heap_in_use, evo_whole, __ATOMIC_RELAXED);
        return nullptr;
    }
    // The size stands before the block, whose alignment is 16 as a GPU's is.
    char* evo_block = (char*)__builtin_malloc(evo_whole);
    *(unsigned long long*)evo_block = evo_whole;
    evo_watch_heap(evo_block + 16, evo_bytes);
    return evo_block + 16;
}
EVO_UNCHECKED static inline void free(void* evo_pointer) {
    if (!evo_pointer) return;
    evo_watch_heap(evo_pointer, 0);
    char* evo_block = (char*)evo_pointer - 16;
    __atomic_sub_fetch(&evo_heap_in_use, *(unsigned long long*)evo_block, __ATOMIC_RELAXED);
    __builtin_free(evo_block);
}

#endif
