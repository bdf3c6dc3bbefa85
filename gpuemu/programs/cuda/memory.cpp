// Memory of the runtime: allocations, copies, fills, symbols.
#include <algorithm>

#include "runtime.h"

namespace {

constexpr size_t kPitchGrain = 512;

struct PointerAttributes {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

struct PeerCopy {  // cudaMemcpy3DPeerParms
  void *source_array;
  Extent source_place;
  Pitched source;
  int source_device;
  void *to_array;
  Extent to_place;
  Pitched to;
  int to_device;
  Extent extent;
  Copy3D plain() const {
    need(!source_device && !to_device, kInvalidDevice);
    return {source_array, source_place, source, to_array, to_place, to, extent, kDefaultDirection};
  }
};

void place(void **pointer, size_t bytes, MemoryKind kind, unsigned flags = 0) {
  need(pointer);
  no_capture();
  *pointer = allocate(bytes, kind, flags);
}

void put_back(void *pointer, bool is_pinned) {
  no_capture();
  wait_for_host_functions();
  if (!belongs_to_graph(pointer)) release(pointer, is_pinned);
  state().surface();
}

void copy(void *to, const void *source, size_t bytes, int kind, bool waits, void *stream) {
  submit(plain_copy(to, source, bytes, kind, waits), stream_of(stream));
}

void copy_rows(void *to, size_t to_pitch, const void *source, size_t source_pitch, size_t width, size_t height,
               int kind, bool waits, void *stream) {
  need(kind >= kHostToHost && kind <= kDefaultDirection, kInvalidMemcpyDirection);
  need(width <= to_pitch && width <= source_pitch, kInvalidPitch);
  submit(CopyWork{static_cast<char *>(to), to_pitch, 0, static_cast<const char *>(source), source_pitch, 0, width,
                  height, 1, kind, waits},
         stream_of(stream));
}

void no_arrays(const void *one, const void *other) {
  if (one || other) refuse("cudaArray_t", "is not provided: gpuemu has no arrays for textures. Use plain memory.");
}

void copy_box(const Copy3D &box, bool waits, void *stream) { submit(box_copy(box, waits), stream_of(stream)); }

void fill(void *to, size_t pitch, size_t plane, int value, size_t width, size_t height, size_t depth, void *stream) {
  need(height == 1 || width <= pitch, kInvalidPitch);
  submit(FillWork{static_cast<char *>(to), pitch, plane, uint32_t(value & 0xFF), 1, width, height, depth},
         stream_of(stream));
}

}  // namespace

CopyWork box_copy(const Copy3D &box, bool waits) {
  no_arrays(box.source_array, box.to_array);
  auto place_of = [](const Pitched &base, const Extent &place) {
    return base.pointer + (place.depth * base.height + place.height) * base.pitch + place.width;
  };
  need(box.extent.width <= box.to.pitch && box.extent.width <= box.source.pitch, kInvalidPitch);
  return {place_of(box.to, box.to_place), box.to.pitch, box.to.pitch * box.to.height,
          place_of(box.source, box.source_place), box.source.pitch, box.source.pitch * box.source.height,
          box.extent.width, box.extent.height, box.extent.depth, box.kind, waits};
}

char *symbol_address(const void *host, size_t bytes, size_t offset) {
  Variable *variable = known(registered_variable(host));
  need(offset <= variable->bytes && bytes <= variable->bytes - offset);
  return reinterpret_cast<char *>(variable->address) + offset;
}

// -- allocations -----------------------------------------------------------------------------------------------

BOTH(cudaMalloc, cuMemAlloc_v2, (void **pointer, size_t bytes), place(pointer, bytes, MemoryKind::DEVICE))
BOTH(cudaMallocManaged, cuMemAllocManaged, (void **pointer, size_t bytes, unsigned flags),
        need(bytes && (flags == 1 || flags == 2)); place(pointer, bytes, MemoryKind::MANAGED, flags))
BOTH(cudaMallocHost, cuMemAllocHost_v2, (void **pointer, size_t bytes), place(pointer, bytes, MemoryKind::PINNED))
BOTH(cudaHostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags),
        need(flags < 8); place(pointer, bytes, MemoryKind::PINNED, flags))
