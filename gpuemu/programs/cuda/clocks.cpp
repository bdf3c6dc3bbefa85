// The program's clocks: they stand still while gpuemu works, and advance by what the GPU would have taken.
//
// Deadlines that a program computes from such a clock are turned back before the system gets them.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>

#include "clocks.h"

namespace {

constexpr int64_t kSecond = 1000000000;

std::atomic<int64_t> skew{0};      // what is to be added to a clock of the wall, in nanoseconds
std::atomic<int64_t> emulated{0};  // and to one of the processor: the host of a GPU spins while it waits
int64_t last_clock = 0;

template <class Function>
Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int real_time(clockid_t clock, timespec *time) {
  static auto real = next<int (*)(clockid_t, timespec *)>("clock_gettime");
  return real(clock, time);
}

int64_t nanoseconds(const timespec &time) { return int64_t(time.tv_sec) * kSecond + time.tv_nsec; }

timespec later(const timespec &time, int64_t by) {
  int64_t whole = nanoseconds(time) + by;
  return {time_t(whole / kSecond), long(whole % kSecond)};
}

bool is_of_the_wall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

}  // namespace

int64_t wall_nanoseconds() {
  timespec now;
  real_time(CLOCK_MONOTONIC, &now);
  return nanoseconds(now);
}

void begin_device_clock() { last_clock = 0; }

void advance_clocks(int64_t waited, int64_t device_clock) {
  int64_t more = device_clock - last_clock;
  last_clock = device_clock;
  emulated += more;
  skew += more - waited;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int clock_gettime(clockid_t clock, timespec *time) {
  int code = real_time(clock, time);
  if (code) return code;
  if (is_of_the_wall(clock)) *time = later(*time, skew);
  if (clock == CLOCK_PROCESS_CPUTIME_ID) *time = later(*time, emulated);
  return 0;
}

EXPORTED int gettimeofday(timeval *time, void *zone) {
  static auto real = next<int (*)(timeval *, void *)>("gettimeofday");
  int code = real(time, zone);
  if (code || !time) return code;
  timespec now = later({time->tv_sec, time->tv_usec * 1000}, skew);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

EXPORTED time_t time(time_t *to) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

EXPORTED clock_t clock() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return clock_t(nanoseconds(now) / (kSecond / CLOCKS_PER_SEC));
}

EXPORTED int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const timespec *until) {
  static auto real = next<int (*)(pthread_cond_t *, pthread_mutex_t *, const timespec *)>("pthread_cond_timedwait");
  timespec then = later(*until, -skew);
  return real(condition, mutex, &then);
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                    const timespec *until) {
  static auto real =
      next<int (*)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const timespec *)>("pthread_cond_clockwait");
  timespec then = later(*until, -skew);
  return real(condition, mutex, clock, &then);
}

EXPORTED int sem_timedwait(sem_t *semaphore, const timespec *until) {
  static auto real = next<int (*)(sem_t *, const timespec *)>("sem_timedwait");
  timespec then = later(*until, -skew);
  return real(semaphore, &then);
}

EXPORTED int sem_clockwait(sem_t *semaphore, clockid_t clock, const timespec *until) {
  static auto real = next<int (*)(sem_t *, clockid_t, const timespec *)>("sem_clockwait");
  timespec then = later(*until, -skew);
  return real(semaphore, clock, &then);
}

EXPORTED int pthread_mutex_timedlock(pthread_mutex_t *mutex, const timespec *until) {
  static auto real = next<int (*)(pthread_mutex_t *, const timespec *)>("pthread_mutex_timedlock");
  timespec then = later(*until, -skew);
  return real(mutex, &then);
}

EXPORTED int clock_nanosleep(clockid_t clock, int flags, const timespec *until, timespec *left) {
  static auto real = next<int (*)(clockid_t, int, const timespec *, timespec *)>("clock_nanosleep");
  timespec then = flags & TIMER_ABSTIME && is_of_the_wall(clock) ? later(*until, -skew) : *until;
  return real(clock, flags, &then, left);
}
