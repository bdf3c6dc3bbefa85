#include "module.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace {

constexpr uint32_t kFatBinaryMagic = 0xBA55ED50;
constexpr uint32_t kWrapperMagic = 0x466243B1;

std::set<const void *> &modules() {
  static auto *found = new std::set<const void *>;
  return *found;
}

std::set<const void *> &kernel_handles() {
  static auto *found = new std::set<const void *>;
  return *found;
}

std::map<const void *, Kernel *> &kernels() {
  static auto *found = new std::map<const void *, Kernel *>;
  return *found;
}

std::map<const void *, Variable *> &variables() {
  static auto *found = new std::map<const void *, Variable *>;
  return *found;
}

template <class T>
T at(const void *image, size_t offset) {
  T value;
  memcpy(&value, static_cast<const char *>(image) + offset, sizeof value);
  return value;
}

size_t elf_bytes(const void *image) {
  auto sections = at<uint64_t>(image, 0x28), segments = at<uint64_t>(image, 0x20);
  auto size = at<uint16_t>(image, 0x3A), count = at<uint16_t>(image, 0x3C);
  size_t end = std::max<size_t>(sections + size_t(size) * count,
                                segments + size_t(at<uint16_t>(image, 0x36)) * at<uint16_t>(image, 0x38));
  for (unsigned k = 0; k < count; ++k) {
    size_t head = sections + size_t(k) * size;
    constexpr uint32_t kNoBits = 8;
    if (at<uint32_t>(image, head + 4) != kNoBits)
      end = std::max<size_t>(end, at<uint64_t>(image, head + 0x18) + at<uint64_t>(image, head + 0x20));
  }
  return end;
}

// Machine code at an address of its own, where it stays.
void *executable(const std::string &code) {
  void *place = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  need(place != MAP_FAILED, kOutOfMemory);
  memcpy(place, code.data(), code.size());
  need(!mprotect(place, code.size(), PROT_READ | PROT_EXEC), kNotSupported);
  return place;
}

}  // namespace

size_t image_bytes(const void *image) {
  auto magic = at<uint32_t>(image, 0);
  if (magic == kFatBinaryMagic) return at<uint16_t>(image, 6) + at<uint64_t>(image, 8);
  if (!memcmp(image, "\x7f" "ELF", 4)) return elf_bytes(image);
  return strlen(static_cast<const char *>(image));
}

uint32_t Kernel::dynamic_shared_limit() const {
  uint32_t plain = uint32_t(state().attribute(8));
  if (max_dynamic_shared >= 0) return uint32_t(max_dynamic_shared);
  return plain > static_shared ? plain - static_shared : 0;
}

size_t Kernel::parameter_bytes() const {
  size_t end = all_parameter_bytes;
  for (auto &one : parameters) end = std::max<size_t>(end, one.offset + one.bytes);
  return end;
}

Module *add_module(const void *image) {
  if (at<uint32_t>(image, 0) == kWrapperMagic) image = at<const void *>(image, 8);
  auto *made = new Module;
  made->image = image;
  modules().insert(made);
  return made;
}

Module *copy_module(const void *image, size_t bytes) {
  auto *made = add_module(image);
  if (!bytes) bytes = image_bytes(made->image);
  made->copy.assign(static_cast<const char *>(made->image), bytes);
  made->image = nullptr;
  return made;
}

void remove_module(Module *module) {
  if (module->is_loaded && connected()) Ask(Request::UNLOAD).put(module->number).send();
  auto is_of_it = [&](auto &entry) { return entry.second->module == module; };
  std::erase_if(kernels(), is_of_it);
  std::erase_if(variables(), is_of_it);
  for (auto &[name, kernel] : module->kernels) kernel_handles().erase(kernel.get());
  modules().erase(module);
  delete module;
}

bool is_module(const void *handle) { return modules().count(handle); }
bool is_kernel(const void *handle) { return kernel_handles().count(handle); }

void Module::load() {
  need(!failure, failure);
  if (is_loaded) return;
  connect();
  size_t bytes = image ? image_bytes(image) : copy.size();
  Ask ask(Request::LOAD);
  try {
    ask.put_bytes(image ? image : copy.data(), bytes).send();
  } catch (Failure &why) {
    failure = why.code;
    throw;
  }
  number = ask.get<uint32_t>();
  is_loaded = true;
  copy.clear();
  for (auto &[name, variable] : variables)
    if (variable->managed) *variable->managed = reinterpret_cast<void *>(known(variable.get())->address);
}

Kernel *Module::kernel(const std::string &name) {
  auto &found = kernels[name];
  if (!found) {
    found = std::make_unique<Kernel>();
    found->module = this, found->name = name;
    kernel_handles().insert(found.get());
  }
  return found.get();
}

Variable *Module::variable(const std::string &name) {
  auto &found = variables[name];
  if (!found) {
    found = std::make_unique<Variable>();
    found->module = this, found->name = name;
  }
  return found.get();
}

std::vector<std::string> Module::kernel_names() {
  load();
  Ask ask(Request::KERNELS);
  ask.put(number).send();
  std::vector<std::string> names(ask.get<uint32_t>());
  for (auto &name : names) name = ask.get_text();
  return names;
}

Kernel *known(Kernel *kernel) {
  if (kernel->is_known) return kernel;
  kernel->module->load();
  Ask ask(Request::FUNCTION);
  ask.put(kernel->module->number).put_text(kernel->name).send();
  for (uint32_t *value : {&kernel->number, &kernel->registers, &kernel->static_shared, &kernel->constant_bytes,
                          &kernel->local_bytes, &kernel->max_threads, &kernel->ptx_version, &kernel->binary_version,
                          &kernel->cluster.x, &kernel->cluster.y, &kernel->cluster.z,
                          &kernel->all_parameter_bytes})
    *value = ask.get<uint32_t>();
  kernel->parameters.resize(ask.get<uint32_t>());
  for (auto &one : kernel->parameters) one = ask.get<Parameter>();
  std::string code = ask.get_text();
  if (!code.empty()) kernel->host_code = reinterpret_cast<decltype(kernel->host_code)>(executable(code));
  kernel->is_known = true;
  return kernel;
}

Variable *known(Variable *variable) {
  if (variable->address) return variable;
  variable->module->load();
  Ask ask(Request::VARIABLE);
  ask.put(variable->module->number).put_text(variable->name).put(uint32_t(variable->is_managed)).send();
  variable->address = ask.get<uint64_t>();
  variable->bytes = ask.get<uint64_t>();
  return variable;
}

void register_kernel(const void *host, Kernel *kernel) { kernels()[host] = kernel; }
void register_variable(const void *host, Variable *variable) { variables()[host] = variable; }

Kernel *registered_kernel(const void *host) {
  auto found = kernels().find(host);
  if (found != kernels().end()) return found->second;
  need(is_kernel(host), kInvalidDeviceFunction);
  return static_cast<Kernel *>(const_cast<void *>(host));
}

Variable *registered_variable(const void *host) {
  auto found = variables().find(host);
  if (found != variables().end()) return found->second;
  for (auto &[place, variable] : variables())  // a managed variable is named by where it lies
    if (variable->managed && *variable->managed == host) return variable;
  fail(kInvalidSymbol);
}
