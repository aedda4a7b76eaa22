// harmonics profile --serve: the other end of a bandwidth measurement.
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/console/terminal.h>
#include <harmonics/place/profile_bandwidth.h>

#include "subcommands.h"

namespace harmonics::inline in_front {

int profile_serve(const ProfileCommand& command) {
  const HostPort where = parse_host_port(command.serve);
  BandwidthServer server(where);
  write_text(TextStream::kOutput,
             format("serving bandwidth measurements on port {}\n", server.port()));
  for (;;) {
    try {
      server.serve_one();
    } catch (const Error& error) {
      log_warn("place", "{}", std::string_view(error.what()));
    }
  }
}

}  // namespace harmonics::inline in_front
