#include "http_page.h"

#include <future>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>

#include "http_door.h"
#include "metrics.h"

namespace harmonics::inline in_server {
namespace {

constexpr std::chrono::seconds kPatience(5);

/// The loop's answer, or nothing when it does not give that kind in time.
template <typename Kind>
std::optional<Kind> ask(ServerLoop& loop, ClientRequest request) {
  const auto promise = std::make_shared<std::promise<ClientReply>>();
  auto answer = promise->get_future();
  loop.ask(std::move(request),
           [promise](ClientReply reply) { promise->set_value(std::move(reply)); });
  if (answer.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
  ClientReply reply = answer.get();
  Kind* wanted = std::get_if<Kind>(&reply);
  return wanted == nullptr ? std::nullopt : std::optional(std::move(*wanted));
}

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
  const auto status = ask<ClusterStatus>(loop, StatusQuery{});
  const auto workers = ask<std::vector<WorkerView>>(loop, WorkersQuery{});
  const auto users = ask<std::vector<UserView>>(loop, QuotasQuery{{{}, true}, {}});
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
  const auto status = ask<ClusterStatus>(loop, StatusQuery{});
  const auto pipelines = ask<TaskPage>(loop, PipelinesQuery{});
  if (!status || !pipelines) return std::nullopt;
  return status_text(*status, pipelines->tasks);
}

/// 503 when the loop does not answer.
HttpAnswer answer_with(std::optional<std::string> text, const char* type) {
  if (!text) return {503, "text/plain", "the server is busy or stopping\n"};
  return {200, type, std::move(*text)};
}

HttpAnswer page(ServerLoop& loop, const std::string& path) {
  if (path == "/metrics") return answer_with(metrics_page(loop), "text/plain; version=0.0.4");
  if (path == "/status") return answer_with(status_page(loop), "application/json");
  return {404, "text/plain", "there is no such page: there are /metrics and /status\n"};
}

}  // namespace

struct HttpPage::Parts {
  HttpDoor door;
};

HttpPage::HttpPage(const std::string& host, std::uint16_t port, ServerLoop& loop)
    : parts_(new Parts{
          HttpDoor(host, port, [&loop](const std::string& path) { return page(loop, path); })}) {}

HttpPage::~HttpPage() = default;

int HttpPage::port() const { return parts_->door.port(); }

}  // namespace harmonics::inline in_server
