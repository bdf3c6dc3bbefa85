#include "state.h"

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
