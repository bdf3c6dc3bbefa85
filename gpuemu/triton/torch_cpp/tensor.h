// The part of PyTorch's C++ interface that describes and allocates tensors. Operators that compute are LEFT: they throw
// their name, because their work has no time on an emulated GPU.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "wire.h"

#define GPUEMU_BOTH __host__ __device__ __forceinline__

namespace gpuemu {

struct LeftToTorch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void left(const char *name) { throw LeftToTorch(name); }

template <class... Parts>
std::string joined(const Parts &...parts) {
  std::ostringstream text;
  (void)(text << ... << parts);
  return text.str();
}

}  // namespace gpuemu

namespace c10 {

template <class Raw>
struct alignas(2) Narrow {  // a 16-bit float whose arithmetic is that of float
  Raw raw;
  Narrow() = default;
  GPUEMU_BOTH Narrow(float value) : raw(value) {}
  GPUEMU_BOTH Narrow(Raw value) : raw(value) {}
  GPUEMU_BOTH operator float() const { return static_cast<float>(raw); }
  GPUEMU_BOTH Narrow &operator+=(Narrow other) { return *this = float(*this) + float(other); }
  GPUEMU_BOTH Narrow &operator-=(Narrow other) { return *this = float(*this) - float(other); }
  GPUEMU_BOTH Narrow &operator*=(Narrow other) { return *this = float(*this) * float(other); }
  GPUEMU_BOTH Narrow &operator/=(Narrow other) { return *this = float(*this) / float(other); }
#define GPUEMU_WITH(op, Other, Result)                                                                \
  friend GPUEMU_BOTH Result operator op(Narrow a, Other b) { return Result(float(a) op b); }           \
  friend GPUEMU_BOTH Result operator op(Other a, Narrow b) { return Result(a op float(b)); }
#define GPUEMU_OPERATOR(op)                                                                            \
  friend GPUEMU_BOTH Narrow operator op(Narrow a, Narrow b) { return float(a) op float(b); }           \
  GPUEMU_WITH(op, float, float) GPUEMU_WITH(op, double, double) GPUEMU_WITH(op, int, Narrow)           \
  GPUEMU_WITH(op, int64_t, Narrow)
  GPUEMU_OPERATOR(+) GPUEMU_OPERATOR(-) GPUEMU_OPERATOR(*) GPUEMU_OPERATOR(/)
#undef GPUEMU_OPERATOR
#undef GPUEMU_WITH
  friend GPUEMU_BOTH Narrow operator-(Narrow a) { return -float(a); }
};
using Half = Narrow<__half>;
using BFloat16 = Narrow<__nv_bfloat16>;

enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, Bool = 11, BFloat16 = 15
};
inline int64_t elementSize(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: case ScalarType::Char: case ScalarType::Bool: return 1;
    case ScalarType::Short: case ScalarType::Half: case ScalarType::BFloat16: return 2;
    case ScalarType::Int: case ScalarType::Float: return 4;
    default: return 8;
  }
}
inline std::ostream &operator<<(std::ostream &out, ScalarType type) { return out << "type " << int(type); }

namespace impl {
template <ScalarType> struct ScalarTypeToCPPType;
}  // namespace impl
template <class> struct CppTypeToScalarType;
#define GPUEMU_TYPE(name, type)                                                                            \
  template <> struct impl::ScalarTypeToCPPType<ScalarType::name> { using type_ = type; };                  \
  template <> struct CppTypeToScalarType<type> { static constexpr ScalarType value = ScalarType::name; };
GPUEMU_TYPE(Byte, uint8_t) GPUEMU_TYPE(Char, int8_t) GPUEMU_TYPE(Short, int16_t) GPUEMU_TYPE(Int, int32_t)
GPUEMU_TYPE(Long, int64_t) GPUEMU_TYPE(Half, Half) GPUEMU_TYPE(Float, float) GPUEMU_TYPE(Double, double)
GPUEMU_TYPE(Bool, bool) GPUEMU_TYPE(BFloat16, BFloat16)

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
struct Device {
  DeviceType kind = kCUDA;
  int number = 0;
  Device(DeviceType kind = kCUDA, int number = 0) : kind(kind), number(number) {}
  Device(const std::string &name) : kind(name.rfind("cuda", 0) == 0 ? kCUDA : kCPU) {}
  bool is_cuda() const { return kind == kCUDA; }
  bool is_cpu() const { return kind == kCPU; }
  int index() const { return number; }
  DeviceType type() const { return kind; }
  bool operator==(const Device &other) const { return kind == other.kind; }
  bool operator!=(const Device &other) const { return kind != other.kind; }
};
inline std::ostream &operator<<(std::ostream &out, const Device &device) {
  return out << (device.is_cuda() ? "cuda:0" : "cpu");
}

