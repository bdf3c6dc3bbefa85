// pybind11's module as far as extensions use it: functions by name, called with Values of wire.h.
#pragma once
#include "tensor.h"

namespace gpuemu {

using Function = std::function<Value(const Value *, int)>;
inline std::map<std::string, Function> &functions() {
  static std::map<std::string, Function> known;
  return known;
}

[[noreturn]] inline void unfit(const char *expected) {
  throw std::invalid_argument(joined("an argument of another type than ", expected));
}

template <class T, class = void> struct As;
template <> struct As<at::Tensor> {
  static at::Tensor from(const Value &value) {
    if (value.kind != kTensor) unfit("a tensor");
    return at::Tensor(value.tensor);
  }
  static Value to(const at::Tensor &tensor) {
    Value made;
    made.kind = tensor.defined() ? kTensor : kNone, made.tensor = tensor.told;
    return made;
  }
};
template <class T> struct As<T, std::enable_if_t<std::is_integral_v<T>>> {
  static T from(const Value &value) {
    if (value.kind != kInteger && value.kind != kBoolean) unfit("an integer");
    return T(value.integer);
  }
  static Value to(T number) {
    Value made;
    made.kind = std::is_same_v<T, bool> ? kBoolean : kInteger, made.integer = int64_t(number);
    return made;
  }
};
template <class T> struct As<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static T from(const Value &value) {
    if (value.kind == kReal) return T(value.real);
    if (value.kind == kInteger || value.kind == kBoolean) return T(value.integer);
    unfit("a number");
  }
  static Value to(T number) {
    Value made;
    made.kind = kReal, made.real = double(number);
    return made;
  }
};
template <> struct As<std::string> {
  static std::string from(const Value &value) {
    if (value.kind != kText) unfit("a string");
    return value.text;
  }
};
template <class T> struct As<std::optional<T>> {
  static std::optional<T> from(const Value &value) {
    if (value.kind == kNone) return std::nullopt;
    return As<T>::from(value);
  }
};
template <class T> struct As<std::vector<T>> {
  static std::vector<T> from(const Value &value) {
    if (value.kind != kList) unfit("a list");
    std::vector<T> made;
    for (int n = 0; n < value.count; ++n) made.push_back(As<T>::from(value.items[n]));
    return made;
  }
  static Value to(const std::vector<T> &list) {
    Value made;
    made.kind = kList, made.count = int(list.size()), made.items = new Value[list.size() + 1];
    for (size_t n = 0; n < list.size(); ++n) made.items[n] = As<T>::to(list[n]);
    return made;
  }
};
template <class... Parts> struct As<std::tuple<Parts...>> {
  static Value to(const std::tuple<Parts...> &parts) {
    Value made;
    made.kind = kList, made.count = sizeof...(Parts), made.items = new Value[sizeof...(Parts) + 1];
    std::apply([&](const auto &...part) {
      int n = 0;
      ((made.items[n++] = As<std::decay_t<decltype(part)>>::to(part)), ...);
    }, parts);
    return made;
  }
};

template <class Call, class Result, class... Given, size_t... Index>
Function bound(Call call, Result (*)(Given...), std::index_sequence<Index...>) {
  return [call](const Value *given, int count) -> Value {
    if (count != int(sizeof...(Given))) throw std::invalid_argument(joined(sizeof...(Given), " arguments expected"));
    auto values = std::tuple<std::decay_t<Given>...>(As<std::decay_t<Given>>::from(given[Index])...);
    if constexpr (std::is_void_v<Result>) return call(std::get<Index>(values)...), Value{};
    else return As<std::decay_t<Result>>::to(call(std::get<Index>(values)...));
  };
}
template <class Result, class... Given>
Function bound(Result (*call)(Given...)) {
  return bound(call, static_cast<Result (*)(Given...)>(nullptr), std::index_sequence_for<Given...>{});
}
template <class Call, class Result, class... Given>
Function bound_lambda(Call call, Result (Call::*)(Given...) const) {
  return bound(call, static_cast<Result (*)(Given...)>(nullptr), std::index_sequence_for<Given...>{});
}
template <class Call>
Function bound(Call call) {
  return bound_lambda(call, &Call::operator());
}

}  // namespace gpuemu

namespace pybind11 {

struct arg {
  explicit arg(const char *) {}
  template <class T> arg &operator=(const T &) { return *this; }
};
struct module_ {
  template <class Call, class... Words>
  module_ &def(const char *name, Call call, Words &&...) {
    gpuemu::functions()[name] = gpuemu::bound(call);
    return *this;
  }
  const char *&doc() { return text; }
  const char *text = "";
};
using module = module_;

}  // namespace pybind11
namespace torch::python {}
namespace py = pybind11;

#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME judged
#endif
#define PYBIND11_MODULE(name, variable)                      \
  static void gpuemu_define(pybind11::module_ &variable);    \
  static const int gpuemu_defined = [] {                     \
    pybind11::module_ made;                                  \
    gpuemu_define(made);                                     \
    return 0;                                                \
  }();                                                       \
  static void gpuemu_define(pybind11::module_ &variable)
