// Streams, events and host functions of the runtime, and the pools of memory that is allocated in the order of streams.
#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace {

using StreamCallback = void (*)(void *stream, Code status, void *data);

struct CallbackData {
  StreamCallback function;
  void *stream, *data;
};

void call_back(void *given) {
  auto data = static_cast<CallbackData *>(given);
  data->function(data->stream, kSuccess, data->data);
  delete data;
}

float elapsed(Event *first, Event *second) {
  need(!((first->flags | second->flags) & kEventDisableTiming), kInvalidHandle);
  need(!first->capture && !second->capture, kCapturedEvent);
  need(first->is_recorded && second->is_recorded, kInvalidHandle);
  wait_for_host_functions();
  Ask ask(Request::ELAPSED);
  ask.put(first->number).put(second->number).send();
  return ask.get<float>();
}

struct Pool {
  uint64_t release_threshold = 0, used = 0, used_high = 0;
  int reuse[3] = {1, 1, 1};
};

Pool *default_pool() {
  static auto *found = new Pool;
  return found;
}

void pool_attribute(Pool *pool, int attribute, void *value, bool set) {
  need(pool && value && attribute >= 1 && attribute <= 8);
  if (attribute <= 3) {
    int &own = pool->reuse[attribute - 1];
    (set ? own : *static_cast<int *>(value)) = set ? *static_cast<int *>(value) : own;
    return;
  }
  auto number = static_cast<uint64_t *>(value);
  if (attribute == 4) {
    (set ? pool->release_threshold : *number) = set ? *number : pool->release_threshold;
  } else if (set) {
    need(*number == 0);
    pool->used_high = pool->used;
  } else {
    *number = attribute % 2 ? state().used_bytes : std::max(pool->used_high, state().used_bytes);
  }
}

void allocate_in_order(void **pointer, size_t bytes, void *handle) {
  need(pointer);
  Stream *stream = stream_of(handle);
  wait_for_host_functions();
  if (stream->capture) {
    AllocateWork made = allocate_for_graph(bytes);
    *pointer = made.pointer;
    return submit(made, stream);
  }
  *pointer = allocate(bytes, MemoryKind::DEVICE);
  default_pool()->used_high = std::max(default_pool()->used_high, state().used_bytes);
}

void free_in_order(void *pointer, void *handle) {
  Stream *stream = stream_of(handle);
  if (stream->capture) return submit(FreeWork{pointer}, stream);
  wait_for_host_functions();
  if (!belongs_to_graph(pointer)) release(pointer, false);
}

void capture_of(Stream *stream, int *status, unsigned long long *id, Graph **graph, Node *const **last, size_t *count) {
  need(status);
  *status = !stream->capture ? 0 : stream->is_invalidated ? 2 : 1;
  if (*status != 1) return;
  if (id) *id = reinterpret_cast<uintptr_t>(stream->capture);
  if (graph) *graph = stream->capture;
  if (last) *last = stream->last.data();
  if (count) *count = stream->last.size();
}

}  // namespace

// -- streams -------------------------------------------------------------------------------------------------

RUNTIME(cudaStreamCreate, (void **made), need(made); *made = new_stream(0, 0))
BOTH(cudaStreamCreateWithFlags, cuStreamCreate, (void **made, unsigned flags), need(made); *made = new_stream(flags, 0))
BOTH(cudaStreamCreateWithPriority, cuStreamCreateWithPriority, (void **made, unsigned flags, int priority),
        need(made); *made = new_stream(flags, std::max(-5, std::min(0, priority))))
BOTH(cudaStreamDestroy, cuStreamDestroy_v2, (void *stream), remove_stream(stream_of(stream)))
BOTH_IN_STREAM(cudaStreamGetPriority, cuStreamGetPriority, (void *stream, int *value), need(value); *value = stream_of(stream)->priority)
BOTH_IN_STREAM(cudaStreamGetFlags, cuStreamGetFlags, (void *stream, unsigned *value), need(value); *value = stream_of(stream)->flags)
BOTH_IN_STREAM(cudaStreamGetId, cuStreamGetId, (void *stream, unsigned long long *value),
                  need(value); *value = stream_of(stream)->number)
BOTH_IN_STREAM(cudaStreamGetDevice, cuStreamGetDevice, (void *stream, int *value), need(value); stream_of(stream); *value = 0)
BOTH_IN_STREAM(cudaStreamSynchronize, cuStreamSynchronize, (void *stream), synchronize(stream_of(stream)))
BOTH_IN_STREAM(cudaStreamQuery, cuStreamQuery, (void *stream), synchronize(stream_of(stream)))
BOTH_IN_STREAM(cudaStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned), wait(stream_of(stream), event_of(event)))
BOTH_IN_STREAM(cudaStreamSetAttribute, cuStreamSetAttribute, (void *stream, int, const void *), stream_of(stream))
BOTH_IN_STREAM(cudaStreamGetAttribute, cuStreamGetAttribute, (void *stream, int id, char *value),
               need(value); Stream *one = stream_of(stream); std::fill_n(value, 64, char(0));
               if (id == 8) memcpy(value, &one->priority, sizeof one->priority))
BOTH_IN_STREAM(cudaStreamCopyAttributes, cuStreamCopyAttributes, (void *stream, void *source), stream_of(stream); stream_of(source))
BOTH_IN_STREAM(cudaLaunchHostFunc, cuLaunchHostFunc, (void *stream, HostFunction function, void *data),
                  need(function); submit(HostWork{function, data}, stream_of(stream)))