RUNTIME(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height),
        need(pointer && pitch); *pitch = (width + kPitchGrain - 1) / kPitchGrain * kPitchGrain;
        place(pointer, *pitch * height, MemoryKind::DEVICE))
RUNTIME(cudaMalloc3D, (Pitched *made, Extent extent),
        need(made); size_t pitch = (extent.width + kPitchGrain - 1) / kPitchGrain * kPitchGrain;
        *made = {nullptr, pitch, extent.width, extent.height};
        place(reinterpret_cast<void **>(&made->pointer), pitch * extent.height * extent.depth, MemoryKind::DEVICE))
BOTH(cudaFree, cuMemFree_v2, (void *pointer), put_back(pointer, false))
BOTH(cudaFreeHost, cuMemFreeHost, (void *pointer), put_back(pointer, true))
BOTH(cudaHostRegister, cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned flags),
        no_capture(); wait_for_host_functions(); register_host(pointer, bytes, flags))
BOTH(cudaHostUnregister, cuMemHostUnregister, (void *pointer), no_capture(); wait_for_host_functions(); unregister_host(pointer))
BOTH(cudaHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (void **device, void *host, unsigned flags),
        need(device && !flags); const Allocation *found = find_allocation(host); need(found);
        *device = host)
BOTH(cudaHostGetFlags, cuMemHostGetFlags, (unsigned *flags, void *host),
        const Allocation *found = find_allocation(host);
        need(found && found->kind != MemoryKind::DEVICE && found->kind != MemoryKind::MANAGED); *flags = found->flags | 2)
BOTH(cudaMemGetInfo, cuMemGetInfo_v2, (size_t *left, size_t *total),
        *total = state().memory_bytes; *left = state().memory_bytes - state().used_bytes)

RUNTIME(cudaPointerGetAttributes, (PointerAttributes *found, const void *pointer),
        need(found); *found = {};
        const Allocation *where = find_allocation(pointer);
        auto address = const_cast<void *>(pointer);
        found->device = where || is_device(pointer) ? 0 : -2;
        found->type = is_device(pointer) ? 2 : 0;
        if (where) found->type = where->kind == MemoryKind::DEVICE ? 2 : where->kind == MemoryKind::MANAGED ? 3 : 1;
        found->device_pointer = found->type ? address : nullptr;
        found->host_pointer = found->type == 2 ? nullptr : address)

// -- copies and fills -----------------------------------------------------------------------------------------

RUNTIME_IN_DEFAULT_STREAM(cudaMemcpy, (void *to, const void *source, size_t bytes, int kind),
                          copy(to, source, bytes, kind, true, stream))
RUNTIME_IN_STREAM(cudaMemcpyAsync, (void *to, const void *source, size_t bytes, int kind, void *stream),
                  copy(to, source, bytes, kind, false, stream))
RUNTIME(cudaMemcpyPeer, (void *to, int to_device, const void *source, int source_device, size_t bytes),
        need(!to_device && !source_device, kInvalidDevice);
        copy(to, source, bytes, kDefaultDirection, true, nullptr))
