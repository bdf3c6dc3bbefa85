// The part of the CUDA runtime that programs need to come to their launches, on a machine without a GPU.
//
// Device memory is a file that the emulator has open, too, mapped at the device's addresses: what the host copies
// there, kernels find there, and the other way round. Modules, variables and launches go over a socket to the emulator
// (serving.py), a line each; a launch returns when the emulator has done it. File descriptors stand in GPUEMU_SOCKET
// and GPUEMU_HEAP. Streams are in order, events take no time, and errors other than a lack of memory end the program.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr uintptr_t kBase = 0x700000000000;
constexpr size_t kBytes = size_t(1) << 36;
constexpr size_t kVariables = size_t(1) << 30;  // in front: the emulator places variables there
constexpr size_t kPage = size_t(1) << 21;  // as the GPU maps memory: what lies behind an allocation in its page is there

struct Module {
  int number;
};

struct Symbol {
  int module;
  std::string name;
};

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};

int connection = -1;
uintptr_t next = kBase + kVariables;

std::map<const void *, Symbol> &functions() {
  static auto *found = new std::map<const void *, Symbol>;
  return *found;
}

std::map<const void *, Symbol> &variables() {
  static auto *found = new std::map<const void *, Symbol>;
  return *found;
}

std::map<uintptr_t, size_t> &allocations() {
  static auto *found = new std::map<uintptr_t, size_t>;
  return *found;
}

std::vector<Configuration> &configurations() {
  static auto *found = new std::vector<Configuration>;
  return *found;
}

[[noreturn]] void end(const char *why) {
  fprintf(stderr, "gpuemu: %s\n", why);
  _exit(3);
}

void connect() {
  if (connection >= 0) return;
  const char *socket = getenv("GPUEMU_SOCKET"), *heap = getenv("GPUEMU_HEAP");
  if (!socket || !heap) end("this program runs under python -m validation.flopbench");
  connection = atoi(socket);
  void *there = mmap(reinterpret_cast<void *>(kBase), kBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, atoi(heap), 0);
  if (there != reinterpret_cast<void *>(kBase)) end("no room for the device's memory");
}

void say(const void *data, size_t bytes) {
  auto at = static_cast<const char *>(data);
  while (bytes) {
    ssize_t done = write(connection, at, bytes);
    if (done <= 0) _exit(0);  // the emulator has seen enough
    at += done;
    bytes -= done;
  }
}

std::string hear() {
  std::string line;
  char c;
  while (read(connection, &c, 1) == 1) {
    if (c == '\n') return line;
    line += c;
  }
  _exit(0);
}

std::string ask(const std::string &line) {
  connect();
  say((line + "\n").data(), line.size() + 1);
  return hear();
}

char *address(const void *symbol) {
  auto found = variables().find(symbol);
  if (found == variables().end()) end("a variable that no module has");
  auto offset = ask("variable " + std::to_string(found->second.module) + " " + found->second.name);
  return reinterpret_cast<char *>(kBase) + strtoull(offset.c_str(), nullptr, 10);
}

cudaError_t allocate(void **pointer, size_t bytes) {
  connect();
  size_t whole = (bytes + kPage) / kPage * kPage;
  if (next + whole > kBase + kBytes) return cudaErrorMemoryAllocation;
  *pointer = reinterpret_cast<void *>(next);
  allocations()[next] = whole;
  ask("allocate " + std::to_string(next - kBase) + " " + std::to_string(whole));
  next += whole;
  return cudaSuccess;
}

cudaError_t release(void *pointer) {
  auto found = allocations().find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations().end()) return pointer ? cudaErrorInvalidValue : cudaSuccess;
  ask("free " + std::to_string(found->first - kBase));
  madvise(pointer, found->second, MADV_REMOVE);
  allocations().erase(found);
  return cudaSuccess;
}

cudaError_t launch(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                   dim3 cluster = dim3(0, 0, 0)) {
  auto found = functions().find(function);
  if (found == functions().end()) end("a kernel that no module has");
  char line[256];
  snprintf(line, sizeof line, " %u %u %u %u %u %u %zu %u %u %u", grid.x, grid.y, grid.z, block.x, block.y, block.z,
           shared, cluster.x, cluster.y, cluster.z);
  std::string sizes = ask("launch " + std::to_string(found->second.module) + " " + found->second.name + line);
  const char *at = sizes.c_str();
  for (int k = 0; *at; ++k) {
    char *behind;
    size_t bytes = strtoull(at, &behind, 10);
    say(arguments[k], bytes);
    at = *behind ? behind + 1 : behind;
  }
  hear();
  return cudaSuccess;
}

enum { kSms, kMajor, kMinor, kShared };

