// The application metadata of a guest's message, without Arrow.
#include "flight_text.h"

#include <array>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::array<std::pair<MessageKind, std::string_view>, 4> kKinds = {{
    {MessageKind::kActivation, "activation"},
    {MessageKind::kGradient, "gradient"},
    {MessageKind::kEpochEnd, "epoch_end"},
    {MessageKind::kControl, "control"},
}};

[[noreturn]] void wrong(std::string_view key, std::string_view value) {
  fail(ErrorCode::kInvalidArgument,
       "metadata '{}={}' of a Flight message; write kind=activation|gradient|epoch_end|control "
       "step=N micro_batch=N attachment=HEX, and for control bytes=HEX, with spaces between",
       key, value.substr(0, 64));
}

template <typename T>
T number(std::string_view key, std::string_view value) {
  if (const auto number = number_from<T>(value)) return *number;
  wrong(key, value);
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Bytes bytes_of_hex(std::string_view key, std::string_view value, std::size_t most) {
  if (value.size() % 2 != 0 || value.size() / 2 > most) wrong(key, value);
  Bytes out;
  out.reserve(value.size() / 2);
  for (std::size_t i = 0; i < value.size(); i += 2) {
    const int high = digit(value[i]), low = digit(value[i + 1]);
    if (high < 0 || low < 0) wrong(key, value);
    out.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return out;
}

void append_hex(std::string& to, ByteSpan bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte byte : bytes) {
    to += kDigits[static_cast<std::size_t>(byte >> 4)];
    to += kDigits[static_cast<std::size_t>(byte & std::byte{15})];
  }
}

Tensor tensor_of(ByteSpan bytes) {
  Tensor out = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
  if (!bytes.empty()) std::memcpy(out.mutable_bytes().data(), bytes.data(), bytes.size());
  return out;
}

void read_setting(std::string_view key, std::string_view value, Message& message) {
  if (key == "step") {
    message.step = number<std::uint64_t>(key, value);
  } else if (key == "micro_batch") {
    message.micro_batch = number<std::uint32_t>(key, value);
  } else if (key == "attachment") {
    message.attachment = bytes_of_hex(key, value, kMaxAttachmentBytes);
  } else if (key == "bytes") {
    message.tensor = tensor_of(bytes_of_hex(key, value, kMaxTextTensorBytes));
  } else if (key == "kind") {
    for (const auto& [kind, name] : kKinds) {
      if (name == value) {
        message.kind = kind;
        return;
      }
    }
    wrong(key, value);
  } else {
    wrong(key, value);
  }
}

}  // namespace

bool tensor_is_text(const Message& message) {
  return message.kind == MessageKind::kControl && message.tensor.defined() &&
         message.tensor.dtype() == DType::kUInt8 && message.tensor.shape().size() == 1;
}

std::string message_text(const Message& message) {
  std::string_view kind;
  for (const auto& [value, name] : kKinds) {
    if (value == message.kind) kind = name;
  }
  std::string out =
      format("kind={} step={} micro_batch={}", kind, message.step, message.micro_batch);
  if (!message.attachment.empty()) {
    out += " attachment=";
    append_hex(out, message.attachment);
  }
  if (!tensor_is_text(message)) return out;
  const ByteSpan bytes = message.tensor.bytes();
  if (bytes.size() > kMaxTextTensorBytes) {
    fail(ErrorCode::kResourceExhausted,
         "a control message of {} bytes for a Flight client, which takes at most {}", bytes.size(),
         kMaxTextTensorBytes);
  }
  out += " bytes=";
  append_hex(out, bytes);
  return out;
}

void read_message_text(std::string_view text, Message& message) {
  bool has_bytes = false;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view setting = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) wrong(setting.substr(0, 64), "");
    const std::string_view key = setting.substr(0, equals);
    read_setting(key, setting.substr(equals + 1), message);
    has_bytes |= key == "bytes";
  }
  if (has_bytes && message.kind != MessageKind::kControl) wrong("bytes", "… of another kind");
}

}  // namespace harmonics::inline in_transport
