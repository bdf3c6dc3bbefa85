// The driver: modules, kernels and launches.
#include <algorithm>
#include <cstring>

#include "driver.h"

namespace {

struct Configuration {  // CUlaunchConfig
  Dim grid, block;
  unsigned shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned attribute_count;
};

Module *module_of(void *handle) {
  need(is_module(handle), kInvalidHandle);
  return static_cast<Module *>(handle);
}

Kernel *kernel_of(void *handle) {
  need(is_kernel(handle), kInvalidHandle);
  return known(static_cast<Kernel *>(handle));
}

void attribute(int *value, int which, Kernel *kernel) {
  need(value);
  Dim cluster = kernel->cluster.count() ? kernel->cluster : kernel->required_cluster;
  const int values[] = {
      int(kernel->max_threads), int(kernel->static_shared), int(kernel->constant_bytes), int(kernel->local_bytes),
      int(kernel->registers), int(kernel->ptx_version), int(kernel->binary_version), 0,
      int(kernel->dynamic_shared_limit()), kernel->carveout, kernel->cluster_must_be_set, int(cluster.x),
      int(cluster.y), int(cluster.z), kernel->non_portable_cluster, 0};
  need(which >= 0 && which < 16);
  *value = values[which];
}

void launch(void *function, Dim grid, Dim block, Dim cluster, unsigned shared, void *stream, bool cooperative,
            void **arguments, void **extra) {
  submit(launch_with(kernel_of(function), grid, block, cluster, shared, cooperative, arguments, extra),
         stream_of(stream));
}

void launch_ex(const Configuration &how, void *function, void **arguments, void **extra, void *stream) {
  Dim cluster{};
  bool cooperative = false;
  for (unsigned k = 0; k < how.attribute_count; ++k) {
    if (how.attributes[k].id == kAttributeCluster) cluster = how.attributes[k].value.dim;
    if (how.attributes[k].id == kAttributeCooperative) cooperative = how.attributes[k].value.number;
  }
  launch(function, how.grid, how.block, cluster, how.shared, stream, cooperative, arguments, extra);
}

void give_global(uint64_t *address, size_t *bytes, Module *module, const char *name) {
  Variable *found = known(module->variable(name));
  if (address) *address = found->address;
  if (bytes) *bytes = found->bytes;
}

// The block with which most threads of a kernel live on an SM, the largest of them, and the CTAs that fill the chip.
void best_block(int *grid, int *block, Kernel *kernel, size_t (*shared_of)(int), size_t shared, int limit) {
  need(grid && block);
  const int warp = state().attribute(10), most = int(known(kernel)->max_threads);
  if (limit <= 0 || limit > most) limit = most;
  int best = 0;
  for (int whole = (limit + warp - 1) / warp * warp; whole > 0; whole -= warp) {
    int threads = std::min(whole, limit);
    int blocks = int(occupancy(kernel, threads, shared_of ? shared_of(threads) : shared));
    if (blocks * threads <= best) continue;
    best = blocks * threads, *block = threads, *grid = blocks * state().attribute(16);
    if (best == state().attribute(39)) break;
  }
}

}  // namespace

void empty_logs(unsigned count, const int *options, void **values) {
  constexpr int kWallTime = 2;  // a float in the place of the pointer
  for (unsigned k = 0; k < count; ++k) {
    bool is_buffer = options[k] == 3 || options[k] == 5, is_size = options[k] == 4 || options[k] == 6;
    if (is_buffer && values[k]) *static_cast<char *>(values[k]) = 0;
    if (is_size || options[k] == kWallTime) values[k] = nullptr;
  }
}

DRIVER(cuOccupancyMaxPotentialBlockSize, (int *grid, int *block, void *kernel, size_t (*shared_of)(int), size_t shared, int limit),
       best_block(grid, block, kernel_of(kernel), shared_of, shared, limit))
DRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags,
       (int *grid, int *block, void *kernel, size_t (*shared_of)(int), size_t shared, int limit, unsigned),
       best_block(grid, block, kernel_of(kernel), shared_of, shared, limit))