RUNTIME(cudaMemcpyPeerAsync, (void *to, int to_device, const void *source, int source_device, size_t bytes, void *stream),
        need(!to_device && !source_device, kInvalidDevice);
        copy(to, source, bytes, kDefaultDirection, false, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemcpy2D,
                          (void *to, size_t to_pitch, const void *source, size_t source_pitch, size_t width,
                           size_t height, int kind),
                          copy_rows(to, to_pitch, source, source_pitch, width, height, kind, true, stream))
RUNTIME_IN_STREAM(cudaMemcpy2DAsync,
                  (void *to, size_t to_pitch, const void *source, size_t source_pitch, size_t width, size_t height,
                   int kind, void *stream),
                  copy_rows(to, to_pitch, source, source_pitch, width, height, kind, false, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemcpy3D, (const Copy3D *box), need(box); copy_box(*box, true, stream))
RUNTIME_IN_STREAM(cudaMemcpy3DAsync, (const Copy3D *box, void *stream), need(box); copy_box(*box, false, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemset, (void *to, int value, size_t bytes),
                          fill(to, bytes, bytes, value, bytes, 1, 1, stream))
RUNTIME_IN_STREAM(cudaMemsetAsync, (void *to, int value, size_t bytes, void *stream),
                  fill(to, bytes, bytes, value, bytes, 1, 1, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height),
                          fill(to, pitch, 0, value, width, height, 1, stream))
RUNTIME_IN_STREAM(cudaMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, void *stream),
                  fill(to, pitch, 0, value, width, height, 1, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemset3D, (Pitched to, int value, Extent size),
                          fill(to.pointer, to.pitch, to.pitch * to.height, value, size.width, size.height, size.depth,
                               stream))
RUNTIME_IN_STREAM(cudaMemset3DAsync, (Pitched to, int value, Extent size, void *stream),
                  fill(to.pointer, to.pitch, to.pitch * to.height, value, size.width, size.height, size.depth, stream))

// -- symbols -------------------------------------------------------------------------------------------------

RUNTIME_IN_DEFAULT_STREAM(cudaMemcpyToSymbol,
                          (const void *host, const void *source, size_t bytes, size_t offset, int kind),
                          copy(symbol_address(host, bytes, offset), source, bytes, kind, true, stream))
RUNTIME_IN_DEFAULT_STREAM(cudaMemcpyFromSymbol, (void *to, const void *host, size_t bytes, size_t offset, int kind),
                          copy(to, symbol_address(host, bytes, offset), bytes, kind, true, stream))
RUNTIME_IN_STREAM(cudaMemcpyToSymbolAsync,
                  (const void *host, const void *source, size_t bytes, size_t offset, int kind, void *stream),
                  copy(symbol_address(host, bytes, offset), source, bytes, kind, false, stream))
RUNTIME_IN_STREAM(cudaMemcpyFromSymbolAsync,
                  (void *to, const void *host, size_t bytes, size_t offset, int kind, void *stream),
                  copy(to, symbol_address(host, bytes, offset), bytes, kind, false, stream))
RUNTIME(cudaGetSymbolAddress, (void **address, const void *host), need(address); *address = symbol_address(host, 0, 0))
RUNTIME(cudaGetSymbolSize, (size_t *bytes, const void *host), need(bytes); *bytes = known(registered_variable(host))->bytes)

// -- managed memory lies where both sides reach it; advice changes nothing ------------------------------------

BOTH_IN_STREAM(cudaMemPrefetchAsync, cuMemPrefetchAsync_v2,
                  (const void *pointer, size_t bytes, MemoryLocation, unsigned, void *stream),
                  need(find_allocation(pointer)); check_range(pointer, bytes); stream_of(stream))
BOTH(cudaMemAdvise, cuMemAdvise_v2, (const void *pointer, size_t bytes, int, MemoryLocation),
        need(find_allocation(pointer)); check_range(pointer, bytes))
BOTH_IN_STREAM(cudaStreamAttachMemAsync, cuStreamAttachMemAsync, (void *stream, void *pointer, size_t, unsigned),
                  need(find_allocation(pointer)); stream_of(stream))
RUNTIME(cudaMemRangeGetAttribute, (int *value, size_t bytes, int attribute, const void *pointer, size_t count),
        need(value && bytes == 4 && attribute >= 1 && attribute <= 8); need(find_allocation(pointer));
        check_range(pointer, count); *value = attribute == 1 ? 0 : -2)
RUNTIME_IN_DEFAULT_STREAM(cudaMemcpy3DPeer, (const PeerCopy *box), need(box); copy_box(box->plain(), true, stream))
RUNTIME_IN_STREAM(cudaMemcpy3DPeerAsync, (const PeerCopy *box, void *stream),
                  need(box); copy_box(box->plain(), false, stream))
