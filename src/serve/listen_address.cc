#include <harmonics/serve/listen_address.h>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

#include "listening.h"

namespace harmonics::inline in_serve {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kMinToken = 16;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList addresses_of(const ListenAddress& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (::getaddrinfo(address.host.c_str(), port.c_str(), &wanted, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

std::uint16_t bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

// As long for a wrong one as for a right one of the same length.
bool same_secret(std::string_view shown, std::string_view secret) {
  unsigned char differs = shown.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    differs |= static_cast<unsigned char>(shown[i] ^ secret[i % secret.size()]);
  }
  return differs == 0;
}

std::vector<std::string_view> words_of_line(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace

ListenAddress parse_listen_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == text.npos ? "" : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    host.clear();
  }
  const auto port = colon == text.npos
                        ? std::nullopt
                        : number_from<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (host.empty() || !port) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' is no address to listen on: give HOST:PORT, for instance localhost:8000", text);
  }
  return {std::move(host), *port};
}

std::string listen_address_text(const ListenAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? format("[{}]:{}", address.host, address.port)
            : format("{}:{}", address.host, address.port);
}

bool is_public(const ListenAddress& address) {
  const AddressList places = addresses_of(address);
  if (!places) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no address of this machine that is known here",
         address.host);
  }
  for (const addrinfo* place = places.get(); place != nullptr; place = place->ai_next) {
    if (!is_loopback(place->ai_addr)) return true;
  }
  return false;
}

std::map<std::string, std::string> parse_client_keys(std::string_view text, std::string_view file) {
  std::map<std::string, std::string> keys;
  std::set<std::string_view> seen;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    const auto refuse = [&](const std::string& why) {
      fail(ErrorCode::kInvalidArgument, "'{}', line {}: {}", file, number, why);
    };
    if (words.size() != 2 || words[0].size() > kMaxClientName) {
      refuse(format("not of the form 'NAME KEY', with a name of at most {} bytes", kMaxClientName));
    }
    if (words[1].size() < kMinToken) {
      refuse("the key is too easily guessed: take what 'openssl rand -hex 16' writes");
    }
    if (!seen.insert(words[1]).second || !keys.emplace(words[0], words[1]).second) {
      refuse("the name or the key is there twice");
    }
    if (keys.size() > kMaxClientKeys) refuse(format("more than {} keys", kMaxClientKeys));
  }
  if (keys.empty()) fail(ErrorCode::kInvalidArgument, "'{}' holds no key", file);
  return keys;
}

std::optional<std::string> client_of(const FrontAccess& access, std::string_view authorization) {
  if (access.token.empty() && access.keys.empty()) return "";
  if (!authorization.starts_with(kBearer)) return std::nullopt;
  const std::string_view shown = authorization.substr(kBearer.size());
  std::optional<std::string> client;
  if (!access.token.empty() && same_secret(shown, access.token)) client = "";
  for (const auto& [name, key] : access.keys) {
    if (same_secret(shown, key)) client = name;
  }
  return client;
}

bool lets_in(const FrontAccess& access, std::string_view authorization) {
  return client_of(access, authorization).has_value();
}

void check_access(const ListenAddress& address, const FrontAccess& access) {
  if (access.certificate_file.empty() != access.key_file.empty()) {
    fail(ErrorCode::kInvalidArgument, "--tls-certificate and --tls-key go together");
  }
  if (!access.authority_file.empty() && !access.has_tls()) {
    fail(ErrorCode::kInvalidArgument,
         "--tls-authority checks the certificates of clients: give --tls-certificate and --tls-key "
         "as well");
  }
  if (!access.token.empty() && access.token.size() < kMinToken) {
    fail(ErrorCode::kInvalidArgument,
         "the token is too easily guessed: take 16 random bytes or more, as 'openssl rand -hex 16' "
         "writes them");
  }
  if (!access.token.empty() || !access.keys.empty() || !access.authority_file.empty() ||
      !is_public(address)) {
    return;
  }
  fail(
      ErrorCode::kInvalidArgument,
      "other machines can reach {}: give a secret that clients show (--token-file FILE), or listen "
      "on localhost",
      listen_address_text(address));
}

Listening open_listening(const ListenAddress& address) {
  constexpr int kBacklog = 256;
  const AddressList places = addresses_of(address);
  for (const addrinfo* place = places.get(); place != nullptr; place = place->ai_next) {
    Descriptor made(::socket(place->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (made && ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(made.get(), place->ai_addr, place->ai_addrlen) == 0 &&
        ::listen(made.get(), kBacklog) == 0) {
      const std::uint16_t port = bound_port(made.get());
      return {std::move(made), port};
    }
  }
  fail(ErrorCode::kUnavailable, "cannot listen on {}: is it taken? Choose another --listen",
       listen_address_text(address));
}

}  // namespace harmonics::inline in_serve
