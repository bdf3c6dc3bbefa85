// Streams, events and host functions of the runtime, and the pools of memory that is allocated in the order of streams.
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
  *pointer = allocate(bytes, MemoryKind::DEVICE);
  default_pool()->used_high = std::max(default_pool()->used_high, state().used_bytes);
  if (stream->capture) submit(AllocateWork{*pointer, bytes}, stream);
}

void free_in_order(void *pointer, void *handle) {
  Stream *stream = stream_of(handle);
  if (stream->capture) return submit(FreeWork{pointer}, stream);
  wait_for_host_functions();
  release(pointer, false);
}

}  // namespace

// -- streams -------------------------------------------------------------------------------------------------

RUNTIME(cudaStreamCreate, (void **made), need(made); *made = new_stream(0, 0))
RUNTIME(cudaStreamCreateWithFlags, (void **made, unsigned flags), need(made); *made = new_stream(flags, 0))
RUNTIME(cudaStreamCreateWithPriority, (void **made, unsigned flags, int priority),
        need(made); *made = new_stream(flags, std::max(-5, std::min(0, priority))))
RUNTIME(cudaStreamDestroy, (void *stream), remove_stream(stream_of(stream)))
RUNTIME_IN_STREAM(cudaStreamGetPriority, (void *stream, int *value), need(value); *value = stream_of(stream)->priority)
RUNTIME_IN_STREAM(cudaStreamGetFlags, (void *stream, unsigned *value), need(value); *value = stream_of(stream)->flags)
RUNTIME_IN_STREAM(cudaStreamGetId, (void *stream, unsigned long long *value),
                  need(value); *value = stream_of(stream)->number)
RUNTIME_IN_STREAM(cudaStreamGetDevice, (void *stream, int *value), need(value); stream_of(stream); *value = 0)
RUNTIME_IN_STREAM(cudaStreamSynchronize, (void *stream), synchronize(stream_of(stream)))
RUNTIME_IN_STREAM(cudaStreamQuery, (void *stream), synchronize(stream_of(stream)))
RUNTIME_IN_STREAM(cudaStreamWaitEvent, (void *stream, void *event, unsigned), wait(stream_of(stream), event_of(event)))
RUNTIME_IN_STREAM(cudaStreamSetAttribute, (void *stream, int, const void *), stream_of(stream))
RUNTIME_IN_STREAM(cudaStreamCopyAttributes, (void *stream, void *source), stream_of(stream); stream_of(source))
RUNTIME_IN_STREAM(cudaLaunchHostFunc, (void *stream, HostFunction function, void *data),
                  need(function); submit(HostWork{function, data}, stream_of(stream)))
RUNTIME_IN_STREAM(cudaStreamAddCallback, (void *stream, StreamCallback function, void *data, unsigned flags),
                  need(function && !flags); Stream *in = stream_of(stream); need(!in->capture, kCaptureUnsupported);
                  submit(HostWork{call_back, new CallbackData{function, stream, data}}, in))

// -- captures ------------------------------------------------------------------------------------------------

RUNTIME_IN_STREAM(cudaStreamBeginCapture, (void *stream, int mode), begin_capture(stream_of(stream), mode, nullptr, {}))
RUNTIME_IN_STREAM(cudaStreamBeginCaptureToGraph,
                  (void *stream, void *graph, Node *const *after, const void *, size_t count, int mode),
                  begin_capture(stream_of(stream), mode, graph_of(graph), {after, after + count}))
RUNTIME_IN_STREAM(cudaStreamEndCapture, (void *stream, Graph **graph),
                  need(graph); *graph = nullptr; *graph = end_capture(stream_of(stream)))
RUNTIME_IN_STREAM(cudaStreamIsCapturing, (void *stream, int *status),
                  need(status); Stream *one = stream_of(stream);
                  *status = !one->capture ? 0 : one->is_invalidated ? 2 : 1)
