#include "stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <set>
#include <thread>

#include "graph.h"

namespace {

std::set<Stream *> &streams() {
  static auto *found = new std::set<Stream *>;
  return *found;
}

std::set<Event *> &events() {
  static auto *found = new std::set<Event *>;
  return *found;
}

uint64_t next_number = 1;

// Host functions run one after the other on a thread of their own, as the driver runs them.
struct Helper {
  std::mutex lock;
  std::condition_variable changed;
  std::deque<HostWork> waiting;
  bool is_busy = false, is_started = false;

  void run() {
    in_host_function = true;
    std::unique_lock<std::mutex> hold(lock);
    for (;;) {
      changed.wait(hold, [&] { return !waiting.empty(); });
      HostWork work = waiting.front();
      waiting.pop_front();
      is_busy = true;
      hold.unlock();
      work.function(work.data);
      hold.lock();
      is_busy = false;
      changed.notify_all();
    }
  }

  void add(const HostWork &work) {
    std::unique_lock<std::mutex> hold(lock);
    if (!is_started) std::thread([this] { run(); }).detach();
    is_started = true;
    waiting.push_back(work);
    changed.notify_all();
  }

  void wait() {
    std::unique_lock<std::mutex> hold(lock);
    changed.wait(hold, [&] { return waiting.empty() && !is_busy; });
  }
};

Helper &helper() {
  static auto *found = new Helper;
  return *found;
}

int direction(const CopyWork &work) {
  bool to = is_device(work.to), from = is_device(work.source);
  if (work.kind == kHostToDevice) need(is_in_heap(work.to));
  if (work.kind == kDeviceToHost) need(is_in_heap(work.source));
  if (work.kind == kDeviceToDevice) need(is_in_heap(work.to) && is_in_heap(work.source));
  return from * 2 + to;  // as cudaMemcpyKind counts
}

size_t span(size_t pitch, size_t plane, size_t width, size_t height, size_t depth) {
  return width && height && depth ? plane * (depth - 1) + pitch * (height - 1) + width : 0;
}

void ask_to_launch(const LaunchWork &work, Stream *stream) {
  Ask(Request::LAUNCH)
      .put(work.kernel->number)
      .put(work.grid)
      .put(work.block)
      .put(work.cluster)
      .put(work.dynamic_shared)
      .put(uint32_t(work.is_cooperative))
      .put(stream->number)
      .put_bytes(work.arguments.data(), work.arguments.size())
      .send();
}

void copy(const CopyWork &work, Stream *stream) {
  int way = direction(work);
  size_t to = span(work.to_pitch, work.to_plane, work.width, work.height, work.depth);
  size_t from = span(work.source_pitch, work.source_plane, work.width, work.height, work.depth);
  if (!to) return;
  check_range(work.to, to), check_range(work.source, from);
  Ask(Request::COPY)
      .put(work.to)
      .put(uint64_t(to))
      .put(work.source)
      .put(uint64_t(from))
      .put(uint64_t(work.width * work.height * work.depth))
      .put(uint32_t(way))
      .put(stream->number)
      .put(uint32_t(work.waits))
      .send();
  if (work.waits) state().surface();
  for (size_t z = 0; z < work.depth; ++z)
    for (size_t y = 0; y < work.height; ++y)
      memmove(work.to + z * work.to_plane + y * work.to_pitch,
              work.source + z * work.source_plane + y * work.source_pitch, work.width);
}

void fill(const FillWork &work, Stream *stream) {
  size_t bytes = span(work.pitch, work.plane, work.width, work.height, work.depth);
  if (!bytes) return;
  need(is_in_heap(work.to) || find_allocation(work.to));
  check_range(work.to, bytes);
  Ask(Request::FILL)
      .put(work.to)
      .put(uint64_t(bytes))
      .put(uint64_t(work.width * work.height * work.depth))
      .put(stream->number)
      .send();
  for (size_t z = 0; z < work.depth; ++z)
    for (size_t y = 0; y < work.height; ++y) {
      char *row = work.to + z * work.plane + y * work.pitch;
      if (work.element == 1) {
        memset(row, int(work.value), work.width);
      } else {
        for (size_t x = 0; x < work.width; x += work.element) memcpy(row + x, &work.value, work.element);
      }
    }
}

struct Performer {
  Stream *stream;

