// The socket to gpuemu: one request at a time, each with its answer.
#pragma once
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "api.h"
#include "protocol.h"

using Lock = std::unique_lock<std::recursive_mutex>;

struct Failure {
  Code code;
};

[[noreturn]] inline void fail(Code code) { throw Failure{code}; }

inline void need(bool condition, Code code = kInvalidValue) {
  if (!condition) fail(code);
}

// One lock for all state of the library. Host functions of streams run without it.
std::recursive_mutex &mutex();

// Whether this process has a device, and the process that the state belongs to: a process that was forked off has none.
bool connected();
void connect();

// A program that asks for what we do not have ends here, and says so.
[[noreturn]] void refuse(const std::string &name, const std::string &why);

// The name of the file that an address of code is in.
std::string file_of(const void *address);

class Ask {
 public:
  explicit Ask(Request request) : request_(request) {}

  template <class T>
  Ask &put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    auto at = reinterpret_cast<const char *>(&value);
    fields_.insert(fields_.end(), at, at + sizeof value);
    return *this;
  }
  Ask &put_bytes(const void *data, size_t bytes);
  Ask &put_text(const std::string &text) { return put_bytes(text.data(), text.size()); }

  // Sends the request. Fails with the status of the answer; what a kernel did is kept instead, see State::surface.
  Ask &send();

  template <class T>
  T get() {
    T value;
    take(&value, sizeof value);
    return value;
  }
  std::string get_text();

 private:
  void take(void *to, size_t bytes);

  Request request_;
  std::vector<char> fields_;
  size_t at_ = 0;
};
