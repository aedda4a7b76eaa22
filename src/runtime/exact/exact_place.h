// Where a reproducible stage computes: main memory, or a device behind the same operations (private
// to runtime).
//
// ExactBackend walks through a graph and holds ExactArrays; what an operation does with them is the
// place's. All places give the same bits, which docs/formats/reproducible.md states.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/layer_type.h>
#include <harmonics/runtime/options.h>
#include <harmonics/tensor/tensor.h>

#include "exact_kernels.h"
#include "exact_operation.h"

namespace harmonics::inline in_runtime {

/// A contiguous tensor with its batch axis: in main memory (`here`), or on the device of the place
/// that made it (`there`). Copying a handle shares the memory.
struct ExactArray {
  Shape shape;
  DType dtype = DType::kFloat32;
  Tensor here;
  std::shared_ptr<void> there;

  [[nodiscard]] bool defined() const { return here.defined() || there != nullptr; }
  [[nodiscard]] std::int64_t size() const { return element_count(shape); }
  /// The same memory under another shape of equal size.
  [[nodiscard]] ExactArray reshaped(Shape other) const;
};

/// An ExactCall in arrays.
struct PlacedCall {
  std::span<const ExactArray> inputs;
  std::span<const ExactArray> parameters;
  std::span<const ExactArray> gradients;
  const std::vector<bool>& wanted;
  bool training = false;
  std::uint64_t key = 0;
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;

  [[nodiscard]] std::int64_t rows() const { return inputs[0].shape[0]; }
};

/// What a forward pass leaves for its backward pass.
struct PlacedKept {
  ExactKept here;
  std::vector<ExactArray> there;
};

class PlacedOperation {
 public:
  virtual ~PlacedOperation() = default;
  [[nodiscard]] virtual ExactArray forward(const PlacedCall& call, PlacedKept& kept) const = 0;
  /// The gradients of the inputs; undefined for those that want none.
  [[nodiscard]] virtual std::vector<ExactArray> backward(const PlacedCall& call,
                                                         const PlacedKept& kept,
                                                         const ExactArray& gradient) const = 0;
};
using PlacedOperationPtr = std::unique_ptr<PlacedOperation>;

class PlacedLoss {
 public:
  virtual ~PlacedLoss() = default;
  [[nodiscard]] virtual ExactLosses forward(const ExactArray& prediction,
                                            const ExactArray& target) const = 0;
  /// The gradient of `scale` times the sum over the samples.
  [[nodiscard]] virtual ExactArray backward(const ExactArray& prediction, const ExactArray& target,
                                            float scale) const = 0;
};
using PlacedLossPtr = std::unique_ptr<PlacedLoss>;

enum class ExactRule { kSgd, kMomentum, kAdam };

/// The arrays of one update; slots that the rule lacks are undefined.
struct ExactWeights {
  const ExactArray& value;
  const ExactArray& gradient;
  ExactArray first, second;
};

/// One thread at a time.
class ExactPlace {
 public:
  virtual ~ExactPlace() = default;

  /// "cpu", "cuda:0", "opencl:0".
  [[nodiscard]] virtual std::string name() const = 0;
  /// What is being computed, for errors: "layer 'fc1'".
  virtual void at(std::string operation) = 0;

  /// Whole numbers become int64. In main memory an array of the same bytes.
  [[nodiscard]] virtual ExactArray take(const Tensor& tensor) = 0;
  /// In main memory; it may share the array's.
  [[nodiscard]] virtual Tensor give(const ExactArray& array) = 0;
  [[nodiscard]] virtual ExactArray zeros(const Shape& shape) = 0;
  virtual void clear(const ExactArray& array) = 0;
  virtual void write(const ExactArray& to, const Tensor& from) = 0;
  [[nodiscard]] virtual ExactArray sum(const ExactArray& a, const ExactArray& b) = 0;
  virtual void add_to(const ExactArray& to, const ExactArray& other) = 0;
  /// In float64 and sixteen lanes each.
  [[nodiscard]] virtual std::vector<double> square_sums(std::span<const ExactArray> arrays) = 0;
  /// `numbers` brings the scalars alone.
  virtual void update(ExactRule rule, const ExactUpdate& numbers, const ExactWeights& weights) = 0;

  // Null where there is no such operation, or not in this form.
  [[nodiscard]] virtual PlacedOperationPtr layer(const LayerQuery& query,
                                                 const TensorSpec& output) = 0;
  [[nodiscard]] virtual PlacedOperationPtr activation(std::string_view name) = 0;
  [[nodiscard]] virtual PlacedLossPtr loss(std::string_view name) = 0;
};

/// Where resolve_backend says that these options compute: the CPU, a GPU, an OpenCL device. Auto is
/// the CPU: a device is asked for by name.
[[nodiscard]] std::unique_ptr<ExactPlace> make_exact_place(const RuntimeOptions& options);
/// Main memory, computed by `kernels`.
[[nodiscard]] std::unique_ptr<ExactPlace> make_exact_cpu_place(const ExactKernels& kernels);

}  // namespace harmonics::inline in_runtime