  void operator()(const LaunchWork &work) const { ask_to_launch(work, stream); }
  void operator()(const CopyWork &work) const { copy(work, stream); }
  void operator()(const FillWork &work) const { fill(work, stream); }
  void operator()(const HostWork &work) const {
    Ask(Request::SYNCHRONIZE).put(stream->number).send();
    helper().add(work);
  }
  void operator()(const ChildWork &work) const { perform_graph(*work.graph, stream); }
  void operator()(const EmptyWork &) const {}
  void operator()(const WaitWork &work) const {
    if (work.event->is_recorded) Ask(Request::WAIT).put(stream->number).put(work.event->number).send();
  }
  void operator()(const RecordWork &work) const {
    Ask(Request::RECORD).put(work.event->number).put(stream->number).send();
    work.event->is_recorded = true, work.event->stream = stream->number;
    work.event->capture = nullptr, work.event->nodes.clear();
  }
  void operator()(const AllocateWork &) const {}  // the memory is there from the node's creation on
  void operator()(const FreeWork &) const {}      // and goes with the graph
};

}  // namespace

void *legacy_to_thread(void *handle) { return handle ? handle : reinterpret_cast<void *>(2); }

Stream *stream_of(void *handle) {
  static auto *legacy = new Stream{DEFAULT_STREAM, 0, 0};
  if (reinterpret_cast<uintptr_t>(handle) <= 1) return legacy;
  if (handle == reinterpret_cast<void *>(2)) {
    static thread_local Stream *own = nullptr;
    if (!own) own = new Stream{next_number++, 0, 0};
    return own;
  }
  auto stream = static_cast<Stream *>(handle);
  need(streams().count(stream), kInvalidHandle);
  return stream;
}

Stream *new_stream(unsigned flags, int priority) {
  need(flags <= kStreamNonBlocking);
  auto made = new Stream{next_number++, flags, priority};
  streams().insert(made);
  return made;
}

void remove_stream(Stream *stream) {
  need(streams().count(stream), kInvalidHandle);
  need(!stream->capture || !stream->is_capture_origin, kCaptureUnsupported);
  wait_for_host_functions();
  if (stream->capture) leave_capture(stream);
  streams().erase(stream);
  delete stream;
}

Event *event_of(void *handle) {
  auto event = static_cast<Event *>(handle);
  need(events().count(event), kInvalidHandle);
  return event;
}

Event *new_event(unsigned flags) {
  need(flags < 8);
  auto made = new Event{next_number++, flags};
  events().insert(made);
  return made;
}

void remove_event(Event *event) {
  need(events().erase(event), kInvalidHandle);
  delete event;
}

void submit(const Work &work, Stream *stream) {
  if (stream->capture) {
    need(!stream->is_invalidated, kCaptureInvalidated);
    stream->last = {add_node(*stream->capture, work, stream->last)};
    return;
  }
  if (stream->number == DEFAULT_STREAM && blocking_capture()) {
    invalidate_captures();
    fail(kCaptureImplicit);
  }
  perform(work, stream);
}

void perform(const Work &work, Stream *stream) {
  if (!std::holds_alternative<HostWork>(work)) wait_for_host_functions();
  std::visit(Performer{stream}, work);
}

void record(Event *event, Stream *stream) {
  if (!stream->capture) return submit(RecordWork{event}, stream);
  event->capture = stream->capture;
  event->nodes = stream->last;
  event->is_recorded = false;
}

// Waiting for an event of a capture makes a stream part of that capture.
void wait(Stream *stream, Event *event) {
  if (!event->capture) {
    return submit(WaitWork{event}, stream);
  }
  need(is_being_captured(event->capture), kCapturedEvent);
  need(!stream->capture || stream->capture == event->capture, kCaptureMerge);
  if (!stream->capture) join_capture(stream, event->capture);
  for (Node *node : event->nodes)
    if (std::find(stream->last.begin(), stream->last.end(), node) == stream->last.end()) stream->last.push_back(node);
}

void wait_for_host_functions() { helper().wait(); }

