// Streams, events, and the operations that the program puts into them.
//
// An operation is done when it comes, or becomes a node of a graph while its stream is captured. That is a legal order
// of streams: each waits only for what came before.
#pragma once
#include <variant>

#include "heap.h"
#include "module.h"

struct Graph;
struct Node;
struct Stream;

struct Event {
  uint64_t number;
  unsigned flags;
  bool is_recorded = false;
  uint64_t stream = 0;
  Graph *capture = nullptr;  // recorded in a stream that was being captured
  std::vector<Node *> nodes{};
};

struct LaunchWork {
  Kernel *kernel;
  Dim grid, block, cluster;
  uint32_t dynamic_shared;
  bool is_cooperative;
  std::vector<char> arguments;
};

struct CopyWork {  // of rows of `width` bytes, `height` of them in a plane, `depth` planes
  char *to;
  size_t to_pitch, to_plane;
  const char *source;
  size_t source_pitch, source_plane;
  size_t width, height, depth;
  int kind;
  bool waits;
};

struct FillWork {  // of elements of 1, 2 or 4 bytes; sizes in bytes
  char *to;
  size_t pitch, plane;
  uint32_t value, element;
  size_t width, height, depth;
};

struct HostWork {
  HostFunction function;
  void *data;
};

struct RecordWork {
  Event *event;
};

struct WaitWork {
  Event *event;
};

struct ChildWork {
  std::shared_ptr<Graph> graph;
};

struct AllocateWork {  // the memory is there as long as a graph has the node
  void *pointer;
  size_t bytes;
  std::shared_ptr<void> owner;
};

AllocateWork allocate_for_graph(size_t bytes);
bool belongs_to_graph(void *pointer);

struct FreeWork {
  void *pointer;
};

struct EmptyWork {};

using Work = std::variant<LaunchWork, CopyWork, FillWork, HostWork, ChildWork, EmptyWork, WaitWork, RecordWork,
                          AllocateWork, FreeWork>;

struct Stream {
  uint64_t number;
  unsigned flags;
  int priority;
  Graph *capture = nullptr;
  bool is_capture_origin = false;
  bool is_invalidated = false;
  int capture_mode = 0;
  std::vector<Node *> last{};  // what the next node of the capture depends on
};

enum { kStreamNonBlocking = 1, kEventDisableTiming = 2 };

// A handle of a stream as the program gives it: null and 1 are the legacy default stream, 2 is the thread's own.
Stream *stream_of(void *handle);
void *legacy_to_thread(void *handle);  // for the variants with a default stream for each thread
Stream *new_stream(unsigned flags, int priority);
void remove_stream(Stream *stream);

Event *event_of(void *handle);
Event *new_event(unsigned flags);
void remove_event(Event *event);

// Do the work, or add it to the graph that the stream's work is captured into.
void submit(const Work &work, Stream *stream);
void perform(const Work &work, Stream *stream);
void record(Event *event, Stream *stream);
void wait(Stream *stream, Event *event);

void synchronize(Stream *stream);
void synchronize_device();
void synchronize_event(Event *event);

// While any stream is captured, calls that wait for the device are errors.
void no_capture();
// Host functions that have not returned yet.
void wait_for_host_functions();

// A launch with everything that a GPU checks before it takes it.
LaunchWork checked_launch(Kernel *kernel, Dim grid, Dim block, Dim cluster, size_t dynamic_shared, bool cooperative);
LaunchWork launch_with(Kernel *kernel, Dim grid, Dim block, Dim cluster, size_t dynamic_shared, bool cooperative,
                       void **arguments, void **extra);
CopyWork plain_copy(void *to, const void *source, size_t bytes, int kind, bool waits);
FillWork plain_fill(void *to, uint32_t value, uint32_t element, size_t count);
CopyWork box_copy(const Copy3D &box, bool waits);
