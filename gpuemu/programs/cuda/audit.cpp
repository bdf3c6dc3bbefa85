// Loaded by the dynamic linker before the program (LD_AUDIT), in a namespace of its own. It makes the CUDA runtime that
// is linked into an executable or a library jump into ours, before any of its code has run.
//
// The functions are found by their names in the symbol table of the file. They are changed in this process's memory
// only, and only there: nothing is written to disk. A library without that table may export a jump to a function of
// its runtime under the same name, as _cudaMalloc jumps to cudaMalloc. Then that function is known, too. An exported
// _cuDeviceGet asks the runtime for the driver's function, and is replaced itself. So are functions of Warp's library,
// see warp.cpp. Any other runtime without names is found out when it asks our driver for NVIDIA's tables, and refused
// there.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kMostObjects = 4096;
constexpr size_t kJumpBytes = 14;

struct File {
  const char *data = nullptr;
  size_t bytes = 0;

  explicit File(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (file >= 0 && !fstat(file, &found) && size_t(found.st_size) > sizeof(Elf64_Ehdr)) {
      void *there = mmap(nullptr, size_t(found.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (there != MAP_FAILED) data = static_cast<const char *>(there), bytes = size_t(found.st_size);
    }
    if (file >= 0) close(file);
  }
  ~File() {
    if (data) munmap(const_cast<char *>(data), bytes);
  }
  const Elf64_Ehdr *head() const { return reinterpret_cast<const Elf64_Ehdr *>(data); }
  const Elf64_Shdr *sections(uint32_t type, const Elf64_Shdr **strings) const {
    if (!data || memcmp(data, ELFMAG, SELFMAG) || head()->e_shoff + head()->e_shnum * sizeof(Elf64_Shdr) > bytes)
      return nullptr;
    auto all = reinterpret_cast<const Elf64_Shdr *>(data + head()->e_shoff);
    for (unsigned k = 0; k < head()->e_shnum; ++k)
      if (all[k].sh_type == type && all[k].sh_offset + all[k].sh_size <= bytes && all[k].sh_link < head()->e_shnum) {
        *strings = all + all[k].sh_link;
        return (*strings)->sh_offset + (*strings)->sh_size <= bytes ? all + k : nullptr;
      }
    return nullptr;
  }
};

template <class Take>
void each_symbol(const File &file, uint32_t table, unsigned kind, Take take) {
  const Elf64_Shdr *strings = nullptr, *section = file.sections(table, &strings);
  if (!section) return;
  auto symbols = reinterpret_cast<const Elf64_Sym *>(file.data + section->sh_offset);
  for (size_t k = 0; k < section->sh_size / sizeof(Elf64_Sym); ++k)
    if (ELF64_ST_TYPE(symbols[k].st_info) == kind && symbols[k].st_value && symbols[k].st_name < strings->sh_size)
      take(file.data + strings->sh_offset + symbols[k].st_name, symbols[k].st_value, symbols[k].st_size);
}

struct Ours {
  const char *name;
  uintptr_t address;
};

Ours *ours = nullptr;  // what our library provides, by name
char *old_runtime = nullptr;  // where our library looks for the name of a file with a runtime that it does not know
constexpr size_t kNameBytes = 256;
size_t our_count = 0;
link_map *waiting[kMostObjects];
size_t waiting_count = 0;

int by_name(const void *one, const void *other) {
  return strcmp(static_cast<const Ours *>(one)->name, static_cast<const Ours *>(other)->name);
}

bool is_of_the_driver(const char *name) { return !strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z'; }
bool is_of_warp(const char *name) { return !strncmp(name, "wp_", 3); }
bool is_of_the_runtime(const char *name) { return !strncmp(name, "cuda", 4) || !strncmp(name, "__cuda", 6); }

void learn(const link_map *library) {
  alignas(File) static char room[sizeof(File)];
  auto file = new (room) File(library->l_name);  // mapped for good: the names are in it
  size_t most = 0;
  each_symbol(*file, SHT_DYNSYM, STT_FUNC, [&](const char *, uintptr_t, size_t) { ++most; });
  ours = static_cast<Ours *>(calloc(most + 1, sizeof(Ours)));
  each_symbol(*file, SHT_DYNSYM, STT_FUNC, [&](const char *name, uintptr_t value, size_t) {
    if (is_of_the_runtime(name) || is_of_the_driver(name) || is_of_warp(name)) ours[our_count++] = {name, library->l_addr + value};
  });
  each_symbol(*file, SHT_DYNSYM, STT_OBJECT, [&](const char *name, uintptr_t value, size_t) {
    if (!strcmp(name, "gpuemu_is_audited")) *reinterpret_cast<int *>(library->l_addr + value) = 1;
    if (!strcmp(name, "gpuemu_old_runtime")) old_runtime = reinterpret_cast<char *>(library->l_addr + value);
  });
  qsort(ours, our_count, sizeof(Ours), by_name);
}

// jmp [rip]; the address follows.
void jump(uintptr_t from, uintptr_t to, size_t room) {
  if (room && room < kJumpBytes) return;  // a function of so few bytes does nothing that matters
  auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t first = from / page * page, last = (from + kJumpBytes + page - 1) / page * page;
  auto place = reinterpret_cast<void *>(first);
  if (mprotect(place, last - first, PROT_READ | PROT_WRITE | PROT_EXEC)) {
    fprintf(stderr, "gpuemu exec: error: this system does not let programs change their code. "
                    "Link the program with -cudart shared.\n");
    _exit(125);
  }
  memcpy(reinterpret_cast<void *>(from), "\xFF\x25\0\0\0\0", 6);
  memcpy(reinterpret_cast<void *>(from + 6), &to, 8);
  mprotect(place, last - first, PROT_READ | PROT_EXEC);
}

const char *path_of(const link_map *object) { return object->l_name && *object->l_name ? object->l_name : "/proc/self/exe"; }

const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Functions of CUDA 12 and CUDA 11 that CUDA 13 no longer has.
bool is_gone(const char *name) {
  return !strcmp(name, "cudaThreadSynchronize") || !strcmp(name, "cudaLaunchCooperativeKernelMultiDevice");
}

// The function that an exported one jumps to, if it does nothing else; or 0.
uintptr_t jumped_to(uintptr_t from, size_t bytes) {
  constexpr char kEndBranch[] = "\xF3\x0F\x1E\xFA";
  constexpr size_t kEndBranchBytes = 4, kNearJumpBytes = 5;
  auto code = reinterpret_cast<const char *>(from);
  if (bytes == kEndBranchBytes + kNearJumpBytes && !memcmp(code, kEndBranch, kEndBranchBytes))
    code += kEndBranchBytes, bytes -= kEndBranchBytes;
  if (bytes != kNearJumpBytes || *code != '\xE9') return 0;
  int32_t distance;
  memcpy(&distance, code + 1, sizeof distance);
  return uintptr_t(code) + kNearJumpBytes + distance;
}

// The runtime's function of an exported name, or nullptr. The structure of cudaGetDeviceProperties differs by version.
const char *function_of(const char *exported) {
  if (strncmp(exported, "_cuda", 5) || !strcmp(exported, "_cudaGetDeviceProperties")) return nullptr;
  return strcmp(exported, "_cudaLaunchKernelEx") ? exported + 1 : "cudaLaunchKernelExC";
}

void note_old_runtime(const link_map *object) {
  if (!*old_runtime) strncpy(old_runtime, base_of(path_of(object)), kNameBytes - 1);
}

void redirect(const link_map *object) {
  const char *base = base_of(path_of(object));
  if (!strncmp(base, "libcudart.so.", 13) && strncmp(base + 13, "13", 2)) return note_old_runtime(object);
  File file(path_of(object));
  bool has_runtime = false, is_old = false;
  each_symbol(file, SHT_SYMTAB, STT_FUNC, [&](const char *name, uintptr_t, size_t) {
    has_runtime |= !strcmp(name, "cudaGetExportTable"), is_old |= is_gone(name);
  });
  auto replace = [&](const char *name, uintptr_t address, size_t bytes) {
    Ours wanted{name, 0};
    auto found = static_cast<const Ours *>(bsearch(&wanted, ours, our_count, sizeof(Ours), by_name));
    if (found) jump(address, found->address, bytes);
  };
  bool is_warp = !strcmp(base, "warp.so");
  if (!has_runtime)
    return each_symbol(file, SHT_DYNSYM, STT_FUNC, [&](const char *name, uintptr_t value, size_t bytes) {
      if (is_warp && is_of_warp(name)) return replace(name, object->l_addr + value, bytes);
      if (*name == '_' && is_of_the_driver(name + 1)) return replace(name + 1, object->l_addr + value, bytes);
      const char *function = function_of(name);
      uintptr_t target = function ? jumped_to(object->l_addr + value, bytes) : 0;
      if (target) replace(function, target, 0);
    });
  if (is_old) note_old_runtime(object);
  each_symbol(file, SHT_SYMTAB, STT_FUNC, [&](const char *name, uintptr_t value, size_t bytes) {
    if (is_of_the_runtime(name)) replace(name, object->l_addr + value, bytes);
  });
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) unsigned la_version(unsigned) { return LAV_CURRENT; }

__attribute__((visibility("default"))) unsigned la_objopen(link_map *object, Lmid_t space, uintptr_t *) {
  if (space != LM_ID_BASE || !object->l_name) return 0;
  if (strstr(object->l_name, "/libgpuemu_cuda.so"))
    learn(object);
  else if (!strstr(object->l_name, "/ld-linux") && !strstr(object->l_name, "linux-vdso") && waiting_count < kMostObjects)
    waiting[waiting_count++] = object;
  return 0;
}

// All objects of a step are mapped; none has run.
__attribute__((visibility("default"))) void la_activity(uintptr_t *, unsigned flag) {
  if (flag != LA_ACT_CONSISTENT || !ours) return;
  for (size_t k = 0; k < waiting_count; ++k) redirect(waiting[k]);
  waiting_count = 0;
}

}  // extern "C"
