// The C library's general functions, as far as headers of the C++ library name them. `malloc` and `free` are the device
// heap's; the library's own header would declare them otherwise.
#pragma GCC system_header
#include "evo_cuda.h"
#ifndef EVO_LIBRARY_STDLIB
#define EVO_LIBRARY_STDLIB
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
extern "C" {
typedef struct { int quot, rem; } div_t;
typedef struct { long quot, rem; } ldiv_t;
typedef struct { long long quot, rem; } lldiv_t;
[[noreturn]] void abort(void) noexcept;
[[noreturn]] void exit(int) noexcept;
int atexit(void (*)(void)) noexcept;
int rand(void) noexcept;
void srand(unsigned) noexcept;
double atof(const char*) noexcept;
int atoi(const char*) noexcept;
long atol(const char*) noexcept;
long long atoll(const char*) noexcept;
double strtod(const char*, char**) noexcept;
float strtof(const char*, char**) noexcept;
long double strtold(const char*, char**) noexcept;
long strtol(const char*, char**, int) noexcept;
long long strtoll(const char*, char**, int) noexcept;
unsigned long strtoul(const char*, char**, int) noexcept;
unsigned long long strtoull(const char*, char**, int) noexcept;
void* calloc(size_t, size_t) noexcept;
void* realloc(void*, size_t) noexcept;
void qsort(void*, size_t, size_t, int (*)(const void*, const void*));
char* getenv(const char*) noexcept;
int system(const char*);
div_t div(int, int) noexcept;
ldiv_t ldiv(long, long) noexcept;
}
#endif
