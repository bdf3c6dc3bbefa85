// The heap: allocations of all kinds of memory, and host memory that becomes part of it.
#pragma once
#include "state.h"

struct Allocation {
  uintptr_t start;
  size_t bytes;  // as the program asked
  size_t room;   // in whole pages
  uint64_t heap_offset;
  MemoryKind kind;
  unsigned flags;
  bool is_mapped = false;  // by cuMemMap: its address is not that of its place in the heap
};

void *allocate(size_t bytes, MemoryKind kind, unsigned flags = 0);
void release(void *pointer, bool is_pinned);
void register_host(void *pointer, size_t bytes, unsigned flags);
void unregister_host(void *pointer);
void release_everything();

// Places in the heap for the functions of virtual memory: memory of the device, or addresses for it.
uint64_t take_device_memory(size_t bytes);
void give_device_memory_back(uint64_t heap_offset, size_t bytes);
uint64_t take_addresses(size_t bytes);
void give_addresses_back(uint64_t heap_offset, size_t bytes);
// Memory at an address within the heap that it does not have by itself.
void map_memory(uintptr_t start, size_t bytes, uint64_t heap_offset);
void unmap_memory(uintptr_t start);

// The allocation that an address is in, or null.
const Allocation *find_allocation(const void *pointer);

// Whether an address is the device's: of an allocation of device or managed memory, or of a variable.
bool is_device(const void *pointer);
bool is_in_heap(const void *pointer);

// Fails unless the bytes are the host's, or within one allocation or several mapped ones side by side.
void check_range(const void *pointer, size_t bytes);