int device(int what) {
  static int *values = [] {
    static int found[] = {68, 8, 6, 101376};  // an RTX 3080
    if (const char *told = getenv("GPUEMU_DEVICE"))
      sscanf(told, "%d %d %d %d", found + kSms, found + kMajor, found + kMinor, found + kShared);
    return found;
  }();
  return values[what];
}

void copy(void *to, const void *from, size_t bytes) { memmove(to, from, bytes); }

void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row)
    memmove(static_cast<char *>(to) + row * to_pitch, static_cast<const char *>(from) + row * from_pitch, width);
}

}  // namespace

extern "C" {

// -- modules, as the code behind main registers them --------------------------------------------------------

void **__cudaRegisterFatBinary(void *wrapper) {
  static int modules = 0;
  auto data = static_cast<const char *>(static_cast<void **>(wrapper)[1]);  // behind magic number and version
  auto header = *reinterpret_cast<const uint16_t *>(data + 6);
  auto content = *reinterpret_cast<const uint64_t *>(data + 8);
  connect();
  std::string line = "module " + std::to_string(modules) + " " + std::to_string(header + content) + "\n";
  say(line.data(), line.size());
  say(data, header + content);
  hear();
  return reinterpret_cast<void **>(new Module{modules++});
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
char __cudaInitModule(void **) { return 0; }
void __cudaRegisterFunction(void **module, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *) {
  functions()[host] = {reinterpret_cast<Module *>(module)->number, name};
}
void __cudaRegisterVar(void **module, char *host, char *, const char *name, int, size_t, int, int) {
  variables()[host] = {reinterpret_cast<Module *>(module)->number, name};
}
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int) {
  end("__managed__ variables are not served");
}

// -- launches ----------------------------------------------------------------------------------------------

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  auto last = configurations().back();
  configurations().pop_back();
  *grid = last.grid, *block = last.block, *shared = last.shared, *static_cast<cudaStream_t *>(stream) = last.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t) {
  return launch(kernel, grid, block, arguments, shared);
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t) {
  return launch(function, grid, block, arguments, shared);
}
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t) {
  return launch(function, grid, block, arguments, shared);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *function, void **arguments) {
  dim3 cluster(0, 0, 0);
  for (unsigned k = 0; k < how->numAttrs; ++k)
    if (how->attrs[k].id == cudaLaunchAttributeClusterDimension) {
      auto &size = how->attrs[k].val.clusterDim;
      cluster = dim3(size.x, size.y, size.z);
    }
  return launch(function, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes, cluster);
}

