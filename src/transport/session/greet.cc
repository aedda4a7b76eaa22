#include "greet.h"

#include <utility>

#include <harmonics/transport/crc32c.h>

namespace harmonics::inline in_transport {
namespace {

constexpr DecoderLimits kGreetingLimits{0, kMaxGreetingBytes, false};

Bytes greeting_frame(FrameType type, const Bytes& body) {
  FrameHeader header;
  header.type = type;
  header.meta_bytes = static_cast<std::uint32_t>(body.size());
  header.meta_crc = crc32c(body);
  ByteWriter out;
  out.raw(encode_header(header));
  out.raw(body);
  out.raw(Bytes(meta_padding(body.size())));
  return out.take();
}

// Reads exactly one frame: not a byte of what follows the greeting is taken.
ReceivedFrame read_frame(Stream& stream, Deadline deadline, const WakeEvent* cancel) {
  FrameDecoder decoder(kGreetingLimits);
  for (;;) {
    const std::span<std::byte> to = decoder.want();
    const iovec piece{to.data(), to.size()};
    const Transfer transfer = stream.read_some({&piece, 1});
    if (transfer.bytes > 0) {
      if (decoder.got(transfer.bytes)) return decoder.take();
    } else if (!wait_for(stream.fd(), transfer.wait, deadline, cancel)) {
      fail(ErrorCode::kDeadlineExceeded, "{} did not greet in time", stream.peer());
    }
  }
}

[[noreturn]] void unexpected(const Stream& stream, FrameType type) {
  fail(ErrorCode::kInvalidArgument, "{} sent a frame of type {} in the middle of the greeting",
       stream.peer(), static_cast<int>(type));
}

// Answers the challenge, after checking that the challenger knows the token too.
void prove(Stream& stream, const Greeting& hello, const std::string& token,
           const Challenge& challenge, Deadline deadline) {
  if (token.empty()) {
    throw Refused(ErrorCode::kUnauthenticated,
                  format("{} asks for a token and this end has none", stream.peer()), false);
  }
  const Digest key = token_key(token, challenge.salt);
  const Digest expected = token_proof(key, Prover::kListener, hello, challenge.nonce);
  if (!same_digest(challenge.proof, expected)) {
    throw Refused(ErrorCode::kUnauthenticated,
                  format("{} has another token than this end", stream.peer()), false);
  }
  const Digest proof = token_proof(key, Prover::kConnector, hello, challenge.nonce);
  write_all(stream, greeting_frame(FrameType::kProof, encode_proof(proof)), deadline, nullptr);
}

}  // namespace

void challenge_peer(Stream& stream, const Greeting& hello, const std::string& token,
                    Deadline deadline) {
  Challenge challenge;
  challenge.nonce = random_nonce();
  challenge.salt = own_token_salt();
  const Digest key = token_key(token, challenge.salt);
  challenge.proof = token_proof(key, Prover::kListener, hello, challenge.nonce);
  write_all(stream, greeting_frame(FrameType::kChallenge, encode_challenge(challenge)), deadline,
            nullptr);
  const ReceivedFrame answer = read_frame(stream, deadline, nullptr);
  if (answer.header.type != FrameType::kProof) unexpected(stream, answer.header.type);
  const Digest expected = token_proof(key, Prover::kConnector, hello, challenge.nonce);
  if (!same_digest(decode_proof(answer.meta), expected)) {
    throw Refused(ErrorCode::kUnauthenticated, "wrong token", false);
  }
}

GreetedConnection greet_as_connector(StreamPtr stream, Greeter& greeter, Deadline deadline,
                                     const WakeEvent* cancel) {
  Agreement agreement;
  agreement.ours = greeter.greeting();
  write_all(*stream, greeting_frame(FrameType::kHello, encode_greeting(agreement.ours)), deadline,
            cancel);
  bool proven = greeter.token().empty();
  for (;;) {
    const ReceivedFrame answer = read_frame(*stream, deadline, cancel);
    switch (answer.header.type) {
      case FrameType::kRefuse: {
        const RefusedGreeting refusal = decode_refused_greeting(answer.meta);
        throw Refused(refusal.code, format("{} refused: {}", stream->peer(), refusal.reason),
                      refusal.passing);
      }
      case FrameType::kChallenge:
        prove(*stream, agreement.ours, greeter.token(), decode_challenge(answer.meta), deadline);
        proven = true;
        continue;
      case FrameType::kWelcome: break;
      default: unexpected(*stream, answer.header.type);
    }
    if (!proven) {
      throw Refused(ErrorCode::kUnauthenticated,
                    format("{} does not ask for the token that this end has", stream->peer()),
                    false);
    }
    agreement.theirs = decode_greeting(answer.meta);
    greeter.judge(agreement.theirs);
    return {greeter.make_connection(std::move(stream), agreement, deadline), agreement};
  }
}

Greeting read_hello(Stream& stream, Deadline deadline) try {
  const ReceivedFrame first = read_frame(stream, deadline, nullptr);
  if (first.header.type != FrameType::kHello) unexpected(stream, first.header.type);
  return decode_greeting(first.meta);
} catch (const Error& error) {
  // Another version cannot read our frames either, but the version of one it can.
  if (error.code() == ErrorCode::kUnimplemented) {
    send_refusal(stream, Refused(error.code(), error.what(), false), deadline);
  }
  throw;
}

GreetedConnection greet_as_listener(StreamPtr stream, const Greeting& hello, Greeter& greeter,
                                    Deadline deadline) {
  Agreement agreement;
  agreement.listening = true;
  agreement.theirs = hello;
  try {
    // The token comes first: a stranger learns nothing about this run.
    if (!greeter.token().empty()) challenge_peer(*stream, hello, greeter.token(), deadline);
    greeter.judge(hello);
  } catch (const Refused& refused) {
    send_refusal(*stream, refused, deadline);
    greeter.note_refusal(format("{}: {}", stream->peer(), refused.what()));
    throw;
  }
  agreement.ours = greeter.greeting();
  write_all(*stream, greeting_frame(FrameType::kWelcome, encode_greeting(agreement.ours)), deadline,
            nullptr);
  return {greeter.make_connection(std::move(stream), agreement, deadline), agreement};
}

void send_refusal(Stream& stream, const Refused& refused, Deadline deadline) {
  try {
    const RefusedGreeting refusal{refused.code(), refused.passing(), refused.what()};
    write_all(stream, greeting_frame(FrameType::kRefuse, encode_refused_greeting(refusal)),
              deadline, nullptr);
  } catch (const Error&) {
  }
}

}  // namespace harmonics::inline in_transport
