// Stages in other processes: steps leave by one transport and come back by another.
#pragma once

#include <chrono>
#include <string>

#include <harmonics/schedule/token_pipeline.h>
#include <harmonics/transport/transport.h>

#include "step_wire.h"

namespace harmonics::inline in_text_program {

/// What pipelines over processes and over machines have in common. One thread.
class StepRing : public TokenPipeline {
 public:
  /// `in_flight`: how many steps there are to be under way.
  StepRing(const HarmonicGraph& graph, std::size_t in_flight, std::chrono::seconds for_a_step);

  [[nodiscard]] const TokenLimits& limits() const override { return limits_; }
  [[nodiscard]] std::size_t depth() const override { return in_flight_; }
  void submit(const TokenStep& step) override;
  [[nodiscard]] Tensor receive() override;

 protected:
  /// Takes fresh ends and sends round a greeting, upon which each stage forgets what it kept and
  /// says what it can take.
  void meet(TransportPtr to, TransportPtr from, std::chrono::nanoseconds patience);
  /// Lets go of both ends.
  void part();
  /// The same, and the stages hear that this was a good end.
  void part_in_peace(std::chrono::seconds patience) noexcept;
  [[nodiscard]] Transport& to() { return *to_; }
  /// Called now and then while an answer is waited for: throws where none can come.
  virtual void look() = 0;

 private:
  StepMessage next_answer(std::chrono::nanoseconds patience);

  const std::size_t in_flight_;
  const std::chrono::seconds for_a_step_;
  const std::string input_;
  const std::string logits_;
  TokenLimits limits_;
  TransportPtr to_, from_;
};

/// An Error (kUnavailable, or that of the transport) where nothing can be sent there any more. For
/// ends that nothing comes back from.
void check_open(Transport& transport);

/// What a stage makes of a step: the same for the next one.
[[nodiscard]] StepMessage computed_step(TokenStage& stage, StepMessage step);

}  // namespace harmonics::inline in_text_program