// -- memory ------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return allocate(pointer, bytes); }
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t) { return allocate(pointer, bytes); }
cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned) { return allocate(pointer, bytes); }
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return allocate(pointer, bytes); }
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return allocate(pointer, bytes); }
cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height);
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  *device = host;
  return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) { return release(pointer); }
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t) { return release(pointer); }
cudaError_t cudaFreeHost(void *pointer) { return release(pointer); }
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *free = size_t(9) << 30, *total = size_t(10) << 30;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind) {
  copy_rows(to, to_pitch, from, from_pitch, width, height);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t) {
  copy_rows(to, to_pitch, from, from_pitch, width, height);
  return cudaSuccess;
}
cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  memset(pointer, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t) {
  memset(pointer, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, cudaMemcpyKind) {
  copy(address(symbol) + offset, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind) {
  copy(to, address(symbol) + offset, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    cudaMemcpyKind, cudaStream_t) {
  copy(address(symbol) + offset, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind,
                                      cudaStream_t) {
  copy(to, address(symbol) + offset, bytes);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
  *pointer = address(symbol);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *pointer) {
  memset(found, 0, sizeof *found);
  auto at = reinterpret_cast<uintptr_t>(pointer);
  bool device = at >= kBase && at < kBase + kBytes;
  found->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  found->devicePointer = found->hostPointer = const_cast<void *>(pointer);
  return cudaSuccess;
}

// -- tensor maps ---------------------------------------------------------------------------------------------

// The 128 bytes as gpuemu/sass/machine/tensor_map.py describes them.
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *array,
                                const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion fetch, CUtensorMapFloatOOBfill fill) {
  static const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 7, 7, 8};  // of f16, f32, f64, bf16, and as tf32
  constexpr uint32_t kTypes = sizeof numbers / sizeof *numbers;
  if (type >= kTypes || rank < 1 || rank > 5 || interleave) return CUDA_ERROR_INVALID_VALUE;
  uint32_t word[32] = {};
  memcpy(word, &array, sizeof array);
  word[2] = (rank - 1) << 4 | numbers[type] << 7 | swizzle << 13 | fill << 15 | (type >= 11) << 16 | fetch << 17;
  for (uint32_t k = 0; k < rank; ++k) {
    if (k) word[2 + k] = uint32_t(strides[k - 1] >> 4), word[7] |= uint32_t(strides[k - 1] >> 36) << 4 * (k - 1);
    word[8 + k] = uint32_t(shape[k] - 1);
    word[13] |= (steps[k] - 1) << 3 * k | (k ? 0 : (box[k] - 1) << 24);
    if (k) word[14] |= (box[k] - 1) << 8 * (k - 1);
  }
  memcpy(map, word, sizeof *map);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "an error of the stand-in driver";
  return CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *found) {
  bool known = !strcmp(name, "cuTensorMapEncodeTiled");
  *function = known ? reinterpret_cast<void *>(&cuTensorMapEncodeTiled) : nullptr;
  if (found) *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return known ? cudaSuccess : cudaErrorSymbolNotFound;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// -- the device: an RTX 3080, or what GPUEMU_DEVICE says -------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *found, int) {
  memset(found, 0, sizeof *found);
  strcpy(found->name, "NVIDIA GeForce RTX 3080");
  found->totalGlobalMem = size_t(10) << 30;
  found->sharedMemPerBlock = 49152, found->sharedMemPerBlockOptin = device(kShared), found->sharedMemPerMultiprocessor = 102400;
  found->regsPerBlock = found->regsPerMultiprocessor = 65536;
  found->warpSize = 32;
  found->maxThreadsPerBlock = 1024, found->maxThreadsPerMultiProcessor = 1536, found->maxBlocksPerMultiProcessor = 16;
  found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024, found->maxThreadsDim[2] = 64;
  found->maxGridSize[0] = 2147483647, found->maxGridSize[1] = found->maxGridSize[2] = 65535;
  found->totalConstMem = 65536;
  found->major = device(kMajor), found->minor = device(kMinor);
  found->multiProcessorCount = device(kSms);
  found->l2CacheSize = 5242880;
  found->memoryBusWidth = 320;
  found->asyncEngineCount = 2;
  found->concurrentKernels = found->unifiedAddressing = found->managedMemory = found->cooperativeLaunch = 1;
  found->concurrentManagedAccess = found->pageableMemoryAccess = found->canMapHostMemory = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  static const std::map<int, int> known = {
      {cudaDevAttrMaxThreadsPerBlock, 1024}, {cudaDevAttrMaxBlockDimX, 1024}, {cudaDevAttrMaxGridDimX, 2147483647},
      {cudaDevAttrMaxGridDimY, 65535}, {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, device(kShared)}, {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 102400},
      {cudaDevAttrWarpSize, 32}, {cudaDevAttrMultiProcessorCount, device(kSms)}, {cudaDevAttrMaxThreadsPerMultiProcessor, 1536},
      {cudaDevAttrComputeCapabilityMajor, device(kMajor)}, {cudaDevAttrComputeCapabilityMinor, device(kMinor)}, {cudaDevAttrClockRate, 1440000},
      {cudaDevAttrMaxRegistersPerBlock, 65536}, {cudaDevAttrL2CacheSize, 5242880}, {cudaDevAttrManagedMemory, 1},
      {cudaDevAttrConcurrentManagedAccess, 1}, {cudaDevAttrPageableMemoryAccess, 1}, {cudaDevAttrCooperativeLaunch, 1},
      {cudaDevAttrUnifiedAddressing, 1}, {cudaDevAttrConcurrentKernels, 1}};
  auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, const void *) {
  memset(found, 0, sizeof *found);
  found->maxThreadsPerBlock = 1024, found->ptxVersion = found->binaryVersion = 86, found->numRegs = 32;
  found->maxDynamicSharedSizeBytes = 49152;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads, size_t) {
  *blocks = threads > 768 ? 1 : 1536 / (threads > 96 ? threads : 96);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads,
                                                                   size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *, const cudaLaunchConfig_t *) {
  *clusters = device(kSms) / 2;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = 0;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void *, size_t, cudaMemLocation, unsigned, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
#else
cudaError_t cudaMemPrefetchAsync(const void *, size_t, int, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, int) { return cudaSuccess; }
#endif
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *texture, const cudaResourceDesc *, const cudaTextureDesc *,
                                    const cudaResourceViewDesc *) {
  *texture = 0;  // kernels that read it are refused
  return cudaSuccess;
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t) { return cudaSuccess; }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaErrorNotSupported; }

// -- streams, events and errors ------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1.0f;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "an error of the stand-in runtime"; }
const char *cudaGetErrorName(cudaError_t) { return "cudaError"; }

}  // extern "C"
