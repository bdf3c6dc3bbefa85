// The program's clocks; see clocks.cpp.
#pragma once
#include <cstdint>

// The time as it is.
int64_t wall_nanoseconds();

// The process has a device of its own now.
void begin_device_clock();

// A request took so long; the device's clock, as the program's host sees it, now is at so much.
void advance_clocks(int64_t waited, int64_t device_clock);
