#include "graph.h"

#include <algorithm>
#include <set>
#include <thread>

namespace {

template <class T>
std::set<T *> &live() {
  static auto *found = new std::set<T *>;
  return *found;
}

template <class T>
T *checked(void *handle) {
  auto one = static_cast<T *>(handle);
  need(live<T>().count(one));
  return one;
}

std::set<void *> &graph_memory() {
  static auto *found = new std::set<void *>;
  return *found;
}

struct Capture {
  Graph *graph;
  int mode;  // 0 global, 1 of the thread, 2 relaxed
  std::thread::id thread;
  std::set<Stream *> streams;
  std::vector<Node *> last{};  // the last nodes of streams that the program has destroyed meanwhile
  bool is_invalidated = false;  // by one of those streams
};

std::vector<Capture> &captures() {
  static auto *found = new std::vector<Capture>;
  return *found;
}

bool comes_before(Node *node, std::vector<Node *> todo) {
  std::set<Node *> seen;
  while (!todo.empty()) {
    Node *one = todo.back();
    todo.pop_back();
    if (one == node) return true;
    if (seen.insert(one).second) todo.insert(todo.end(), one->after.begin(), one->after.end());
  }
  return false;
}

}  // namespace

thread_local int allowed_capture_mode = 0;

AllocateWork allocate_for_graph(size_t bytes) {
  void *pointer = allocate(bytes, MemoryKind::DEVICE);
  graph_memory().insert(pointer);
  auto give_up = [](void *memory) {
    graph_memory().erase(memory);
    if (find_allocation(memory)) release(memory, false);  // after cudaDeviceReset there is none
  };
  return {pointer, bytes, std::shared_ptr<void>(pointer, give_up)};
}

bool belongs_to_graph(void *pointer) { return graph_memory().count(pointer); }

Graph::~Graph() {
  live<Graph>().erase(this);
  for (auto &node : nodes) live<Node>().erase(node.get());
}

std::shared_ptr<Graph> Graph::copy() const {
  auto made = std::make_shared<Graph>();
  std::map<Node *, Node *> copies;
  for (Node *node : ordered()) {
    std::vector<Node *> after;
    for (Node *one : node->after) after.push_back(copies.at(one));
    Work work = node->work;
    if (auto child = std::get_if<ChildWork>(&work)) child->graph = child->graph->copy();
    Node *mine = add_node(*made, work, after);
    mine->origin = node, mine->is_enabled = node->is_enabled;
    copies[node] = mine;
  }
  return made;
}

// Edges may be added later, from any node to any other.
std::vector<Node *> Graph::ordered() const {
  std::vector<Node *> order;
  std::set<Node *> done;
  while (order.size() < nodes.size()) {
    size_t before = order.size();
    for (auto &node : nodes) {
      auto is_done = [&](Node *one) { return done.count(one); };
      if (!done.count(node.get()) && std::all_of(node->after.begin(), node->after.end(), is_done)) {
        order.push_back(node.get());
        done.insert(node.get());
      }
    }
    need(order.size() > before);  // a circle
  }
  return order;
}

Graph *graph_of(void *handle) { return checked<Graph>(handle); }
Node *node_of(void *handle) { return checked<Node>(handle); }
GraphExec *exec_of(void *handle) { return checked<GraphExec>(handle); }

Graph *new_graph() {
  auto made = new Graph;
  live<Graph>().insert(made);
  return made;
}

Graph *adopt_graph(const std::shared_ptr<Graph> &graph) {
  Graph *made = new_graph();
  made->nodes.swap(graph->nodes);
  for (auto &node : made->nodes) node->graph = made;
  return made;
}

Graph *lend_graph(const std::shared_ptr<Graph> &graph) {
  live<Graph>().insert(graph.get());
  return graph.get();
}

void remove_graph(Graph *graph) {
  delete graph;
}

GraphExec *instantiate(Graph *graph, uint64_t flags) {
  auto made = new GraphExec{graph->copy(), flags};
  live<GraphExec>().insert(made);
  return made;
}

void remove_exec(GraphExec *exec) {
  need(live<GraphExec>().erase(exec));
  delete exec;
}

Node *add_node(Graph &graph, const Work &work, const std::vector<Node *> &after) {
  for (Node *one : after) need(one->graph == &graph);
  graph.nodes.push_back(std::make_unique<Node>(Node{&graph, work, after, true, {}, nullptr}));
  Node *made = graph.nodes.back().get();
  live<Node>().insert(made);
  return made;
}

