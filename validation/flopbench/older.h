// What sources written for older toolkits still ask for, and CUDA 13 has no more: other members stand for it.
#pragma once
#include <cuda_runtime.h>

#define clockRate memoryBusWidth
#define memoryClockRate memoryBusWidth
#define computeMode unifiedAddressing
#define deviceOverlap asyncEngineCount
#define kernelExecTimeoutEnabled cooperativeLaunch
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaThreadExit cudaDeviceReset
