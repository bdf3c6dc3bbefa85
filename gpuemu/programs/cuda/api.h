// The part of CUDA's interface that we need, declared by ourselves: numbers and layouts of the runtime and the driver.
#pragma once
#include <cstddef>
#include <cstdint>

using Code = int;  // cudaError_t and CUresult: where both exist, the numbers are the same

enum : Code {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInitialization = 3,
  kInvalidConfiguration = 9,
  kInvalidPitch = 12,
  kInvalidSymbol = 13,
  kInvalidMemcpyDirection = 21,
  kMissingConfiguration = 52,
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNoKernelImage = 209,
  kAlreadyExists = 212,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchOutOfResources = 701,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kCooperativeTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kGraphExecUpdateFailure = 910,
  kUnknown = 999,
};

struct Dim {
  uint32_t x, y, z;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

struct Extent {
  size_t width, height, depth;
};

struct Pitched {
  char *pointer;
  size_t pitch, width, height;
};

struct Copy3D {  // cudaMemcpy3DParms
  void *source_array;
  Extent source_place;
  Pitched source;
  void *to_array;
  Extent to_place;
  Pitched to;
  Extent extent;
  int kind;
};

struct MemoryLocation {
  int type, id;
};

struct LaunchAttribute {
  int id;
  char gap[4];
  union {
    char room[64];
    int number;
    Dim dim;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

enum { kAttributeCooperative = 2, kAttributeCluster = 4 };

struct LaunchConfiguration {  // cudaLaunchConfig_t
  Dim grid, block;
  size_t dynamic_shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned attribute_count;
};

enum { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefaultDirection };  // cudaMemcpyKind

using HostFunction = void (*)(void *);

#define EXPORT extern "C" __attribute__((visibility("default")))
#define API EXPORT Code
