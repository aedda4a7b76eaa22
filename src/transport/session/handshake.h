// The bodies of the frames with which two ends greet each other, and the rules of the greeting.
//
//   connecting end              listening end
//   hello  ------------------>
//          <------------------  challenge     only if it asks for a token
//   proof  ------------------>
//          <------------------  welcome, or refuse at any point
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/custody/digest.h>
#include <harmonics/transport/transport.h>

#include "session.h"
#include "token_key.h"

namespace harmonics::inline in_transport {

/// The longest body of a greeting, in bytes.
inline constexpr std::size_t kMaxGreetingBytes = 2048;
/// The longest reason of a refusal, in bytes.
inline constexpr std::size_t kMaxReason = 512;

/// Tells one life of an end from the next: random, made with the transport, never zero.
struct InstanceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  [[nodiscard]] bool known() const { return high != 0 || low != 0; }
  bool operator==(const InstanceId&) const = default;
};

using Nonce = std::array<std::byte, 32>;

/// What both ends say about themselves, in hello and welcome.
struct Greeting {
  std::string run;
  std::string boundary;
  InstanceId instance;
  /// Whom this end has talked to before; unknown at first.
  InstanceId peer;
  /// Counts the greetings of this instance: of two connections the one with the higher number is
  /// newer, in whatever order they get through.
  std::uint64_t attempt = 0;
  Progress progress;
  Window window;
  bool compress = false;
  std::uint64_t max_message_size = 0;  // 0: no wish
  Nonce nonce{};
  bool operator==(const Greeting&) const = default;
};

struct Challenge {
  Nonce nonce{};
  /// Of the listening process: see token_key.h.
  TokenSalt salt{};
  Digest proof{};
};

struct RefusedGreeting {
  ErrorCode code = ErrorCode::kUnavailable;
  /// It may be different later: try again.
  bool passing = false;
  std::string reason;
};

[[nodiscard]] Bytes encode_greeting(const Greeting& greeting);
[[nodiscard]] Bytes encode_challenge(const Challenge& challenge);
[[nodiscard]] Bytes encode_proof(const Digest& proof);
[[nodiscard]] Bytes encode_refused_greeting(const RefusedGreeting& refusal);

// Bounded; what is wrong is an Error (kDataLoss).
[[nodiscard]] Greeting decode_greeting(ByteSpan bytes);
[[nodiscard]] Challenge decode_challenge(ByteSpan bytes);
[[nodiscard]] Digest decode_proof(ByteSpan bytes);
[[nodiscard]] RefusedGreeting decode_refused_greeting(ByteSpan bytes);

/// Which end proves that it knows the token.
enum class Prover { kListener, kConnector };

/// What only someone who knows the token behind `key` can say in this greeting (HMAC-SHA256 over
/// role, both nonces, run and boundary).
[[nodiscard]] Digest token_proof(const Digest& key, Prover prover, const Greeting& hello,
                                 const Nonce& listener_nonce);
/// Compares in a time that does not depend on where the two differ.
[[nodiscard]] bool same_digest(const Digest& a, const Digest& b);

/// Random bytes of the operating system.
[[nodiscard]] Nonce random_nonce();
[[nodiscard]] InstanceId random_instance();

/// The smaller non-zero of both wishes; 1 GiB when there is none.
[[nodiscard]] std::uint64_t agreed_message_size(std::uint64_t ours, std::uint64_t theirs);

}  // namespace harmonics::inline in_transport
