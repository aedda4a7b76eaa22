#include "http_page.h"

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/serve/http_door.h>
#include <harmonics/server/page_files.h>

#include "live_feed.h"
#include "loop_question.h"
#include "output_reads.h"
#include "page_questions.h"
#include "plain_pages.h"
#include "session_cookie.h"

namespace harmonics::inline in_server {
namespace {

using Answer = ServingDoor::Answer;

/// The header that carries the action token.
constexpr std::string_view kActionHeader = "x-harmonics-action";

std::chrono::seconds wall_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

FrontAccess access_of(const std::optional<TlsFiles>& tls) {
  FrontAccess access;
  if (tls) {
    access.certificate_file = tls->certificate;
    access.key_file = tls->key;
  }
  return access;
}

/// Who asks: known by a cookie.
struct Visitor {
  Identity who;
  std::string token;
  std::string cookie;
};

Json visitor_json(const Identity& who, std::string action_token, std::int32_t max_priority) {
  Json json = Json().set("user", who.user).set("submit", has_right(who, Right::kSubmit));
  json.set("view", viewer_of(who).sees_all).set("admin", has_right(who, Right::kAdminister));
  json.set("max_priority", std::int64_t{who.may_administer ? kMaxTaskPriority : max_priority});
  return json.set("action", std::move(action_token));
}

HttpReply stranger() { return failure_reply(ErrorCode::kUnauthenticated, "log in first"); }

}  // namespace

struct HttpPage::Parts {
  Parts(const PageTerms& wanted, ServerLoop& one)
      : terms(wanted),
        loop(one),
        cookies(one.own_token()),
        reads(wanted.tls),
        feed(one),
        door({{wanted.host, wanted.port}, access_of(wanted.tls), kMaxTaskJsonBytes},
             [this](HttpQuery query, const Answer& answer) {
               handle(query, [answer](HttpReply reply) { answer(guarded(std::move(reply))); });
             }) {}

  const PageTerms terms;
  ServerLoop& loop;
  const SessionCookies cookies;
  OutputReads reads;
  LiveFeed feed;
  ServingDoor door;

  void handle(const HttpQuery& query, const Answer& answer);
  void handle_api(const HttpQuery& query, const Answer& answer);
  [[nodiscard]] std::optional<HttpReply> refuse_counts(const HttpQuery& query);
  void get(const HttpQuery& query, const Visitor& visitor, const Answer& answer);
  void post(const HttpQuery& query, const Visitor& visitor, const Answer& answer);
  [[nodiscard]] HttpReply login(const HttpQuery& query);
  [[nodiscard]] HttpReply watch(const HttpQuery& query, const Visitor& visitor);
  void read_output(const HttpQuery& query, const Visitor& visitor, const Answer& answer);
  void retry(const Json& body, const Visitor& visitor, const Answer& answer);
  void ask(ClientRequest request, const Visitor& visitor, const Answer& answer);
  [[nodiscard]] std::optional<Visitor> visitor_of(const HttpQuery& query);
  [[nodiscard]] std::string cookie_name() const;
  [[nodiscard]] std::string cookie_header(const std::string& value, bool stays) const;
};

// Browsers keep cookies by host alone: several servers on one machine must not share a name.
std::string HttpPage::Parts::cookie_name() const {
  return format("harmonics_session_{}", door.port());
}

std::string HttpPage::Parts::cookie_header(const std::string& value, bool stays) const {
  const auto length = stays ? std::chrono::seconds(kSessionLength) : std::chrono::seconds(0);
  return format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{}", cookie_name(), value,
                length.count(), terms.tls ? "; Secure" : "");
}

std::optional<Visitor> HttpPage::Parts::visitor_of(const HttpQuery& query) {
  const std::string cookie(cookie_value(query.header("cookie"), cookie_name()));
  const auto token = cookies.open(cookie, wall_seconds());
  const auto who = token ? loop.identify(*token) : std::nullopt;
  if (!who || !has_right(*who, Right::kView)) return std::nullopt;
  return Visitor{*who, *token, cookie};
}

void HttpPage::Parts::handle(const HttpQuery& query, const Answer& answer) {
  try {
    if (query.path.starts_with("/api/")) return handle_api(query, answer);
    if (query.method != "GET" && query.method != "HEAD") {
      return answer({405, "text/plain", "only GET and HEAD\n", {}});
    }
    if (is_plain_page(query.path)) {
      if (auto refused = refuse_counts(query)) return answer(std::move(*refused));
      return answer(plain_page(loop, query.path));
    }
    for (const PageFile& file : page_files()) {
      const bool index = query.path == "/" && file.path == "/index.html";
      if (!index && file.path != query.path) continue;
      return answer({200, std::string(file.type), std::string(file.bytes), {}});
    }
    answer({404, "text/plain", "there is no such page: there are /, /metrics and /status\n", {}});
  } catch (const Error& error) {
    answer(failure_reply(error.code(), error.what()));
  }
}

