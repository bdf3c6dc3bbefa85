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
};

void *allocate(size_t bytes, MemoryKind kind, unsigned flags = 0);
void release(void *pointer, bool is_pinned);
void register_host(void *pointer, size_t bytes, unsigned flags);
void unregister_host(void *pointer);
void release_everything();

// The allocation that an address is in, or null.
const Allocation *find_allocation(const void *pointer);

// Whether an address is the device's: of an allocation of device or managed memory, or of a variable.
bool is_device(const void *pointer);
bool is_in_heap(const void *pointer);

// Fails unless the bytes are the host's, or within one allocation.
void check_range(const void *pointer, size_t bytes);
