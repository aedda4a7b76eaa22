#include "handshake.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <harmonics/base/byte_fields.h>
#include <harmonics/base/entropy.h>
#include <harmonics/base/escaped.h>

namespace harmonics::inline in_transport {
namespace {

// What a RemoteBinding can ask for.
constexpr std::uint64_t kLargestMessageSize = std::numeric_limits<int>::max();

constexpr auto kInstanceFields = [](auto& a, auto& id) {
  a.number(id.high);
  a.number(id.low);
};

constexpr auto kGreetingFields = [](auto& a, auto& greeting) {
  a.text(greeting.run, kMaxRunName);
  a.text(greeting.boundary, kMaxBoundaryName);
  kInstanceFields(a, greeting.instance);
  kInstanceFields(a, greeting.peer);
  a.number(greeting.attempt);
  a.number(greeting.progress.delivered);
  a.number(greeting.progress.consumed);
  a.number(greeting.window.bytes);
  a.number(greeting.window.messages);
  a.flag(greeting.compress);
  a.number(greeting.max_message_size);
  a.raw(greeting.nonce);
  a.check(greeting.max_message_size <= kLargestMessageSize, "too large a max_message_size");
  a.check(greeting.instance.known(), "the sender does not say who it is");
  a.check(greeting.progress.consumed <= greeting.progress.delivered, "more was taken than came");
  a.check(greeting.window.bytes > 0 && greeting.window.messages > 0 &&
              greeting.window.messages <= kMaxWindowMessages,
          "a window without room, or for too many messages");
};

constexpr auto kChallengeFields = [](auto& a, auto& challenge) {
  a.raw(challenge.nonce);
  a.raw(challenge.salt);
  a.raw(challenge.proof);
};

constexpr auto kProofFields = [](auto& a, auto& proof) { a.raw(proof); };

constexpr auto kRefusalFields = [](auto& a, auto& refusal) {
  a.template kind<std::uint8_t>(refusal.code, ErrorCode::kUnauthenticated);
  a.check(refusal.code >= ErrorCode::kCancelled, "unknown code");
  a.flag(refusal.passing);
  a.text(refusal.reason, kMaxReason);
};

}  // namespace

Bytes encode_greeting(const Greeting& greeting) { return write_fields(greeting, kGreetingFields); }

Greeting decode_greeting(ByteSpan bytes) {
  return read_fields<Greeting>(bytes, "transport greeting", kGreetingFields);
}

Bytes encode_challenge(const Challenge& challenge) {
  return write_fields(challenge, kChallengeFields);
}

Challenge decode_challenge(ByteSpan bytes) {
  return read_fields<Challenge>(bytes, "transport challenge", kChallengeFields);
}

Bytes encode_proof(const Digest& proof) { return write_fields(proof, kProofFields); }

Digest decode_proof(ByteSpan bytes) {
  return read_fields<Digest>(bytes, "transport proof", kProofFields);
}

Bytes encode_refused_greeting(const RefusedGreeting& refusal) {
  RefusedGreeting short_enough = refusal;
  short_enough.reason.resize(std::min(refusal.reason.size(), kMaxReason));
  return write_fields(short_enough, kRefusalFields);
}

RefusedGreeting decode_refused_greeting(ByteSpan bytes) {
  auto refusal = read_fields<RefusedGreeting>(bytes, "transport refusal", kRefusalFields);
  // It goes into logs and error texts: no stranger's control characters there.
  refusal.reason = escaped(refusal.reason);
  return refusal;
}

Digest token_proof(const Digest& key, Prover prover, const Greeting& hello,
                   const Nonce& listener_nonce) {
  ByteWriter text;
  text.text(prover == Prover::kListener ? "harmonics listener" : "harmonics connector");
  text.raw(hello.nonce);
  text.raw(listener_nonce);
  text.text(hello.run);
  text.text(hello.boundary);
  text.number(hello.instance.high);
  text.number(hello.instance.low);
  return hmac_sha256(key, text.bytes());
}

bool same_digest(const Digest& a, const Digest& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

Nonce random_nonce() {
  Nonce out;
  fill_entropy(out);
  return out;
}

InstanceId random_instance() {
  const Nonce bytes = random_nonce();
  InstanceId id;
  std::memcpy(&id.high, bytes.data(), sizeof(id.high));
  std::memcpy(&id.low, bytes.data() + sizeof(id.high), sizeof(id.low));
  id.low |= 1;
  return id;
}

std::uint64_t agreed_message_size(std::uint64_t ours, std::uint64_t theirs) {
  if (ours == 0 && theirs == 0) return kDefaultMaxMessageSize;
  if (ours == 0 || theirs == 0) return std::max(ours, theirs);
  return std::min(ours, theirs);
}

}  // namespace harmonics::inline in_transport
