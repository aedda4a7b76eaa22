// TlsFilter: TLS as a pure filter between bytes of a wire and plain ones (private to serve). The
// only file that knows OpenSSL is tls_filter.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <harmonics/serve/listen_address.h>

namespace harmonics::inline in_serve {

/// The listening side's certificate and rules. Thread safe once made.
class TlsIdentity {
 public:
  /// Reads the files; one that cannot be used is an Error that names it.
  explicit TlsIdentity(const FrontAccess& access);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

 private:
  friend class TlsFilter;
  struct State;
  std::unique_ptr<State> state_;
};

/// One connection. One thread.
class TlsFilter {
 public:
  explicit TlsFilter(const TlsIdentity& identity);
  ~TlsFilter();
  TlsFilter(const TlsFilter&) = delete;
  TlsFilter& operator=(const TlsFilter&) = delete;

  /// What came over the wire; gives what it says in plain. A peer that does not speak TLS, or is
  /// not let in, is an Error (kUnauthenticated).
  [[nodiscard]] std::string read(std::string_view wire);
  /// Plain bytes to send. Only once the two have shaken hands.
  void write(std::string_view plain);
  /// What is to be sent over the wire.
  [[nodiscard]] std::string take_wire();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harmonics::inline in_serve
