#include <harmonics/transport/hosts.h>

#include <netdb.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>

#include "socket.h"

namespace harmonics::inline in_transport {
namespace {

class Aliases {
 public:
  Aliases() {
    const std::string environment = environment_text("HARMONICS_HOSTS");
    std::string_view rest = environment;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
      if (const std::size_t equals = one.find('='); equals != std::string_view::npos) {
        set(std::string(one.substr(0, equals)), std::string(one.substr(equals + 1)));
      }
    }
  }

  void set(const std::string& name, const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (address.empty()) {
      names_.erase(name);
    } else if (names_.contains(name) || names_.size() < kMaxHostAliases) {
      names_[name] = address;
    } else {
      fail(ErrorCode::kResourceExhausted, "no room for the host alias '{}': there are {} already",
           name, kMaxHostAliases);
    }
  }

  std::string find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(name);
    return found == names_.end() ? name : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> names_;
};

Aliases& aliases() {
  static Aliases all;
  return all;
}

}  // namespace

void set_host_alias(const std::string& name, const std::string& address) {
  aliases().set(name, address);
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string name = aliases().find(host);
  const int code = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) {
    fail(ErrorCode::kNotFound,
         "host '{}' has no address: {}; check the name, or give it one in HARMONICS_HOSTS", host,
         ::gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> out;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    out.emplace_back(one->ai_addr, one->ai_addrlen);
  }
  return out;
}

}  // namespace harmonics::inline in_transport
