// The device heap: malloc, free, new and delete inside kernels.
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

// On a GPU these use the same heap, and `new` gives null where it is full (`-fcheck-new`). Hidden, so that the process's
// own are not replaced, and inline, so that a kernel that uses none of them has no variable for the heap either.
#define EVO_HEAP_OPERATOR EVO_UNCHECKED __attribute__((visibility("hidden"))) inline
EVO_HEAP_OPERATOR void* operator new(size_t evo_bytes) { return malloc(evo_bytes ? evo_bytes : 1); }
EVO_HEAP_OPERATOR void* operator new[](size_t evo_bytes) { return malloc(evo_bytes ? evo_bytes : 1); }
EVO_HEAP_OPERATOR void operator delete(void* evo_pointer) noexcept { free(evo_pointer); }
EVO_HEAP_OPERATOR void operator delete[](void* evo_pointer) noexcept { free(evo_pointer); }
EVO_HEAP_OPERATOR void operator delete(void* evo_pointer, size_t) noexcept { free(evo_pointer); }
EVO_HEAP_OPERATOR void operator delete[](void* evo_pointer, size_t) noexcept { free(evo_pointer); }
#undef EVO_HEAP_OPERATOR

#endif
