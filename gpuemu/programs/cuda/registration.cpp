// What the code calls that nvcc puts in front of main and in place of <<<...>>>.
#include <vector>

#include "runtime.h"

namespace {

struct Configuration {
  Dim grid, block;
  size_t shared;
  void *stream;
};

thread_local std::vector<Configuration> configurations;

Module *module_of(void **handle) { return reinterpret_cast<Module *>(handle); }

void launch(const void *function, Dim grid, Dim block, Dim cluster, void **arguments, size_t shared, void *stream,
            bool cooperative) {
  Kernel *kernel = registered_kernel(function);
  submit(launch_with(kernel, grid, block, cluster, shared, cooperative, arguments, nullptr),
         stream_of(stream));
}

void launch_ex(const LaunchConfiguration &how, const void *function, void **arguments, void *stream) {
  Dim cluster{};
  bool cooperative = false;
  for (unsigned k = 0; k < how.attribute_count; ++k) {
    if (how.attributes[k].id == kAttributeCluster) cluster = how.attributes[k].value.dim;
    if (how.attributes[k].id == kAttributeCooperative) cooperative = how.attributes[k].value.number;
  }
  launch(function, how.grid, how.block, cluster, arguments, how.dynamic_shared, stream, cooperative);
}

}  // namespace

EXPORT void **__cudaRegisterFatBinary(void *wrapper) {
  Lock lock(mutex());
  return reinterpret_cast<void **>(add_module(wrapper));
}
EXPORT void __cudaRegisterFatBinaryEnd(void **) {}
EXPORT void __cudaUnregisterFatBinary(void **) {}  // only at the end of the program, or of a library
EXPORT void __cudaUnregisterBinaryUtil() {}
EXPORT void __cudaRegisterUnifiedTable(void **, void *) {}
EXPORT char __cudaInitModule(void **module) {
  return runtime_call([&] { module_of(module)->load(); }) == kSuccess;
}
EXPORT void __cudaRegisterFunction(void **module, const char *host, char *, const char *name, int, void *, void *,
                                   void *, void *, int *) {
  Lock lock(mutex());
  register_kernel(host, module_of(module)->kernel(name));
}
EXPORT void __cudaRegisterVar(void **module, char *host, char *, const char *name, int, size_t bytes, int, int) {
  Lock lock(mutex());
  Variable *variable = module_of(module)->variable(name);
  variable->bytes = bytes;
  register_variable(host, variable);
}
EXPORT void __cudaRegisterHostVar(void **, const char *, char *, size_t) {}
EXPORT void __cudaRegisterManagedVar(void **module, void **host, char *, const char *name, int, size_t bytes, int,
                                     int) {
  Lock lock(mutex());
  Variable *variable = module_of(module)->variable(name);
  variable->bytes = bytes, variable->managed = host, variable->is_managed = true;
  register_variable(host, variable);
}
EXPORT void __cudaRegisterTexture(void **, const void *, const void **, const char *name, int, int, int) {
  refuse(name, "is a texture reference, which gpuemu does not have. Read the data from global memory.");
}
EXPORT void __cudaRegisterSurface(void **, const void *, const void **, const char *name, int, int) {
  refuse(name, "is a surface reference, which gpuemu does not have. Use global memory.");
}

EXPORT unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared, void *stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
EXPORT Code __cudaPopCallConfiguration(Dim *grid, Dim *block, size_t *shared, void **stream) {
  return runtime_call([&] {
    need(!configurations.empty(), kMissingConfiguration);
    Configuration last = configurations.back();
    configurations.pop_back();
    *grid = last.grid, *block = last.block, *shared = last.shared, *stream = last.stream;
  }, Needs::kNothing);
}

RUNTIME_WITHOUT_DEVICE(__cudaGetKernel, (Kernel **kernel, const void *host), *kernel = registered_kernel(host))
RUNTIME_WITHOUT_DEVICE(cudaGetKernel, (Kernel **kernel, const void *host), *kernel = registered_kernel(host))
RUNTIME(cudaGetFuncBySymbol, (Kernel **kernel, const void *host), *kernel = known(registered_kernel(host)))

RUNTIME_IN_STREAM(__cudaLaunchKernel,
                  (const void *function, Dim grid, Dim block, void **arguments, size_t shared, void *stream),
                  launch(function, grid, block, {}, arguments, shared, stream, false))
RUNTIME_IN_STREAM(cudaLaunchKernel,
                  (const void *function, Dim grid, Dim block, void **arguments, size_t shared, void *stream),
                  launch(function, grid, block, {}, arguments, shared, stream, false))
RUNTIME_IN_STREAM(cudaLaunchCooperativeKernel,
                  (const void *function, Dim grid, Dim block, void **arguments, size_t shared, void *stream),
                  launch(function, grid, block, {}, arguments, shared, stream, true))
RUNTIME(cudaLaunchKernelExC, (const LaunchConfiguration *how, const void *function, void **arguments),
        need(how); launch_ex(*how, function, arguments, how->stream))
RUNTIME(cudaLaunchKernelExC_ptsz, (const LaunchConfiguration *how, const void *function, void **arguments),
        need(how); launch_ex(*how, function, arguments, legacy_to_thread(how->stream)))
