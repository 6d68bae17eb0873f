// `<nv/target>`: which branch is for which compiler, decided by `__CUDA_ARCH__` when the source is read.
#pragma GCC system_header
#ifndef EVO_NV_TARGET_H
#define EVO_NV_TARGET_H
#define NV_IS_HOST 0
#define NV_IS_DEVICE 1
#define NV_ANY_TARGET 1
#define NV_NO_TARGET 0
#define NV_PROVIDES_SM_35 1
#define NV_PROVIDES_SM_50 1
#define NV_PROVIDES_SM_52 1
#define NV_PROVIDES_SM_53 1
#define NV_PROVIDES_SM_60 1
#define NV_PROVIDES_SM_61 1
#define NV_PROVIDES_SM_70 (__CUDA_ARCH__ >= 700)
#define NV_PROVIDES_SM_72 (__CUDA_ARCH__ >= 720)
#define NV_PROVIDES_SM_75 (__CUDA_ARCH__ >= 750)
#define NV_PROVIDES_SM_80 (__CUDA_ARCH__ >= 800)
#define NV_PROVIDES_SM_86 (__CUDA_ARCH__ >= 860)
#define NV_PROVIDES_SM_89 (__CUDA_ARCH__ >= 890)
#define NV_PROVIDES_SM_90 (__CUDA_ARCH__ >= 900)
#define NV_PROVIDES_SM_100 (__CUDA_ARCH__ >= 1000)
#define EVO_UNPACKED(...) __VA_ARGS__
#define NV_IF_TARGET(target, yes, ...) if constexpr (target) { EVO_UNPACKED yes } else { __VA_OPT__(EVO_UNPACKED) __VA_ARGS__ }
#define NV_IF_ELSE_TARGET(target, yes, no) if constexpr (target) { EVO_UNPACKED yes } else { EVO_UNPACKED no }
// The first of up to four targets that fits.
#define NV_DISPATCH_TARGET(...) EVO_DISPATCH(__VA_ARGS__, 0, (), 0, (), 0, (), 0, ())
#define EVO_DISPATCH(a, w, b, x, c, y, d, z, ...)                                                  \
    if constexpr (a) { EVO_UNPACKED w } else if constexpr (b) { EVO_UNPACKED x }                   \
    else if constexpr (c) { EVO_UNPACKED y } else if constexpr (d) { EVO_UNPACKED z }
#endif
