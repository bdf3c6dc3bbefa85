// Modules, their kernels and variables. A module is loaded when something of it is first used.
#pragma once
#include <memory>

#include "state.h"

struct Module;

struct Parameter {
  uint32_t offset, bytes;
};

struct Kernel {  // what CUfunction, CUkernel, cudaFunction_t and cudaKernel_t point to
  Module *module = nullptr;
  std::string name;
  bool is_known = false;
  uint32_t number = 0, registers = 0, static_shared = 0, constant_bytes = 0, local_bytes = 0, max_threads = 0;
  uint32_t ptx_version = 0, binary_version = 0;
  Dim cluster{};
  std::vector<Parameter> parameters;
  uint32_t all_parameter_bytes = 0;
  int (*host_code)(void *, void *, void *, char *parameters) = nullptr;  // writes further parameters
  // What the program has set.
  int max_dynamic_shared = -1, carveout = -1;
  bool non_portable_cluster = false, cluster_must_be_set = false;
  Dim required_cluster{};

  uint32_t dynamic_shared_limit() const;
  size_t parameter_bytes() const;
};

struct Variable {
  Module *module = nullptr;
  std::string name;
  uint64_t address = 0;
  uint64_t bytes = 0;
  void **managed = nullptr;  // where the program keeps the address of a managed variable
  bool is_managed = false;   // the host reads and writes it without a call
};

struct Module {
  const void *image = nullptr;  // the program's own bytes, until the module is loaded
  std::string copy;             // or ours
  bool is_loaded = false;
  bool is_library = false;
  Code failure = kSuccess;
  uint32_t number = 0;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::map<std::string, std::unique_ptr<Variable>> variables;

  void load();
  Kernel *kernel(const std::string &name);      // not yet looked up
  Variable *variable(const std::string &name);  // the same
  std::vector<std::string> kernel_names();
};

// Length of an image as the program gives it: a fat binary, a cubin, or PTX with a NUL at its end.
size_t image_bytes(const void *image);

Module *add_module(const void *image);
Module *copy_module(const void *image, size_t bytes);
void remove_module(Module *module);
bool is_module(const void *handle);
bool is_kernel(const void *handle);

// Fails where a module has no such kernel or variable, or cannot be loaded.
Kernel *known(Kernel *kernel);
Variable *known(Variable *variable);

// What the code in front of main has registered, by the address that the program uses for it.
void register_kernel(const void *host, Kernel *kernel);
void register_variable(const void *host, Variable *variable);
Kernel *registered_kernel(const void *host);  // a kernel's handle is one, too; fails with 98
Variable *registered_variable(const void *host);
// The address of bytes of a variable; fails where they are not within it.
char *symbol_address(const void *host, size_t bytes, size_t offset);