void no_capture() {
  if (!any_capture()) return;
  invalidate_captures();
  fail(kCaptureUnsupported);
}

void synchronize(Stream *stream) {
  if (stream->capture) {
    stream->is_invalidated = true;
    fail(kCaptureUnsupported);
  }
  if (stream->number == DEFAULT_STREAM && blocking_capture()) {
    invalidate_captures();
    fail(kCaptureImplicit);
  }
  wait_for_host_functions();
  Ask(Request::SYNCHRONIZE).put(stream->number).send();
  state().surface();
}

void synchronize_device() {
  no_capture();
  wait_for_host_functions();
  Ask(Request::SYNCHRONIZE).put(ALL_STREAMS).send();
  state().surface();
}

void synchronize_event(Event *event) {
  need(!event->capture, kCapturedEvent);
  wait_for_host_functions();
  if (event->is_recorded) Ask(Request::SYNCHRONIZE).put(event->stream).send();
  state().surface();
}

LaunchWork checked_launch(Kernel *kernel, Dim grid, Dim block, Dim cluster, size_t shared, bool cooperative) {
  known(kernel);
  auto limit = [](int number) { return uint64_t(state().attribute(number)); };
  need(grid.count() && block.count(), kInvalidConfiguration);
  need(block.x <= limit(2) && block.y <= limit(3) && block.z <= limit(4), kInvalidConfiguration);
  need(grid.x <= limit(5) && grid.y <= limit(6) && grid.z <= limit(7), kInvalidConfiguration);
  need(block.count() <= limit(1), kInvalidConfiguration);
  need(block.count() <= kernel->max_threads, kLaunchOutOfResources);
  need(shared <= kernel->dynamic_shared_limit(), kInvalidValue);
  if (!cluster.count()) cluster = kernel->cluster.count() ? kernel->cluster : kernel->required_cluster;
  if (cluster.count()) {
    constexpr Code kInvalidClusterSize = 912;
    need(limit(120) && !(grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z), kInvalidClusterSize);
    need(cluster.count() <= (kernel->non_portable_cluster ? 16u : 8u), kInvalidClusterSize);
  }
  if (cooperative) {
    Ask ask(Request::OCCUPANCY);
    ask.put(kernel->number).put(uint32_t(block.count())).put(uint32_t(shared)).send();
    need(grid.count() <= ask.get<uint32_t>() * limit(16), kCooperativeTooLarge);
  }
  return {kernel, grid, block, cluster, uint32_t(shared), cooperative, {}};
}

LaunchWork launch_with(Kernel *kernel, Dim grid, Dim block, Dim cluster, size_t shared, bool cooperative,
                       void **arguments, void **extra) {
  LaunchWork work = checked_launch(kernel, grid, block, cluster, shared, cooperative);
  work.arguments.resize(kernel->parameter_bytes());
  if (arguments) {
    for (size_t k = 0; k < kernel->parameters.size(); ++k)
      memcpy(work.arguments.data() + kernel->parameters[k].offset, arguments[k], kernel->parameters[k].bytes);
  } else if (extra) {  // pairs of a number and a pointer, up to a 0: 1 is the buffer, 2 its size
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (; *extra; extra += 2) {
      if (uintptr_t(*extra) == 1) buffer = extra[1];
      if (uintptr_t(*extra) == 2) bytes = *static_cast<size_t *>(extra[1]);
    }
    need(buffer && bytes <= work.arguments.size());
    memcpy(work.arguments.data(), buffer, bytes);
  } else {
    need(kernel->parameters.empty());
  }
  if (kernel->host_code) need(!kernel->host_code(nullptr, nullptr, nullptr, work.arguments.data()));
  return work;
}

CopyWork plain_copy(void *to, const void *source, size_t bytes, int kind, bool waits) {
  need(kind >= kHostToHost && kind <= kDefaultDirection, kInvalidMemcpyDirection);
  need(!bytes || (to && source));
  return {static_cast<char *>(to), bytes, bytes, static_cast<const char *>(source), bytes, bytes, bytes, 1, 1, kind, waits};
}

FillWork plain_fill(void *to, uint32_t value, uint32_t element, size_t count) {
  return {static_cast<char *>(to), element * count, element * count, value, element, element * count, 1, 1};
}