template <class T>
struct ArrayRef {
  const T *first = nullptr;
  size_t count = 0;
  ArrayRef() = default;
  ArrayRef(const T *first, size_t count) : first(first), count(count) {}
  ArrayRef(std::initializer_list<T> list) : first(list.begin()), count(list.size()) {}
  ArrayRef(const std::vector<T> &list) : first(list.data()), count(list.size()) {}
  template <size_t N> ArrayRef(const std::array<T, N> &list) : first(list.data()), count(N) {}
  size_t size() const { return count; }
  bool empty() const { return !count; }
  const T &operator[](size_t at) const { return first[at]; }
  const T &back() const { return first[count - 1]; }
  const T &front() const { return first[0]; }
  const T *begin() const { return first; }
  const T *end() const { return first + count; }
  const T *data() const { return first; }
  std::vector<T> vec() const { return {first, first + count}; }
  bool operator==(const ArrayRef &other) const {
    return count == other.count && std::equal(begin(), end(), other.begin());
  }
  bool operator!=(const ArrayRef &other) const { return !(*this == other); }
};
using IntArrayRef = ArrayRef<int64_t>;
template <class T>
std::ostream &operator<<(std::ostream &out, const ArrayRef<T> &list) {
  out << '[';
  for (size_t n = 0; n < list.size(); ++n) out << (n ? ", " : "") << list[n];
  return out << ']';
}

enum class Layout { Strided };
enum class MemoryFormat { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

struct TensorOptions {
  ScalarType type = ScalarType::Float;
  Device where;
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type(type) {}
  TensorOptions(Device where) : where(where) {}
  TensorOptions(DeviceType where) : where(where) {}
  TensorOptions dtype(ScalarType given) const { auto made = *this; return made.type = given, made; }
  ScalarType dtype() const { return type; }
  TensorOptions device(Device given, int = 0) const { auto made = *this; return made.where = given, made; }
  TensorOptions device(DeviceType given, int = 0) const { return device(Device(given)); }
  Device device() const { return where; }
  TensorOptions requires_grad(bool) const { return *this; }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
};

using std::nullopt;
template <class T> using optional = std::optional<T>;

}  // namespace c10

// clang-format off
#define GPUEMU_LEFT(OPERATOR) \
  OPERATOR(abs) OPERATOR(add) OPERATOR(add_) OPERATOR(addmm) OPERATOR(amax) OPERATOR(amin) OPERATOR(arange) \
  OPERATOR(argmax) OPERATOR(argmin) OPERATOR(avg_pool2d) OPERATOR(batch_norm) OPERATOR(bmm) OPERATOR(cat) \
  OPERATOR(clamp) OPERATOR(clamp_) OPERATOR(clone) OPERATOR(conv1d) OPERATOR(conv2d) OPERATOR(conv3d) \
  OPERATOR(conv_transpose1d) OPERATOR(conv_transpose2d) OPERATOR(conv_transpose3d) OPERATOR(convolution) \
  OPERATOR(copy_) OPERATOR(cumprod) OPERATOR(cumsum) OPERATOR(div) OPERATOR(div_) OPERATOR(dot) OPERATOR(einsum) \
  OPERATOR(exp) OPERATOR(eye) OPERATOR(fill_) OPERATOR(full) OPERATOR(full_like) OPERATOR(gather) OPERATOR(gelu) \
  OPERATOR(group_norm) OPERATOR(index_select) OPERATOR(item) OPERATOR(layer_norm) OPERATOR(linear) OPERATOR(log) \
  OPERATOR(log_softmax) OPERATOR(logsumexp) OPERATOR(masked_fill) OPERATOR(matmul) OPERATOR(max) OPERATOR(max_pool2d) \
  OPERATOR(mean) OPERATOR(min) OPERATOR(mm) OPERATOR(mul) OPERATOR(mul_) OPERATOR(neg) OPERATOR(norm) OPERATOR(ones) \
  OPERATOR(ones_like) OPERATOR(outer) OPERATOR(pad) OPERATOR(pow) OPERATOR(prod) OPERATOR(rand) OPERATOR(randn) \
  OPERATOR(reciprocal) OPERATOR(relu) OPERATOR(relu_) OPERATOR(repeat) OPERATOR(rsqrt) OPERATOR(scatter) \
  OPERATOR(sigmoid) OPERATOR(softmax) OPERATOR(sort) OPERATOR(split) OPERATOR(sqrt) OPERATOR(square) OPERATOR(stack) \
  OPERATOR(std) OPERATOR(sub) OPERATOR(sub_) OPERATOR(sum) OPERATOR(tanh) OPERATOR(topk) OPERATOR(var) OPERATOR(where)
