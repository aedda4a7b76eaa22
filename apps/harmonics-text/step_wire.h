// Steps of a generation on their way from process to process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/schedule/token_pipeline.h>
#include <harmonics/transport/transport.h>

namespace harmonics::inline in_text_program {

/// What one process hands to the next: a step and the tensors that it needs, or, at the start, what
/// the stages so far can take.
struct StepMessage {
  std::vector<TokenSpan> spans;
  std::vector<SequenceId> drops;
  TokenTensors tensors;
  /// Only at the start.
  std::optional<TokenLimits> limits;
};

/// A step goes as one message with its head, then one for each tensor. More sequences than the head
/// has room for (about 1,500) are an Error before anything is sent.
/// While it waits for room, or for the first connection, `look` is called now and then; it throws
/// where there is nobody to wait for.
void send_step(Transport& transport, const StepMessage& message, Deadline deadline,
               const std::function<void()>& look = {});

/// The next step; nothing once the other end has closed. What is no step is an Error (kDataLoss).
/// `deadline` is that of its head: what follows has a deadline of its own.
[[nodiscard]] std::optional<StepMessage> receive_step(Transport& transport, Deadline deadline);

}  // namespace harmonics::inline in_text_program