BOTH_IN_STREAM(cudaStreamAddCallback, cuStreamAddCallback, (void *stream, StreamCallback function, void *data, unsigned flags),
                  need(function && !flags); Stream *in = stream_of(stream); need(!in->capture, kCaptureUnsupported);
                  submit(HostWork{call_back, new CallbackData{function, stream, data}}, in))

// -- captures ------------------------------------------------------------------------------------------------

BOTH_IN_STREAM(cudaStreamBeginCapture, cuStreamBeginCapture_v2, (void *stream, int mode), begin_capture(stream_of(stream), mode, nullptr, {}))
BOTH_IN_STREAM(cudaStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph,
                  (void *stream, void *graph, Node *const *after, const void *, size_t count, int mode),
                  begin_capture(stream_of(stream), mode, graph_of(graph), {after, after + count}))
BOTH_IN_STREAM(cudaStreamEndCapture, cuStreamEndCapture, (void *stream, Graph **graph),
                  need(graph); *graph = nullptr; *graph = end_capture(stream_of(stream)))
BOTH_IN_STREAM(cudaStreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status),
                  need(status); Stream *one = stream_of(stream);
                  *status = !one->capture ? 0 : one->is_invalidated ? 2 : 1)
BOTH_IN_STREAM(cudaStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3,
                  (void *stream, int *status, unsigned long long *id, Graph **graph, Node *const **last,
                   const void **edges, size_t *count),
                  capture_of(stream_of(stream), status, id, graph, last, count);
                  if (edges) *edges = nullptr)
DRIVER_IN_STREAM(cuStreamGetCaptureInfo_v2,
                 (void *stream, int *status, unsigned long long *id, Graph **graph, Node *const **last, size_t *count),
                 capture_of(stream_of(stream), status, id, graph, last, count))
BOTH_IN_STREAM(cudaStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2,
                  (void *stream, Node *const *nodes, const void *, size_t count, unsigned flags),
                  Stream *one = stream_of(stream); need(one->capture, 401);
                  if (flags == 1) one->last.clear();
                  one->last.insert(one->last.end(), nodes, nodes + count))
RUNTIME_WITHOUT_DEVICE(cudaThreadExchangeStreamCaptureMode, (int *mode),
                       need(mode && *mode >= 0 && *mode <= 2); std::swap(*mode, allowed_capture_mode))

// -- events --------------------------------------------------------------------------------------------------

RUNTIME(cudaEventCreate, (void **made), need(made); *made = new_event(0))
BOTH(cudaEventCreateWithFlags, cuEventCreate, (void **made, unsigned flags), need(made); *made = new_event(flags))
BOTH(cudaEventDestroy, cuEventDestroy_v2, (void *event), remove_event(event_of(event)))
BOTH_IN_STREAM(cudaEventRecord, cuEventRecord, (void *event, void *stream), record(event_of(event), stream_of(stream)))
BOTH_IN_STREAM(cudaEventRecordWithFlags, cuEventRecordWithFlags, (void *event, void *stream, unsigned),
                  record(event_of(event), stream_of(stream)))
BOTH(cudaEventQuery, cuEventQuery, (void *event), synchronize_event(event_of(event)))
BOTH(cudaEventSynchronize, cuEventSynchronize, (void *event), synchronize_event(event_of(event)))
BOTH(cudaEventElapsedTime, cuEventElapsedTime, (float *milliseconds, void *first, void *second),
        need(milliseconds); *milliseconds = elapsed(event_of(first), event_of(second)))
BOTH(cudaEventElapsedTime_v2, cuEventElapsedTime_v2, (float *milliseconds, void *first, void *second),
        need(milliseconds); *milliseconds = elapsed(event_of(first), event_of(second)))

// -- memory in the order of streams -----------------------------------------------------------------------------

BOTH_IN_STREAM(cudaMallocAsync, cuMemAllocAsync, (void **pointer, size_t bytes, void *stream), allocate_in_order(pointer, bytes, stream))
BOTH_IN_STREAM(cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync, (void **pointer, size_t bytes, Pool *, void *stream),
                  allocate_in_order(pointer, bytes, stream))
BOTH_IN_STREAM(cudaFreeAsync, cuMemFreeAsync, (void *pointer, void *stream), free_in_order(pointer, stream))
BOTH(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (Pool **pool, int device), need(!device, kInvalidDevice); *pool = default_pool())
BOTH(cudaDeviceGetMemPool, cuDeviceGetMemPool, (Pool **pool, int device), need(!device, kInvalidDevice); *pool = default_pool())
BOTH(cudaDeviceSetMemPool, cuDeviceSetMemPool, (int device, Pool *pool), need(!device, kInvalidDevice); need(pool))
BOTH(cudaMemPoolCreate, cuMemPoolCreate, (Pool **pool, const void *how), need(pool && how); *pool = new Pool)
BOTH(cudaMemPoolDestroy, cuMemPoolDestroy, (Pool *pool), need(pool && pool != default_pool()); delete pool)
BOTH(cudaMemPoolTrimTo, cuMemPoolTrimTo, (Pool *pool, size_t), need(pool))
BOTH(cudaMemPoolSetAttribute, cuMemPoolSetAttribute, (Pool *pool, int attribute, void *value), pool_attribute(pool, attribute, value, true))
BOTH(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (Pool *pool, int attribute, void *value), pool_attribute(pool, attribute, value, false))
BOTH(cudaMemPoolSetAccess, cuMemPoolSetAccess, (Pool *pool, const void *, size_t), need(pool))
BOTH(cudaMemPoolGetAccess, cuMemPoolGetAccess, (int *flags, Pool *pool, const MemoryLocation *where), need(flags && pool && where); *flags = 3)
