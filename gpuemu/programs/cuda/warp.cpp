// The library of Warp (warp.so) contains NVIDIA's runtime without names. But Warp publishes its own functions, which its
// Python code calls. The auditor replaces those here that would call the runtime. The others of warp.so call the driver,
// or end in cuGetExportTable, which refuses the program with their name.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime.h"

API cudaMalloc(void **, size_t);
API cudaFree(void *);
API cudaMallocHost(void **, size_t);
API cudaFreeHost(void *);
API cudaMallocManaged(void **, size_t, unsigned);
API cudaGetLastError();
API cudaDeviceSynchronize();
API cudaEventElapsedTime(float *, void *, void *);
API cudaGraphLaunch(void *, void *);
EXPORT const char *cudaGetErrorString(Code);

namespace {

constexpr char kVersion[] = "1.19.";
constexpr int kMostDimensions = 4, kRegularArray = 0;
void *const kCurrentStream = reinterpret_cast<void *>(~uintptr_t(0));
constexpr size_t kWordBytes = 4;

struct Array {
  char *data, *gradient;
  int shape[kMostDimensions], strides[kMostDimensions];  // in bytes
  uint16_t dimensions, flags;
};

int captures = 0;
std::vector<std::pair<void *, Code (*)(void *)>> freed_in_captures;

// The functions of warp.so that stay as they are.
struct Library {
  void *(*stream)(void *context) = nullptr;
  int (*is_tracking)() = nullptr;
  void *(*recording)() = nullptr;
};

int find_file(dl_phdr_info *object, size_t, void *path) {
  std::string name = object->dlpi_name;
  bool is_it = name.size() > 8 && !name.compare(name.size() - 8, 8, "/warp.so");
  if (is_it) *static_cast<std::string *>(path) = name;
  return is_it;
}

template <class Function>
void look_up(void *library, const char *name, Function *&found) {
  found = reinterpret_cast<Function *>(dlsym(library, name));
  if (!found) refuse("warp.so", std::string("has no function ") + name + ". Install Warp 1.19.");
}

const Library &library() {
  static const Library found = [] {
    std::string path;
    dl_iterate_phdr(find_file, &path);
    void *file = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    const char *(*version)() = nullptr;
    look_up(file, "wp_version", version);
    if (strncmp(version(), kVersion, sizeof kVersion - 1))
      refuse("warp.so", std::string("is of Warp ") + version() + ". gpuemu knows the functions of Warp 1.19. Install it.");
    Library made;
    look_up(file, "wp_cuda_context_get_stream", made.stream);
    look_up(file, "wp_alloc_tracker_is_enabled", made.is_tracking);
    look_up(file, "wp_apic_get_cuda_recording_state", made.recording);
    return made;
  }();
  return found;
}

void *stream_in(void *context, void *stream) { return stream == kCurrentStream ? library().stream(context) : stream; }

void need_no_records() {
  if (library().is_tracking()) refuse("wp.ScopedMemoryTracker", "is not provided. Remove it from the program.");
  if (library().recording()) refuse("wp.capture_save", "is not provided. Capture the graph without apic=True.");
}

// Warp prints an error of CUDA and goes on; its Python code raises an exception for the result.
bool is_done(const char *function, Code code) {
  if (code) fprintf(stderr, "Warp: %s: CUDA error %d: %s\n", function, code, cudaGetErrorString(code));
  return !code;
}

bool does(const char *function, const Deed &deed) { return is_done(function, runtime_call(deed)); }

void copy(void *to, const void *source, size_t bytes, int kind, void *stream) {
  need_no_records();
  submit(plain_copy(to, source, bytes, kind, false), stream_of(stream));
}

const Array &regular(void *array, int type, const char *function) {
  if (type != kRegularArray) refuse(function, "is not provided for indexed arrays and arrays of Fabric. Use wp.array.");
  auto &found = *static_cast<const Array *>(array);
  need(found.dimensions >= 1 && found.dimensions <= kMostDimensions);
  return found;
}

// Calls take(start, pitch, plane, height, depth) for each part of an array that has at most two dimensions.
struct Part {
  size_t offset[2], pitch[2], plane[2], height, depth;
};

template <class Take>
void each_part(const Array &one, const Array &other, Take take) {
  size_t shape[kMostDimensions], steps[2][kMostDimensions];
  for (int k = 0; k < kMostDimensions; ++k) {
    int from = k - (kMostDimensions - one.dimensions);  // as if the array had four dimensions, the first of size 1
    shape[k] = from < 0 ? 1 : size_t(one.shape[from]);
    need(from < 0 || (one.shape[from] == other.shape[from] && one.strides[from] >= 0 && other.strides[from] >= 0));
    steps[0][k] = from < 0 ? 0 : size_t(one.strides[from]), steps[1][k] = from < 0 ? 0 : size_t(other.strides[from]);
  }
  for (size_t i = 0; i < shape[0]; ++i)
    for (size_t j = 0; j < shape[1]; ++j) {
      Part part{};
      for (int k = 0; k < 2; ++k) {
        part.offset[k] = i * steps[k][0] + j * steps[k][1];
        part.plane[k] = steps[k][2], part.pitch[k] = steps[k][3];
      }
      part.depth = shape[2], part.height = shape[3];
      take(part);
    }
}

void fill(char *to, size_t pitch, size_t plane, size_t height, size_t depth, const void *value, size_t bytes,
          Stream *stream) {
  need_no_records();
  size_t element = bytes % kWordBytes ? 1 : kWordBytes;
  for (size_t at = 0; at < bytes; at += element) {
    uint32_t word = 0;
    memcpy(&word, static_cast<const char *>(value) + at, element);
    submit(FillWork{to + at, pitch, plane, word, uint32_t(element), element, height, depth}, stream);
  }
}

void release_later_or_now(void *pointer, Code (*release)(void *), const char *function) {
  if (captures) return void(freed_in_captures.emplace_back(pointer, release));
  is_done(function, release(pointer));
}

}  // namespace

