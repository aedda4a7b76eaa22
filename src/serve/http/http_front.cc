#include <harmonics/serve/http_front.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <harmonics/base/number_text.h>
#include <harmonics/serve/http_door.h>

#include "wire/oip_json.h"
#include "wire/oip_types.h"

namespace harmonics::inline in_serve {
namespace {

constexpr std::string_view kJsonBytesHeader = "inference-header-content-length";
// A number of a tensor as JSON, with the comma and blanks between.
constexpr std::int64_t kJsonBytesOfNumber = 32;
constexpr std::int64_t kRoomForNames = 256 << 10;
constexpr std::int64_t kMaxBody = std::int64_t{1} << 30;

// The longest body that a request to this model can need.
std::size_t longest_body(const ModelCard& card) {
  std::int64_t bytes = kRoomForNames;
  for (const TensorCard& input : card.inputs) {
    const double numbers = static_cast<double>(element_count(input.sample.shape)) *
                           static_cast<double>(card.batch_rows);
    if (numbers * kJsonBytesOfNumber > static_cast<double>(kMaxBody)) return kMaxBody;
    bytes += static_cast<std::int64_t>(numbers) * kJsonBytesOfNumber;
  }
  return static_cast<std::size_t>(std::min(bytes, kMaxBody));
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kDataLoss: return 400;
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kPermissionDenied: return 401;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kDeadlineExceeded: return 504;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
    case ErrorCode::kAborted: return 503;
    default: return 500;
  }
}

HttpReply failure_reply(int status, std::string_view what) {
  HttpReply reply{status, "application/json", error_json(what), {}};
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

HttpReply failure_reply(const Error& error) {
  return failure_reply(status_of(error.code()), error.what());
}

HttpReply json_reply(std::string body) { return {200, "application/json", std::move(body), {}}; }

HttpReply readiness(bool ready, ServiceState state) {
  if (ready) return json_reply("{}");
  return failure_reply(503, format("the service is {}", service_state_name(state)));
}

// The words of a path: "/v2/models/net/infer" is {"v2", "models", "net", "infer"}.
std::vector<std::string_view> words_of_path(std::string_view path) {
  std::vector<std::string_view> words;
  for (std::size_t at = 1; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    words.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::optional<std::size_t> json_bytes_of(const HttpQuery& query) {
  const std::string_view text = query.header(kJsonBytesHeader);
  if (text.empty()) return std::nullopt;
  const auto bytes = number_from<std::size_t>(text);
  if (!bytes) {
    fail(ErrorCode::kInvalidArgument, "Inference-Header-Content-Length is no number: '{}'", text);
  }
  return bytes;
}

InferCall call_of(const HttpQuery& query) {
  try {
    return decode_infer_call(query.body, json_bytes_of(query));
  } catch (const Error& error) {  // whatever it is, the request is at fault
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
}

}  // namespace

struct HttpFront::Parts {
  Parts(InferenceService& served, const ListenAddress& address, const FrontAccess& shown)
      : service(served),
        access(shown),
        door({address, shown, longest_body(served.card())},
             [this](HttpQuery query, ServingDoor::Answer answer) {
               handle(std::move(query), std::move(answer));
             }) {}

  InferenceService& service;
  const FrontAccess access;
  ServingDoor door;

  void handle(HttpQuery query, ServingDoor::Answer answer);
  [[nodiscard]] HttpReply page(const HttpQuery& query) const;
  void infer(const HttpQuery& query, ServingDoor::Answer answer);
};

namespace {

struct ModelPath {
  std::string_view model;
  std::string_view version;
  /// Index of the word that follows.
  std::size_t next = 3;
};

// /v2/models/NAME[/versions/VERSION]…
std::optional<ModelPath> model_path(const std::vector<std::string_view>& words) {
  if (words.size() < 3 || words[0] != "v2" || words[1] != "models") return std::nullopt;
  ModelPath path{words[2], {}, 3};
  if (words.size() >= 5 && words[3] == "versions") {
    path.version = words[4];
    path.next = 5;
  }
  return path;
}

HttpReply outputs_reply(const ModelCard& card, const InferCall& call,
                        const TensorsByName& outputs) {
  try {
    InferBody body = encode_infer_answer(card, call, outputs);
    HttpReply reply{200, "application/json", std::move(body.body), {}};
    if (body.json_bytes) {
      reply.type = "application/octet-stream";
      reply.headers.emplace_back("Inference-Header-Content-Length",
                                 std::to_string(*body.json_bytes));
    }
    return reply;
  } catch (const Error& error) {
    return failure_reply(error);
  }
}

bool is_post(const HttpQuery& query) { return query.method == "POST"; }

}  // namespace

void HttpFront::Parts::handle(HttpQuery query, ServingDoor::Answer answer) {
  try {
    const std::vector<std::string_view> words = words_of_path(query.path);
    const std::optional<ModelPath> path = model_path(words);
    const bool is_infer = path && words.size() == path->next + 1 && words[path->next] == "infer";
    if (!is_infer) return answer(page(query));
    if (!lets_in(access, query.header("authorization"))) {
      return answer(failure_reply(401, "show the token of this service: Authorization: Bearer …"));
    }
    if (!is_post(query)) return answer(failure_reply(405, "infer takes POST"));
    check_model(service.card(), path->model, path->version);
    if (!query.header("content-encoding").empty()) {
      return answer(failure_reply(415, "compressed bodies are not taken"));
    }
    infer(query, answer);
  } catch (const Error& error) {
    answer(failure_reply(error));
  }
}

void HttpFront::Parts::infer(const HttpQuery& query, ServingDoor::Answer answer) {
  auto call = std::make_shared<InferCall>(call_of(query));
  InferenceRequest request = call->request;  // tensors are shared, not copied
  call->request.inputs.clear();
  service.submit(std::move(request), [this, call, answer](InferenceAnswer made) {
    if (made.error) return answer(failure_reply(*made.error));
    auto outputs = std::make_shared<TensorsByName>(std::move(made.outputs));
    // Writing numbers takes its time, which is not the stream's.
    door.later(
        [this, call, answer, outputs] { answer(outputs_reply(service.card(), *call, *outputs)); });
  });
}

HttpReply HttpFront::Parts::page(const HttpQuery& query) const {
  const std::vector<std::string_view> words = words_of_path(query.path);
  if (query.method != "GET" && query.method != "HEAD") {
    return failure_reply(405, "only infer takes anything but GET and HEAD");
  }
  const ServiceState state = service.state();
  const bool ready = state == ServiceState::kReady;
  if (query.path == "/metrics") {
    return {
        200, "text/plain; version=0.0.4", figures_text(service.card().name, service.figures()), {}};
  }
  if (query.path == "/v2/health/live") return json_reply("{}");
  if (query.path == "/v2/health/ready") return readiness(ready, state);
  if (!lets_in(access, query.header("authorization"))) {
    return failure_reply(401, "show the token of this service: Authorization: Bearer …");
  }
  if (words.size() == 1 && words[0] == "v2") return json_reply(server_metadata_json());
  const std::optional<ModelPath> path = model_path(words);
  if (path) {
    check_model(service.card(), path->model, path->version);
    if (words.size() == path->next) return json_reply(model_metadata_json(service.card()));
    if (words.size() == path->next + 1 && words[path->next] == "ready") {
      return readiness(ready, state);
    }
  }
  return failure_reply(404, format("there is nothing at {}", query.path));
}

HttpFront::HttpFront(InferenceService& service, const ListenAddress& address,
                     const FrontAccess& access)
    : parts_(std::make_unique<Parts>(service, address, access)) {}

HttpFront::~HttpFront() {
  parts_->service.end("the service has ended");
  parts_->door.finish(kFarewell);
}

std::uint16_t HttpFront::port() const { return parts_->door.port(); }

}  // namespace harmonics::inline in_serve
