// The device as the runtime describes it: properties, attributes, limits, kernels, occupancy.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace {

// The fields of cudaDeviceProp in order. `kind`: i an int, z a size_t; `number`: the attribute, or one of the constants
// below.
struct Field {
  char kind;
  int number;
  int count = 1;
};

constexpr int kMemory = -1, kNothing = 0;
constexpr size_t kPropertyBytes = 1008;

const Field kFields[] = {
    {'i', kNothing},                          // luidDeviceNodeMask
    {'z', kMemory},                           // totalGlobalMem
    {'z', 8}, {'i', 12}, {'i', 10}, {'z', 11}, {'i', 1},
    {'i', 2}, {'i', 3}, {'i', 4}, {'i', 5}, {'i', 6}, {'i', 7},
    {'z', 9}, {'i', 75}, {'i', 76}, {'z', 14}, {'z', 51},
    {'i', 16}, {'i', 18}, {'i', 19},
    {'i', 21}, {'i', 77},  // maxTexture1D, -Mipmap, -Linear
    {'i', kNothing, 37},                      // other sizes of textures and surfaces
    {'z', 30}, {'i', 31}, {'i', 32}, {'i', 33}, {'i', 34}, {'i', 50}, {'i', 35}, {'i', 40}, {'i', 41},
    {'i', 37}, {'i', 38}, {'i', 108}, {'i', 39}, {'i', 78}, {'i', 79}, {'i', 80},
    {'z', 81}, {'i', 82}, {'i', 83}, {'i', 84}, {'i', 85}, {'i', 86}, {'i', 88}, {'i', 89},
    {'i', 90}, {'i', 91}, {'i', 95}, {'z', 97}, {'i', 100}, {'i', 101}, {'i', 106}, {'i', 109},
    {'z', 111}, {'i', 99}, {'i', 112}, {'i', 113}, {'i', 114}, {'i', 115}, {'i', 116}, {'i', 117}, {'i', 118},
    {'i', 119}, {'i', 121}, {'i', 125}, {'i', 120}, {'i', 129},
};

void describe(char *to) {
  memset(to, 0, kPropertyBytes);
  snprintf(to, 256, "%s", state().chip.c_str());
  memcpy(to + 256, state().uuid.data(), 16);
  size_t at = 256 + 16 + 8;  // behind name, uuid and luid
  for (auto &field : kFields) {
    size_t size = field.kind == 'z' ? 8 : 4;
    at = (at + size - 1) / size * size;
    uint64_t value = field.number == kMemory ? state().memory_bytes : uint64_t(state().attribute(field.number));
    if (field.count == 1) memcpy(to + at, &value, size);
    at += size * field.count;
  }
}

void need_device(int device) { need(device == 0, kInvalidDevice); }

struct FunctionAttributes {
  size_t shared, constant, local;
  int max_threads, registers, ptx, binary, cache_mode, max_dynamic_shared, carveout, cluster_must_be_set;
  int cluster_width, cluster_height, cluster_depth, cluster_policy, non_portable_cluster, reserved[16];
};

void describe(FunctionAttributes *found, Kernel *kernel) {
  known(kernel);
  *found = {};
  found->shared = kernel->static_shared, found->constant = kernel->constant_bytes, found->local = kernel->local_bytes;
  found->max_threads = int(kernel->max_threads), found->registers = int(kernel->registers);
  found->ptx = int(kernel->ptx_version), found->binary = int(kernel->binary_version);
  found->max_dynamic_shared = int(kernel->dynamic_shared_limit()), found->carveout = kernel->carveout;
  Dim cluster = kernel->cluster.count() ? kernel->cluster : kernel->required_cluster;
  found->cluster_must_be_set = kernel->cluster_must_be_set;
  found->cluster_width = int(cluster.x), found->cluster_height = int(cluster.y), found->cluster_depth = int(cluster.z);
  found->non_portable_cluster = kernel->non_portable_cluster;
}

uint64_t limits[7] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

}  // namespace

void set_function_attribute(Kernel *kernel, int attribute, int value) {
  known(kernel);
  switch (attribute) {
    case 8:
      need(value >= 0 && uint64_t(value) + kernel->static_shared <= uint64_t(state().attribute(97)));
      kernel->max_dynamic_shared = value;
      break;
    case 9: need(value >= -1 && value <= 100); kernel->carveout = value; break;
    case 10: kernel->cluster_must_be_set = value; break;
    case 11: kernel->required_cluster.x = uint32_t(value); break;
    case 12: kernel->required_cluster.y = uint32_t(value); break;
    case 13: kernel->required_cluster.z = uint32_t(value); break;
    case 14: kernel->non_portable_cluster = value; break;
    case 15: break;
    default: fail(kInvalidValue);
  }
}

