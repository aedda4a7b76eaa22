#include "page_questions.h"

#include <algorithm>
#include <array>

#include <harmonics/cluster/task_files.h>
#include <harmonics/graph/export.h>
#include <harmonics/graph/harp.h>
#include <harmonics/rpc/view_json.h>

namespace harmonics::inline in_server {
namespace {

std::vector<std::string> split_states(const std::string& text) {
  std::vector<std::string> states;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    states.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return states;
}

ClientRequest ask_tasks(const PageArguments& arguments, const Viewer& viewer) {
  ListTasksQuery query;
  query.viewer = viewer;
  query.from = {arguments.number("from", 0, std::uint64_t{1} << 62)};
  query.limit = static_cast<std::uint32_t>(arguments.number("limit", 100, kMaxTasksPerPage));
  query.states = split_states(arguments.text("state"));
  query.worker = arguments.text("worker");
  query.newest_first = arguments.text("order") != "oldest";
  return query;
}

constexpr std::array kQuestions = {
    PageQuestion{"/api/status",
                 [](const PageArguments&, const Viewer&) { return ClientRequest(StatusQuery{}); }},
    PageQuestion{"/api/workers",
                 [](const PageArguments&, const Viewer&) { return ClientRequest(WorkersQuery{}); }},
    PageQuestion{"/api/quotas",
                 [](const PageArguments& arguments, const Viewer& viewer) {
                   return ClientRequest(QuotasQuery{viewer, arguments.text("user")});
                 }},
    PageQuestion{"/api/tasks", ask_tasks},
    PageQuestion{"/api/task",
                 [](const PageArguments& arguments, const Viewer& viewer) {
                   return ClientRequest(TaskQuery{viewer, arguments.task()});
                 }},
    PageQuestion{"/api/why",
                 [](const PageArguments& arguments, const Viewer& viewer) {
                   return ClientRequest(WhyQuery{viewer, arguments.task()});
                 }},
};

TaskId task_of(const Json& body) {
  const std::int64_t id = body.at("task").as_integer();
  if (id <= 0) fail(ErrorCode::kInvalidArgument, "task: {} is no task's id", id);
  return {static_cast<std::uint64_t>(id)};
}

std::uint32_t count_of(const Json& body, std::string_view key, std::uint32_t otherwise) {
  const Json* value = body.find(key);
  if (value == nullptr) return otherwise;
  if (!std::in_range<std::uint32_t>(value->as_integer())) {
    fail(ErrorCode::kInvalidArgument, "{}: {} is out of range", key, value->as_integer());
  }
  return static_cast<std::uint32_t>(value->as_integer());
}

ClientRequest change_submit(const Json& body, const Identity& who, const PageLimits& limits) {
  SubmitRequest request{{}, caller_of(who), parse_task(body.dump(), "task")};
  if (body.find("cpus") == nullptr) request.spec.cpus = default_cpus(request.spec);
  check_artifacts(request.spec);
  check_files(request.spec);
  check_priority(who, request.spec.priority, limits.max_priority);
  return request;
}

ClientRequest change_cancel(const Json& body, const Identity& who, const PageLimits&) {
  return CancelRequest{{}, caller_of(who), task_of(body)};
}

ClientRequest change_priority(const Json& body, const Identity& who, const PageLimits& limits) {
  const std::int64_t wished = body.at("priority").as_integer();
  if (!std::in_range<std::int32_t>(wished)) {
    fail(ErrorCode::kInvalidArgument, "priority: {} is out of range", wished);
  }
  const auto priority = static_cast<std::int32_t>(wished);
  check_priority(who, priority, limits.max_priority);
  return PriorityRequest{{}, caller_of(who), task_of(body), priority};
}

ClientRequest change_drain(const Json& body, const Identity& who, const PageLimits&) {
  return DrainRequest{
      {}, caller_of(who), body.at("worker").as_string(), body.at("drain").as_bool()};
}

ClientRequest change_quota(const Json& body, const Identity& who, const PageLimits&) {
  const Quota quota{count_of(body, "max_gpus", 0), count_of(body, "max_active", 0),
                    count_of(body, "max_waiting", 0), std::max(count_of(body, "weight", 1), 1U)};
  return QuotaRequest{{}, caller_of(who), body.at("user").as_string(), quota};
}

constexpr std::array kActions = {
    PageAction{"/api/submit", Right::kSubmit, change_submit},
    PageAction{"/api/cancel", Right::kSubmit, change_cancel},
    PageAction{"/api/priority", Right::kSubmit, change_priority},
    PageAction{"/api/drain", Right::kAdminister, change_drain},
    PageAction{"/api/quota", Right::kAdminister, change_quota},
};

template <typename View>
Json list_of(const std::vector<View>& views, Json (*one)(const View&)) {
  Json list = Json::array();
  for (const View& view : views) list.push(one(view));
  return list;
}

/// What each kind of answer is as JSON. Kinds that no page asks for do not come here.
struct ReplyWriter {
  const Identity& who;