RUNTIME_IN_STREAM(cudaStreamGetCaptureInfo,
                  (void *stream, int *status, unsigned long long *id, Graph **graph, Node *const **last,
                   const void **edges, size_t *count),
                  need(status); Stream *one = stream_of(stream);
                  *status = !one->capture ? 0 : one->is_invalidated ? 2 : 1;
                  if (*status != 1) return;
                  if (id) *id = reinterpret_cast<uintptr_t>(one->capture);
                  if (graph) *graph = one->capture;
                  if (last) *last = one->last.data();
                  if (edges) *edges = nullptr;
                  if (count) *count = one->last.size())
RUNTIME_IN_STREAM(cudaStreamUpdateCaptureDependencies,
                  (void *stream, Node *const *nodes, const void *, size_t count, unsigned flags),
                  Stream *one = stream_of(stream); need(one->capture, 401);
                  if (flags == 1) one->last.clear();
                  one->last.insert(one->last.end(), nodes, nodes + count))
RUNTIME_WITHOUT_DEVICE(cudaThreadExchangeStreamCaptureMode, (int *mode),
                       need(mode && *mode >= 0 && *mode <= 2); std::swap(*mode, allowed_capture_mode))

// -- events --------------------------------------------------------------------------------------------------

RUNTIME(cudaEventCreate, (void **made), need(made); *made = new_event(0))
RUNTIME(cudaEventCreateWithFlags, (void **made, unsigned flags), need(made); *made = new_event(flags))
RUNTIME(cudaEventDestroy, (void *event), remove_event(event_of(event)))
RUNTIME_IN_STREAM(cudaEventRecord, (void *event, void *stream), record(event_of(event), stream_of(stream)))
RUNTIME_IN_STREAM(cudaEventRecordWithFlags, (void *event, void *stream, unsigned),
                  record(event_of(event), stream_of(stream)))
RUNTIME(cudaEventQuery, (void *event), synchronize_event(event_of(event)))
RUNTIME(cudaEventSynchronize, (void *event), synchronize_event(event_of(event)))
RUNTIME(cudaEventElapsedTime, (float *milliseconds, void *first, void *second),
        need(milliseconds); *milliseconds = elapsed(event_of(first), event_of(second)))
RUNTIME(cudaEventElapsedTime_v2, (float *milliseconds, void *first, void *second),
        need(milliseconds); *milliseconds = elapsed(event_of(first), event_of(second)))

// -- memory in the order of streams -----------------------------------------------------------------------------

RUNTIME_IN_STREAM(cudaMallocAsync, (void **pointer, size_t bytes, void *stream), allocate_in_order(pointer, bytes, stream))
RUNTIME_IN_STREAM(cudaMallocFromPoolAsync, (void **pointer, size_t bytes, Pool *, void *stream),
                  allocate_in_order(pointer, bytes, stream))
RUNTIME_IN_STREAM(cudaFreeAsync, (void *pointer, void *stream), free_in_order(pointer, stream))
RUNTIME(cudaDeviceGetDefaultMemPool, (Pool **pool, int device), need(!device, kInvalidDevice); *pool = default_pool())
RUNTIME(cudaDeviceGetMemPool, (Pool **pool, int device), need(!device, kInvalidDevice); *pool = default_pool())
RUNTIME(cudaDeviceSetMemPool, (int device, Pool *pool), need(!device, kInvalidDevice); need(pool))
RUNTIME(cudaMemPoolCreate, (Pool **pool, const void *how), need(pool && how); *pool = new Pool)
RUNTIME(cudaMemPoolDestroy, (Pool *pool), need(pool && pool != default_pool()); delete pool)
RUNTIME(cudaMemPoolTrimTo, (Pool *pool, size_t), need(pool))
RUNTIME(cudaMemPoolSetAttribute, (Pool *pool, int attribute, void *value), pool_attribute(pool, attribute, value, true))
RUNTIME(cudaMemPoolGetAttribute, (Pool *pool, int attribute, void *value), pool_attribute(pool, attribute, value, false))
RUNTIME(cudaMemPoolSetAccess, (Pool *pool, const void *, size_t), need(pool))
RUNTIME(cudaMemPoolGetAccess, (int *flags, Pool *pool, const MemoryLocation *where), need(flags && pool && where); *flags = 3)
