#include "cluster_connection.h"

#include <string_view>
#include <variant>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/clients/taken_artifacts.h>
#include <harmonics/clients/task_ends.h>
#include <harmonics/clients/task_of_command.h>
#include <harmonics/clients/task_pages.h>
#include <harmonics/clients/task_text.h>
#include <harmonics/options/command_line.h>
#include <harmonics/rpc/view_json.h>

namespace harmonics::python {
namespace {

/// Sets of flags that are remembered.
constexpr std::size_t kMaxKnownFlags = 256;
/// Of an artifact that is read into memory.
constexpr std::uint64_t kMaxArtifactBytes = std::uint64_t{1} << 30;

/// What the command line makes of these words.
Command read_words(const std::vector<std::string>& given) {
  std::vector<const char*> words = {"harmonics"};
  for (const std::string& word : given) words.push_back(word.c_str());
  auto parsed = parse_command_line(static_cast<int>(words.size()), words.data());
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    std::string_view text = answer->text;
    constexpr std::string_view kProgram = "harmonics: ";
    if (text.starts_with(kProgram)) text.remove_prefix(kProgram.size());
    throw Error(ErrorCode::kInvalidArgument, std::string(text.substr(0, text.find("\ntry '"))));
  }
  return std::get<Command>(std::move(parsed));
}

template <typename Wanted>
Wanted read_flags(const char* command, const Flags& flags) {
  std::vector<std::string> words = {command};
  words.insert(words.end(), flags.begin(), flags.end());
  return std::get<Wanted>(read_words(words));
}

Json list_of(const std::vector<TaskView>& tasks) {
  Json list = Json::array();
  for (const TaskView& task : tasks) list.push(task_json(task));
  return list;
}

}  // namespace

void check_words(const std::vector<std::string>& words) { static_cast<void>(read_words(words)); }

ClusterConnection::ClusterConnection(const Flags& flags, const ClientPatience& waiting) {
  const ServerAccess access = read_flags<WorkersCommand>("workers", flags).access;
  ClientOptions options = client_options(access, waiting);
  options.outage = std::chrono::milliseconds(static_cast<std::int64_t>(access.patience_s * 1000));
  options.reconnect = options.outage;
  client_ = std::make_unique<ClusterClient>(std::move(options));
}

SubmitCommand ClusterConnection::submit_command(const Flags& flags) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(flags);
    if (known != known_.end()) return known->second;
  }
  SubmitCommand command = read_flags<SubmitCommand>("submit", flags);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxKnownFlags) known_.clear();
  known_.emplace(flags, command);
  return command;
}

TaskSpec ClusterConnection::spec_of(const TaskToSubmit& submission) {
  SubmitCommand command = submit_command(submission.flags);
  command.command = submission.command;
  TaskSpec spec = task_of(command, submission.files);
  if (spec.idempotency_key.empty()) spec.idempotency_key = submission.key;
  return spec;
}

Submitted ClusterConnection::submit(const TaskToSubmit& submission) {
  return client_->submit(spec_of(submission));
}

std::vector<SubmitOutcome> ClusterConnection::submit_all(
    const std::vector<TaskToSubmit>& submissions) {
  std::vector<TaskSpec> specs;
  for (const TaskToSubmit& submission : submissions) specs.push_back(spec_of(submission));
  return client_->submit_all(specs);
}

std::string ClusterConnection::task(TaskId task) { return task_json(client_->task(task)).dump(); }

std::string ClusterConnection::tasks(const Flags& flags) {
  const TasksCommand command = read_flags<TasksCommand>("tasks", flags);
  ListTasksQuery query;
  query.states = command.states;
  query.worker = command.worker;
  return list_of(newest_tasks(*client_, std::move(query), static_cast<std::size_t>(command.limit)))
      .dump();
}

std::string ClusterConnection::workers() {
  Json list = Json::array();
  for (const WorkerView& worker : client_->workers()) list.push(worker_json(worker));
  return list.dump();
}

std::string ClusterConnection::status() { return status_json(client_->status()).dump(); }

std::pair<std::string, std::uint64_t> ClusterConnection::page(
    TaskId from, const std::vector<std::string>& states) {
  ListTasksQuery query;
  query.from = from;
  query.states = states;
  const TaskPage page = client_->list_tasks(query);
  return {list_of(page.tasks).dump(), page.next.value};
}

std::vector<std::uint64_t> ClusterConnection::ended(TaskId from, TaskId last) {
  ListTasksQuery query;
  query.from = from;
  query.states = {"succeeded", "failed", "cancelled", "dependency_failed"};
  query.brief = true;
  std::vector<std::uint64_t> ids;
  do {
    const TaskPage page = client_->list_tasks(query);
    for (const TaskView& task : page.tasks) {
      if (task.id.value <= last.value) ids.push_back(task.id.value);
    }
    query.from = page.next;
  } while (query.from != TaskId{} && query.from.value <= last.value);
  return ids;
}

WaitResult ClusterConnection::wait(const std::vector<std::int64_t>& tasks, double timeout_s) {
  using std::chrono::milliseconds;
  const auto limit = timeout_s < 0 ? milliseconds(std::chrono::hours(24 * 365))
                                   : milliseconds(static_cast<std::int64_t>(timeout_s * 1000));
  return wait_for_all(*client_, tasks, limit);
}

std::unique_ptr<OutputStream> ClusterConnection::logs(const Flags& flags) {
  const LogsCommand command = read_flags<LogsCommand>("logs", flags);
  OutputQuery query;
  query.task = {static_cast<std::uint64_t>(command.task)};
  query.attempt = {static_cast<std::uint32_t>(command.attempt)};
  query.rank = static_cast<std::uint32_t>(command.rank);
  query.stream = command.stream;
  query.follow = command.follow;
  return client_->open_output(query);
}

std::vector<ArtifactView> ClusterConnection::artifacts(const Flags& flags) {
  return take_artifacts(*client_, read_flags<ArtifactsCommand>("artifacts", flags));
}

std::string ClusterConnection::artifact(TaskId task, const std::string& path) {
  OutputQuery query;
  query.task = task;
  for (const ArtifactView& one : client_->artifacts(query)) {
    if (one.path != path) continue;
    if (one.bytes > kMaxArtifactBytes) {
      fail(
          ErrorCode::kResourceExhausted,
          "artifact '{}' of task {} has {} bytes, at most {} are read into memory: fetch it into a "
          "folder",
          path, task.value, one.bytes, kMaxArtifactBytes);
    }
    std::string bytes;
    bytes.reserve(one.bytes);
    client_->read_artifact(query, one, [&](std::string_view piece) { bytes += piece; });
    return bytes;
  }
  fail(ErrorCode::kNotFound, "task {} left no artifact '{}'", task.value, path);
}

}  // namespace harmonics::python
