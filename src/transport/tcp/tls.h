// TLS on a socket. The only file of the module that knows OpenSSL is tls.cc.
#pragma once

#include <memory>
#include <string>

#include "stream.h"

namespace harmonics::inline in_transport {

/// Certificates and rules of one side. Thread safe once made.
class TlsContext {
 public:
  enum class Side { kListening, kConnecting };

  /// Reads the files. One that is missing, unreadable or does not fit the key is an Error that
  /// names it; so is a listening side without a certificate.
  TlsContext(const TlsOptions& options, Side side);
  ~TlsContext();

  /// Shakes hands on a connected socket. `expected_name` is what the listening end's certificate
  /// must carry; the listening side passes the peer's address, which only names it in errors.
  /// A peer that speaks no TLS or fails the check is an Error (kUnauthenticated).
  [[nodiscard]] StreamPtr wrap(Descriptor socket, const std::string& expected_name,
                               Deadline deadline, const WakeEvent* cancel);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_transport
