#include "wire.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clocks.h"
#include "state.h"


// Set by the auditor, which redirects static runtimes.
extern "C" __attribute__((visibility("default"))) int gpuemu_is_audited;
int gpuemu_is_audited = 0;
// Set by the auditor: a file of the program whose CUDA runtime is older than the one whose calls we know.
extern "C" __attribute__((visibility("default"))) char gpuemu_old_runtime[256];
char gpuemu_old_runtime[256] = "";

namespace {

constexpr int kRefusedExit = 125;

int door = -1;  // where a process of the program hands its own socket to gpuemu
int line = -1;
pid_t owner = 0;

std::string program() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string whole(path, length > 0 ? size_t(length) : 0);
  return whole.substr(whole.rfind('/') + 1);
}

[[noreturn]] void end_program(const std::string &why) {
  fflush(stdout);
  fprintf(stderr, "%s: gpuemu exec: error: %s\n", program().c_str(), why.c_str());
  _exit(kRefusedExit);
}

void write_all(const void *data, size_t bytes) {
  auto at = static_cast<const char *>(data);
  while (bytes) {
    ssize_t done = ::send(line, at, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) end_program("gpuemu has ended. Look for its own message above.");
    at += done, bytes -= size_t(done);
  }
}

void read_all(void *data, size_t bytes) {
  auto at = static_cast<char *>(data);
  while (bytes) {
    ssize_t done = ::recv(line, at, bytes, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) end_program("gpuemu has ended. Look for its own message above.");
    at += done, bytes -= size_t(done);
  }
}

void hand_over(int ours, int heap) {
  uint32_t process = uint32_t(getpid());
  iovec content{&process, sizeof process};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(2 * sizeof(int));
  int files[] = {ours, heap};
  memcpy(CMSG_DATA(head), files, sizeof files);
  if (sendmsg(door, &message, MSG_NOSIGNAL) < 0)
    end_program("there is no connection to gpuemu. The program that started this one has closed it; run this one itself.");
}

// The door is named in the environment, which the program may change later.
__attribute__((constructor)) void find_door() {
  const char *number = getenv("GPUEMU_EXEC");
  if (!number) return;
  door = atoi(number);
  if (!gpuemu_is_audited)
    end_program("the dynamic linker has not loaded gpuemu's auditor. Look for its own message above.");
  // A recursive lock belongs to a thread by its number, which is another one in the new process.
  pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { new (&mutex()) std::recursive_mutex; });
}

}  // namespace

std::recursive_mutex &mutex() {
  static auto *found = new std::recursive_mutex;
  return *found;
}

bool connected() { return owner != 0; }

void connect() {
  if (owner == getpid()) return;
  if (owner) fail(kInitialization);  // as CUDA has it: a context does not survive a fork
  if (door < 0) end_program("there is no connection to gpuemu. Start the program with gpuemu exec.");
  int ends[2];
  constexpr unsigned kCloseOnExec = 1;
  int heap = int(syscall(SYS_memfd_create, "gpuemu", kCloseOnExec));
  if (heap < 0 || ftruncate(heap, off_t(HEAP_BYTES)) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    end_program(std::string("no memory for the device: ") + strerror(errno) + ".");
  void *there = mmap(reinterpret_cast<void *>(BASE), HEAP_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, heap, 0);
  if (there != reinterpret_cast<void *>(BASE))
    end_program("the addresses of the device's memory are not free. Lift a limit of address space (ulimit -v unlimited).");
  hand_over(ends[1], heap);
  close(ends[1]);
  line = ends[0], owner = getpid();
  begin_device_clock();
  state().heap_file = heap;
  state().meet_the_chip();
  if (*gpuemu_old_runtime) {
    std::string name = gpuemu_old_runtime;
    refuse(name == "exe" ? program() : name, "has the CUDA runtime of CUDA 12 or of an earlier version, whose functions take other arguments. "
                                             "Build the program with CUDA 13.");
  }
}

void refuse(const std::string &name, const std::string &why) {
  std::string text = name + " " + why;
  if (owner != getpid()) end_program(text);
  try {
    Ask(Request::REFUSED).put_text(text).send();
  } catch (Failure &) {
  }
  fflush(stdout);
  _exit(kRefusedExit);  // gpuemu says why
}

Ask &Ask::put_bytes(const void *data, size_t bytes) {
  put(uint32_t(bytes));
  auto at = static_cast<const char *>(data);
  fields_.insert(fields_.end(), at, at + bytes);
  return *this;
}

Ask &Ask::send() {
  int64_t began = wall_nanoseconds();
  uint32_t head[2] = {uint32_t(request_), uint32_t(fields_.size())};
  write_all(head, sizeof head);
  write_all(fields_.data(), fields_.size());
  uint32_t answer[3];  // status, bytes that kernels printed, bytes of the fields
  int64_t clock = 0;
  read_all(answer, sizeof answer);
  read_all(&clock, sizeof clock);
  std::vector<char> printed(answer[1]);
  read_all(printed.data(), printed.size());
  if (!printed.empty()) fwrite(printed.data(), 1, printed.size(), stdout);
  fields_.resize(answer[2]);
  read_all(fields_.data(), fields_.size());
  at_ = 0;
  advance_clocks(wall_nanoseconds() - began, clock);
  Code code = Code(answer[0]);
  if (is_fault(code))
    state().pending_fault = code;
  else
    need(!code, code);
  return *this;
}

void Ask::take(void *to, size_t bytes) {
  if (at_ + bytes > fields_.size()) end_program("gpuemu and this library are of different versions. Start gpuemu exec again.");
  memcpy(to, fields_.data() + at_, bytes);
  at_ += bytes;
}

std::string Ask::get_text() {
  std::string text(get<uint32_t>(), '\0');
  take(text.data(), text.size());
  return text;
}
