// Virtual memory of the driver: memory without an address, addresses without memory, and one at the other.
#include <map>
#include <memory>

#include "driver.h"
#include "heap.h"

namespace {

struct Location {
  int type, id;
};

struct Properties {  // CUmemAllocationProp
  int type, handle_types;
  Location location;
  void *security;
  unsigned char compression, direct;
  unsigned short usage;
  unsigned char reserved[4];
};
static_assert(sizeof(Properties) == 32);

struct Access {  // CUmemAccessDesc
  Location location;
  int flags;
};

constexpr int kPinnedType = 1, kDeviceLocation = 1, kReadAndWrite = 3;

struct Memory {
  uint64_t heap_offset;
  size_t bytes;
  Properties properties;
  uintptr_t mapped_at = 0;
  unsigned holders = 1;  // handles that the program has not released
};

std::map<const void *, std::unique_ptr<Memory>> &memories() {
  static auto *found = new std::map<const void *, std::unique_ptr<Memory>>;
  return *found;
}

std::map<uintptr_t, size_t> &reserved() {  // addresses and their number
  static auto *found = new std::map<uintptr_t, size_t>;
  return *found;
}

Memory *memory_of(void *handle) {
  need(memories().count(handle));
  return static_cast<Memory *>(handle);
}

Memory *mapped_at(uintptr_t start) {
  for (auto &[handle, memory] : memories())
    if (memory->mapped_at && memory->mapped_at <= start && start < memory->mapped_at + memory->bytes) return memory.get();
  fail(kInvalidValue);
}

void need_properties(const Properties *wanted) {
  need(wanted && wanted->type == kPinnedType);
  if (wanted->handle_types)
    refuse("cuMemCreate", "of memory that other processes share is not provided by gpuemu exec.");
  if (wanted->location.type != kDeviceLocation)
    refuse("cuMemCreate", "of memory of the host is not provided by gpuemu exec. Use cuMemHostAlloc.");
  need(wanted->location.id == 0, kInvalidDevice);
}

void need_pages(size_t bytes) { need(bytes && bytes % PAGE_BYTES == 0); }

void forget_if_unused(Memory *memory) {
  if (memory->holders || memory->mapped_at) return;
  give_device_memory_back(memory->heap_offset, memory->bytes);
  memories().erase(memory);
}

void create(Memory **made, size_t bytes, const Properties *wanted) {
  need(made);
  need_properties(wanted);
  need_pages(bytes);
  auto memory = std::make_unique<Memory>(Memory{take_device_memory(bytes), bytes, *wanted});
  *made = memory.get();
  memories()[memory.get()] = std::move(memory);
}

void reserve(uint64_t *start, size_t bytes, size_t alignment) {
  need(start);
  need_pages(bytes);
  need(alignment <= PAGE_BYTES && (alignment & (alignment - 1)) == 0);
  uint64_t offset = take_addresses(bytes);
  *start = BASE + offset;
  reserved()[*start] = bytes;
}

bool is_reserved(uintptr_t start, size_t bytes) {
  auto after = reserved().upper_bound(start);
  if (after == reserved().begin()) return false;
  auto &[first, room] = *std::prev(after);
  return start + bytes <= first + room;
}

void map_at(uintptr_t start, size_t bytes, size_t offset, Memory *memory) {
  need(!offset && bytes == memory->bytes && is_reserved(start, bytes));
  for (auto &[handle, other] : memories())
    need(!other->mapped_at || start + bytes <= other->mapped_at || other->mapped_at + other->bytes <= start);
  if (memory->mapped_at) refuse("cuMemMap", "of one memory at two addresses is not provided by gpuemu exec.");
  map_memory(start, bytes, memory->heap_offset);
  memory->mapped_at = start;
}

// All that is mapped there, which has to be whole.
void unmap(uintptr_t start, size_t bytes) {
  std::vector<Memory *> gone;
  for (uintptr_t at = start; at < start + bytes; at += gone.back()->bytes) {
    gone.push_back(mapped_at(at));
    need(gone.back()->mapped_at == at && at + gone.back()->bytes <= start + bytes);
  }
  for (Memory *memory : gone) {
    unmap_memory(memory->mapped_at);
    memory->mapped_at = 0;
    forget_if_unused(memory);
  }
}

void let_access(uintptr_t start, size_t bytes, const Access *wanted, size_t count) {
  need(wanted && count);
  need_pages(bytes);
  for (uintptr_t at = start; at < start + bytes;) at = mapped_at(at)->mapped_at + mapped_at(at)->bytes;
  for (size_t k = 0; k < count; ++k) {
    need(wanted[k].location.type == kDeviceLocation && wanted[k].location.id == 0, kInvalidDevice);
    if (wanted[k].flags != kReadAndWrite)
      refuse("cuMemSetAccess", "with other rights than to read and to write is not provided by gpuemu exec.");
  }
}

}  // namespace

DRIVER(cuMemGetAllocationGranularity, (size_t *bytes, const Properties *wanted, int),
       need(bytes && wanted); *bytes = PAGE_BYTES)
DRIVER(cuMemCreate, (Memory **made, size_t bytes, const Properties *wanted, unsigned long long flags),
       need(!flags); create(made, bytes, wanted))
DRIVER(cuMemRelease, (void *handle),
       Memory *memory = memory_of(handle); need(memory->holders); --memory->holders; forget_if_unused(memory))
DRIVER(cuMemRetainAllocationHandle, (Memory **found, uintptr_t address),
       need(found); *found = mapped_at(address); ++(*found)->holders)
DRIVER(cuMemGetAllocationPropertiesFromHandle, (Properties *found, void *handle),
       need(found); *found = memory_of(handle)->properties)
DRIVER(cuMemAddressReserve, (uint64_t *start, size_t bytes, size_t alignment, uint64_t, unsigned long long flags),
       need(!flags); reserve(start, bytes, alignment))
DRIVER(cuMemAddressFree, (uint64_t start, size_t bytes),
       auto found = reserved().find(start); need(found != reserved().end() && found->second == bytes);
       for (auto &[handle, memory] : memories())
         need(memory->mapped_at < start || memory->mapped_at >= start + bytes);
       give_addresses_back(start - BASE, bytes); reserved().erase(found))
DRIVER(cuMemMap, (uint64_t start, size_t bytes, size_t offset, void *handle, unsigned long long flags),
       need(!flags); map_at(start, bytes, offset, memory_of(handle)))
DRIVER(cuMemUnmap, (uint64_t start, size_t bytes), wait_for_host_functions(); unmap(start, bytes); state().surface())
DRIVER(cuMemSetAccess, (uint64_t start, size_t bytes, const Access *wanted, size_t count),
       let_access(start, bytes, wanted, count))
DRIVER(cuMemGetAccess, (unsigned long long *flags, const Location *location, uint64_t address),
       need(flags && location); mapped_at(address); *flags = location->type == kDeviceLocation ? kReadAndWrite : 0)