// clang-format on

namespace at {

using namespace c10;

template <class T> struct DefaultPtrTraits { using PtrType = T *; };
template <class T> struct RestrictPtrTraits { using PtrType = T *__restrict__; };

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const Index *sizes_, *strides_;
  GPUEMU_BOTH TensorAccessor(T *data, const Index *sizes, const Index *strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  GPUEMU_BOTH Index size(Index n) const { return sizes_[n]; }
  GPUEMU_BOTH Index stride(Index n) const { return strides_[n]; }
  GPUEMU_BOTH T *data() const { return data_; }
  GPUEMU_BOTH decltype(auto) operator[](Index n) const {
    if constexpr (N == 1) return (data_[strides_[0] * n]);
    else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * n, sizes_ + 1, strides_ + 1);
  }
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  Index sizes_[N], strides_[N];
  GPUEMU_BOTH Index size(Index n) const { return sizes_[n]; }
  GPUEMU_BOTH Index stride(Index n) const { return strides_[n]; }
  GPUEMU_BOTH T *data() const { return data_; }
  GPUEMU_BOTH decltype(auto) operator[](Index n) const {
    if constexpr (N == 1) return (data_[strides_[0] * n]);
    else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * n, sizes_ + 1, strides_ + 1);
  }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

struct Tensor {
  gpuemu::TensorData told;

  Tensor() = default;
  explicit Tensor(const gpuemu::TensorData &told) : told(told) {}

  bool defined() const { return told.handle >= 0; }
  int64_t dim() const { return told.dim; }
  int64_t ndimension() const { return told.dim; }
  int64_t size(int64_t n) const { return told.sizes[at(n)]; }
  int64_t stride(int64_t n) const { return told.strides[at(n)]; }
  IntArrayRef sizes() const { return {told.sizes, size_t(told.dim)}; }
  IntArrayRef strides() const { return {told.strides, size_t(told.dim)}; }
  int64_t numel() const {
    int64_t count = 1;
    for (int n = 0; n < told.dim; ++n) count *= told.sizes[n];
    return count;
  }
  int64_t element_size() const { return elementSize(scalar_type()); }
  int64_t itemsize() const { return element_size(); }
  int64_t nbytes() const { return numel() * element_size(); }
  ScalarType scalar_type() const { return ScalarType(told.type); }
  ScalarType dtype() const { return scalar_type(); }
  ScalarType type() const { return scalar_type(); }
  Device device() const { return kCUDA; }
  int get_device() const { return 0; }
  bool is_cuda() const { return true; }
  bool is_cpu() const { return false; }
  bool requires_grad() const { return false; }
  bool is_floating_point() const {
    auto kind = scalar_type();
    return kind == ScalarType::Half || kind == ScalarType::BFloat16 || kind == ScalarType::Float ||
           kind == ScalarType::Double;
  }
  TensorOptions options() const { return TensorOptions(scalar_type()); }
  bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const {
    int64_t expected = 1;
    for (int n = told.dim - 1; n >= 0; --n) {
      if (told.sizes[n] != 1 && told.strides[n] != expected) return false;
      expected *= told.sizes[n];
    }
    return true;
  }

