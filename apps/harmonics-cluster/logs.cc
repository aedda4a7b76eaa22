// harmonics logs: what a task printed.
#include <harmonics/clients/access.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {

int logs(const LogsCommand& command) {
  ClusterClient client(client_options(command.access));
  OutputQuery query;
  query.task = {static_cast<std::uint64_t>(command.task)};
  query.attempt = {static_cast<std::uint32_t>(command.attempt)};
  query.rank = static_cast<std::uint32_t>(command.rank);
  query.stream = command.stream;
  query.follow = command.follow;
  client.read_log(query, [&](const OutputPiece& piece) {
    if (piece.offset > query.offset) {
      write_text(TextStream::kError,
                 format("[{} bytes are no longer kept]\n", piece.offset - query.offset));
    }
    query.offset = piece.offset + piece.data.size();
    write_text(TextStream::kOutput, piece.data);
    return true;
  });
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