uint32_t occupancy(Kernel *kernel, int threads, size_t shared) {
  known(kernel);
  need(threads > 0);
  if (uint32_t(threads) > kernel->max_threads || shared + kernel->static_shared > size_t(state().attribute(97))) return 0;
  Ask ask(Request::OCCUPANCY);
  ask.put(kernel->number).put(uint32_t(threads)).put(uint32_t(shared)).send();
  return ask.get<uint32_t>();
}

uint32_t clusters(Kernel *kernel, Dim block, Dim cluster, size_t shared) {
  known(kernel);
  if (!cluster.count()) cluster = kernel->cluster.count() ? kernel->cluster : Dim{1, 1, 1};
  Ask ask(Request::CLUSTERS);
  ask.put(kernel->number).put(block).put(cluster).put(uint32_t(shared)).send();
  return ask.get<uint32_t>();
}

// The largest dynamic shared memory with which so many CTAs live on an SM.
size_t available_shared(Kernel *kernel, int blocks, int threads) {
  need(blocks > 0);
  size_t low = 0, high = size_t(state().attribute(97)) - known(kernel)->static_shared;
  need(occupancy(kernel, threads, 0) >= uint32_t(blocks));
  while (low < high) {
    size_t middle = (low + high + 1) / 2;
    if (occupancy(kernel, threads, middle) >= uint32_t(blocks))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

void get_limit(uint64_t *value, int which) {
  need(which >= 0 && which < 7, 215);
  *value = limits[which];
}

void set_limit(int which, uint64_t value) {
  need(which >= 0 && which < 7, 215);
  Ask(Request::LIMIT).put(uint32_t(which)).put(value).send();
  limits[which] = value;
}

void device_attribute(int *value, int attribute) {
  need(value && attribute > 0 && attribute < 150);
  *value = state().attribute(attribute);
}

// -- devices -------------------------------------------------------------------------------------------------

RUNTIME(cudaGetDeviceCount, (int *count), need(count); *count = 1)
RUNTIME(cudaGetDevice, (int *device), need(device); *device = 0)
RUNTIME(cudaSetDevice, (int device), need_device(device))
RUNTIME(cudaInitDevice, (int device, unsigned, unsigned), need_device(device))
RUNTIME(cudaSetValidDevices, (int *devices, int count), for (int k = 0; k < count; ++k) need_device(devices[k]))
RUNTIME(cudaSetDeviceFlags, (unsigned flags), need(!(flags & ~0xFFu)))
RUNTIME(cudaGetDeviceFlags, (unsigned *flags), need(flags); *flags = 8)
RUNTIME(cudaChooseDevice, (int *device, const void *wanted), need(device && wanted); *device = 0)
RUNTIME(cudaGetDeviceProperties, (char *found, int device), need(found); need_device(device); describe(found))
RUNTIME(cudaDeviceGetAttribute, (int *value, int attribute, int device), need_device(device); device_attribute(value, attribute))
RUNTIME(cudaDeviceGetPCIBusId, (char *to, int bytes, int device),
        need_device(device); need(to && bytes > 12); snprintf(to, size_t(bytes), "0000:%02x:00.0", state().attribute(33)))
RUNTIME(cudaDeviceGetByPCIBusId, (int *device, const char *name), need(device && name); *device = 0)
RUNTIME(cudaDeviceCanAccessPeer, (int *can, int one, int other), need_device(one); need_device(other); *can = 0)
RUNTIME(cudaDeviceGetP2PAttribute, (int *value, int, int one, int other),
        need(value); need_device(one); need_device(other); need(one != other, kInvalidDevice); *value = 0)
RUNTIME(cudaDeviceEnablePeerAccess, (int, unsigned), fail(kInvalidDevice))
RUNTIME(cudaDeviceDisablePeerAccess, (int), fail(kInvalidDevice))
BOTH(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest), if (least) *least = 0; if (greatest) *greatest = -5)
RUNTIME(cudaDeviceGetLimit, (size_t *value, int which), need(value); get_limit(value, which))
RUNTIME(cudaDeviceSetLimit, (int which, size_t value), set_limit(which, value))
BOTH(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig, (int *value), need(value); *value = 0)
BOTH(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig, (int value), need(value >= 0 && value < 4))
BOTH(cudaDeviceGetSharedMemConfig, cuCtxGetSharedMemConfig, (int *value), need(value); *value = 1)
BOTH(cudaDeviceSetSharedMemConfig, cuCtxSetSharedMemConfig, (int value), need(value >= 0 && value < 3))
BOTH(cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, (), )
BOTH(cudaDeviceSynchronize, cuCtxSynchronize, (), synchronize_device())
BOTH(cudaProfilerStart, cuProfilerStart, (), )
BOTH(cudaProfilerStop, cuProfilerStop, (), )
RUNTIME(cudaDeviceGraphMemTrim, (int device), need_device(device))
RUNTIME(cudaDeviceGetGraphMemAttribute, (int device, int which, uint64_t *value),
        need_device(device); need(value && which >= 0 && which < 4); *value = state().used_bytes)
RUNTIME(cudaDeviceSetGraphMemAttribute, (int device, int which, const uint64_t *value),
        need_device(device); need(value && !*value && (which == 1 || which == 3)))
RUNTIME_WITHOUT_DEVICE(cudaDriverGetVersion, (int *version), need(version); *version = 13000)
RUNTIME_WITHOUT_DEVICE(cudaRuntimeGetVersion, (int *version), need(version); *version = 13000)

API cudaDeviceReset() {
  return runtime_call([] {
    if (!connected()) return;
    connect();
    wait_for_host_functions();
    Ask(Request::SYNCHRONIZE).put(ALL_STREAMS).send();
    release_everything();
    state().fault = state().pending_fault = kSuccess;
  }, Needs::kNothing);
}

// -- kernels -------------------------------------------------------------------------------------------------

RUNTIME(cudaFuncGetAttributes, (FunctionAttributes *found, const void *function),
        need(found); describe(found, registered_kernel(function)))
RUNTIME(cudaFuncSetAttribute, (const void *function, int attribute, int value),
        set_function_attribute(registered_kernel(function), attribute, value))
RUNTIME(cudaKernelSetAttributeForDevice, (const void *function, int attribute, int value, int device),
        need_device(device); set_function_attribute(registered_kernel(function), attribute, value))
BOTH(cudaFuncSetCacheConfig, cuFuncSetCacheConfig, (const void *function, int), registered_kernel(function))
BOTH(cudaFuncSetSharedMemConfig, cuFuncSetSharedMemConfig, (const void *function, int), registered_kernel(function))
RUNTIME(cudaFuncGetName, (const char **name, const void *function), need(name); *name = registered_kernel(function)->name.c_str())
RUNTIME(cudaFuncGetParamInfo, (const void *function, size_t index, size_t *offset, size_t *bytes),
        auto &all = known(registered_kernel(function))->parameters; need(index < all.size());
        if (offset) *offset = all[index].offset; if (bytes) *bytes = all[index].bytes)

BOTH(cudaOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *function, int threads, size_t shared),
        need(blocks); *blocks = int(occupancy(registered_kernel(function), threads, shared)))
