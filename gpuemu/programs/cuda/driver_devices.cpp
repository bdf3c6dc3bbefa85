// The driver: devices, contexts, and its functions by name.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "driver.h"

namespace {

constexpr int kVersion = 13000;
constexpr int kMemoryPools = 115;

void need_device(int device) { need(device == 0, kInvalidDevice); }
void need_context(void *context) { need(context == primary_context(), kInvalidContext); }

void make_current(void **made, int device) {
  need(made);
  need_device(device);
  contexts().push_back(primary_context());
  *made = primary_context();
}

// Since when a variant is the one that a plain name stands for.
struct Since {
  const char *name;
  int version;
};

const Since kSince[] = {
    {"cuCtxCreate_v3", 11040},
    {"cuCtxCreate_v4", 12050},
    {"cuCtxGetDevice_v2", 13000},
    {"cuCtxSynchronize_v2", 13000},
    {"cuDeviceGetUuid_v2", 11040},
    {"cuEventElapsedTime_v2", 12080},
    {"cuGetProcAddress_v2", 12000},
    {"cuGraphAddDependencies_v2", 12030},
    {"cuGraphAddKernelNode_v2", 12000},
    {"cuGraphAddNode_v2", 12030},
    {"cuGraphExecKernelNodeSetParams_v2", 12000},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphGetEdges_v2", 12030},
    {"cuGraphKernelNodeGetParams_v2", 12000},
    {"cuGraphKernelNodeSetParams_v2", 12000},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphRemoveDependencies_v2", 12030},
    {"cuMemAdvise_v2", 12020},
    {"cuMemPrefetchAsync_v2", 12020},
    {"cuMemcpy3DBatchAsync_v2", 13000},
    {"cuMemcpyBatchAsync_v2", 13000},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamGetCtx_v2", 12050},
    {"cuStreamUpdateCaptureDependencies_v2", 12030},
};

int since(const std::string &name) {
  for (auto &one : kSince)
    if (name == one.name) return one.version;
  return 0;
}

void *own_symbol(const std::string &name) {
  static void *library = [] {
    Dl_info found;
    return dladdr(reinterpret_cast<void *>(&own_symbol), &found) ? dlopen(found.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  }();
  void *function = dlsym(library, name.c_str());
  return function;
}

}  // namespace

void *driver_function(const char *given, int version, bool per_thread) {
  if (strncmp(given, "cu", 2) || !strncmp(given, "cuda", 4)) return nullptr;
  std::string name = given;
  if (name == "cuGraphInstantiate" && version >= 12000) name = "cuGraphInstantiateWithFlags";
  for (const char *suffix : {"_v4", "_v3", "_v2", ""}) {
    std::string whole = name + suffix;
    if (since(whole) > version) continue;
    for (const char *variant : {"_ptsz", "_ptds"})
      if (per_thread)
        if (void *found = own_symbol(whole + variant)) return found;
    if (void *found = own_symbol(whole)) return found;
  }
  return nullptr;
}

API cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  if (!name || !function) return kInvalidValue;
  *function = driver_function(name, version, flags & 2);
  if (status) *status = *function ? 0 : 1;
  return *function ? kSuccess : kNotFound;
}
API cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

API cuInit(unsigned flags) {
  return guarded_call([&] { need(!flags); }, Needs::kDevice);
}
DRIVER_WITHOUT_DEVICE(cuDriverGetVersion, (int *version), need(version); *version = kVersion)
DRIVER_WITHOUT_CONTEXT(cuDeviceGet, (int *device, int number), need(device); need_device(number); *device = 0)
DRIVER_WITHOUT_CONTEXT(cuDeviceGetCount, (int *count), need(count); *count = 1)
DRIVER_WITHOUT_CONTEXT(cuDeviceGetName, (char *name, int bytes, int device),
                       need_device(device); need(name && bytes > 0); snprintf(name, size_t(bytes), "%s", state().chip.c_str()))
DRIVER_WITHOUT_CONTEXT(cuDeviceGetUuid, (char *uuid, int device), need_device(device); memcpy(uuid, state().uuid.data(), 16))
DRIVER_WITHOUT_CONTEXT(cuDeviceGetUuid_v2, (char *uuid, int device), need_device(device); memcpy(uuid, state().uuid.data(), 16))
DRIVER_WITHOUT_CONTEXT(cuDeviceGetLuid, (char *luid, unsigned *mask, int device), need_device(device); memset(luid, 0, 8); *mask = 0)
DRIVER_WITHOUT_CONTEXT(cuDeviceTotalMem_v2, (size_t *bytes, int device), need_device(device); need(bytes); *bytes = state().memory_bytes)
// Warp takes memory from a pool by its own runtime, if the device has one (see warp.cpp).
API cuDeviceGetAttribute(int *value, int attribute, int device) {
  void *caller = __builtin_return_address(0);
  return driver_call([&] {
    need_device(device);
    device_attribute(value, attribute);
    if (attribute == kMemoryPools && file_of(caller) == "warp.so") *value = 0;
  }, Needs::kDevice);
}
DRIVER_WITHOUT_CONTEXT(cuDeviceComputeCapability, (int *major, int *minor, int device),
                       need_device(device); *major = state().attribute(75); *minor = state().attribute(76))
