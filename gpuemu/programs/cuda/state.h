// What the library knows of the device, and the error that stays.
#pragma once
#include <map>
#include <string>

#include "wire.h"

// What a kernel did wrong, as opposed to what a call did.
inline bool is_fault(Code code) { return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719); }

struct State {
  std::string chip, uuid;
  uint64_t memory_bytes = 0, used_bytes = 0;
  std::map<int, int> attributes;
  int heap_file = -1;
  Code pending_fault = kSuccess;  // a kernel has done it; the program has not waited for the kernel yet
  Code fault = kSuccess;          // and now it has: every call returns it

  void meet_the_chip();
  int attribute(int number) const;

  // For calls that wait for kernels: they are the first to return what one of them did.
  void surface() {
    if (pending_fault) fault = pending_fault;
    need(!fault, fault);
  }
};

State &state();

// The calls of the runtime keep their last error per thread, those of the driver do not.
extern thread_local Code last_error;
extern thread_local bool in_host_function;

template <class Work>
Code driver_call(Work work, bool needs_device = true) {
  if (in_host_function) return kNotPermitted;
  Lock lock(mutex());
  try {
    if (needs_device) connect();
    need(!needs_device || !state().fault, state().fault);
    work();
    return kSuccess;
  } catch (Failure &failure) {
    return failure.code;
  } catch (std::bad_alloc &) {
    return kOutOfMemory;
  }
}

template <class Work>
Code runtime_call(Work work, bool needs_device = true) {
  Code code = driver_call(work, needs_device);
  if (code && code != kNotReady) last_error = code;
  return code;
}
