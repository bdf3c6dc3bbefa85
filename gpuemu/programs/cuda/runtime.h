// Macros that define the functions of the runtime. Some come twice: `_ptsz` and `_ptds` are what programs call that were
// compiled with a default stream for each thread.
#pragma once
#include "driver.h"
#include "graph.h"

#define RUNTIME(name, parameters, ...) \
  API name parameters { return runtime_call([&] { __VA_ARGS__; }); }

#define RUNTIME_WITHOUT_DEVICE(name, parameters, ...) \
  API name parameters { return runtime_call([&] { __VA_ARGS__; }, Needs::kNothing); }

#define RUNTIME_IN_STREAM(name, parameters, ...)          \
  API name parameters {                                   \
    return runtime_call([&] { __VA_ARGS__; });            \
  }                                                       \
  API name##_ptsz parameters {                            \
    stream = legacy_to_thread(stream);                    \
    return runtime_call([&] { __VA_ARGS__; });            \
  }

#define RUNTIME_IN_DEFAULT_STREAM(name, parameters, ...)  \
  API name parameters {                                   \
    void *stream = nullptr;                               \
    return runtime_call([&] { __VA_ARGS__; });            \
  }                                                       \
  API name##_ptds parameters {                            \
    void *stream = legacy_to_thread(nullptr);             \
    return runtime_call([&] { __VA_ARGS__; });            \
  }

// Functions that are the same in the driver, under another name.
#define BOTH(name, driver_name, parameters, ...) \
  RUNTIME(name, parameters, __VA_ARGS__)         \
  DRIVER(driver_name, parameters, __VA_ARGS__)

#define BOTH_IN_STREAM(name, driver_name, parameters, ...) \
  RUNTIME_IN_STREAM(name, parameters, __VA_ARGS__)         \
  DRIVER_IN_STREAM(driver_name, parameters, __VA_ARGS__)
