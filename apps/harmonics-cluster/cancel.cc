// harmonics cancel: ends tasks for good.
#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/clients/access.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {

int cancel(const CancelCommand& command) {
  ClusterClient client(client_options(command.access));
  bool all = true;
  for (const std::int64_t task : command.tasks) {
    try {
      client.cancel({static_cast<std::uint64_t>(task)});
      write_text(TextStream::kOutput, format("cancelled task {}\n", task));
    } catch (const Error& error) {
      // Without a server the rest of the list fares no better.
      if (error.code() == ErrorCode::kUnavailable) throw;
      write_text(TextStream::kError, format("harmonics: {}\n", escaped_lines(error.what())));
      all = false;
    }
  }
  return all ? kExitDone : kExitFailed;
}

}  // namespace harmonics::inline in_cluster_program