DRIVER(cuModuleLoad, (Module **made, const char *path), need(made && path); *made = load_file(path))
DRIVER(cuModuleLoadData, (Module **made, const void *image), need(made && image); *made = load_image(image))
DRIVER(cuModuleLoadDataEx, (Module **made, const void *image, unsigned count, const int *options, void **values),
       need(made && image); empty_logs(count, options, values); *made = load_image(image))
DRIVER(cuModuleLoadFatBinary, (Module **made, const void *image), need(made && image); *made = load_image(image))
DRIVER(cuModuleUnload, (void *module), remove_module(module_of(module)))
DRIVER(cuModuleGetFunction, (Kernel **kernel, void *module, const char *name),
       need(kernel && name); *kernel = known(module_of(module)->kernel(name)))
DRIVER(cuModuleGetGlobal_v2, (uint64_t *address, size_t *bytes, void *module, const char *name),
       need(name); give_global(address, bytes, module_of(module), name))
DRIVER(cuModuleGetFunctionCount, (unsigned *count, void *module), need(count); *count = unsigned(module_of(module)->kernel_names().size()))
DRIVER(cuModuleEnumerateFunctions, (Kernel **kernels, unsigned count, void *module),
       auto names = module_of(module)->kernel_names();
       for (unsigned k = 0; k < count && k < names.size(); ++k) kernels[k] = module_of(module)->kernel(names[k]))
DRIVER(cuLibraryGetModule, (void **module, void *library), need(module); *module = module_of(library))

DRIVER(cuKernelGetFunction, (void **function, void *kernel), need(function); *function = kernel_of(kernel))
DRIVER(cuKernelGetLibrary, (Module **library, void *kernel), need(library); *library = kernel_of(kernel)->module)
DRIVER(cuKernelGetName, (const char **name, void *kernel), need(name); *name = kernel_of(kernel)->name.c_str())
DRIVER(cuKernelGetAttribute, (int *value, int which, void *kernel, int), attribute(value, which, kernel_of(kernel)))
DRIVER(cuKernelSetAttribute, (int which, int value, void *kernel, int), set_function_attribute(kernel_of(kernel), which, value))
DRIVER(cuKernelSetCacheConfig, (void *kernel, int, int), kernel_of(kernel))
DRIVER(cuKernelGetParamInfo, (void *kernel, size_t index, size_t *offset, size_t *bytes),
       auto &all = kernel_of(kernel)->parameters; need(index < all.size());
       *offset = all[index].offset; if (bytes) *bytes = all[index].bytes)
DRIVER(cuFuncGetAttribute, (int *value, int which, void *kernel), attribute(value, which, kernel_of(kernel)))
DRIVER(cuFuncSetAttribute, (void *kernel, int which, int value), set_function_attribute(kernel_of(kernel), which, value))
DRIVER(cuFuncGetModule, (Module **module, void *kernel), need(module); *module = kernel_of(kernel)->module)
DRIVER(cuFuncGetName, (const char **name, void *kernel), need(name); *name = kernel_of(kernel)->name.c_str())
DRIVER(cuFuncGetParamInfo, (void *kernel, size_t index, size_t *offset, size_t *bytes),
       auto &all = kernel_of(kernel)->parameters; need(index < all.size());
       *offset = all[index].offset; if (bytes) *bytes = all[index].bytes)
DRIVER(cuFuncIsLoaded, (int *loaded, void *kernel), need(loaded); kernel_of(kernel); *loaded = 1)
DRIVER(cuFuncLoad, (void *kernel), kernel_of(kernel))

DRIVER_IN_STREAM(cuLaunchKernel,
                 (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **arguments, void **extra),
                 launch(function, {gx, gy, gz}, {bx, by, bz}, {}, shared, stream, false, arguments, extra))
DRIVER_IN_STREAM(cuLaunchCooperativeKernel,
                 (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **arguments),
                 launch(function, {gx, gy, gz}, {bx, by, bz}, {}, shared, stream, true, arguments, nullptr))
DRIVER(cuLaunchKernelEx, (const Configuration *how, void *function, void **arguments, void **extra),
       need(how); launch_ex(*how, function, arguments, extra, how->stream))
DRIVER(cuLaunchKernelEx_ptsz, (const Configuration *how, void *function, void **arguments, void **extra),
       need(how); launch_ex(*how, function, arguments, extra, legacy_to_thread(how->stream)))