  template <class T> T *data_ptr() const { return checked<T>(); }
  template <class T> T *mutable_data_ptr() const { return checked<T>(); }
  template <class T> const T *const_data_ptr() const { return checked<T>(); }
  template <class T> T *data() const { return checked<T>(); }
  void *data_ptr() const { return told.data; }
  void *mutable_data_ptr() const { return told.data; }
  const void *const_data_ptr() const { return told.data; }

  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const { return packed<T, N, Traits, int32_t>(); }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const { return packed<T, N, Traits, int64_t>(); }

  Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const {
    if (!is_contiguous()) gpuemu::left("contiguous");
    return *this;
  }
  Tensor to(ScalarType given) const { return given == scalar_type() ? *this : (gpuemu::left("to"), *this); }
  Tensor to(const TensorOptions &given) const { return to(given.type); }
  Tensor to(Device) const { return *this; }
  Tensor cuda() const { return *this; }
  Tensor detach() const { return *this; }
  Tensor &zero_() {
    if (gpuemu::host.zero(&told)) throw std::runtime_error("");
    return *this;
  }
  Tensor view(IntArrayRef shape) const {
    if (!is_contiguous()) gpuemu::left("reshape");
    Tensor made = *this;
    int64_t known = 1, missing = -1;
    for (size_t n = 0; n < shape.size(); ++n) shape[n] < 0 ? (missing = int64_t(n)) : (known *= shape[n]);
    made.told.dim = int(shape.size());
    for (size_t n = 0; n < shape.size(); ++n)
      made.told.sizes[n] = int64_t(n) == missing ? numel() / std::max<int64_t>(1, known) : shape[n];
    made.set_strides();
    if (made.numel() != numel()) throw std::runtime_error("a view with another number of elements");
    return made;
  }
  Tensor reshape(IntArrayRef shape) const { return view(shape); }
  Tensor view_as(const Tensor &other) const { return view(other.sizes()); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const {
    std::vector<int64_t> shape;
    int64_t first = at(from), last = at(to), product = 1;
    for (int64_t n = 0; n < told.dim; ++n) {
      if (n < first || n > last) shape.push_back(told.sizes[n]);
      else if (product *= told.sizes[n]; n == last) shape.push_back(product);
    }
    return view(shape);
  }
  Tensor permute(IntArrayRef order) const {
    Tensor made = *this;
    for (size_t n = 0; n < order.size(); ++n)
      made.told.sizes[n] = size(order[n]), made.told.strides[n] = stride(order[n]);
    return made;
  }
  Tensor transpose(int64_t a, int64_t b) const {
    Tensor made = *this;
    std::swap(made.told.sizes[at(a)], made.told.sizes[at(b)]);
    std::swap(made.told.strides[at(a)], made.told.strides[at(b)]);
    return made;
  }
  Tensor t() const { return told.dim < 2 ? *this : transpose(0, 1); }
  Tensor unsqueeze(int64_t where) const {
    Tensor made = *this;
    int64_t n = where < 0 ? where + told.dim + 1 : where;
    for (int64_t k = made.told.dim++; k > n; --k)
      made.told.sizes[k] = told.sizes[k - 1], made.told.strides[k] = told.strides[k - 1];
    made.told.sizes[n] = 1, made.told.strides[n] = 1;
    return made;
  }
  Tensor squeeze(int64_t where) const {
    int64_t n = at(where);
    return told.sizes[n] == 1 ? without(n, 0) : *this;
  }
  Tensor select(int64_t where, int64_t index) const { return without(at(where), index); }
  Tensor operator[](int64_t index) const { return without(0, index); }
  Tensor narrow(int64_t where, int64_t start, int64_t length) const {
    Tensor made = *this;
    made.told.data += start * stride(where) * element_size();
    made.told.sizes[at(where)] = length;
    return made;
  }
  Tensor slice(int64_t where, int64_t start, int64_t end) const {
    return narrow(where, start, std::min(end, size(where)) - start);
  }

#define GPUEMU_METHOD(name) \
  template <class... Given> Tensor name(Given &&...) const { gpuemu::left(#name); }
  GPUEMU_LEFT(GPUEMU_METHOD)
#undef GPUEMU_METHOD

  void set_strides() {
    int64_t step = 1;
    for (int n = told.dim - 1; n >= 0; --n) told.strides[n] = step, step *= std::max<int64_t>(1, told.sizes[n]);
  }

 private:
  int64_t at(int64_t n) const {
    int64_t found = n < 0 ? n + told.dim : n;
    if (found < 0 || found >= told.dim) throw std::out_of_range("a dimension that the tensor does not have");
    return found;
  }
  Tensor without(int64_t n, int64_t index) const {
    Tensor made = *this;
    made.told.data += index * told.strides[n] * element_size();
    for (int64_t k = n; k + 1 < told.dim; ++k)
      made.told.sizes[k] = told.sizes[k + 1], made.told.strides[k] = told.strides[k + 1];
    --made.told.dim;
    return made;
  }
  template <class T> T *checked() const {
    using Plain = std::remove_cv_t<T>;
    bool fits = sizeof(Plain) == size_t(element_size());
    if constexpr (std::is_same_v<Plain, float>) fits = scalar_type() == ScalarType::Float;
    if constexpr (std::is_same_v<Plain, double>) fits = scalar_type() == ScalarType::Double;
    if (!fits) throw std::runtime_error(gpuemu::joined("data_ptr of another type than ", scalar_type()));
    return reinterpret_cast<T *>(told.data);
  }
  template <class T, size_t N, template <class> class Traits, class Index>
  GenericPackedTensorAccessor<T, N, Traits, Index> packed() const {
    if (told.dim != int(N)) throw std::runtime_error("an accessor of another number of dimensions");
    GenericPackedTensorAccessor<T, N, Traits, Index> made{checked<T>(), {}, {}};
    for (size_t n = 0; n < N; ++n) made.sizes_[n] = Index(told.sizes[n]), made.strides_[n] = Index(told.strides[n]);
    return made;
  }
};

inline Tensor operator+(const Tensor &, const Tensor &) { gpuemu::left("add"); }
inline Tensor operator-(const Tensor &, const Tensor &) { gpuemu::left("sub"); }
inline Tensor operator*(const Tensor &, const Tensor &) { gpuemu::left("mul"); }
inline Tensor operator/(const Tensor &, const Tensor &) { gpuemu::left("div"); }
inline Tensor operator+(const Tensor &, double) { gpuemu::left("add"); }
inline Tensor operator-(const Tensor &, double) { gpuemu::left("sub"); }
inline Tensor operator*(const Tensor &, double) { gpuemu::left("mul"); }
inline Tensor operator/(const Tensor &, double) { gpuemu::left("div"); }

inline Tensor allocated(IntArrayRef shape, ScalarType type, bool zeros) {
  Tensor made;
  made.told.type = int(type), made.told.dim = int(shape.size());
  std::copy(shape.begin(), shape.end(), made.told.sizes);
  made.set_strides();
  if (gpuemu::host.allocate(&made.told, zeros)) throw std::runtime_error("");
  return made;
}
inline Tensor like(const Tensor &other, ScalarType type, bool zeros) {
  Tensor made = other;
  if (!other.is_contiguous()) {  // torch keeps the strides of a dense tensor; here they become those of a new one
    made.set_strides();
  }
  made.told.type = int(type), made.told.handle = -1;
  if (gpuemu::host.allocate(&made.told, zeros)) throw std::runtime_error("");
  return made;
}
inline Tensor empty(IntArrayRef shape, TensorOptions given = {}) { return allocated(shape, given.type, false); }
inline Tensor zeros(IntArrayRef shape, TensorOptions given = {}) { return allocated(shape, given.type, true); }
inline Tensor empty_like(const Tensor &other) { return like(other, other.scalar_type(), false); }
inline Tensor zeros_like(const Tensor &other) { return like(other, other.scalar_type(), true); }
inline Tensor empty_like(const Tensor &other, TensorOptions given) { return like(other, given.type, false); }
inline Tensor zeros_like(const Tensor &other, TensorOptions given) { return like(other, given.type, true); }
#define GPUEMU_FUNCTION(name) \
  template <class... Given> Tensor name(Given &&...) { gpuemu::left(#name); }
GPUEMU_LEFT(GPUEMU_FUNCTION)
#undef GPUEMU_FUNCTION

template <class T> constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }
template <class T> using ArrayRef = c10::ArrayRef<T>;
constexpr auto kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short, kInt = ScalarType::Int,
               kLong = ScalarType::Long, kHalf = ScalarType::Half, kFloat = ScalarType::Float,
               kDouble = ScalarType::Double, kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
               kUInt8 = ScalarType::Byte, kInt8 = ScalarType::Char, kInt16 = ScalarType::Short,
               kInt32 = ScalarType::Int, kInt64 = ScalarType::Long, kFloat16 = ScalarType::Half,
               kFloat32 = ScalarType::Float, kFloat64 = ScalarType::Double;
inline Device device_of(const Tensor &) { return {}; }

namespace cuda {
struct CUDAStream {
  cudaStream_t stream() const { return nullptr; }
  operator cudaStream_t() const { return nullptr; }
  void synchronize() const {}
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = 0) { return {}; }
inline void setCurrentCUDAStream(CUDAStream) {}
struct CUDAGuard {
  template <class... Given> explicit CUDAGuard(Given &&...) {}
};
using OptionalCUDAGuard = CUDAGuard;
using CUDAStreamGuard = CUDAGuard;
}  // namespace cuda

}  // namespace at

namespace c10::cuda {
using namespace at::cuda;
}
namespace torch {
using namespace at;
using at::empty;
using at::zeros;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device where) { return TensorOptions(where); }
namespace nn::functional {}
}  // namespace torch

#define TORCH_CHECK(condition, ...) \
  do { if (!(condition)) throw std::runtime_error(gpuemu::joined("TORCH_CHECK " #condition ": ", ##__VA_ARGS__)); } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ERROR(...) throw std::runtime_error(gpuemu::joined(__VA_ARGS__))
#define C10_CUDA_CHECK(call) TORCH_CHECK((call) == cudaSuccess)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define CUDA_CHECK_ERROR C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_LAUNCH_BOUNDS_1(n) __launch_bounds__(n)

#define GPUEMU_CASE(name, ...)                                                     \
  case at::ScalarType::name: {                                                     \
    using scalar_t = c10::impl::ScalarTypeToCPPType<at::ScalarType::name>::type_;  \
    return __VA_ARGS__();                                                          \
  }
#define GPUEMU_CASE_OF(value, ...)                                  \
  case value: {                                                     \
    using scalar_t = c10::impl::ScalarTypeToCPPType<value>::type_;  \
    return __VA_ARGS__();                                           \
  }
#define GPUEMU_DISPATCH(type, name, cases)                                                                     \
  [&] {                                                                                                        \
    switch (type) { cases default: throw std::runtime_error(gpuemu::joined(name, ": no code for ", type)); }   \
  }()
#define GPUEMU_FLOATING(...) GPUEMU_CASE(Double, __VA_ARGS__) GPUEMU_CASE(Float, __VA_ARGS__)
#define GPUEMU_INTEGRAL(...) \
  GPUEMU_CASE(Byte, __VA_ARGS__) GPUEMU_CASE(Char, __VA_ARGS__) GPUEMU_CASE(Short, __VA_ARGS__) \
  GPUEMU_CASE(Int, __VA_ARGS__) GPUEMU_CASE(Long, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_CASE(Half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(one, type, name, ...) \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_CASE_OF(one, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(one, two, type, name, ...) \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_CASE_OF(one, __VA_ARGS__) GPUEMU_CASE_OF(two, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) GPUEMU_DISPATCH(type, name, GPUEMU_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(one, type, name, ...) \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_INTEGRAL(__VA_ARGS__) GPUEMU_CASE_OF(one, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(one, two, type, name, ...)                             \
  GPUEMU_DISPATCH(type, name, GPUEMU_FLOATING(__VA_ARGS__) GPUEMU_INTEGRAL(__VA_ARGS__)   \
                  GPUEMU_CASE_OF(one, __VA_ARGS__) GPUEMU_CASE_OF(two, __VA_ARGS__))
