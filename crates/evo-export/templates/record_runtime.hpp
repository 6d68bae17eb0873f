// In place of the CUDA runtime: writes down what a program launches, and launches nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9, cudaErrorMisalignedAddress = 716 };
using cudaStream_t = void*;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned own_x = 1, unsigned own_y = 1, unsigned own_z = 1) : x(own_x), y(own_y), z(own_z) {}
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaLaunchAttributeID {
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
};

union cudaLaunchAttributeValue {
    int cooperative;
    int programmaticStreamSerializationAllowed;
    struct {
        unsigned x, y, z;
    } clusterDim;
};

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1 };
enum { cudaEnableDefault = 0, cudaErrorNotSupported_ = 801 };
constexpr cudaError_t cudaErrorNotSupported = static_cast<cudaError_t>(cudaErrorNotSupported_);
// Where a program has tensor maps, it defines this.
void* driver_entry(const char* name);

inline cudaError_t cudaGetDriverEntryPoint(const char* name, void** address, int, cudaDriverEntryPointQueryResult* state) {
    *address = driver_entry(name);
    *state = *address == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

// Bytes of each argument of an entry, 0 for a buffer and -1 behind the last.
const int* argument_bytes(int entry);
// How many bytes of shared memory an entry has asked for.
inline int shared_allowed[256];

// Entries are called by small numbers here, and buffers lie at multiples of this.
constexpr uintptr_t BUFFER = uintptr_t(1) << 40;

inline int entry_of(const void* address) { return static_cast<int>(reinterpret_cast<uintptr_t>(address)) - 1; }

inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }

inline cudaError_t cudaFuncSetAttribute(const void* address, cudaFuncAttribute, int value) {
    shared_allowed[entry_of(address) % 256] = value;
    return cudaSuccess;
}

inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* address, void** arguments) {
    const int entry = entry_of(address);
    if (static_cast<size_t>(shared_allowed[entry % 256]) < config->dynamicSmemBytes) return cudaErrorInvalidValue;
    unsigned cluster[3] = {0, 0, 0};
    int cooperative = 0, programmatic = 0;
    for (unsigned at = 0; at < config->numAttrs; ++at) {
        const cudaLaunchAttribute& own = config->attrs[at];
        if (own.id == cudaLaunchAttributeCooperative) cooperative = own.val.cooperative;
        if (own.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            programmatic = own.val.programmaticStreamSerializationAllowed;
        }
        if (own.id == cudaLaunchAttributeClusterDimension) {
            cluster[0] = own.val.clusterDim.x;
            cluster[1] = own.val.clusterDim.y;
            cluster[2] = own.val.clusterDim.z;
        }
    }
    std::printf("launch %d %u %u %u %u %u %u %zu %u %u %u %d %d", entry, config->gridDim.x, config->gridDim.y,
                config->gridDim.z, config->blockDim.x, config->blockDim.y, config->blockDim.z, config->dynamicSmemBytes,
                cluster[0], cluster[1], cluster[2], cooperative, programmatic);
    const int* bytes = argument_bytes(entry);
    for (; *arguments != nullptr && *bytes >= 0; ++arguments, ++bytes) {
        if (*bytes == 0) {
            std::printf(" b%zu", static_cast<size_t>(*static_cast<uintptr_t*>(*arguments) / BUFFER - 1));
            continue;
        }
        if (*bytes == 128) {
            std::printf(" %s", static_cast<const char*>(*arguments));
            continue;
        }
        std::printf(" s");
        for (int at = 0; at < *bytes; ++at) std::printf("%02x", static_cast<unsigned char*>(*arguments)[at]);
    }
    std::printf("%s\n", *arguments == nullptr && *bytes < 0 ? "" : " another number of arguments");
    return cudaSuccess;
}
