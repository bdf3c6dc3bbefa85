// The part of CUDA's runtime that a solution's host code may call: it records launches, and has nothing to wait for.
// Every other function is missing, so that a library that calls one is not loaded, and the message names it.
#include <cuda_runtime_api.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "wire.h"

namespace gpuemu {

Host host;

namespace {

struct Module {
  const void *image;
};

struct FatBinary {
  int32_t magic, version;
  const void *image;
};

struct Kernel {
  const void *image;
  std::string name;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

std::map<const void *, Kernel> &kernels() {
  static std::map<const void *, Kernel> known;
  return known;
}

std::vector<Configuration> configurations;

void checked(int failed) {
  if (failed) throw std::runtime_error("");  // Python raises the exception that it keeps
}

void launch(const void *function, dim3 grid, dim3 block, dim3 cluster, void **arguments, size_t shared) {
  auto found = kernels().find(function);
  if (found == kernels().end()) throw std::runtime_error("a launch of a function that is no kernel");
  const Kernel &kernel = found->second;
  Launched told{kernel.name.c_str(), kernel.image, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                {cluster.x, cluster.y, cluster.z}, shared, arguments};
  checked(host.launch(&told));
}

}  // namespace
}  // namespace gpuemu

using gpuemu::host;

extern "C" {

void gpuemu_set_host(const gpuemu::Host *given) { host = *given; }

void **__cudaRegisterFatBinary(void *wrapper) {
  return reinterpret_cast<void **>(new gpuemu::Module{static_cast<gpuemu::FatBinary *>(wrapper)->image});
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
char __cudaInitModule(void **) { return 1; }
void __cudaRegisterFunction(void **module, const char *function, char *, const char *name, int, uint3 *, uint3 *,
                            dim3 *, dim3 *, int *) {
  gpuemu::kernels()[function] = {reinterpret_cast<gpuemu::Module *>(module)->image, name};
}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  gpuemu::configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  auto last = gpuemu::configurations.back();
  gpuemu::configurations.pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared, *static_cast<cudaStream_t *>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t) {
  gpuemu::launch(kernel, grid, block, dim3(0, 0, 0), arguments, shared);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t) {
  gpuemu::launch(function, grid, block, dim3(0, 0, 0), arguments, shared);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *function, void **arguments) {
  dim3 cluster(0, 0, 0);
  for (unsigned n = 0; n < how->numAttrs; ++n)
    if (how->attrs[n].id == cudaLaunchAttributeClusterDimension) {
      auto &given = how->attrs[n].val.clusterDim;
      cluster = dim3(given.x, given.y, given.z);
    }
  gpuemu::launch(function, how->gridDim, how->blockDim, cluster, arguments, how->dynamicSmemBytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "no error"; }
const char *cudaGetErrorName(cudaError_t) { return "cudaSuccess"; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int) {
  switch (what) {
    case cudaDevAttrMultiProcessorCount: return *value = host.sms, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return *value = host.shared_optin_bytes, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: return *value = host.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: return *value = host.minor, cudaSuccess;
    case cudaDevAttrWarpSize: return *value = 32, cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock: return *value = 1024, cudaSuccess;
    default: throw std::runtime_error("cudaDeviceGetAttribute of attribute " + std::to_string(what));
  }
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return *stream = nullptr, cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return *stream = nullptr, cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) { return *stream = nullptr, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = nullptr, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return *event = nullptr, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t) {
  if (value != 0) throw std::runtime_error("cudaMemset to a value that is not 0, which has no time here");
  gpuemu::checked(host.zero_memory(data, bytes));
  return cudaSuccess;
}
cudaError_t cudaMemset(void *data, int value, size_t bytes) { return cudaMemsetAsync(data, value, bytes, nullptr); }

}  // extern "C"
