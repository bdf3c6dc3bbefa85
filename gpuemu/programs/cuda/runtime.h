// Macros that define the functions of the runtime. Some come twice: `_ptsz` and `_ptds` are what programs call that were
// compiled with a default stream for each thread.
#pragma once
#include "graph.h"

#define RUNTIME(name, parameters, ...) \
  API name parameters { return runtime_call([&] { __VA_ARGS__; }); }

#define RUNTIME_WITHOUT_DEVICE(name, parameters, ...) \
  API name parameters { return runtime_call([&] { __VA_ARGS__; }, false); }

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