// -- memory ------------------------------------------------------------------------------------------------------

EXPORT void *wp_alloc_pinned(size_t bytes, const char *) {
  need_no_records();
  void *made = nullptr;
  is_done(__func__, cudaMallocHost(&made, bytes));
  return made;
}
EXPORT void wp_free_pinned(void *pointer) { release_later_or_now(pointer, cudaFreeHost, __func__); }
EXPORT void *wp_alloc_device_default(void *, size_t bytes, const char *) {
  need_no_records();
  void *made = nullptr;
  is_done(__func__, cudaMalloc(&made, bytes));
  return made;
}
EXPORT void wp_free_device_default(void *, void *pointer) { release_later_or_now(pointer, cudaFree, __func__); }
EXPORT void *wp_alloc_device_managed(void *, size_t bytes, const char *) {
  need_no_records();
  void *made = nullptr;
  is_done(__func__, cudaMallocManaged(&made, bytes, 1));
  return made;
}

EXPORT bool wp_memcpy_h2d(void *context, void *to, void *source, size_t bytes, void *stream) {
  return does(__func__, [&] { copy(to, source, bytes, kHostToDevice, stream_in(context, stream)); });
}
EXPORT bool wp_memcpy_d2h(void *context, void *to, void *source, size_t bytes, void *stream) {
  return does(__func__, [&] { copy(to, source, bytes, kDeviceToHost, stream_in(context, stream)); });
}
EXPORT bool wp_memcpy_d2d(void *context, void *to, void *source, size_t bytes, void *stream) {
  return does(__func__, [&] { copy(to, source, bytes, kDeviceToDevice, stream_in(context, stream)); });
}
EXPORT bool wp_memset_device(void *context, void *to, int value, size_t bytes, void *stream) {
  return does(__func__, [&] {
    need_no_records();
    submit(plain_fill(to, uint32_t(value & 0xFF), 1, bytes), stream_of(stream_in(context, stream)));
  });
}
EXPORT void wp_memtile_device(void *context, void *to, const void *value, size_t bytes, size_t count) {
  does(__func__, [&] {
    fill(static_cast<char *>(to), bytes, 0, count, 1, value, bytes, stream_of(library().stream(context)));
  });
}

// On a GPU these two run a kernel. Here they are fills and copies of rows, with the same values.
EXPORT void wp_array_fill_device(void *context, void *array, int type, const void *value, int bytes) {
  if (!array || !value) return;
  const char *name = __func__;
  does(name, [&] {
    const Array &to = regular(array, type, name);
    Stream *stream = stream_of(library().stream(context));
    each_part(to, to, [&](const Part &part) {
      fill(to.data + part.offset[0], part.pitch[0], part.plane[0], part.height, part.depth, value, size_t(bytes), stream);
    });
  });
}
EXPORT bool wp_array_copy_device(void *context, void *to_array, void *from_array, int to_type, int from_type, int bytes) {
  if (!to_array || !from_array) return false;
  const char *name = __func__;
  return does(name, [&] {
    const Array &to = regular(to_array, to_type, name), &from = regular(from_array, from_type, name);
    need_no_records();
    need(to.dimensions == from.dimensions);
    Stream *stream = stream_of(library().stream(context));
    each_part(to, from, [&](const Part &part) {
      submit(CopyWork{to.data + part.offset[0], part.pitch[0], part.plane[0], from.data + part.offset[1], part.pitch[1],
                      part.plane[1], size_t(bytes), part.height, part.depth, kDeviceToDevice, false},
             stream);
    });
  });
}

