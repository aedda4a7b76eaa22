// What computes in a stage: rows on the CPU, or tensors on a device of libtorch (private to
// runtime).
#pragma once

#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_runtime {

/// The calls of TokenStage, which see. One thread at a time.
class TokenStageBody {
 public:
  virtual ~TokenStageBody() = default;
  [[nodiscard]] virtual const std::vector<std::string>& entering() const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& leaving() const = 0;
  [[nodiscard]] virtual std::int64_t max_length() const = 0;
  [[nodiscard]] virtual TokenStageFigures figures() const = 0;
  [[nodiscard]] virtual TokenTensors compute(std::span<const TokenSpan> spans,
                                             const TokenTensors& inputs) = 0;
  [[nodiscard]] virtual std::int64_t length(SequenceId sequence) const = 0;
  virtual void fork(SequenceId from, SequenceId to, std::int64_t tokens) = 0;
  virtual void drop(SequenceId sequence) = 0;
  virtual void drop_all() = 0;
  [[nodiscard]] virtual Tensor saved(SequenceId sequence) const = 0;
  virtual void restore(SequenceId sequence, const Tensor& saved) = 0;
};

}  // namespace harmonics::inline in_runtime
