// The server's listening socket, and who has come in without having shown a token yet (private to
// rpc). It stands before gRPC, which would hold whoever connects for as long as they like.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace harmonics::inline in_rpc {

/// How long a connection may last before it has shown a token that is known.
inline constexpr std::chrono::milliseconds kStrangerPatience{10'000};
/// Connections that have shown none, at one time: so many, and no more than a sixteenth of the
/// descriptors. With more, the oldest is cut.
inline constexpr std::uint64_t kMaxStrangers = 256;
inline constexpr std::uint64_t kShareOfStrangers = 16;
/// Descriptors that are never given to a connection: the server's own files.
inline constexpr std::uint64_t kOwnDescriptors = 64;

/// Accepts connections from `open` on and hands them to gRPC. All members any thread.
class Doorkeeper {
 public:
  /// Binds "HOST:PORT" (port 0 picks one); an Error (kUnavailable) when the address is taken.
  /// `descriptors` is how many files this process may open: nobody is let in when only the
  /// server's own are left, and the log says so.
  Doorkeeper(const std::string& address, std::uint64_t descriptors);
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

  [[nodiscard]] int port() const;
  void open(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);
  /// The caller (as gRPC names it) has shown a token: it may stay.
  void welcome(const std::string& peer);
  /// No more are let in.
  void close();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace harmonics::inline in_rpc
