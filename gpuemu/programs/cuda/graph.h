// Graphs: made by hand or captured from streams, and launched in an order that their edges allow.
#pragma once
#include "stream.h"

struct Node {
  Graph *graph;
  Work work;
  std::vector<Node *> after;
  bool is_enabled = true;
  std::vector<void *> arguments{};  // handed out by cudaGraphKernelNodeGetParams
  Node *origin = nullptr;           // in a copy of a graph: what this node is a copy of
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;  // in the order of their making
  Graph() = default;
  ~Graph();
  std::shared_ptr<Graph> copy() const;
  std::vector<Node *> ordered() const;
};

struct GraphExec {
  std::shared_ptr<Graph> graph;
  uint64_t flags = 0;
};

Graph *graph_of(void *handle);
Node *node_of(void *handle);
GraphExec *exec_of(void *handle);
Graph *new_graph();
Graph *adopt_graph(const std::shared_ptr<Graph> &graph);  // a graph of the program's own, from a copy
Graph *lend_graph(const std::shared_ptr<Graph> &graph);   // one that belongs to a node
void remove_graph(Graph *graph);
GraphExec *instantiate(Graph *graph, uint64_t flags);
void remove_exec(GraphExec *exec);

Node *add_node(Graph &graph, const Work &work, const std::vector<Node *> &after);
void remove_node(Node *node);
Node *node_in(GraphExec *exec, Node *origin);
// Takes over what has changed in a graph of the same shape; false where the shape has changed.
bool update(GraphExec *exec, Graph *graph);

void perform_graph(const Graph &graph, Stream *stream);

// -- captures ------------------------------------------------------------------------------------------------

void begin_capture(Stream *stream, int mode, Graph *into, std::vector<Node *> after);
Graph *end_capture(Stream *stream);
void join_capture(Stream *stream, Graph *graph);
void leave_capture(Stream *stream);  // before the program destroys a stream that is not the origin
bool is_being_captured(const Graph *graph);
extern thread_local int allowed_capture_mode;  // cudaThreadExchangeStreamCaptureMode
bool any_capture();       // for calls that may not be made meanwhile: captures of mode 0 and of this thread
bool blocking_capture();  // of a stream that the legacy default stream waits for
void invalidate_captures();
