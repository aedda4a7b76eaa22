// ParameterSet: named values and the optimiser that changes them, without a graph.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <harmonics/runtime/options.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

/// Owns its values and optimiser state, in main memory. One thread. The update rules are those of a
/// Stage, bit for bit.
class ParameterSet {
 public:
  /// Copies the values, which must be float32 or float64; another dtype is an Error that names it,
  /// and so is a decay of weights alone, which takes the graph to know.
  ParameterSet(const NamedTensors& start, const OptimizerOptions& optimizer);
  ~ParameterSet();
  ParameterSet(ParameterSet&&) noexcept;
  ParameterSet& operator=(ParameterSet&&) noexcept;

  /// Copies of all values, and of the optimiser state by "<parameter>.<slot>".
  [[nodiscard]] NamedTensors values() const;
  [[nodiscard]] NamedTensors optimizer_state() const;
  /// Puts back what those two gave. A missing name or another shape is an Error and changes
  /// nothing.
  void restore(const NamedTensors& values, const NamedTensors& optimizer_state);

  /// Changes the values. A gradient for each value, of its shape, must be there.
  void update(const NamedTensors& gradients, const Update& update);

  /// Sum of squares of each gradient in float64, as Stage::gradient_square_sums computes it.
  [[nodiscard]] static std::map<std::string, double> square_sums(const NamedTensors& gradients);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_runtime
