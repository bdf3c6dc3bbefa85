#include "heap.h"

#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t kSystemPage = 4096;
constexpr size_t kGrain = 512;  // the driver grants memory in such units

std::map<uintptr_t, Allocation> &allocations() {
  static auto *found = new std::map<uintptr_t, Allocation>;
  return *found;
}

std::map<size_t, std::vector<uint64_t>> &free_places() {  // offsets in the heap, by size
  static auto *found = new std::map<size_t, std::vector<uint64_t>>;
  return *found;
}

uint64_t next_offset = DEVICE_BYTES;

uint64_t take_place(size_t room) {
  auto &free = free_places()[room];
  if (!free.empty()) {
    uint64_t offset = free.back();
    free.pop_back();
    return offset;
  }
  need(next_offset + room <= HEAP_BYTES, kOutOfMemory);
  uint64_t offset = next_offset;
  next_offset += room;
  return offset;
}

void give_back(const Allocation &old) {
  madvise(reinterpret_cast<void *>(BASE + old.heap_offset), old.room, MADV_REMOVE);  // zeros again
  free_places()[old.room].push_back(old.heap_offset);
  if (old.kind == MemoryKind::DEVICE) state().used_bytes -= (old.bytes + kGrain - 1) / kGrain * kGrain;
}

void announce(const Allocation &made) {
  Ask(Request::ALLOCATE)
      .put(uint64_t(made.start))
      .put(uint64_t(made.bytes))
      .put(made.heap_offset)
      .put(made.kind)
      .send();
  allocations()[made.start] = made;
}

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void *allocate(size_t bytes, MemoryKind kind, unsigned flags) {
  if (!bytes) return nullptr;
  need(bytes <= HEAP_BYTES, kOutOfMemory);
  size_t taken = whole(bytes, kGrain), room = whole(bytes + 1, PAGE_BYTES);  // a page has bytes after every allocation
  bool counts = kind == MemoryKind::DEVICE;
  need(!counts || state().used_bytes + taken <= state().memory_bytes, kOutOfMemory);
  uint64_t offset = take_place(room);
  announce({BASE + offset, bytes, room, offset, kind, flags});
  if (counts) state().used_bytes += taken;
  return reinterpret_cast<void *>(BASE + offset);
}

void release(void *pointer, bool is_pinned) {
  if (!pointer) return;
  auto found = allocations().find(reinterpret_cast<uintptr_t>(pointer));
  need(found != allocations().end() && !found->second.is_mapped);
  Allocation old = found->second;
  need(old.kind != MemoryKind::REGISTERED && (old.kind == MemoryKind::PINNED) == is_pinned);
  Ask(Request::FREE).put(uint64_t(old.start)).send();
  allocations().erase(found);
  give_back(old);
}

// The pages of host memory are replaced by pages of the heap with the same content, at the same addresses.
void register_host(void *pointer, size_t bytes, unsigned flags) {
  auto start = reinterpret_cast<uintptr_t>(pointer);
  need(pointer && bytes && !is_in_heap(pointer));
  uintptr_t first = start / kSystemPage * kSystemPage;
  size_t length = whole(start + bytes - first, kSystemPage);
  for (auto &[other, one] : allocations())
    if (one.kind == MemoryKind::REGISTERED)
      need(first + length <= other / kSystemPage * kSystemPage || other + one.bytes <= first, kAlreadyRegistered);
  size_t room = whole(length + 1, PAGE_BYTES);
  uint64_t offset = take_place(room);
  auto copy = reinterpret_cast<void *>(BASE + offset), place = reinterpret_cast<void *>(first);
  memcpy(copy, place, length);
  void *there = mmap(place, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, state().heap_file, off_t(offset));
  need(there == place, kOutOfMemory);
  announce({start, bytes, room, offset + (start - first), MemoryKind::REGISTERED, flags});
}

void unregister_host(void *pointer) {
  auto found = allocations().find(reinterpret_cast<uintptr_t>(pointer));
  need(found != allocations().end() && found->second.kind == MemoryKind::REGISTERED, kNotRegistered);
  Allocation old = found->second;
  Ask(Request::FREE).put(uint64_t(old.start)).send();
  uintptr_t first = old.start / kSystemPage * kSystemPage;
  old.heap_offset -= old.start - first;
  size_t length = whole(old.start + old.bytes - first, kSystemPage);
  auto place = reinterpret_cast<void *>(first);
  void *there = mmap(place, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  need(there == place, kOutOfMemory);
  memcpy(place, reinterpret_cast<void *>(BASE + old.heap_offset), length);
  allocations().erase(found);
  give_back(old);
}

void release_everything() {
  std::vector<Allocation> all;
  for (auto &[start, one] : allocations()) all.push_back(one);
  for (auto &one : all) {
    auto pointer = reinterpret_cast<void *>(one.start);
    if (one.is_mapped)
      unmap_memory(one.start);
    else if (one.kind == MemoryKind::REGISTERED)
      unregister_host(pointer);
    else
      release(pointer, one.kind == MemoryKind::PINNED);
  }
}

uint64_t take_device_memory(size_t bytes) {
  need(state().used_bytes + bytes <= state().memory_bytes, kOutOfMemory);
  uint64_t offset = take_place(bytes);
  state().used_bytes += bytes;
  return offset;
}

void give_device_memory_back(uint64_t heap_offset, size_t bytes) {
  give_back({0, bytes, bytes, heap_offset, MemoryKind::DEVICE, 0});
}

uint64_t take_addresses(size_t bytes) { return take_place(bytes); }
void give_addresses_back(uint64_t heap_offset, size_t bytes) { free_places()[bytes].push_back(heap_offset); }

void map_memory(uintptr_t start, size_t bytes, uint64_t heap_offset) {
  auto place = reinterpret_cast<void *>(start);
  void *there = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, state().heap_file, off_t(heap_offset));
  need(there == place, kOutOfMemory);
  announce({start, bytes, bytes, heap_offset, MemoryKind::DEVICE, 0, true});
}

void unmap_memory(uintptr_t start) {
  Allocation old = allocations().at(start);
  Ask(Request::FREE).put(uint64_t(start)).send();
  auto place = reinterpret_cast<void *>(start);  // gets back the bytes of the heap that lie there
  void *there = mmap(place, old.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                     state().heap_file, off_t(start - BASE));
  need(there == place, kOutOfMemory);
  allocations().erase(start);
}

const Allocation *find_allocation(const void *pointer) {
  auto at = reinterpret_cast<uintptr_t>(pointer);
  auto after = allocations().upper_bound(at);
  if (after == allocations().begin()) return nullptr;
  auto &one = std::prev(after)->second;
  return at < one.start + whole(one.bytes, kGrain) ? &one : nullptr;
}

bool is_in_heap(const void *pointer) {
  auto at = reinterpret_cast<uintptr_t>(pointer);
  return at >= BASE && at < BASE + HEAP_BYTES;
}

bool is_device(const void *pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) - BASE < DEVICE_BYTES) return true;
  const Allocation *found = find_allocation(pointer);
  return found && (found->kind == MemoryKind::DEVICE || found->kind == MemoryKind::MANAGED);
}

void check_range(const void *pointer, size_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(pointer);
  if (!bytes || !is_in_heap(pointer) || at - BASE < DEVICE_BYTES) return;
  for (const Allocation *found = find_allocation(pointer);; found = find_allocation(reinterpret_cast<void *>(at))) {
    need(found);
    size_t here = found->start + whole(found->bytes, kGrain) - at;
    if (bytes <= here) return;
    need(found->is_mapped);
    at += here, bytes -= here;
  }
}
