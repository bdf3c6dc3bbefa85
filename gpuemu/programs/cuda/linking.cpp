// The linker of the driver: PTX, cubins and fat binaries become one cubin.
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "driver.h"

namespace {

enum { kCubin, kPtx, kFatBinary };  // CUjitInputType; objects and libraries of the host come after them

struct Link {
  std::vector<std::string> parts;
  std::string cubin;
};

std::set<const void *> &links() {
  static auto *found = new std::set<const void *>;
  return *found;
}

Link *link_of(void *handle) {
  need(links().count(handle), kInvalidHandle);
  return static_cast<Link *>(handle);
}

void add(Link *link, int type, std::string content) {
  need(type >= kCubin && !content.empty());
  if (type > kFatBinary)
    refuse("cuLinkAddData", "of an object or a library of the host is not provided by gpuemu exec. Add PTX or a cubin.");
  link->parts.push_back(std::move(content));
}

std::string content_of(const char *path) {
  std::ifstream file(path, std::ios::binary);
  need(bool(file), 301);  // no such file
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

void complete(Link *link, const void **cubin, size_t *bytes) {
  need(cubin && !link->parts.empty());
  Ask ask(Request::LINK);
  ask.put(uint32_t(link->parts.size()));
  for (auto &part : link->parts) ask.put_text(part);
  ask.send();
  link->cubin = ask.get_text();
  *cubin = link->cubin.data();
  if (bytes) *bytes = link->cubin.size();
}

}  // namespace

DRIVER(cuLinkCreate_v2, (unsigned count, const int *options, void **values, Link **made),
       need(made); empty_logs(count, options, values); *made = new Link; links().insert(*made))
DRIVER(cuLinkAddData_v2, (void *link, int type, const char *data, size_t bytes, const char *, unsigned count, const int *options, void **values),
       need(data); empty_logs(count, options, values); add(link_of(link), type, std::string(data, bytes)))
DRIVER(cuLinkAddFile_v2, (void *link, int type, const char *path, unsigned count, const int *options, void **values),
       need(path); empty_logs(count, options, values); add(link_of(link), type, content_of(path)))
DRIVER(cuLinkComplete, (void *link, const void **cubin, size_t *bytes), complete(link_of(link), cubin, bytes))
DRIVER(cuLinkDestroy, (void *link), Link *old = link_of(link); links().erase(old); delete old)
