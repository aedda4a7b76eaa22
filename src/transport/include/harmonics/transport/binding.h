// Where one boundary meets its other end: host, port, transport; as a struct and as a URL.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace harmonics::inline in_transport {

/// What carries a boundary between processes.
enum class RemoteTransport { TCP, GRPC, Flight, SharedMemory };

/// A transport and the scheme of its endpoint URLs.
struct NamedTransport {
  RemoteTransport transport;
  std::string_view name;
};
/// All of them, as flags, URLs and tests name them.
inline constexpr std::array<NamedTransport, 4> kRemoteTransports = {{
    {RemoteTransport::SharedMemory, "shm"},
    {RemoteTransport::TCP, "tcp"},
    {RemoteTransport::GRPC, "grpc"},
    {RemoteTransport::Flight, "flight"},
}};

/// The name of one.
[[nodiscard]] std::string_view transport_name(RemoteTransport transport);
/// The transport of that scheme; another one is an Error that lists the names.
[[nodiscard]] RemoteTransport transport_from_name(std::string_view name);

/// The longest name of a boundary, in bytes.
inline constexpr std::size_t kMaxBoundaryName = 256;
/// The largest message when neither end says otherwise: 1 GiB.
inline constexpr std::uint64_t kDefaultMaxMessageSize = std::uint64_t{1} << 30;

/// One end of a boundary. Both ends carry the same name, host and port; which of them listens
/// follows from the host (docs/guides/transports.md). Every member has a default, so that
/// `{"output", "hostA", 9000}` is complete.
struct RemoteBinding {
  /// The boundary's name, the same at both ends.
  std::string name = {};
  /// Name or address of the meeting place. A gRPC binding may list up to 64 with commas between:
  /// this end connects to all of them. Activations and gradients go to one after the other in a
  /// circle and are received in the same circle; epoch ends and control messages go to all, and
  /// come from all and are handed on once. A host that is gone for good is an Error that names it,
  /// at its turn and from then on.
  std::string host = {};
  /// 0: the listening end takes a free port (see Transport::binding).
  std::uint16_t port = 0;
  RemoteTransport transport = RemoteTransport::TCP;
  /// Compress tensors with zstd; either end's wish turns it on for both directions.
  bool compress = false;
  /// Largest tensor in bytes; the smaller non-zero value of the two ends holds, 0 means 1 GiB.
  int max_message_size = 0;
  /// Unset: decided by the host. True: this end listens; false: it connects (NAT, containers).
  std::optional<bool> listen = std::nullopt;
  /// Bits of activations and of gradients on their way: 32 (exact), 16, 8 or 4; 0: as the options
  /// of the run say, exact if they say nothing. Both ends must agree. The schedulers pack and
  /// unpack, so that a tensor is signed as it is sent; a bare transport carries what it is given.
  int bits = 0;
  int gradient_bits = 0;

  bool operator==(const RemoteBinding&) const = default;
};

/// Reads `tcp://host:port/name?compress=1&listen=0&bits=8&max_message_size=N`; the schemes of
/// kRemoteTransports, IPv6 addresses in brackets, `%XX` in the name. Anything else is an Error
/// (kInvalidArgument) that says which part is wrong.
[[nodiscard]] RemoteBinding parse_binding(std::string_view url);

/// The URL that parse_binding reads back to the same binding.
[[nodiscard]] std::string binding_url(const RemoteBinding& binding);

/// Checks name, host and max_message_size; an Error (kInvalidArgument) names the binding.
void check_binding(const RemoteBinding& binding);

}  // namespace harmonics::inline in_transport
