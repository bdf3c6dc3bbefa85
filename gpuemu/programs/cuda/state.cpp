#include "state.h"

#include <new>

thread_local Code last_error = kSuccess;
thread_local bool in_host_function = false;

State &state() {
  static auto *found = new State;
  return *found;
}

std::vector<void *> &contexts() {
  static thread_local std::vector<void *> found;
  return found;
}

void *primary_context() { return &state(); }

void State::meet_the_chip() {
  Ask hello(Request::HELLO);
  hello.send();
  chip = hello.get_text();
  memory_bytes = hello.get<uint64_t>();
  uuid = hello.get_text();
  uuid.resize(16);
  for (uint32_t left = hello.get<uint32_t>(); left; --left) {
    auto number = hello.get<uint32_t>();
    attributes[int(number)] = hello.get<int32_t>();
  }
}

int State::attribute(int number) const {
  auto found = attributes.find(number);
  return found == attributes.end() ? 0 : found->second;
}

Code guarded_call(const Deed &deed, Needs needs) {
  if (in_host_function) return kNotPermitted;
  Lock lock(mutex());
  try {
    if (needs != Needs::kNothing) connect();
    need(needs == Needs::kNothing || !state().fault, state().fault);
    deed();
    return kSuccess;
  } catch (Failure &failure) {
    return failure.code;
  } catch (std::bad_alloc &) {
    return kOutOfMemory;
  }
}

Code runtime_call(const Deed &deed, Needs needs) {
  if (needs != Needs::kNothing && contexts().empty()) contexts().push_back(primary_context());
  Code code = guarded_call(deed, needs);
  if (code && code != kNotReady) last_error = code;
  return code;
}

Code driver_call(const Deed &deed, Needs needs) {
  if (needs != Needs::kNothing && !connected()) return kInitialization;  // before cuInit
  if (needs == Needs::kContext && (contexts().empty() || !contexts().back())) return kInvalidContext;
  Code code = guarded_call(deed, needs);
  return code == kInvalidConfiguration || code == kInvalidPitch || code == kInvalidMemcpyDirection ? kInvalidValue : code;
}
