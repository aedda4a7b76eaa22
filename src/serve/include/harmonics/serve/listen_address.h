// Where a service listens, and who may come in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace harmonics::inline in_serve {

struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};

/// "HOST:PORT", "[ADDRESS]:PORT" for IPv6; port 0 picks one. Anything else is an Error
/// (kInvalidArgument).
[[nodiscard]] ListenAddress parse_listen_address(const std::string& text);
[[nodiscard]] std::string listen_address_text(const ListenAddress& address);

/// Whether other machines can reach it. A name that is not known is an Error (kInvalidArgument).
[[nodiscard]] bool is_public(const ListenAddress& address);

/// What whoever comes in has to show.
struct FrontAccess {
  /// Shown as "Authorization: Bearer TOKEN"; empty: nobody is asked for one.
  std::string token = {};
  /// PEM files: the certificate that is shown and its key; empty: no TLS. With an authority,
  /// clients must show a certificate that it signed.
  std::string certificate_file = {};
  std::string key_file = {};
  std::string authority_file = {};

  [[nodiscard]] bool has_tls() const { return !certificate_file.empty(); }
};

/// Whether this value of the header (or of gRPC's metadata of the same name) lets in.
[[nodiscard]] bool lets_in(const FrontAccess& access, std::string_view authorization);

/// An Error (kInvalidArgument) for an address that others can reach while nobody has to show
/// anything, and for TLS that is only half given.
void check_access(const ListenAddress& address, const FrontAccess& access);

}  // namespace harmonics::inline in_serve
