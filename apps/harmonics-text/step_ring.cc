#include "step_ring.h"

#include <limits>

#include <harmonics/base/error.h>

namespace harmonics::inline in_text_program {
namespace {

// How often others are looked after while no answer comes.
constexpr std::chrono::milliseconds kLookAfter(50);

TokenLimits joined(const TokenLimits& so_far, const TokenStage& stage) {
  const TokenStageFigures figures = stage.figures();
  return {stage.max_length(), std::min(so_far.most_tokens, figures.most_tokens),
          so_far.token_bytes + figures.token_bytes, so_far.weight_bytes + figures.weight_bytes};
}

}  // namespace

StepRing::StepRing(const HarmonicGraph& graph, std::size_t in_flight,
                   std::chrono::seconds for_a_step)
    : in_flight_(in_flight),
      for_a_step_(for_a_step),
      input_(graph.layers().front().inputs.front()),
      logits_(logits_of(graph)) {}

void StepRing::submit(const TokenStep& step) {
  StepMessage message{step.spans, step.drops, {}, {}};
  const auto rows = static_cast<std::int64_t>(step.ids.size());
  message.tensors.emplace(input_, Tensor::of<std::int64_t>({rows}, std::span(step.ids)));
  send_step(*to_, message, deadline_in(for_a_step_), [this] { look(); });
}

Tensor StepRing::receive() {
  const StepMessage answer = next_answer(for_a_step_);
  const auto found = answer.tensors.find(logits_);
  if (found == answer.tensors.end()) fail(ErrorCode::kDataLoss, "an answer without logits");
  return found->second;
}

void StepRing::meet(TransportPtr to, TransportPtr from, std::chrono::nanoseconds patience) {
  to_ = std::move(to);
  from_ = std::move(from);
  StepMessage hello;
  hello.limits = TokenLimits{0, std::numeric_limits<std::int64_t>::max(), 0, 0};
  send_step(*to_, hello, deadline_in(patience), [this] { look(); });
  const StepMessage answer = next_answer(patience);
  if (!answer.limits) fail(ErrorCode::kDataLoss, "a greeting came back without limits");
  limits_ = *answer.limits;
}

void StepRing::part() {
  to_.reset();
  from_.reset();
}

void StepRing::part_in_peace(std::chrono::seconds patience) noexcept {
  if (!to_) return;
  try {
    to_->close(deadline_in(patience));
    from_->close(deadline_in(patience));
  } catch (const std::exception&) {
    // They find out by themselves.
  }
}

StepMessage StepRing::next_answer(std::chrono::nanoseconds patience) {
  const Deadline due = deadline_in(patience);
  for (;;) {
    try {
      std::optional<StepMessage> message = receive_step(*from_, deadline_in(kLookAfter));
      if (message) return *std::move(message);
      look();
      fail(ErrorCode::kUnavailable, "the last part of the model has closed its end");
    } catch (const Error& error) {
      look();
      if (error.code() != ErrorCode::kDeadlineExceeded || std::chrono::steady_clock::now() > due) {
        throw;
      }
    }
  }
}

void check_open(Transport& transport) {
  try {
    (void)transport.receive(deadline_in(std::chrono::nanoseconds(0)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kDeadlineExceeded) return;
    throw;
  }
  fail(ErrorCode::kUnavailable, "{}: the next part of the model has closed its end",
       transport.binding().name);
}

StepMessage computed_step(TokenStage& stage, StepMessage step) {
  if (step.limits) {
    stage.drop_all();
    step.limits = joined(*step.limits, stage);
    return step;
  }
  for (const SequenceId sequence : step.drops) stage.drop(sequence);
  step.tensors = stage.compute(step.spans, step.tensors);
  return step;
}

}  // namespace harmonics::inline in_text_program
