// harmonics quota: what users may have at once.
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/access.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>
#include <harmonics/rpc/view_json.h>

#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

/// "3 of 8", or "3" where there is no limit.
std::string used_text(std::uint64_t used, std::uint32_t limit) {
  return limit == 0 ? std::to_string(used) : format("{} of {}", used, limit);
}

void show_quotas(const QuotaCommand& command, const std::vector<UserView>& users) {
  if (command.output == OutputStyle::kJson) {
    Json list = Json::array();
    for (const UserView& user : users) list.push(quota_json(user));
    write_json(list, 2);
    return;
  }
  Table table{{{"user"}, {"gpus"}, {"active"}, {"waiting"}, {"weight", Align::kRight}}, {}};
  std::string names;
  for (const UserView& user : users) {
    names += escaped(user.user) + "\n";
    table.rows.push_back({user.user, used_text(user.gpus, user.quota.max_gpus),
                          used_text(user.active, user.quota.max_active),
                          used_text(user.waiting, user.quota.max_waiting),
                          std::to_string(user.quota.weight)});
  }
  if (command.output == OutputStyle::kQuiet) {
    write_text(TextStream::kOutput, names);
  } else if (users.empty()) {
    write_text(TextStream::kOutput, command.user.empty()
                                        ? "no user has a limit or has submitted anything\n"
                                        : format("'{}' has no limit and has submitted nothing\n",
                                                 escaped(command.user)));
  } else {
    write_text(TextStream::kOutput, table.text(wants_colour(TextStream::kOutput)));
  }
}

}  // namespace

int quota(const QuotaCommand& command) {
  const auto number = [](std::int64_t value) {
    if (!std::in_range<std::uint32_t>(value)) {
      fail(ErrorCode::kInvalidArgument, "quota: {} is too large", value);
    }
    return static_cast<std::uint32_t>(value);
  };
  ClusterClient client(client_options(command.access));
  if (!command.sets) {
    show_quotas(command, client.quotas(command.user));
    return kExitDone;
  }
  client.set_quota(command.user, {number(command.max_gpus), number(command.max_active),
                                  number(command.max_waiting), number(command.weight)});
  return kExitDone;
}

}  // namespace harmonics::inline in_cluster_program