/// Nothing: whoever asks may see the counts of everybody.
std::optional<HttpReply> HttpPage::Parts::refuse_counts(const HttpQuery& query) {
  if (terms.open_counts) return std::nullopt;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view shown = query.header("authorization");
  std::optional<Identity> who;
  if (shown.starts_with(kBearer) && shown.size() <= kBearer.size() + kMaxLoginTokenBytes) {
    who = loop.identify(std::string(shown.substr(kBearer.size())));
  } else if (const auto visitor = visitor_of(query)) {
    who = visitor->who;
  }
  if (const auto much = loop.refuse_rate(who ? who->user : std::string())) {
    return failure_reply(ErrorCode::kResourceExhausted, *much);
  }
  if (!who) {
    HttpReply reply =
        failure_reply(ErrorCode::kUnauthenticated,
                      "show a token of the role view or admin: 'Authorization: Bearer TOKEN'; "
                      "'harmonics server --metrics-open' asks for none");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (viewer_of(*who).sees_all) return std::nullopt;
  return failure_reply(ErrorCode::kPermissionDenied,
                       "the token has neither the role view nor admin");
}

void HttpPage::Parts::handle_api(const HttpQuery& query, const Answer& answer) {
  const auto visitor = visitor_of(query);
  if (const auto much = loop.refuse_rate(visitor ? visitor->who.user : std::string())) {
    return answer(failure_reply(ErrorCode::kResourceExhausted, *much));
  }
  const bool posts = query.method == "POST";
  if (posts && query.path == "/api/login") return answer(login(query));
  if (!visitor) return answer(stranger());
  if (!posts && query.method != "GET" && query.method != "HEAD") {
    return answer({405, "text/plain", "only GET, HEAD and POST\n", {}});
  }
  posts ? post(query, *visitor, answer) : get(query, *visitor, answer);
}

HttpReply HttpPage::Parts::login(const HttpQuery& query) {
  // What a form of another site can send is no JSON by its type.
  if (!query.header("content-type").starts_with("application/json")) {
    return failure_reply(ErrorCode::kInvalidArgument, "send application/json");
  }
  const std::string token = Json::parse(query.body, "login").at("token").as_string();
  const auto who = token.size() > kMaxLoginTokenBytes ? std::nullopt : loop.identify(token);
  if (!who) {
    return failure_reply(ErrorCode::kUnauthenticated,
                         "the server does not know this token: take the one in the file 'token' of "
                         "its state folder, or one of 'harmonics server --init'");
  }
  if (!has_right(*who, Right::kView)) {
    return failure_reply(ErrorCode::kPermissionDenied, missing_right(*who, Right::kView));
  }
  const std::string cookie = cookies.seal(token, wall_seconds());
  HttpReply reply =
      json_reply(visitor_json(*who, cookies.action_token(cookie), terms.max_priority));
  reply.headers.emplace_back("Set-Cookie", cookie_header(cookie, true));
  return reply;
}

// JSON is written by the door's threads: the loop's has better things to do.
void HttpPage::Parts::ask(ClientRequest request, const Visitor& visitor, const Answer& answer) {
  loop.ask(std::move(request), [this, who = visitor.who, answer](ClientReply reply) {
    auto held = std::make_shared<ClientReply>(std::move(reply));
    door.later([who, answer, held] { answer(reply_of(who, std::move(*held))); });
  });
}

void HttpPage::Parts::get(const HttpQuery& query, const Visitor& visitor, const Answer& answer) {
  const PageArguments arguments(query.arguments);
  if (query.path == "/api/session") {
    return answer(json_reply(
        visitor_json(visitor.who, cookies.action_token(visitor.cookie), terms.max_priority)));
  }
  if (query.path == "/api/events") return answer(watch(query, visitor));
  if (query.path == "/api/output") return read_output(query, visitor, answer);
  if (query.path == "/api/graph") {
    return ask(SpecQuery{viewer_of(visitor.who), arguments.task()}, visitor, answer);
  }
  const PageQuestion* question = find_question(query.path);
  if (question == nullptr) {
    return answer(failure_reply(ErrorCode::kNotFound, "there is no such question"));
  }
  ask(question->ask(arguments, viewer_of(visitor.who)), visitor, answer);
}

HttpReply HttpPage::Parts::watch(const HttpQuery& query, const Visitor& visitor) {
  const PageArguments arguments(query.arguments);
  const std::string_view seen = query.header("last-event-id");
  Watcher watcher{visitor.token,
                  {arguments.number("task", 0, std::uint64_t{1} << 62)},
                  seen.empty() ? arguments.text("last") : std::string(seen),
                  std::make_shared<HttpStream>()};
  HttpReply reply{200, "text/event-stream", {}, {}, watcher.stream};
  if (!feed.add(std::move(watcher))) {
    return failure_reply(ErrorCode::kUnavailable,
                         format("{} watch already: try again later", kMaxWatchers));
  }
  return reply;
}

void HttpPage::Parts::read_output(const HttpQuery& query, const Visitor& visitor,
                                  const Answer& answer) {
  const PageArguments arguments(query.arguments);
  OutputQuery wanted;
  wanted.viewer = viewer_of(visitor.who);
  wanted.task = arguments.task();
  wanted.attempt = {static_cast<std::uint32_t>(arguments.number("attempt", 0, UINT32_MAX))};
  wanted.rank = static_cast<std::uint32_t>(arguments.number("rank", 0, UINT32_MAX));
  wanted.stream = arguments.text("stream").empty() ? "out" : arguments.text("stream");
  wanted.offset = arguments.number("offset", 0, UINT64_MAX);
  wanted.path = arguments.text("path");
  const bool tail = arguments.number("tail", 0, 1) == 1;
  loop.ask(wanted, [this, wanted, tail, answer](ClientReply reply) {
    if (const Refusal* refusal = std::get_if<Refusal>(&reply)) {
      return answer(failure_reply(refusal->code, refusal->message));
    }
    const bool whole = wanted.stream == "artifact";
    const auto done = [answer, wanted, whole](OutputAnswer read) {
      if (!read.problem.empty()) {
        return answer(failure_reply(ErrorCode::kFailedPrecondition, read.problem));
      }
      if (whole && read.bytes.size() > kMaxPageArtifact) {
        return answer(failure_reply(
            ErrorCode::kResourceExhausted,
            format("the artifact is larger than {} MiB: fetch it with 'harmonics artifacts {} --to "
                   "FOLDER'",
                   kMaxPageArtifact >> 20, wanted.task.value)));
      }
      // Never a type that a browser would show: these are bytes of others.
      HttpReply made{200, "application/octet-stream", std::move(read.bytes), {}};
      made.headers.emplace_back("X-Harmonics-Offset", std::to_string(read.offset));
      if (whole) made.headers.emplace_back("Content-Disposition", "attachment");
      answer(std::move(made));
    };
    const std::size_t most = whole ? kMaxPageArtifact + 1 : kMaxOutputAnswer;
    if (!reads.start({std::get<OutputPlace>(reply), wanted, most, tail, done})) {
      answer(failure_reply(ErrorCode::kUnavailable, "too much output is being read: try again"));
    }
  });
}

void HttpPage::Parts::post(const HttpQuery& query, const Visitor& visitor, const Answer& answer) {
  if (!cookies.is_action_token(visitor.cookie, query.header(kActionHeader))) {
    return answer(failure_reply(ErrorCode::kPermissionDenied,
                                "show the session's action token: it is in /api/session"));
  }
  if (query.path == "/api/logout") {
    HttpReply reply = json_reply(Json::object());
    reply.headers.emplace_back("Set-Cookie", cookie_header("", false));
    return answer(std::move(reply));
  }
  const PageAction* action = find_action(query.path);
  const bool again = query.path == "/api/retry";
  if (action == nullptr && !again) {
    return answer(failure_reply(ErrorCode::kNotFound, "there is no such action"));
  }
  const Right right = again ? Right::kSubmit : action->right;
  if (!has_right(visitor.who, right)) {
    return answer(failure_reply(ErrorCode::kPermissionDenied, missing_right(visitor.who, right)));
  }
  const Json body = Json::parse(query.body, "the request");
  if (again) return retry(body, visitor, answer);
  ask(action->change(body, visitor.who, {terms.max_priority}), visitor, answer);
}

// The loop's thread never asks the loop: it would wait for itself where the inbox is full.
void HttpPage::Parts::retry(const Json& body, const Visitor& visitor, const Answer& answer) {
  const Viewer viewer = viewer_of(visitor.who);
  const TaskId id{static_cast<std::uint64_t>(body.at("task").as_integer())};
  const auto task = ask_loop<TaskView>(loop, TaskQuery{viewer, id});
  const auto spec = ask_loop<TaskSpec>(loop, SpecQuery{viewer, id});
  if (!task || !spec) {
    return answer(failure_reply(ErrorCode::kNotFound, format("there is no task {}", id.value)));
  }
  check_priority(visitor.who, spec->priority, terms.max_priority);
  ask(submitted_again(*task, *spec, visitor.who), visitor, answer);
}

HttpPage::HttpPage(const PageTerms& terms, ServerLoop& loop)
    : parts_(std::make_unique<Parts>(terms, loop)) {}

HttpPage::~HttpPage() = default;

int HttpPage::port() const { return parts_->door.port(); }

}  // namespace harmonics::inline in_server
