#include "handshake.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <harmonics/base/escaped.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::size_t kHmacBlock = 64;
// What a RemoteBinding can ask for.
constexpr std::uint64_t kLargestMessageSize = std::numeric_limits<int>::max();

template <std::size_t kSize>
std::array<std::byte, kSize> fixed(ByteReader& in) {
  std::array<std::byte, kSize> out;
  std::ranges::copy(in.take(kSize), out.begin());
  return out;
}

void expect_end(const ByteReader& in) {
  if (in.left() != 0) in.broken("bytes follow its end");
}

void write_instance(ByteWriter& out, const InstanceId& id) {
  out.number(id.high);
  out.number(id.low);
}

InstanceId read_instance(ByteReader& in) {
  InstanceId id;
  id.high = in.number<std::uint64_t>();
  id.low = in.number<std::uint64_t>();
  return id;
}

}  // namespace

Bytes encode_greeting(const Greeting& greeting) {
  ByteWriter out;
  out.text(greeting.run);
  out.text(greeting.boundary);
  write_instance(out, greeting.instance);
  write_instance(out, greeting.peer);
  out.number(greeting.attempt);
  out.number(greeting.progress.delivered);
  out.number(greeting.progress.consumed);
  out.number(greeting.window.bytes);
  out.number(greeting.window.messages);
  out.number(static_cast<std::uint8_t>(greeting.compress ? 1 : 0));
  out.number(greeting.max_message_size);
  out.raw(greeting.nonce);
  return out.take();
}

Greeting decode_greeting(ByteSpan bytes) {
  ByteReader in(bytes, "transport greeting");
  Greeting out;
  out.run = in.text(kMaxRunName);
  out.boundary = in.text(kMaxBoundaryName);
  out.instance = read_instance(in);
  out.peer = read_instance(in);
  out.attempt = in.number<std::uint64_t>();
  out.progress.delivered = in.number<std::uint64_t>();
  out.progress.consumed = in.number<std::uint64_t>();
  out.window.bytes = in.number<std::uint64_t>();
  out.window.messages = in.number<std::uint32_t>();
  const auto compress = in.number<std::uint8_t>();
  out.compress = compress == 1;
  out.max_message_size = in.number<std::uint64_t>();
  out.nonce = fixed<32>(in);
  expect_end(in);
  if (out.max_message_size > kLargestMessageSize) in.broken("too large a max_message_size");
  if (compress > 1) in.broken("the compress flag is neither 0 nor 1");
  if (!out.instance.known()) in.broken("the sender does not say who it is");
  if (out.progress.consumed > out.progress.delivered) in.broken("more was taken than came");
  if (out.window.bytes == 0 || out.window.messages == 0 ||
      out.window.messages > kMaxWindowMessages) {
    in.broken(
        format("a window of {} bytes and {} messages", out.window.bytes, out.window.messages));
  }
  return out;
}

Bytes encode_challenge(const Challenge& challenge) {
  ByteWriter out;
  out.raw(challenge.nonce);
  out.raw(challenge.salt);
  out.raw(challenge.proof);
  return out.take();
}

Challenge decode_challenge(ByteSpan bytes) {
  ByteReader in(bytes, "transport challenge");
  Challenge out;
  out.nonce = fixed<32>(in);
  out.salt = fixed<std::tuple_size_v<TokenSalt>>(in);
  out.proof = fixed<32>(in);
  expect_end(in);
  return out;
}

Bytes encode_proof(const Digest& proof) { return {proof.begin(), proof.end()}; }

Digest decode_proof(ByteSpan bytes) {
  ByteReader in(bytes, "transport proof");
  const Digest out = fixed<32>(in);
  expect_end(in);
  return out;
}

Bytes encode_refused_greeting(const RefusedGreeting& refusal) {
  ByteWriter out;
  out.number(static_cast<std::uint8_t>(refusal.code));
  out.number(static_cast<std::uint8_t>(refusal.passing ? 1 : 0));
  out.text(std::string_view(refusal.reason).substr(0, kMaxReason));
  return out.take();
}

RefusedGreeting decode_refused_greeting(ByteSpan bytes) {
  ByteReader in(bytes, "transport refusal");
  RefusedGreeting out;
  const auto code = in.number<std::uint8_t>();
  const auto passing = in.number<std::uint8_t>();
  out.reason = in.text(kMaxReason);
  expect_end(in);
  if (code < static_cast<int>(ErrorCode::kCancelled) ||
      code > static_cast<int>(ErrorCode::kUnauthenticated) || passing > 1) {
    in.broken("unknown code");
  }
  out.code = static_cast<ErrorCode>(code);
  out.passing = passing == 1;
  // It goes into logs and error texts: no stranger's control characters there.
  out.reason = escaped(out.reason);
  return out;
}

Digest hmac_sha256(ByteSpan key, ByteSpan text) {
  std::array<std::byte, kHmacBlock> inner{};
  if (key.size() > kHmacBlock) {
    std::ranges::copy(sha256(key), inner.begin());
  } else {
    std::ranges::copy(key, inner.begin());
  }
  std::array<std::byte, kHmacBlock> outer = inner;
  for (std::byte& byte : inner) byte ^= std::byte{0x36};
  for (std::byte& byte : outer) byte ^= std::byte{0x5c};
  const Digest first = Sha256().update(inner).update(text).finish();
  return Sha256().update(outer).update(first).finish();
}

Digest token_proof(const Digest& key, Prover prover, const Greeting& hello,
                   const Nonce& listener_nonce) {
  ByteWriter text;
  text.text(prover == Prover::kListener ? "harmonics listener" : "harmonics connector");
  text.raw(hello.nonce);
  text.raw(listener_nonce);
  text.text(hello.run);
  text.text(hello.boundary);
  write_instance(text, hello.instance);
  return hmac_sha256(key, text.bytes());
}

bool same_digest(const Digest& a, const Digest& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

Nonce random_nonce() {
  Nonce out;
  std::size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = ::getrandom(out.data() + filled, out.size() - filled, 0);
    if (got < 0 && errno != EINTR) fail_errno(errno, "no random bytes from the operating system");
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
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
