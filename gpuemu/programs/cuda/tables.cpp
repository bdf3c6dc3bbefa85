// NVIDIA's runtime asks the driver for tables of functions that are not documented, among them one by which it
// recognizes NVIDIA's driver. We do not answer. A program comes here only with a runtime that could not be redirected.
#include <dlfcn.h>
#include <unwind.h>

#include <cstring>

#include "wire.h"

namespace {

// The tables without which the runtime cannot work: its interface, and the check.
const unsigned char kRuntimeTables[2][4] = {{0x6b, 0xd5, 0xfb, 0x6c}, {0xd4, 0x08, 0x20, 0x55}};

struct Search {
  std::string file, function;
};

// Keeps the name of the outermost function that the file exports.
_Unwind_Reason_Code look(_Unwind_Context *frame, void *given) {
  auto search = static_cast<Search *>(given);
  Dl_info found;
  auto address = reinterpret_cast<void *>(_Unwind_GetIP(frame));
  if (file_of(address) == search->file && dladdr(address, &found) && found.dli_sname) search->function = found.dli_sname;
  return _URC_NO_REASON;
}

}  // namespace

std::string file_of(const void *address) {
  Dl_info found;
  std::string path = dladdr(address, &found) && found.dli_fname ? found.dli_fname : "a library";
  return path.substr(path.rfind('/') + 1);
}

API cuGetExportTable(const void **table, const void *name) {
  for (auto &one : kRuntimeTables)
    if (!memcmp(name, one, sizeof one)) {
      std::string file = file_of(__builtin_return_address(0));
      bool is_shared = !file.compare(0, 12, "libcudart.so");
      Search search{file, ""};
      if (!is_shared) _Unwind_Backtrace(look, &search);
      std::string called = search.function.empty() ? "" : " It was called by " + search.function + ".";
      refuse(file, is_shared ? std::string("was asked for its functions by name (dlsym), past gpuemu's own runtime. Link with it instead.")
                             : "has a CUDA runtime of its own without symbols, which gpuemu cannot replace. Link it with "
                               "-cudart shared, or do not strip it." + called);
    }
  *table = nullptr;
  return kNotFound;
}