  HttpReply operator()(const Refusal& refusal) const {
    return failure_reply(refusal.code, refusal.message);
  }
  HttpReply operator()(const Submitted& submitted) const {
    Json json =
        Json().set("task", submitted.first.value).set("count", std::int64_t{submitted.count});
    return json_reply(json.set("already", submitted.already).set("advice", submitted.advice));
  }
  HttpReply operator()(const Done&) const { return json_reply(Json::object()); }
  HttpReply operator()(TaskPage& page) const {
    hide_from(who, page);
    return json_reply(
        Json().set("tasks", list_of(page.tasks, task_json)).set("next", page.next.value));
  }
  HttpReply operator()(TaskView& task) const {
    hide_from(who, task);
    return json_reply(task_json(task));
  }
  HttpReply operator()(const WhyPending& why) const { return json_reply(why_json(why)); }
  HttpReply operator()(const std::vector<WorkerView>& workers) const {
    return json_reply(list_of(workers, worker_json));
  }
  HttpReply operator()(const std::vector<UserView>& users) const {
    return json_reply(list_of(users, quota_json));
  }
  HttpReply operator()(const ClusterStatus& status) const {
    return json_reply(status_json(status));
  }
  HttpReply operator()(const TaskSpec& spec) const { return json_reply(graph_json(spec)); }
  template <typename Other>
  HttpReply operator()(const Other&) const {
    return failure_reply(ErrorCode::kInternal, "the server gave an answer of another kind");
  }
};

}  // namespace

const PageQuestion* find_question(std::string_view path) {
  const auto found = std::ranges::find(kQuestions, path, &PageQuestion::path);
  return found == kQuestions.end() ? nullptr : &*found;
}

const PageAction* find_action(std::string_view path) {
  const auto found = std::ranges::find(kActions, path, &PageAction::path);
  return found == kActions.end() ? nullptr : &*found;
}

HttpReply reply_of(const Identity& who, ClientReply reply) {
  try {
    return std::visit(ReplyWriter{who}, reply);
  } catch (const Error& error) {
    return failure_reply(error.code(), error.what());
  }
}

Json graph_json(const TaskSpec& spec) {
  if (!spec.pipeline) {
    fail(ErrorCode::kFailedPrecondition, "the task is no pipeline: it has no graph");
  }
  return to_json(parse_harp(spec.pipeline->graph));
}

SubmitRequest submitted_again(const TaskView& task, TaskSpec spec, const Identity& who) {
  if (task.user != who.user && !who.may_administer) {
    fail(ErrorCode::kPermissionDenied, "task {} is of '{}'", task.id.value, task.user);
  }
  if (task.id != task.first) {
    fail(ErrorCode::kFailedPrecondition,
         "task {} is one of an array: retry its first, {}, which runs all of them again",
         task.id.value, task.first.value);
  }
  spec.idempotency_key.clear();
  return {{}, caller_of(who), std::move(spec)};
}

}  // namespace harmonics::inline in_server