BOTH(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int *blocks, const void *function, int threads, size_t shared, unsigned),
        need(blocks); *blocks = int(occupancy(registered_kernel(function), threads, shared)))
BOTH(cudaOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, (size_t *bytes, const void *function, int blocks, int threads),
        need(bytes); *bytes = available_shared(registered_kernel(function), blocks, threads))

namespace {

Dim cluster_of(const LaunchConfiguration &how) {
  for (unsigned k = 0; k < how.attribute_count; ++k)
    if (how.attributes[k].id == kAttributeCluster) return how.attributes[k].value.dim;
  return {};
}

}  // namespace

RUNTIME(cudaOccupancyMaxActiveClusters, (int *count, const void *function, const LaunchConfiguration *how),
        need(count && how);
        *count = int(clusters(registered_kernel(function), how->block, cluster_of(*how), how->dynamic_shared)))
RUNTIME(cudaOccupancyMaxPotentialClusterSize, (int *size, const void *function, const LaunchConfiguration *how),
        need(size && how); Kernel *kernel = registered_kernel(function);
        uint32_t most = kernel->non_portable_cluster ? 16 : 8;
        while (most > 1 && !clusters(kernel, how->block, {most, 1, 1}, how->dynamic_shared)) most /= 2;
        *size = int(most))
