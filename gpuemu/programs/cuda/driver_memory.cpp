// The driver: what memory is, copies and fills.
#include <cstring>

#include "driver.h"

namespace {

struct Side {  // one side of CUDA_MEMCPY2D
  size_t x, y;
  int type;
  char *host;
  char *device;
  void *array;
  size_t pitch;
  char *base() const { return type == 1 ? host : device; }
};

struct Copy2D {
  Side source, to;
  size_t width, height;
};

struct BoxSide {  // one side of CUDA_MEMCPY3D
  size_t x, y, z, level;
  int type;
  char *host;
  char *device;
  void *array, *reserved;
  size_t pitch, height;
  char *base() const { return type == 1 ? host : device; }
};

struct CopyBox {
  BoxSide source, to;
  size_t width, height, depth;
};

constexpr int kArray = 3;

void no_arrays(int one, int other) {
  if (one == kArray || other == kArray)
    refuse("CUarray", "is not provided: gpuemu has no arrays for textures. Use plain memory.");
}

void copy_rows(const Copy2D &how, bool waits, void *stream) {
  no_arrays(how.source.type, how.to.type);
  auto at = [&](const Side &side) { return side.base() + side.y * side.pitch + side.x; };
  auto pitch = [&](const Side &side) { return side.pitch ? side.pitch : how.width; };
  submit(CopyWork{at(how.to), pitch(how.to), 0, at(how.source), pitch(how.source), 0, how.width, how.height, 1,
                  kDefaultDirection, waits},
         stream_of(stream));
}

void copy_box(const CopyBox &how, bool waits, void *stream) {
  no_arrays(how.source.type, how.to.type);
  auto at = [](const BoxSide &side) { return side.base() + (side.z * side.height + side.y) * side.pitch + side.x; };
  submit(CopyWork{at(how.to), how.to.pitch, how.to.pitch * how.to.height, at(how.source), how.source.pitch,
                  how.source.pitch * how.source.height, how.width, how.height, how.depth, kDefaultDirection, waits},
         stream_of(stream));
}

void copy(void *to, const void *source, size_t bytes, int kind, bool waits, void *stream) {
  submit(plain_copy(to, source, bytes, kind, waits), stream_of(stream));
}

template <class T>
void fill(char *to, size_t pitch, T value, size_t width, size_t height, void *stream) {
  need(!(reinterpret_cast<uintptr_t>(to) % sizeof value));
  submit(FillWork{to, pitch, 0, value, sizeof value, width * sizeof value, height, 1}, stream_of(stream));
}

// CU_POINTER_ATTRIBUTE_*; false where the pointer has no such attribute.
bool pointer_attribute(void *to, int attribute, const void *pointer) {
  const Allocation *where = find_allocation(pointer);
  bool is_ours = where || is_device(pointer);
  auto as = [&](auto value) { memcpy(to, &value, sizeof value); };
  switch (attribute) {
    case 1: as(is_ours ? primary_context() : nullptr); return is_ours;
    case 2: as(where && (where->kind == MemoryKind::PINNED || where->kind == MemoryKind::REGISTERED) ? 1 : is_ours ? 2 : 0);
      return is_ours;
    case 3: as(is_ours ? pointer : nullptr); return is_ours;
    case 4: as(where && where->kind != MemoryKind::DEVICE ? pointer : nullptr);
      return where && where->kind != MemoryKind::DEVICE;
    case 7: as(uint64_t(where ? where->start : 0)); return is_ours;
    case 8: as(uint8_t(where && where->kind == MemoryKind::MANAGED)); return is_ours;
    case 9: as(is_ours ? 0 : -2); return is_ours;
    case 11: as(where ? where->start : 0); return is_ours;
    case 12: as(where ? where->bytes : 0); return is_ours;
    case 13: as(uint8_t(is_ours)); return true;
    case 17: as(uint64_t(0)); return is_ours;
    default: as(0); return is_ours;
  }
}

}  // namespace

DRIVER(cuMemAllocPitch_v2, (void **pointer, size_t *pitch, size_t width, size_t height, unsigned),
       need(pointer && pitch); no_capture(); *pitch = (width + 511) / 512 * 512;
       *pointer = allocate(*pitch * height, MemoryKind::DEVICE))
