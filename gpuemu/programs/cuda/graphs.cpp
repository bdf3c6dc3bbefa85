// Graphs of the runtime.
#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace {

struct KernelParameters {
  const void *function;
  Dim grid, block;
  unsigned shared;
  void **arguments, **extra;
};

struct FillParameters {
  char *to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;  // width in elements
};

struct HostParameters {
  HostFunction function;
  void *data;
};

struct AllocateParameters {
  char pool_properties[88];
  const void *access;
  size_t access_count, bytes;
  void *pointer;
};

struct NodeParameters {  // cudaGraphNodeParams
  int type, reserved[3];
  union {
    long long room[29];
    KernelParameters kernel;
    struct {
      int flags, reserved[3];
      Copy3D copy;
    } copy;
    FillParameters fill;
    HostParameters host;
    Graph *graph;
    Event *event;
    AllocateParameters allocation;
    void *free;
  };
};

enum { kKernelNode, kCopyNode, kFillNode, kHostNode, kGraphNode, kEmptyNode, kWaitNode, kRecordNode };
constexpr int kAllocateNode = 10, kFreeNode = 11;

int type_of(const Work &work) {  // in the order of the alternatives of Work
  constexpr int kTypes[] = {kKernelNode, kCopyNode, kFillNode, kHostNode, kGraphNode, kEmptyNode, kWaitNode, kRecordNode,
                            kAllocateNode, kFreeNode};
  return kTypes[work.index()];
}

LaunchWork work_of(const KernelParameters &how) {
  return launch_with(registered_kernel(how.function), how.grid, how.block, {}, how.shared, false, how.arguments, how.extra);
}

FillWork work_of(const FillParameters &how) {
  need(how.element == 1 || how.element == 2 || how.element == 4);
  return {how.to, how.pitch, 0, how.value, how.element, how.width * how.element, how.height, 1};
}

AllocateWork work_of(AllocateParameters &how) {
  AllocateWork made = allocate_for_graph(how.bytes);
  how.pointer = made.pointer;
  return made;
}

Work work_of(NodeParameters &how) {
  switch (how.type) {
    case kKernelNode: return work_of(how.kernel);
    case kCopyNode: return box_copy(how.copy.copy, false);
    case kFillNode: return work_of(how.fill);
    case kHostNode: return HostWork{how.host.function, how.host.data};
    case kGraphNode: return ChildWork{graph_of(how.graph)->copy()};
    case kEmptyNode: return EmptyWork{};
    case kWaitNode: return WaitWork{event_of(how.event)};
    case kRecordNode: return RecordWork{event_of(how.event)};
    case kAllocateNode: return work_of(how.allocation);
    case kFreeNode: return FreeWork{how.free};
    default: refuse("cudaGraphAddNode", "with a node of this type is not provided by gpuemu exec.");
  }
}

void add(Node **made, void *graph, Node *const *after, size_t count, const Work &work) {
  need(made && (after || !count));
  *made = add_node(*graph_of(graph), work, {after, after + count});
}

template <class Kind>
Kind &as(void *node) {
  auto found = std::get_if<Kind>(&node_of(node)->work);
  need(found);
  return *found;
}

template <class Kind>
void change(void *exec, void *node, const Kind &work) {
  Node *mine = node_in(exec_of(exec), node_of(node));
  need(std::holds_alternative<Kind>(mine->work));
  mine->work = work;
}

void change_work(Node *node, const Work &work) {
  need(node->work.index() == work.index());
  node->work = work;
}

template <class List>
void give(const List &all, Node **to, size_t *count) {
  need(count);
  if (to) std::copy_n(all.begin(), std::min(*count, all.size()), to);
  if (!to || *count > all.size()) *count = all.size();
}

std::vector<Node *> nodes_of(void *graph, bool only_roots) {
  std::vector<Node *> all;
  for (auto &node : graph_of(graph)->nodes)
    if (!only_roots || node->after.empty()) all.push_back(node.get());
  return all;
}