// -- streams, events and graphs ----------------------------------------------------------------------------------

EXPORT uint64_t wp_cuda_context_check(void *) {
  Code code = cudaGetLastError();
  is_done(__func__, code);
  if (!captures) is_done(__func__, cudaDeviceSynchronize()), code = cudaGetLastError();
  return uint64_t(code);
}
EXPORT int wp_cuda_stream_is_capturing(void *stream) {
  bool found = false;
  does(__func__, [&] { found = stream_of(stream)->capture; });
  return found;
}
EXPORT int wp_cuda_stream_is_blocking(void *stream) {
  unsigned flags = 0;
  does(__func__, [&] { flags = stream_of(stream)->flags; });
  return !(flags & kStreamNonBlocking);
}
EXPORT int wp_cuda_thread_exchange_capture_mode(int mode) {
  std::swap(mode, allowed_capture_mode);
  return mode;
}
EXPORT void wp_cuda_timing_begin(int) { refuse("wp.ScopedTimer(cuda_filter=...)", "is not provided. Time with wp.Event."); }

EXPORT bool wp_cuda_graph_begin_capture(void *, void *stream, int is_external, int mode) {
  if (is_external) refuse("wp.capture_begin(external=True)", "is not provided. Let Warp begin the capture.");
  bool begun = does(__func__, [&] { begin_capture(stream_of(stream), mode, nullptr, {}); });
  captures += begun;
  return begun;
}
EXPORT bool wp_cuda_graph_end_capture(void *, void *stream, void **graph) {
  captures -= captures > 0;
  bool ended = does(__func__, [&] {
    Graph *made = end_capture(stream_of(stream));
    if (graph) *graph = made;
  });
  if (!captures)
    for (auto [pointer, release] : std::exchange(freed_in_captures, {})) is_done(__func__, release(pointer));
  return ended;
}
EXPORT bool wp_cuda_graph_create_exec(void *, void *, void *graph, void **made) {
  return does(__func__, [&] {
    GraphExec *exec = instantiate(graph_of(graph), 1);
    if (made) *made = exec;
  });
}
EXPORT bool wp_cuda_graph_launch(void *exec, void *stream) { return is_done(__func__, cudaGraphLaunch(exec, stream)); }
EXPORT bool wp_cuda_graph_destroy(void *, void *graph) {
  return does(__func__, [&] { remove_graph(graph_of(graph)); });
}
EXPORT bool wp_cuda_graph_exec_destroy(void *, void *exec) {
  return does(__func__, [&] { remove_exec(exec_of(exec)); });
}
EXPORT float wp_cuda_event_elapsed_time(void *first, void *second) {
  float milliseconds = 0;
  is_done(__func__, cudaEventElapsedTime(&milliseconds, first, second));
  return milliseconds;
}

// -- what runs CUB in the runtime of warp.so ----------------------------------------------------------------------

#define WITH_CUB(name, shown, instead)                                                            \
  EXPORT void name() {                                                                            \
    refuse(shown, "calls CUB in warp.so, which gpuemu does not provide. " instead);      \
  }
WITH_CUB(wp_array_sum_float_device, "wp.utils.array_sum", "Sum in a kernel, with wp.tile_sum or wp.atomic_add.")
WITH_CUB(wp_array_sum_double_device, "wp.utils.array_sum", "Sum in a kernel, with wp.tile_sum or wp.atomic_add.")
WITH_CUB(wp_array_inner_float_device, "wp.utils.array_inner", "Sum in a kernel, with wp.tile_sum or wp.atomic_add.")
WITH_CUB(wp_array_inner_double_device, "wp.utils.array_inner", "Sum in a kernel, with wp.tile_sum or wp.atomic_add.")
WITH_CUB(wp_array_scan_int_device, "wp.utils.array_scan", "Scan on the CPU.")
WITH_CUB(wp_array_scan_int64_device, "wp.utils.array_scan", "Scan on the CPU.")
WITH_CUB(wp_array_scan_float_device, "wp.utils.array_scan", "Scan on the CPU.")
WITH_CUB(wp_array_scan_double_device, "wp.utils.array_scan", "Scan on the CPU.")
WITH_CUB(wp_radix_sort_pairs_int_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_radix_sort_pairs_uint_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_radix_sort_pairs_int64_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_radix_sort_pairs_uint64_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_radix_sort_pairs_float_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_radix_sort_pairs_double_device, "wp.utils.radix_sort_pairs", "Sort on the CPU.")
WITH_CUB(wp_runlength_encode_int_device, "wp.utils.runlength_encode", "Encode on the CPU.")