DRIVER(cuOccupancyMaxActiveClusters, (int *count, void *function, const Configuration *how),
       need(count && how); Dim cluster{};
       for (unsigned k = 0; k < how->attribute_count; ++k)
         if (how->attributes[k].id == kAttributeCluster) cluster = how->attributes[k].value.dim;
       *count = int(clusters(kernel_of(function), how->block, cluster, how->shared)))

// A tensor map: 128 bytes, as gpuemu/sass/machine/memory/tensor_map.py describes them. This function writes the words
// that all kinds have, and returns whether there is such a map. `channels`: elements of dimension 0 that a copy takes.
static bool tensor_map(uint32_t word[32], uint32_t type, uint32_t rank, void *array, const uint64_t *shape,
                       const uint64_t *strides, uint32_t channels, const uint32_t *steps, uint32_t interleave,
                       uint32_t swizzle, uint32_t fetch, uint32_t fill) {
  // From the seventh on: f16, f32, f64, bf16, f32 thrice, elements of 4 bits without and with padding.
  static const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 7, 7, 8, 11, 12};
  constexpr uint32_t kOf128 = 3, kMostSwizzles = 6;  // from 4 on: of 128 bytes in chunks of 32, of 32 that flip, of 64
  constexpr uint32_t kTypes = sizeof numbers / sizeof *numbers;
  if (type >= kTypes || rank < 1 || rank > 5 || interleave || swizzle > kMostSwizzles) return false;
  const uint32_t chunks = swizzle > kOf128 ? swizzle - kOf128 : 0;
  if (chunks) swizzle = kOf128;
  memcpy(word, &array, sizeof array);
  word[2] = (rank - 1) << 4 | numbers[type] << 7 | swizzle << 13 | fill << 15 | (type == 11 || type == 12) << 16 | fetch << 17 |
            chunks << 19;
  for (uint32_t k = 0; k < rank; ++k) {
    if (k) word[2 + k] = uint32_t(strides[k - 1] >> 4), word[7] |= uint32_t(strides[k - 1] >> 36) << 4 * (k - 1);
    word[8 + k] = uint32_t(shape[k] - 1);
    word[13] |= (steps[k] - 1) << 3 * k;
  }
  word[13] |= (channels - 1) << 24;
  return true;
}

API cuTensorMapEncodeTiled(void *map, uint32_t type, uint32_t rank, void *array, const uint64_t *shape,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, uint32_t interleave,
                           uint32_t swizzle, uint32_t fetch, uint32_t fill) {
  uint32_t word[32] = {};
  if (!tensor_map(word, type, rank, array, shape, strides, *box, steps, interleave, swizzle, fetch, fill))
    return kInvalidValue;
  for (uint32_t k = 1; k < rank; ++k) word[14] |= (box[k] - 1) << 8 * (k - 1);
  memcpy(map, word, sizeof word);
  return kSuccess;
}

// The corners of the bounding box have 16, 8 or 5 bits each for one, two or three dimensions of pixels.
API cuTensorMapEncodeIm2col(void *map, uint32_t type, uint32_t rank, void *array, const uint64_t *shape,
                            const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                            uint32_t pixels, const uint32_t *steps, uint32_t interleave, uint32_t swizzle,
                            uint32_t fetch, uint32_t fill) {
  constexpr uint32_t kMostPixels = 1024, kMostChannels = 256;
  uint32_t word[32] = {};
  if (rank < 3 || pixels - 1 >= kMostPixels || channels - 1 >= kMostChannels ||
      !tensor_map(word, type, rank, array, shape, strides, channels, steps, interleave, swizzle, fetch, fill))
    return kInvalidValue;
  const uint32_t bits = rank == 3 ? 16 : rank == 4 ? 8 : 5;
  const int most = 1 << (bits - 1);
  for (uint32_t k = 0; k + 2 < rank; ++k) {
    if (lower[k] < -most || lower[k] >= most || upper[k] < -most || upper[k] >= most) return kInvalidValue;
    const uint32_t mask = (1u << bits) - 1;
    word[14] |= (uint32_t(lower[k]) & mask) << bits * k | (uint32_t(upper[k]) & mask) << (16 + bits * k);
  }
  word[2] |= 1;
  word[15] = pixels - 1;
  memcpy(map, word, sizeof word);
  return kSuccess;
}