DRIVER(cuMemGetAddressRange_v2, (uint64_t *start, size_t *bytes, const void *pointer),
       const Allocation *found = find_allocation(pointer); need(found, kNotFound);
       if (start) *start = found->start; if (bytes) *bytes = found->bytes)
DRIVER_WITHOUT_CONTEXT(cuPointerGetAttribute, (void *to, int attribute, const void *pointer),
                       need(to); need(pointer_attribute(to, attribute, pointer)))
DRIVER_WITHOUT_CONTEXT(cuPointerGetAttributes, (unsigned count, const int *attributes, void **to, const void *pointer),
                       for (unsigned k = 0; k < count; ++k) pointer_attribute(to[k], attributes[k], pointer))
DRIVER(cuPointerSetAttribute, (const void *, int, const void *pointer), need(find_allocation(pointer)))

DRIVER_IN_DEFAULT_STREAM(cuMemcpy, (void *to, const void *source, size_t bytes), copy(to, source, bytes, kDefaultDirection, true, stream))
DRIVER_IN_STREAM(cuMemcpyAsync, (void *to, const void *source, size_t bytes, void *stream), copy(to, source, bytes, kDefaultDirection, false, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpyHtoD_v2, (void *to, const void *source, size_t bytes), copy(to, source, bytes, kHostToDevice, true, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpyDtoH_v2, (void *to, const void *source, size_t bytes), copy(to, source, bytes, kDeviceToHost, true, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpyDtoD_v2, (void *to, const void *source, size_t bytes), copy(to, source, bytes, kDeviceToDevice, false, stream))
DRIVER_IN_STREAM(cuMemcpyHtoDAsync_v2, (void *to, const void *source, size_t bytes, void *stream), copy(to, source, bytes, kHostToDevice, false, stream))
DRIVER_IN_STREAM(cuMemcpyDtoHAsync_v2, (void *to, const void *source, size_t bytes, void *stream), copy(to, source, bytes, kDeviceToHost, false, stream))
DRIVER_IN_STREAM(cuMemcpyDtoDAsync_v2, (void *to, const void *source, size_t bytes, void *stream), copy(to, source, bytes, kDeviceToDevice, false, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpy2D_v2, (const Copy2D *how), need(how); copy_rows(*how, true, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpy2DUnaligned_v2, (const Copy2D *how), need(how); copy_rows(*how, true, stream))
DRIVER_IN_STREAM(cuMemcpy2DAsync_v2, (const Copy2D *how, void *stream), need(how); copy_rows(*how, false, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemcpy3D_v2, (const CopyBox *how), need(how); copy_box(*how, true, stream))
DRIVER_IN_STREAM(cuMemcpy3DAsync_v2, (const CopyBox *how, void *stream), need(how); copy_box(*how, false, stream))

DRIVER_IN_DEFAULT_STREAM(cuMemsetD8_v2, (char *to, uint8_t value, size_t count), fill(to, count, value, count, 1, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemsetD16_v2, (char *to, uint16_t value, size_t count), fill(to, count, value, count, 1, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemsetD32_v2, (char *to, uint32_t value, size_t count), fill(to, count, value, count, 1, stream))
DRIVER_IN_STREAM(cuMemsetD8Async, (char *to, uint8_t value, size_t count, void *stream), fill(to, count, value, count, 1, stream))
DRIVER_IN_STREAM(cuMemsetD16Async, (char *to, uint16_t value, size_t count, void *stream), fill(to, count, value, count, 1, stream))
DRIVER_IN_STREAM(cuMemsetD32Async, (char *to, uint32_t value, size_t count, void *stream), fill(to, count, value, count, 1, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemsetD2D8_v2, (char *to, size_t pitch, uint8_t value, size_t width, size_t height), fill(to, pitch, value, width, height, stream))
DRIVER_IN_DEFAULT_STREAM(cuMemsetD2D32_v2, (char *to, size_t pitch, uint32_t value, size_t width, size_t height), fill(to, pitch, value, width, height, stream))
DRIVER_IN_STREAM(cuMemsetD2D8Async, (char *to, size_t pitch, uint8_t value, size_t width, size_t height, void *stream), fill(to, pitch, value, width, height, stream))
DRIVER_IN_STREAM(cuMemsetD2D32Async, (char *to, size_t pitch, uint32_t value, size_t width, size_t height, void *stream), fill(to, pitch, value, width, height, stream))
