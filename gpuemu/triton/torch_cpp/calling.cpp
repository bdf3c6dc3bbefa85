// Python calls a function of the extension by its name.
#include "binding.h"

extern "C" {

// 0 and the result, or 1 and a message, or 2 and the name of an operator of torch that does the work.
int gpuemu_call(const char *name, const gpuemu::Value *given, int count, gpuemu::Value *result, char *message,
                size_t bytes) {
  auto told = [&](const std::string &text) { text.copy(message, bytes - 1), message[std::min(text.size(), bytes - 1)] = 0; };
  try {
    auto found = gpuemu::functions().find(name);
    if (found == gpuemu::functions().end()) throw std::invalid_argument(std::string("there is no function ") + name);
    *result = found->second(given, count);
    return 0;
  } catch (const gpuemu::LeftToTorch &left) {
    told(left.what());
    return 2;
  } catch (const std::exception &error) {
    told(error.what());
    return 1;
  } catch (...) {
    told("an exception without a message");
    return 1;
  }
}

int gpuemu_has(const char *name) { return int(gpuemu::functions().count(name)); }

}  // extern "C"
