// NVIDIA's runtime asks the driver for tables of functions that are not documented, among them one by which it
// recognizes NVIDIA's driver. We do not answer. A program comes here only with a runtime that could not be redirected.
#include <dlfcn.h>

#include <cstring>

#include "wire.h"

namespace {

// The tables without which the runtime cannot work: its interface, and the check.
const unsigned char kRuntimeTables[2][4] = {{0x6b, 0xd5, 0xfb, 0x6c}, {0xd4, 0x08, 0x20, 0x55}};

std::string file_of(void *address) {
  Dl_info found;
  std::string path = dladdr(address, &found) && found.dli_fname ? found.dli_fname : "a library";
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

API cuGetExportTable(const void **table, const void *name) {
  for (auto &one : kRuntimeTables)
    if (!memcmp(name, one, sizeof one)) {
      std::string file = file_of(__builtin_return_address(0));
      bool is_shared = !file.compare(0, 12, "libcudart.so");
      refuse(file, is_shared ? "was asked for its functions by name (dlsym), past gpuemu's own runtime. Link with it instead."
                             : "has a CUDA runtime of its own without symbols, which gpuemu cannot replace. Link it with "
                               "-cudart shared, or do not strip it.");
    }
  *table = nullptr;
  return kNotFound;
}
