// Whatever we do not provide ends the program and says its name. The names are in refused.txt.
#include "wire.h"

[[noreturn]] void refuse_by_name(const char *name) {
  refuse(name, "is not provided by gpuemu exec. The program cannot go on; file an issue that names it.");
}

#define REFUSED(name) \
  extern "C" __attribute__((weak, visibility("default"))) Code name() { refuse_by_name(#name); }
#include "refused.h"
