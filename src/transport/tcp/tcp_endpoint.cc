#include <memory>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>

#include "endpoint.h"
#include "stream_connection.h"
#include "tls.h"

namespace harmonics::inline in_transport {
namespace {

StreamPtr connect_any(const RemoteBinding& binding, TlsContext* tls, const TlsOptions& options,
                      Deadline deadline, const WakeEvent& cancel) {
  std::optional<Error> last;
  for (const SocketAddress& address : resolve(binding.host, binding.port)) {
    try {
      Descriptor socket = connect_to(address, deadline, cancel);
      if (tls == nullptr) return make_plain_stream(std::move(socket), address.text());
      const std::string& name = options.server_name.empty() ? binding.host : options.server_name;
      return tls->wrap(std::move(socket), name, deadline, &cancel);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      last = error;
    }
  }
  throw *last;
}

}  // namespace

TransportPtr make_tcp(const RemoteBinding& binding, const TransportOptions& options) {
  Route route;
  std::shared_ptr<TlsContext> tls;
  route.open_listener = open_socket_listener;
  route.make_connection = [](StreamPtr stream, const Agreement& agreement, Deadline) {
    return make_stream_connection(std::move(stream), DecoderLimits{agreement.max_message_size()});
  };
  if (options.tls.enabled()) {
    tls = std::make_shared<TlsContext>(options.tls, TlsContext::Side::kConnecting);
  }
  route.connect = [binding, tls, options = options.tls](Deadline deadline,
                                                        const WakeEvent& cancel) {
    return connect_any(binding, tls.get(), options, deadline, cancel);
  };
  return make_between_hosts(binding, options, std::move(route));
}

}  // namespace harmonics::inline in_transport
