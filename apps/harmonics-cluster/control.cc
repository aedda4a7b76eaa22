// harmonics logs, cancel, wait, drain, quota.
#include <harmonics/base/error.h>
#include <harmonics/base/escaped.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/client.h>

#include "access.h"
#include "subcommands.h"

namespace harmonics::inline in_cluster_program {
namespace {

TaskId task_id(std::int64_t number) { return {static_cast<std::uint64_t>(number)}; }

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
    if (count > 0) text += format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  tell(all.succeeded, "succeeded");
  tell(all.failed, "failed");
  tell(all.cancelled, "cancelled");
  tell(all.dependency_failed, "never started, since what they depend on did not succeed");
  tell(all.unfinished, "unfinished");
  return text + "\n";
}

/// "3 of 8", or "3" where there is no limit.
std::string used_text(std::uint64_t used, std::uint32_t limit) {
  return limit == 0 ? std::to_string(used) : format("{} of {}", used, limit);
}

Json quota_json(const UserView& user) {
  return Json()
      .set("user", user.user)
      .set("max_gpus", std::int64_t{user.quota.max_gpus})
      .set("max_active", std::int64_t{user.quota.max_active})
      .set("max_waiting", std::int64_t{user.quota.max_waiting})
      .set("weight", std::int64_t{user.quota.weight})
      .set("gpus", std::int64_t{user.gpus})
      .set("active", std::int64_t{user.active})
      .set("waiting", user.waiting);
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

int logs(const LogsCommand& command) {
  ClusterClient client(client_options(command.access));
  LogQuery query;
  query.task = task_id(command.task);
  query.attempt = {static_cast<std::uint32_t>(command.attempt)};
  query.rank = static_cast<std::uint32_t>(command.rank);
  query.stream = command.stream;
  query.follow = command.follow;
  client.read_log(query, [&](const LogPiece& piece) {
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

int cancel(const CancelCommand& command) {
  ClusterClient client(client_options(command.access));
  bool all = true;
  for (const std::int64_t task : command.tasks) {
    try {
      client.cancel(task_id(task));
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

int wait(const WaitCommand& command) {
  using std::chrono::milliseconds;
  ClusterClient client(client_options(command.access));
  const auto limit = command.timeout_s < 0
                         ? milliseconds(std::chrono::hours(24 * 365))
                         : milliseconds(static_cast<std::int64_t>(command.timeout_s * 1000));
  const auto end = std::chrono::steady_clock::now() + limit;
  WaitResult all;
  all.ended = true;
  for (const std::int64_t task : command.tasks) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    const WaitResult one = client.wait(task_id(task), std::max(left, milliseconds(0)));
    all.ended = all.ended && one.ended;
    all.succeeded += one.succeeded;
    all.failed += one.failed;
    all.cancelled += one.cancelled;
    all.dependency_failed += one.dependency_failed;
    all.unfinished += one.unfinished;
  }
  write_text(TextStream::kOutput, wait_text(command, all));
  const bool good =
      all.ended && all.failed == 0 && all.cancelled == 0 && all.dependency_failed == 0;
  return good ? kExitDone : kExitFailed;
}

int drain(const DrainCommand& command) {
  ClusterClient client(client_options(command.access));
  if (command.forget) {
    client.forget(command.worker);
  } else {
    client.drain(command.worker, !command.undo);
  }
  return kExitDone;
}

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
