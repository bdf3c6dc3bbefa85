// Code that the program loads while it runs, as the runtime offers it, and the way to functions of the driver.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "driver.h"
#include "runtime.h"

namespace {

Module *library_of(void *handle) {
  need(is_module(handle), kInvalidHandle);
  return static_cast<Module *>(handle);
}

Module *load_library(const void *image, size_t bytes) {
  need(image);
  Module *made = copy_module(image, bytes);
  try {
    made->load();
  } catch (Failure &) {
    remove_module(made);
    throw;
  }
  return made;
}

void give_variable(void **address, size_t *bytes, Module *module, const char *name, bool is_managed) {
  Variable *wanted = module->variable(name);
  wanted->is_managed |= is_managed;
  Variable *found = known(wanted);
  if (address) *address = reinterpret_cast<void *>(found->address);
  if (bytes) *bytes = found->bytes;
}

void give_kernels(Kernel **kernels, unsigned count, Module *module) {
  auto names = module->kernel_names();
  for (unsigned k = 0; k < count && k < names.size(); ++k) kernels[k] = module->kernel(names[k]);
}

void entry_point(const char *name, void **function, int version, uint64_t flags, int *status) {
  need(name && function);
  *function = driver_function(name, version, flags & 2);
  if (status) *status = *function ? 0 : 1;
  need(*function, kNotFound);
}

}  // namespace

Module *load_image(const void *image) { return load_library(image, 0); }

Module *load_file(const char *path) {
  std::ifstream file(path, std::ios::binary);
  need(bool(file), 301);  // no such file
  std::stringstream content;
  content << file.rdbuf();
  std::string text = content.str();
  text.append(64, '\0');  // what reads the first bytes of an image finds some
  return load_library(text.data(), text.size() - 64);
}

BOTH(cudaLibraryLoadData, cuLibraryLoadData, (Module **made, const void *image, void *, void *, unsigned, void *, void *, unsigned),
        need(made); *made = load_image(image))
BOTH(cudaLibraryLoadFromFile, cuLibraryLoadFromFile, (Module **made, const char *path, void *, void *, unsigned, void *, void *, unsigned),
        need(made && path); *made = load_file(path))
BOTH(cudaLibraryUnload, cuLibraryUnload, (void *library), remove_module(library_of(library)))
BOTH(cudaLibraryGetKernel, cuLibraryGetKernel, (Kernel **kernel, void *library, const char *name),
        need(kernel && name); *kernel = known(library_of(library)->kernel(name)))
BOTH(cudaLibraryGetGlobal, cuLibraryGetGlobal, (void **address, size_t *bytes, void *library, const char *name),
        need(name); give_variable(address, bytes, library_of(library), name, false))
BOTH(cudaLibraryGetManaged, cuLibraryGetManaged, (void **address, size_t *bytes, void *library, const char *name),
        need(name); give_variable(address, bytes, library_of(library), name, true))
BOTH(cudaLibraryGetKernelCount, cuLibraryGetKernelCount, (unsigned *count, void *library),
        need(count); *count = unsigned(library_of(library)->kernel_names().size()))
BOTH(cudaLibraryEnumerateKernels, cuLibraryEnumerateKernels, (Kernel **kernels, unsigned count, void *library),
        need(kernels); give_kernels(kernels, count, library_of(library)))

RUNTIME(cudaGetDriverEntryPoint, (const char *name, void **function, unsigned long long flags, int *status),
        entry_point(name, function, 13000, flags, status))
RUNTIME(cudaGetDriverEntryPoint_ptsz, (const char *name, void **function, unsigned long long flags, int *status),
        entry_point(name, function, 13000, flags | 2, status))
RUNTIME(cudaGetDriverEntryPointByVersion,
        (const char *name, void **function, unsigned version, unsigned long long flags, int *status),
        entry_point(name, function, int(version), flags, status))
RUNTIME(cudaGetDriverEntryPointByVersion_ptsz,
        (const char *name, void **function, unsigned version, unsigned long long flags, int *status),
        entry_point(name, function, int(version), flags | 2, status))
