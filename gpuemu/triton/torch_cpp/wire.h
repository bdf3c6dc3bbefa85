// What Python and a solution's C++ code exchange. gpuemu/triton/inline_cuda.py has the same structures.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gpuemu {

constexpr int kMostDimensions = 16;

struct TensorData {
  int64_t handle = -1;  // the number of the tensor of Python that owns the memory; -1: undefined
  char *data = nullptr;
  int32_t type = 6, dim = 0;
  int64_t sizes[kMostDimensions] = {}, strides[kMostDimensions] = {};
};

enum Kind : int32_t { kNone, kInteger, kReal, kBoolean, kTensor, kText, kList };

struct Value {
  int32_t kind = kNone, count = 0;
  int64_t integer = 0;
  double real = 0;
  TensorData tensor;
  const char *text = nullptr;
  Value *items = nullptr;
};

struct Launched {
  const char *kernel;
  const void *image;
  uint32_t grid[3], block[3], cluster[3];
  uint64_t shared_bytes;
  void **arguments;
};

// Functions of Python. Each returns 0, or 1 if it keeps an exception for the end of the call.
struct Host {
  int (*allocate)(TensorData *tensor, int zeros);  // with type, sizes and strides; sets handle and data
  int (*zero)(const TensorData *tensor);
  int (*launch)(const Launched *launch);
  int (*zero_memory)(void *data, uint64_t bytes);
  int32_t sms, shared_optin_bytes, major, minor;
};

extern Host host;

}  // namespace gpuemu
