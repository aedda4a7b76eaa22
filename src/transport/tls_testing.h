// For tests: an authority and certificates of its own, made afresh in a temporary folder.
#pragma once

#include <harmonics/transport/transport.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_transport {

/// Key and certificate of an authority and of a host named "localhost" and 127.0.0.1, and of a
/// stranger whom the authority does not know. Removed at the end.
class TestCertificates {
 public:
  TestCertificates();

  /// Certificate, key and authority, as both ends of a boundary would have them.
  [[nodiscard]] TlsOptions options() const;
  /// Like options, but with a certificate that nobody vouches for.
  [[nodiscard]] TlsOptions stranger() const;

 private:
  TemporaryFolder folder_;
};

}  // namespace harmonics::inline in_transport
