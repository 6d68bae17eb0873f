// In place of the CUDA driver's header: tensor maps are recorded, not encoded.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;
enum CUresult { CUDA_SUCCESS = 0 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE = 0 };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

struct alignas(64) CUtensorMap {
    char opaque[128];
};

// What is asked for, as text in the map itself.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                       const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    char* const end = map->opaque + sizeof map->opaque;
    char* next = map->opaque;
    const auto add = [&](auto value, char after) {
        next += std::snprintf(next, end - next, "%lld%c", static_cast<long long>(value), after);
    };
    next += std::snprintf(next, end - next, "m");
    add(reinterpret_cast<uintptr_t>(address) / (uintptr_t(1) << 40) - 1, ':');
    add(data_type, ':');
    for (cuuint32_t axis = 0; axis < rank; ++axis) add(dims[axis], axis + 1 < rank ? ',' : ':');
    for (cuuint32_t axis = 0; axis + 1 < rank; ++axis) add(strides[axis], axis + 2 < rank ? ',' : ':');
    if (rank == 1) next += std::snprintf(next, end - next, ":");
    for (cuuint32_t axis = 0; axis < rank; ++axis) add(box[axis] * steps[axis], axis + 1 < rank ? ',' : ':');
    add(swizzle, ':');
    next += std::snprintf(next, end - next, "%d", static_cast<int>(fill));
    return CUDA_SUCCESS;
}
