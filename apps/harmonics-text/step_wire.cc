#include "step_wire.h"

#include <algorithm>
#include <chrono>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

namespace harmonics::inline in_text_program {
namespace {

constexpr std::chrono::seconds kForTensors(60);
constexpr std::chrono::milliseconds kLookEvery(50);
constexpr std::size_t kMaxStepTensors = 1000;

Json head_of(const StepMessage& message) {
  Json spans = Json::array(), drops = Json::array(), names = Json::array();
  for (const TokenSpan& span : message.spans) {
    spans.push(Json(
        Json::Array{Json(span.sequence), Json(span.first), Json(span.count), Json(span.wanted)}));
  }
  for (const SequenceId sequence : message.drops) drops.push(sequence);
  for (const auto& [name, tensor] : message.tensors) names.push(name);
  Json json;
  json.set("spans", std::move(spans)).set("drops", std::move(drops));
  json.set("tensors", std::move(names));
  if (message.limits) {
    Json limits;
    limits.set("max_length", message.limits->max_length);
    limits.set("most_tokens", message.limits->most_tokens);
    limits.set("token_bytes", message.limits->token_bytes);
    json.set("limits", limits.set("weight_bytes", message.limits->weight_bytes));
  }
  return json;
}

StepMessage message_of(const Json& json) {
  StepMessage message;
  for (const Json& span : json.at("spans").as_array()) {
    const Json::Array& numbers = span.as_array();
    if (numbers.size() != 4) fail(ErrorCode::kDataLoss, "a span of {} numbers", numbers.size());
    message.spans.push_back({static_cast<SequenceId>(numbers[0].as_integer()),
                             numbers[1].as_integer(), numbers[2].as_integer(),
                             numbers[3].as_integer()});
  }
  for (const Json& sequence : json.at("drops").as_array()) {
    message.drops.push_back(static_cast<SequenceId>(sequence.as_integer()));
  }
  if (const Json* const limits = json.find("limits")) {
    message.limits =
        TokenLimits{limits->at("max_length").as_integer(), limits->at("most_tokens").as_integer(),
                    static_cast<std::uint64_t>(limits->at("token_bytes").as_integer()),
                    static_cast<std::uint64_t>(limits->at("weight_bytes").as_integer())};
  }
  return message;
}

// A send that passes its deadline has taken nothing over.
void send_message(Transport& transport, const Message& message, Deadline deadline,
                  const std::function<void()>& look) {
  if (!look) return transport.send(message, deadline);
  for (;;) {
    try {
      return transport.send(message, std::min(deadline, deadline_in(kLookEvery)));
    } catch (const Error& error) {
      look();
      const bool waits = error.code() == ErrorCode::kDeadlineExceeded;
      if (!waits || std::chrono::steady_clock::now() >= deadline) throw;
    }
  }
}

}  // namespace

void send_step(Transport& transport, const StepMessage& message, Deadline deadline,
               const std::function<void()>& look) {
  const std::string head = head_of(message).dump();
  if (head.size() > kMaxAttachmentBytes) {
    fail(ErrorCode::kResourceExhausted,
         "a step of {} sequences takes {} bytes to describe, at most {}: compute fewer at once "
         "(--sequences)",
         message.spans.size(), head.size(), kMaxAttachmentBytes);
  }
  Message first;
  first.kind = MessageKind::kControl;
  const ByteSpan bytes = bytes_of(head);
  first.attachment.assign(bytes.begin(), bytes.end());
  send_message(transport, first, deadline, look);
  for (const auto& [name, tensor] : message.tensors) {
    Message next;
    next.tensor = tensor;
    send_message(transport, next, deadline, look);
  }
}

std::optional<StepMessage> receive_step(Transport& transport, Deadline deadline) {
  const std::optional<Message> head = transport.receive(deadline);
  if (!head) return std::nullopt;
  try {
    const Json json = Json::parse(text_of(head->attachment), "a step");
    StepMessage message = message_of(json);
    const Json::Array& names = json.at("tensors").as_array();
    if (names.size() > kMaxStepTensors) fail(ErrorCode::kDataLoss, "{} tensors", names.size());
    for (const Json& name : names) {
      const std::optional<Message> next = transport.receive(deadline_in(kForTensors));
      if (!next) fail(ErrorCode::kAborted, "a step ends before its tensor '{}'", name.as_string());
      message.tensors.emplace(name.as_string(), next->tensor);
    }
    return message;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kNotFound) throw;
    fail(ErrorCode::kDataLoss, "what came is no step: {}", error.what());
  }
}

}  // namespace harmonics::inline in_text_program
