// The driver's functions, by name.
#pragma once
#include "stream.h"

// The function of a name in the interface of a CUDA version; null where there is none. `per_thread`: its variant with a
// default stream for each thread.
void *driver_function(const char *name, int version, bool per_thread);

Module *load_image(const void *image);
Module *load_file(const char *path);

// The logs of the compiler are empty, and it took no time.
void empty_logs(unsigned count, const int *options, void **values);

void set_function_attribute(Kernel *kernel, int attribute, int value);
uint32_t occupancy(Kernel *kernel, int threads, size_t shared);
uint32_t clusters(Kernel *kernel, Dim block, Dim cluster, size_t shared);
size_t available_shared(Kernel *kernel, int blocks, int threads);
void get_limit(uint64_t *value, int which);
void set_limit(int which, uint64_t value);
void device_attribute(int *value, int attribute);

#define DRIVER(name, parameters, ...) \
  API name parameters { return driver_call([&] { __VA_ARGS__; }); }

#define DRIVER_WITHOUT_DEVICE(name, parameters, ...) \
  API name parameters { return driver_call([&] { __VA_ARGS__; }, Needs::kNothing); }

#define DRIVER_WITHOUT_CONTEXT(name, parameters, ...) \
  API name parameters { return driver_call([&] { __VA_ARGS__; }, Needs::kDevice); }

#define DRIVER_IN_STREAM(name, parameters, ...)           \
  API name parameters {                                   \
    return driver_call([&] { __VA_ARGS__; });             \
  }                                                       \
  API name##_ptsz parameters {                            \
    stream = legacy_to_thread(stream);                    \
    return driver_call([&] { __VA_ARGS__; });             \
  }

#define DRIVER_IN_DEFAULT_STREAM(name, parameters, ...)   \
  API name parameters {                                   \
    void *stream = nullptr;                               \
    return driver_call([&] { __VA_ARGS__; });             \
  }                                                       \
  API name##_ptds parameters {                            \
    void *stream = legacy_to_thread(nullptr);             \
    return driver_call([&] { __VA_ARGS__; });             \
  }
