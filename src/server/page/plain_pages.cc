#include "plain_pages.h"

#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/rpc/view_json.h>

#include "loop_question.h"
#include "metrics.h"

namespace harmonics::inline in_server {
namespace {

bool is_number(const Json& value) {
  try {
    static_cast<void>(value.as_number());
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The numbers of a line of progress; an empty object for a line that is none.
Json numbers_of(const std::string& line) {
  Json numbers = Json::object();
  try {
    const Json told = Json::parse(line, "progress");
    for (const auto& [key, value] : told.as_object()) {
      if (is_number(value)) numbers.set(key, value);
    }
  } catch (const Error&) {
    // A program may write what it likes.
  }
  return numbers;
}

Json pipelines_json(const std::vector<TaskView>& pipelines) {
  Json list = Json::array();
  for (const TaskView& task : pipelines) {
    Json stages = Json::array();
    for (const MemberView& member : task.members) stages.push(numbers_of(member.progress));
    list.push(Json().set("task", task.id.value).set("stages", std::move(stages)));
  }
  return list;
}

std::optional<std::string> metrics_page(ServerLoop& loop) {
  const auto status = ask_loop<ClusterStatus>(loop, StatusQuery{});
  const auto workers = ask_loop<std::vector<WorkerView>>(loop, WorkersQuery{});
  const auto users = ask_loop<std::vector<UserView>>(loop, QuotasQuery{{{}, true}, {}});
  if (!status || !workers || !users) return std::nullopt;
  return metrics_text({*status, *workers, *users}, loop.counters(), loop.times());
}

}  // namespace

std::string status_text(const ClusterStatus& status, const std::vector<TaskView>& pipelines) {
  Json json = status_json(status);
  json.set("pipelines", pipelines_json(pipelines));
  return json.dump(2) + "\n";
}

namespace {

std::optional<std::string> status_page(ServerLoop& loop) {
  const auto status = ask_loop<ClusterStatus>(loop, StatusQuery{});
  const auto pipelines = ask_loop<TaskPage>(loop, PipelinesQuery{});
  if (!status || !pipelines) return std::nullopt;
  return status_text(*status, pipelines->tasks);
}

/// 503 when the loop does not answer.
HttpReply answer_with(std::optional<std::string> text, const char* type) {
  if (!text) return {503, "text/plain", "the server is busy or stopping\n", {}};
  return {200, type, std::move(*text), {}};
}

}  // namespace

bool is_plain_page(std::string_view path) { return path == "/metrics" || path == "/status"; }

HttpReply plain_page(ServerLoop& loop, std::string_view path) {
  if (path == "/metrics") return answer_with(metrics_page(loop), "text/plain; version=0.0.4");
  return answer_with(status_page(loop), "application/json");
}

}  // namespace harmonics::inline in_server
