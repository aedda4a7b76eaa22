// harmonics wait: until tasks have ended.
#include <chrono>

#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/clients/access.h>
#include <harmonics/clients/task_ends.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

std::string wait_text(const WaitCommand& command, const WaitResult& all) {
  if (command.output == OutputStyle::kQuiet) return {};
  if (command.output == OutputStyle::kJson) {
    return Json()
               .set("ended", all.ended)
               .set("succeeded", std::int64_t{all.succeeded})
               .set("failed", std::int64_t{all.failed})
               .set("cancelled", std::int64_t{all.cancelled})
               .set("dependency_failed", std::int64_t{all.dependency_failed})
               .set("unfinished", std::int64_t{all.unfinished})
               .dump() +
           "\n";
  }
  std::string text;
  const auto tell = [&text](std::uint32_t count, const char* what) {
    if (count > 0) add_item(text, format("{} {}", count, what));
  };
  tell(all.succeeded, "succeeded");
  tell(all.failed, "failed");
  tell(all.cancelled, "cancelled");
  tell(all.dependency_failed, "never started, since what they depend on did not succeed");
  tell(all.unfinished, "unfinished");
  return text + "\n";
}

}  // namespace

int wait(const WaitCommand& command) {
  using std::chrono::milliseconds;
  ClusterClient client(client_options(command.access));
  const auto limit = command.timeout_s < 0
                         ? milliseconds(std::chrono::hours(24 * 365))
                         : milliseconds(static_cast<std::int64_t>(command.timeout_s * 1000));
  const WaitResult all = wait_for_all(client, command.tasks, limit);
  write_text(TextStream::kOutput, wait_text(command, all));
  const bool good =
      all.ended && all.failed == 0 && all.cancelled == 0 && all.dependency_failed == 0;
  return good ? kExitDone : kExitFailed;
}

}  // namespace harmonics::inline in_cluster_program