std::vector<Node *> dependents(Node *node) {
  std::vector<Node *> all;
  for (auto &other : node->graph->nodes)
    if (std::count(other->after.begin(), other->after.end(), node)) all.push_back(other.get());
  return all;
}

void connect_nodes(Node *const *from, Node *const *to, size_t count, bool add) {
  for (size_t k = 0; k < count; ++k) {
    Node *before = node_of(from[k]), *node = node_of(to[k]);
    need(before->graph == node->graph && before != node);
    std::erase(node->after, before);
    if (add) node->after.push_back(before);
  }
}

void give_kernel(Node *node, KernelParameters *found) {
  auto &work = as<LaunchWork>(node);
  node->arguments.clear();
  for (auto &one : work.kernel->parameters) node->arguments.push_back(work.arguments.data() + one.offset);
  *found = {work.kernel, work.grid, work.block, work.dynamic_shared, node->arguments.data(), nullptr};
}

CopyWork to_symbol(const void *symbol, const void *source, size_t bytes, size_t offset, int kind) {
  return plain_copy(symbol_address(symbol, bytes, offset), source, bytes, kind, false);
}

CopyWork from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) {
  return plain_copy(to, symbol_address(symbol, bytes, offset), bytes, kind, false);
}

void launch_graph(void *exec, void *stream) {
  Stream *in = stream_of(stream);
  GraphExec *what = exec_of(exec);
  if (in->capture)
    submit(ChildWork{what->graph}, in);
  else
    perform_graph(*what->graph, in);
}

struct Instantiation {
  unsigned long long flags;
  void *stream;
  Node *error;
  int result;
};

struct UpdateResult {
  int result;
  Node *error, *error_from;
};

void update_exec(void *exec, void *graph, UpdateResult *found) {
  constexpr int kTopologyChanged = 2;
  bool is_done = update(exec_of(exec), graph_of(graph));
  if (found) *found = {is_done ? 0 : kTopologyChanged, nullptr, nullptr};
  need(is_done, kGraphExecUpdateFailure);
}

}  // namespace

#define NODE_PLACE Node **made, void *graph, Node *const *after, size_t count

BOTH(cudaGraphCreate, cuGraphCreate, (Graph **made, unsigned), need(made); *made = new_graph())
BOTH(cudaGraphDestroy, cuGraphDestroy, (void *graph), remove_graph(graph_of(graph)))
BOTH(cudaGraphClone, cuGraphClone, (Graph **made, void *graph),
        need(made); *made = adopt_graph(graph_of(graph)->copy()))
BOTH(cudaGraphNodeFindInClone, cuGraphNodeFindInClone, (Node **found, void *node, void *clone),
        need(found); *found = nullptr;
        for (auto &one : graph_of(clone)->nodes) if (one->origin == node) *found = one.get();
        need(*found))
BOTH(cudaGraphDestroyNode, cuGraphDestroyNode, (void *node), remove_node(node_of(node)))

RUNTIME(cudaGraphAddKernelNode, (NODE_PLACE, const KernelParameters *how),
        need(how); add(made, graph, after, count, work_of(*how)))
RUNTIME(cudaGraphAddMemcpyNode, (NODE_PLACE, const Copy3D *how),
        need(how); add(made, graph, after, count, box_copy(*how, false)))
RUNTIME(cudaGraphAddMemcpyNode1D, (NODE_PLACE, void *to, const void *source, size_t bytes, int kind),
        add(made, graph, after, count, plain_copy(to, source, bytes, kind, false)))
RUNTIME(cudaGraphAddMemcpyNodeToSymbol,
        (NODE_PLACE, const void *symbol, const void *source, size_t bytes, size_t offset, int kind),
        add(made, graph, after, count, to_symbol(symbol, source, bytes, offset, kind)))
