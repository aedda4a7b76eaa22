// Where a service listens, and who may come in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  /// Clients with keys of their own, by name; each is as good as the token.
  std::map<std::string, std::string> keys = {};

  [[nodiscard]] bool has_tls() const { return !certificate_file.empty(); }
};

/// The most clients with keys, and the longest name of one.
inline constexpr std::size_t kMaxClientKeys = 10'000;
inline constexpr std::size_t kMaxClientName = 64;

/// Lines "NAME KEY", empty ones and those that begin with # left out. A name or key that is there
/// twice, a key that is easily guessed and anything else is an Error with file and line.
[[nodiscard]] std::map<std::string, std::string> parse_client_keys(std::string_view text,
                                                                   std::string_view file);

/// Whose key this value of the header shows: a client's name, "" for the token or where nobody is
/// asked for one; nothing: it lets nobody in.
[[nodiscard]] std::optional<std::string> client_of(const FrontAccess& access,
                                                   std::string_view authorization);

/// Whether this value of the header (or of gRPC's metadata of the same name) lets in.
[[nodiscard]] bool lets_in(const FrontAccess& access, std::string_view authorization);

/// An Error (kInvalidArgument) for an address that others can reach while nobody has to show
/// anything, and for TLS that is only half given.
void check_access(const ListenAddress& address, const FrontAccess& access);

}  // namespace harmonics::inline in_serve
