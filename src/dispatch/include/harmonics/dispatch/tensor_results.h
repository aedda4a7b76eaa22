// Results made of tensors: each part goes straight into its rows of one preallocated tensor.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <harmonics/dispatch/results.h>
#include <harmonics/dispatch/tensor_loader.h>
#include <harmonics/dispatch/work_dispatcher.h>

namespace harmonics::inline in_dispatch {

/// Derivatives by output and input: the block of `out` by `in` has the batch axis, then the axes of
/// a row of `out`, then those of a row of `in`.
using DerivativeMap = std::map<std::string, TensorMap, std::less<>>;

/// What a model with derivatives returns.
struct ValuesAndDerivatives {
  TensorMap values;
  DerivativeMap derivatives;
};

/// One tensor that grows along `axis`: made when the first part comes, then written by all lanes
/// at once. Parts lie on the CPU; one whose length is not its sub-batch's is an Error that fails
/// the sub-batch.
class TensorSink final : public ResultSink<Tensor, Tensor> {
 public:
  explicit TensorSink(int axis = 0) : axis_(axis) {}
  void begin(RowRange rows, std::size_t lanes) override;
  void put(std::size_t lane, RowRange rows, Tensor&& part) override;
  [[nodiscard]] Tensor take() override;

 private:
  int axis_;
  RowRange rows_;
  std::unique_ptr<std::once_flag> made_;
  Tensor whole_;
};

/// The same for outputs by name. An output of length 1 along the axis is unbatched and repeated for
/// each of its sub-batch's rows; an error is a part whose outputs have other lengths or too few
/// axes, are all unbatched although there are several rows, or are not those of the first part.
class TensorMapSink final : public ResultSink<TensorMap, TensorMap> {
 public:
  explicit TensorMapSink(int axis = 0) : axis_(axis) {}
  void begin(RowRange rows, std::size_t lanes) override;
  void put(std::size_t lane, RowRange rows, TensorMap&& part) override;
  [[nodiscard]] TensorMap take() override;

 private:
  void make(RowRange rows, const TensorMap& part);

  int axis_;
  RowRange rows_;
  std::unique_ptr<std::once_flag> made_;
  TensorMap whole_;
};

/// Which blocks of derivatives have rows.
enum class DerivativeBlocks {
  /// As their lengths say.
  kByShape,
  /// All of them.
  kAllBatched,
};

/// Values as TensorMapSink joins them, and derivatives: a block with the batch axis is joined along
/// it, one without (length 1 along the axis in a sub-batch of several rows, or too few axes) is the
/// same for all rows and kept once, from the first rows. Where every sub-batch had a single row
/// lengths say nothing: then a block by an unbatched input that is the same in all of them is kept
/// once, so that its shape does not depend on how the batch was cut; all others are joined.
class DerivativeSink final : public ResultSink<ValuesAndDerivatives, ValuesAndDerivatives> {
 public:
  explicit DerivativeSink(int axis = 0, DerivativeBlocks blocks = DerivativeBlocks::kByShape)
      : axis_(axis), blocks_(blocks), values_(axis) {}
  void set_unbatched_inputs(std::vector<std::string> names) override;
  void begin(RowRange rows, std::size_t lanes) override;
  void put(std::size_t lane, RowRange rows, ValuesAndDerivatives&& part) override;
  [[nodiscard]] ValuesAndDerivatives take() override;

 private:
  struct Kept {
    RowRange rows;
    DerivativeMap part;
  };
  [[nodiscard]] bool batched(const std::vector<const Kept*>& parts, const std::string& out,
                             const std::string& in) const;

  int axis_;
  DerivativeBlocks blocks_;
  std::vector<std::string> unbatched_;
  RowRange rows_;
  TensorMapSink values_;
  std::vector<std::vector<Kept>> kept_;
};

// The functions of a dispatcher over models in terms of named tensors; add preprocess and
// postprocess where they must move between devices (torch_work.h has those).

using TensorFunctions = WorkFunctions<Tensor, Tensor, Tensor, Tensor, Tensor>;
using ValueFunctions = WorkFunctions<TensorMap, TensorMap, TensorMap, TensorMap, TensorMap>;
using DerivativeFunctions = WorkFunctions<TensorMap, ValuesAndDerivatives, ValuesAndDerivatives,
                                          TensorMap, ValuesAndDerivatives>;
using TensorDispatcher = WorkDispatcher<Tensor, Tensor, Tensor>;
using ValueDispatcher = WorkDispatcher<TensorMap, TensorMap, TensorMap>;
using DerivativeDispatcher = WorkDispatcher<TensorMap, ValuesAndDerivatives, ValuesAndDerivatives,
                                            TensorMap, ValuesAndDerivatives>;

/// For a model from one tensor to one tensor.
[[nodiscard]] TensorFunctions tensor_functions(
    std::function<Tensor(Tensor&&, const WorkDevice&)> model, int axis = 0);
/// For a model that returns values.
[[nodiscard]] ValueFunctions value_functions(
    std::function<TensorMap(TensorMap&&, const WorkDevice&)> model, int axis = 0);
/// For a model that returns values and their first derivatives with respect to the inputs.
[[nodiscard]] DerivativeFunctions derivative_functions(
    std::function<ValuesAndDerivatives(TensorMap&&, const WorkDevice&)> model, int axis = 0);

}  // namespace harmonics::inline in_dispatch