RUNTIME(cudaGraphAddMemcpyNodeFromSymbol,
        (NODE_PLACE, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
        add(made, graph, after, count, from_symbol(to, symbol, bytes, offset, kind)))
RUNTIME(cudaGraphAddMemsetNode, (NODE_PLACE, const FillParameters *how),
        need(how); add(made, graph, after, count, work_of(*how)))
BOTH(cudaGraphAddHostNode, cuGraphAddHostNode, (NODE_PLACE, const HostParameters *how),
        need(how && how->function); add(made, graph, after, count, HostWork{how->function, how->data}))
BOTH(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode, (NODE_PLACE, void *child),
        add(made, graph, after, count, ChildWork{graph_of(child)->copy()}))
BOTH(cudaGraphAddEmptyNode, cuGraphAddEmptyNode, (NODE_PLACE), add(made, graph, after, count, EmptyWork{}))
BOTH(cudaGraphAddEventRecordNode, cuGraphAddEventRecordNode, (NODE_PLACE, void *event),
        add(made, graph, after, count, RecordWork{event_of(event)}))
BOTH(cudaGraphAddEventWaitNode, cuGraphAddEventWaitNode, (NODE_PLACE, void *event),
        add(made, graph, after, count, WaitWork{event_of(event)}))
RUNTIME(cudaGraphAddMemFreeNode, (NODE_PLACE, void *pointer), add(made, graph, after, count, FreeWork{pointer}))
RUNTIME(cudaGraphAddMemAllocNode, (NODE_PLACE, AllocateParameters *how),
        need(how); add(made, graph, after, count, work_of(*how)))
RUNTIME(cudaGraphMemAllocNodeGetParams, (void *node, AllocateParameters *found),
        need(found); *found = {}; found->bytes = as<AllocateWork>(node).bytes; found->pointer = as<AllocateWork>(node).pointer)
RUNTIME(cudaGraphMemFreeNodeGetParams, (void *node, void **pointer), need(pointer); *pointer = as<FreeWork>(node).pointer)
RUNTIME(cudaGraphAddNode,
        (Node **made, void *graph, Node *const *after, const void *, size_t count, NodeParameters *how),
        need(how); add(made, graph, after, count, work_of(*how)))

RUNTIME(cudaGraphKernelNodeGetParams, (void *node, KernelParameters *found), need(found); give_kernel(node_of(node), found))
RUNTIME(cudaGraphKernelNodeSetParams, (void *node, const KernelParameters *how),
        need(how); as<LaunchWork>(node) = work_of(*how))
RUNTIME(cudaGraphMemsetNodeGetParams, (void *node, FillParameters *found),
        need(found); auto &work = as<FillWork>(node);
        *found = {work.to, work.pitch, work.value, work.element, work.width / work.element, work.height})
RUNTIME(cudaGraphMemsetNodeSetParams, (void *node, const FillParameters *how),
        need(how); as<FillWork>(node) = work_of(*how))
RUNTIME(cudaGraphMemcpyNodeSetParams, (void *node, const Copy3D *how),
        need(how); as<CopyWork>(node) = box_copy(*how, false))
RUNTIME(cudaGraphMemcpyNodeSetParams1D, (void *node, void *to, const void *source, size_t bytes, int kind),
        as<CopyWork>(node) = plain_copy(to, source, bytes, kind, false))
RUNTIME(cudaGraphMemcpyNodeSetParamsToSymbol,
        (void *node, const void *symbol, const void *source, size_t bytes, size_t offset, int kind),
        as<CopyWork>(node) = to_symbol(symbol, source, bytes, offset, kind))
RUNTIME(cudaGraphMemcpyNodeSetParamsFromSymbol,
        (void *node, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
        as<CopyWork>(node) = from_symbol(to, symbol, bytes, offset, kind))
RUNTIME(cudaGraphHostNodeGetParams, (void *node, HostParameters *found),
        need(found); *found = {as<HostWork>(node).function, as<HostWork>(node).data})
RUNTIME(cudaGraphHostNodeSetParams, (void *node, const HostParameters *how),
        need(how); as<HostWork>(node) = {how->function, how->data})
RUNTIME(cudaGraphChildGraphNodeGetGraph, (void *node, Graph **graph),
        need(graph); *graph = lend_graph(as<ChildWork>(node).graph))
RUNTIME(cudaGraphEventRecordNodeGetEvent, (void *node, Event **event), need(event); *event = as<RecordWork>(node).event)
RUNTIME(cudaGraphEventRecordNodeSetEvent, (void *node, void *event), as<RecordWork>(node).event = event_of(event))
RUNTIME(cudaGraphEventWaitNodeGetEvent, (void *node, Event **event), need(event); *event = as<WaitWork>(node).event)
RUNTIME(cudaGraphEventWaitNodeSetEvent, (void *node, void *event), as<WaitWork>(node).event = event_of(event))
RUNTIME(cudaGraphNodeSetParams, (void *node, NodeParameters *how),
        need(how); change_work(node_of(node), work_of(*how)))
RUNTIME(cudaGraphMemcpyNodeGetParams, (void *node, Copy3D *found),
        need(found); auto &work = as<CopyWork>(node); *found = {}; found->kind = work.kind;
        found->source = {const_cast<char *>(work.source), work.source_pitch, work.width, work.source_plane / work.source_pitch};
        found->to = {work.to, work.to_pitch, work.width, work.to_plane / work.to_pitch};
        found->extent = {work.width, work.height, work.depth})
RUNTIME(cudaGraphKernelNodeGetAttribute, (void *node, int id, Dim *value),
        need(value); auto &work = as<LaunchWork>(node); *value = {};
        if (id == kAttributeCluster) *value = work.cluster;
        if (id == kAttributeCooperative) value->x = work.is_cooperative)
RUNTIME(cudaGraphKernelNodeCopyAttributes, (void *to, void *from),
        as<LaunchWork>(to).cluster = as<LaunchWork>(from).cluster;
        as<LaunchWork>(to).is_cooperative = as<LaunchWork>(from).is_cooperative)
RUNTIME(cudaGraphKernelNodeSetAttribute, (void *node, int id, const Dim *value),
        auto &work = as<LaunchWork>(node);
        if (id == kAttributeCluster) work.cluster = *value;
        if (id == kAttributeCooperative) work.is_cooperative = value->x)

BOTH(cudaGraphNodeGetType, cuGraphNodeGetType, (void *node, int *type), need(type); *type = type_of(node_of(node)->work))
BOTH(cudaGraphGetNodes, cuGraphGetNodes, (void *graph, Node **nodes, size_t *count), give(nodes_of(graph, false), nodes, count))
BOTH(cudaGraphGetRootNodes, cuGraphGetRootNodes, (void *graph, Node **nodes, size_t *count), give(nodes_of(graph, true), nodes, count))
BOTH(cudaGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, (void *node, Node **nodes, const void *, size_t *count),
        give(node_of(node)->after, nodes, count))
BOTH(cudaGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2, (void *node, Node **nodes, const void *, size_t *count),
        give(dependents(node_of(node)), nodes, count))
BOTH(cudaGraphGetEdges, cuGraphGetEdges_v2, (void *graph, Node **from, Node **to, const void *, size_t *count),
        std::vector<Node *> froms; std::vector<Node *> tos;
        for (auto &node : graph_of(graph)->nodes)
          for (Node *one : node->after) froms.push_back(one), tos.push_back(node.get());
        need(count); size_t most = *count; give(froms, from, count); give(tos, to, &most))
BOTH(cudaGraphAddDependencies, cuGraphAddDependencies_v2, (void *graph, Node *const *from, Node *const *to, const void *, size_t count),
        graph_of(graph); connect_nodes(from, to, count, true))
BOTH(cudaGraphRemoveDependencies, cuGraphRemoveDependencies_v2, (void *graph, Node *const *from, Node *const *to, const void *, size_t count),
        graph_of(graph); connect_nodes(from, to, count, false))

// -- executable graphs -----------------------------------------------------------------------------------------

RUNTIME(cudaGraphInstantiate, (GraphExec **made, void *graph, unsigned long long flags),
        need(made); *made = instantiate(graph_of(graph), flags))
BOTH(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (GraphExec **made, void *graph, unsigned long long flags),
        need(made); *made = instantiate(graph_of(graph), flags))
BOTH(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams, (GraphExec **made, void *graph, Instantiation *how),
        need(made && how); *made = instantiate(graph_of(graph), how->flags); how->error = nullptr; how->result = 0)
RUNTIME(cudaGraphInstantiateWithParams_ptsz, (GraphExec **made, void *graph, Instantiation *how),
        need(made && how); *made = instantiate(graph_of(graph), how->flags); how->error = nullptr; how->result = 0)
BOTH(cudaGraphExecDestroy, cuGraphExecDestroy, (void *exec), remove_exec(exec_of(exec)))
BOTH(cudaGraphExecGetFlags, cuGraphExecGetFlags, (void *exec, unsigned long long *flags), need(flags); *flags = exec_of(exec)->flags)
BOTH(cudaGraphExecUpdate, cuGraphExecUpdate_v2, (void *exec, void *graph, UpdateResult *found), update_exec(exec, graph, found))
BOTH_IN_STREAM(cudaGraphLaunch, cuGraphLaunch, (void *exec, void *stream), launch_graph(exec, stream))
BOTH_IN_STREAM(cudaGraphUpload, cuGraphUpload, (void *exec, void *stream), exec_of(exec); stream_of(stream))
RUNTIME(cudaGraphExecKernelNodeSetParams, (void *exec, void *node, const KernelParameters *how),
        need(how); change(exec, node, work_of(*how)))
RUNTIME(cudaGraphExecMemcpyNodeSetParams, (void *exec, void *node, const Copy3D *how),
        need(how); change(exec, node, box_copy(*how, false)))
RUNTIME(cudaGraphExecMemcpyNodeSetParams1D,
        (void *exec, void *node, void *to, const void *source, size_t bytes, int kind),
        change(exec, node, plain_copy(to, source, bytes, kind, false)))
RUNTIME(cudaGraphExecMemcpyNodeSetParamsToSymbol,
        (void *exec, void *node, const void *symbol, const void *source, size_t bytes, size_t offset, int kind),
        change(exec, node, to_symbol(symbol, source, bytes, offset, kind)))
RUNTIME(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
        (void *exec, void *node, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
        change(exec, node, from_symbol(to, symbol, bytes, offset, kind)))
RUNTIME(cudaGraphExecMemsetNodeSetParams, (void *exec, void *node, const FillParameters *how),
        need(how); change(exec, node, work_of(*how)))
RUNTIME(cudaGraphExecHostNodeSetParams, (void *exec, void *node, const HostParameters *how),
        need(how); change(exec, node, HostWork{how->function, how->data}))
RUNTIME(cudaGraphExecChildGraphNodeSetParams, (void *exec, void *node, void *child),
        change(exec, node, ChildWork{graph_of(child)->copy()}))
RUNTIME(cudaGraphExecEventRecordNodeSetEvent, (void *exec, void *node, void *event),
        change(exec, node, RecordWork{event_of(event)}))
RUNTIME(cudaGraphExecEventWaitNodeSetEvent, (void *exec, void *node, void *event),
        change(exec, node, WaitWork{event_of(event)}))
RUNTIME(cudaGraphExecNodeSetParams, (void *exec, void *node, NodeParameters *how),
        need(how); change_work(node_in(exec_of(exec), node_of(node)), work_of(*how)))
BOTH(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled, (void *exec, void *node, unsigned enabled),
        node_in(exec_of(exec), node_of(node))->is_enabled = enabled)
BOTH(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled, (void *exec, void *node, unsigned *enabled),
        need(enabled); *enabled = node_in(exec_of(exec), node_of(node))->is_enabled)