void remove_node(Node *node) {
  Graph &graph = *node->graph;
  for (auto &other : graph.nodes) std::erase(other->after, node);
  live<Node>().erase(node);
  std::erase_if(graph.nodes, [&](auto &one) { return one.get() == node; });
}

Node *node_in(GraphExec *exec, Node *origin) {
  for (auto &node : exec->graph->nodes)
    if (node->origin == origin) return node.get();
  fail(kInvalidValue);
}

bool update(GraphExec *exec, Graph *graph) {
  auto mine = exec->graph->ordered(), others = graph->ordered();
  if (mine.size() != others.size()) return false;
  std::map<const Node *, size_t> places;
  for (size_t k = 0; k < mine.size(); ++k) places[mine[k]] = places[others[k]] = k;
  for (size_t k = 0; k < mine.size(); ++k) {
    if (mine[k]->work.index() != others[k]->work.index() || mine[k]->after.size() != others[k]->after.size()) return false;
    for (size_t n = 0; n < mine[k]->after.size(); ++n)
      if (places[mine[k]->after[n]] != places[others[k]->after[n]]) return false;
  }
  for (size_t k = 0; k < mine.size(); ++k) mine[k]->work = others[k]->work, mine[k]->origin = others[k];
  return true;
}

void perform_graph(const Graph &graph, Stream *stream) {
  for (Node *node : graph.ordered())
    if (node->is_enabled) perform(node->work, stream);
}

// -- captures ------------------------------------------------------------------------------------------------

void begin_capture(Stream *stream, int mode, Graph *into, std::vector<Node *> after) {
  need(mode >= 0 && mode <= 2);
  need(stream->number != DEFAULT_STREAM, kCaptureUnsupported);
  need(!stream->capture);
  stream->capture = into ? into : new_graph();
  stream->is_capture_origin = true, stream->is_invalidated = false, stream->capture_mode = mode;
  stream->last = std::move(after);
  captures().push_back({stream->capture, mode, std::this_thread::get_id(), {stream}});
}

void join_capture(Stream *stream, Graph *graph) {
  stream->capture = graph, stream->is_capture_origin = false, stream->is_invalidated = false;
  stream->last.clear();
  for (auto &one : captures())
    if (one.graph == graph) one.streams.insert(stream);
}

void leave_capture(Stream *stream) {
  for (auto &one : captures())
    if (one.streams.erase(stream)) {
      one.last.insert(one.last.end(), stream->last.begin(), stream->last.end());
      one.is_invalidated |= stream->is_invalidated;
    }
}

Graph *end_capture(Stream *stream) {
  need(stream->capture, 401);  // an illegal state
  need(stream->is_capture_origin, kCaptureUnmatched);
  auto found = std::find_if(captures().begin(), captures().end(), [&](auto &one) { return one.graph == stream->capture; });
  Capture capture = *found;
  captures().erase(found);
  Graph *graph = capture.graph;
  bool is_invalid = capture.is_invalidated, is_joined = true;
  for (Node *node : capture.last) is_joined &= comes_before(node, stream->last);
  for (Stream *one : capture.streams) {
    is_invalid |= one->is_invalidated;
    for (Node *node : one->last)  // every other stream's last nodes have to come before some node of the origin
      is_joined &= one == stream || comes_before(node, stream->last);
    one->capture = nullptr, one->is_invalidated = one->is_capture_origin = false;
  }
  for (Stream *one : capture.streams) one->last.clear();
  need(!is_invalid, kCaptureInvalidated);
  need(is_joined, kCaptureUnjoined);
  return graph;
}

bool is_being_captured(const Graph *graph) {
  return std::any_of(captures().begin(), captures().end(), [&](auto &one) { return one.graph == graph; });
}

bool any_capture() {
  return std::any_of(captures().begin(), captures().end(), [](auto &one) {
    return one.mode != 2 && allowed_capture_mode != 2 &&
           (one.mode == 0 || one.thread == std::this_thread::get_id());
  });
}

bool blocking_capture() {
  for (auto &one : captures())
    for (Stream *stream : one.streams)
      if (!(stream->flags & kStreamNonBlocking)) return true;
  return false;
}

void invalidate_captures() {
  for (auto &one : captures())
    for (Stream *stream : one.streams) stream->is_invalidated = true;
}
