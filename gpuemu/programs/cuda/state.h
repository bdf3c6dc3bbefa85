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

// What has to be there before a call can do its work: nothing, the connection, or a context of this thread as well.
enum class Needs { kNothing, kDevice, kContext };

// Contexts of this thread, the current one last. There is only one: the device's primary context.
std::vector<void *> &contexts();
void *primary_context();

// What a call does, without its type: the calls are many, and each would be compiled with all of what follows.
class Deed {
 public:
  template <class Work>
  Deed(Work &&work)
      : work_(const_cast<void *>(static_cast<const void *>(&work))),
        run_([](void *given) { (*static_cast<std::remove_reference_t<Work> *>(given))(); }) {}
  void operator()() const { run_(work_); }

 private:
  void *work_;
  void (*run_)(void *);
};

Code guarded_call(const Deed &deed, Needs needs);

// A call of the runtime makes the primary context current, and keeps its error for cudaGetLastError.
Code runtime_call(const Deed &deed, Needs needs = Needs::kDevice);

// A call of the driver. Some errors are the runtime's alone.
Code driver_call(const Deed &deed, Needs needs = Needs::kContext);
