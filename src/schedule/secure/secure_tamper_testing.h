// For tests: somebody between two ends of a transport who changes what travels.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <harmonics/custody/records.h>
#include <harmonics/transport/transport.h>

#include "proof_parcel.h"

namespace harmonics::inline in_schedule {

/// What happens to a message on the way: the messages that travel instead.
using Attack = std::function<std::vector<Message>(const Message&)>;

/// An end of a boundary with an attacker behind it. Messages that carry no tensor pass.
class AttackedTransport final : public Transport {
 public:
  AttackedTransport(TransportPtr inner, const Attack& attack)
      : inner_(std::move(inner)), attack_(attack) {}

  void send(const Message& message, Deadline deadline) override {
    const bool carries =
        message.kind == MessageKind::kActivation || message.kind == MessageKind::kGradient;
    if (!carries || !attack_) return inner_->send(message, deadline);
    for (const Message& one : attack_(message)) inner_->send(one, deadline);
  }
  std::optional<Message> receive(Deadline deadline) override { return inner_->receive(deadline); }
  void close(Deadline deadline) override { inner_->close(deadline); }
  [[nodiscard]] TransportStats stats() const override { return inner_->stats(); }
  [[nodiscard]] const RemoteBinding& binding() const override { return inner_->binding(); }

 private:
  TransportPtr inner_;
  const Attack attack_;
};

inline Message with_flipped_bit(Message message) {
  Tensor changed = Tensor::empty(message.tensor.shape(), message.tensor.dtype());
  std::ranges::copy(message.tensor.bytes(), changed.mutable_bytes().begin());
  changed.mutable_bytes()[changed.bytes().size() / 2] ^= std::byte{1};
  message.tensor = std::move(changed);
  return message;
}

/// The tensor and the proof that a message of a part that proves carries.
inline ProofParcel parcel_in(const Message& message) {
  return decode_proof_parcel(message.tensor.bytes());
}

/// Changes them.
inline Attack on_parcel(std::function<void(ProofParcel&)> change) {
  return [change = std::move(change)](const Message& message) {
    ProofParcel parcel = parcel_in(message);
    change(parcel);
    const Bytes bytes = encode(parcel);
    Message changed = message;
    changed.tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kUInt8);
    std::ranges::copy(bytes, changed.tensor.mutable_bytes().begin());
    return std::vector{changed};
  };
}

/// The message with the tensor and the link of another one.
inline Message with_content_of(const Message& message, const Message& other) {
  return {message.kind, message.step, message.micro_batch, other.tensor, other.attachment};
}

/// Signed by somebody else, who knows everything but the key; `head` bytes stand before the seal.
inline Message signed_by(const SigningKey& key, Message message, std::size_t head) {
  ByteSpan rest = ByteSpan(message.attachment).subspan(head);
  ByteReader in(rest, "seal");
  static_cast<void>(in.number<std::uint8_t>());
  const ByteSpan link = in.take(in.number<std::uint32_t>());
  Bytes text = signed_text(kLinkPurpose, link_digest(link));
  const Digest along = sha256(ByteSpan(message.attachment).first(head));
  text.insert(text.end(), along.begin(), along.end());
  std::ranges::copy(key.sign(text),
                    message.attachment.begin() + static_cast<std::ptrdiff_t>(head + in.offset()));
  return message;
}

}  // namespace harmonics::inline in_schedule