DRIVER_WITHOUT_CONTEXT(cuDeviceCanAccessPeer, (int *can, int one, int other), need_device(one); need_device(other); *can = 0)
DRIVER_WITHOUT_CONTEXT(cuDeviceGetP2PAttribute, (int *value, int, int one, int other), need_device(one); need_device(other); *value = 0)
DRIVER_WITHOUT_CONTEXT(cuDeviceGetPCIBusId, (char *to, int bytes, int device),
                       need_device(device); need(to && bytes > 12); snprintf(to, size_t(bytes), "0000:%02x:00.0", state().attribute(33)))
DRIVER_WITHOUT_CONTEXT(cuDeviceGetByPCIBusId, (int *device, const char *name), need(device && name); *device = 0)

DRIVER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain, (void **context, int device), need_device(device); *context = primary_context())
DRIVER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRelease_v2, (int device), need_device(device))
DRIVER_WITHOUT_CONTEXT(cuDevicePrimaryCtxSetFlags_v2, (int device, unsigned), need_device(device))
DRIVER_WITHOUT_CONTEXT(cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active),
                       need_device(device); if (flags) *flags = 0; if (active) *active = 1)
DRIVER_WITHOUT_CONTEXT(cuCtxCreate_v2, (void **made, unsigned, int device), make_current(made, device))
DRIVER_WITHOUT_CONTEXT(cuCtxCreate_v3, (void **made, const void *, int, unsigned, int device), make_current(made, device))
DRIVER_WITHOUT_CONTEXT(cuCtxCreate_v4, (void **made, const void *, unsigned, int device), make_current(made, device))
DRIVER_WITHOUT_CONTEXT(cuCtxDestroy_v2, (void *context),
                       need_context(context); if (!contexts().empty()) contexts().pop_back())
DRIVER_WITHOUT_CONTEXT(cuCtxPushCurrent_v2, (void *context), need_context(context); contexts().push_back(context))
DRIVER_WITHOUT_CONTEXT(cuCtxPopCurrent_v2, (void **context),
                       need(!contexts().empty(), kInvalidContext);
                       if (context) *context = contexts().back(); contexts().pop_back())
DRIVER_WITHOUT_CONTEXT(cuCtxSetCurrent, (void *context),
                       if (context) need_context(context);
                       if (!contexts().empty()) contexts().pop_back();
                       if (context) contexts().push_back(context))
DRIVER_WITHOUT_CONTEXT(cuCtxGetCurrent, (void **context), need(context); *context = contexts().empty() ? nullptr : contexts().back())
DRIVER(cuCtxGetDevice, (int *device), need(device); *device = 0)
DRIVER_WITHOUT_CONTEXT(cuCtxGetDevice_v2, (int *device, void *context),
                       if (context) need_context(context); else need(!contexts().empty(), kInvalidContext);
                       need(device); *device = 0)
DRIVER_WITHOUT_CONTEXT(cuCtxSynchronize_v2, (void *context),
                       if (context) need_context(context); else need(!contexts().empty(), kInvalidContext);
                       synchronize_device())
DRIVER(cuCtxGetApiVersion, (void *, unsigned *version), need(version); *version = 3020)
DRIVER(cuCtxGetFlags, (unsigned *flags), need(flags); *flags = 8)
DRIVER(cuCtxSetFlags, (unsigned), )
DRIVER(cuCtxGetId, (void *, unsigned long long *number), need(number); *number = 1)
DRIVER(cuCtxGetLimit, (size_t *value, int which), need(value); get_limit(value, which))
DRIVER(cuCtxSetLimit, (int which, size_t value), set_limit(which, value))
DRIVER(cuCtxEnablePeerAccess, (void *, unsigned), fail(kInvalidDevice))
DRIVER(cuCtxDisablePeerAccess, (void *), fail(kInvalidDevice))
DRIVER_IN_STREAM(cuStreamGetCtx, (void *stream, void **context), stream_of(stream); *context = primary_context())
DRIVER_IN_STREAM(cuStreamGetCtx_v2, (void *stream, void **context, void **green),
                 stream_of(stream); if (green) *green = nullptr; if (context) *context = primary_context())
DRIVER_WITHOUT_DEVICE(cuModuleGetLoadingMode, (int *mode), need(mode); *mode = 2)
// Callbacks that get error logs of the driver, of which there are none.
DRIVER_WITHOUT_DEVICE(cuLogsRegisterCallback, (void *callback, void *, void **handle), need(callback); if (handle) *handle = callback)
DRIVER_WITHOUT_DEVICE(cuLogsUnregisterCallback, (void *handle), need(handle))
