#include <harmonics/serve/embedding_front.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <harmonics/base/channel.h>
#include <harmonics/base/error.h>
#include <harmonics/serve/http_door.h>

#include "openai/openai_call.h"
#include "openai/openai_json.h"
#include "openai/openai_reply.h"

namespace harmonics::inline in_serve {
namespace {

constexpr std::size_t kMaxEmbeddingBody = std::size_t{8} << 20;
constexpr std::chrono::milliseconds kEmbeddingFarewell{5000};

/// A request that waits for its turn.
struct EmbeddingJob {
  std::vector<std::vector<std::int64_t>> texts;
  std::int64_t tokens = 0;
  bool base64 = false;
  std::shared_ptr<const std::atomic<bool>> left;
  ServingDoor::Answer answer;
};

}  // namespace

struct EmbeddingFront::Parts {
  Parts(TextEmbedder& model, const Terms& wanted, const ListenAddress& address,
        const FrontAccess& shown)
      : embedder(model),
        terms(wanted),
        access(shown),
        jobs(wanted.max_waiting),
        door({address, shown, kMaxEmbeddingBody},
             [this](HttpQuery query, ServingDoor::Answer answer) { handle(query, answer); }) {}

  TextEmbedder& embedder;
  const Terms terms;
  const FrontAccess access;
  const std::int64_t created = unix_seconds();
  Channel<EmbeddingJob> jobs;
  std::atomic<std::uint64_t> requests = 0, refused = 0, left = 0, texts = 0, tokens = 0;
  std::thread thread;
  ServingDoor door;

  void run();
  [[nodiscard]] std::vector<EmbeddingJob> next_jobs();
  void compute(std::vector<EmbeddingJob>& batch);
  void handle(const HttpQuery& query, const ServingDoor::Answer& answer);
  [[nodiscard]] HttpReply page(const HttpQuery& query) const;
  void embed(const HttpQuery& query, const ServingDoor::Answer& answer);
  [[nodiscard]] std::string figures() const;
};

// Requests that are there already, as long as they are small.
std::vector<EmbeddingJob> EmbeddingFront::Parts::next_jobs() {
  std::vector<EmbeddingJob> batch;
  std::int64_t sum = 0;
  std::optional<EmbeddingJob> job = jobs.pop(Channel<EmbeddingJob>::kForever);
  while (job) {
    if (job->left && *job->left) {
      ++left;
    } else {
      sum += job->tokens;
      batch.push_back(*std::move(job));
    }
    if (sum >= terms.batch_tokens) break;
    job = jobs.pop(Nanoseconds(0));
  }
  return batch;
}

void EmbeddingFront::Parts::run() {
  for (;;) {
    std::vector<EmbeddingJob> batch = next_jobs();
    if (batch.empty() && jobs.closed()) return;
    compute(batch);
  }
}

// Texts one after another, as many at once as the terms say, whosever they are.
void EmbeddingFront::Parts::compute(std::vector<EmbeddingJob>& batch) {
  std::vector<std::vector<std::int64_t>> all;
  for (EmbeddingJob& job : batch) {
    for (std::vector<std::int64_t>& text : job.texts) all.push_back(std::move(text));
  }
  std::vector<std::vector<float>> vectors;
  try {
    for (std::size_t first = 0; first < all.size();) {
      std::size_t end = first;
      std::int64_t sum = 0;
      for (; end < all.size() && (end == first || sum < terms.batch_tokens); ++end) {
        sum += static_cast<std::int64_t>(all[end].size());
      }
      for (auto& vector : embedder.embed(std::span(all).subspan(first, end - first))) {
        vectors.push_back(std::move(vector));
      }
      first = end;
      tokens += static_cast<std::uint64_t>(sum);
    }
  } catch (const Error& error) {
    for (const EmbeddingJob& job : batch) {
      job.answer(error_reply(text_status(error.code()), error.what()));
    }
    return;
  }
  texts += all.size();
  auto next = vectors.begin();
  for (const EmbeddingJob& job : batch) {
    const auto end = next + static_cast<std::ptrdiff_t>(job.texts.size());
    job.answer({200,
                "application/json",
                embeddings_json(terms.name, job.base64, {next, end}, job.tokens),
                {}});
    next = end;
  }
}

void EmbeddingFront::Parts::handle(const HttpQuery& query, const ServingDoor::Answer& answer) {
  try {
    if (query.path != "/v1/embeddings") return answer(page(query));
    if (!lets_in(access, query.header("authorization"))) {
      return answer(error_reply(401, "show the token of this service: Authorization: Bearer …"));
    }
    if (query.method != "POST") return answer(error_reply(405, "embeddings take POST"));
    embed(query, answer);
  } catch (const Error& error) {
    answer(error_reply(text_status(error.code()), error.what()));
  }
}

void EmbeddingFront::Parts::embed(const HttpQuery& query, const ServingDoor::Answer& answer) {
  const EmbeddingCall call = read_embedding_call(query.body);
  if (!call.model.empty() && call.model != terms.name) {
    fail(ErrorCode::kNotFound, "there is no model '{}' here; there is '{}'", call.model,
         terms.name);
  }
  if (call.dimensions != 0 && call.dimensions != embedder.width()) {
    fail(ErrorCode::kInvalidArgument, "'dimensions' is {}: the model has vectors of {}",
         call.dimensions, embedder.width());
  }
  EmbeddingJob job;
  for (const PromptText& input : call.inputs) {
    const auto* const text = std::get_if<std::string>(&input);
    job.texts.push_back(text ? embedder.ids(*text) : std::get<std::vector<std::int64_t>>(input));
    embedder.check(job.texts.back());
    job.tokens += static_cast<std::int64_t>(job.texts.back().size());
  }
  job.base64 = call.base64;
  job.left = query.left;
  job.answer = answer;
  if (jobs.size() >= jobs.capacity() || !jobs.push(std::move(job))) {
    ++refused;
    fail(ErrorCode::kResourceExhausted, "too many requests wait: try again later");
  }
  ++requests;
}

HttpReply EmbeddingFront::Parts::page(const HttpQuery& query) const {
  if (query.path.starts_with("/v1/") && query.path.ends_with("completions")) {
    return error_reply(404, "this model reads and does not write: ask for /v1/embeddings");
  }
  if (query.method != "GET" && query.method != "HEAD") {
    return error_reply(405, format("{} takes GET", query.path));
  }
  if (query.path == "/metrics") return {200, "text/plain; version=0.0.4", figures(), {}};
  if (query.path == "/health") return {200, "application/json", "{}", {}};
  if (!lets_in(access, query.header("authorization"))) {
    return error_reply(401, "show the token of this service: Authorization: Bearer …");
  }
  if (query.path == "/v1/models") {
    return {200, "application/json", models_json(terms.name, created), {}};
  }
  return error_reply(404, format("there is nothing at {}", query.path));
}

std::string EmbeddingFront::Parts::figures() const {
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, std::uint64_t value) {
    text += format(
        "# HELP harmonics_embedding_{0} {1}\n# TYPE harmonics_embedding_{0} {2}\n"
        "harmonics_embedding_{0} {3}\n",
        name, help, kind, value);
  };
  add("requests_total", "counter", "Requests taken.", requests);
  add("refused_total", "counter", "Requests refused because too many waited.", refused);
  add("left_total", "counter", "Clients that left before their turn.", left);
  add("texts_total", "counter", "Texts embedded.", texts);
  add("tokens_total", "counter", "Tokens of these.", tokens);
  add("waiting", "gauge", "Requests that wait.", jobs.size());
  return text;
}

EmbeddingFront::EmbeddingFront(TextEmbedder& embedder, const Terms& terms,
                               const ListenAddress& address, const FrontAccess& access)
    : parts_(std::make_unique<Parts>(embedder, terms, address, access)) {
  parts_->thread = std::thread([parts = parts_.get()] { parts->run(); });
}

EmbeddingFront::~EmbeddingFront() {
  parts_->door.finish(kEmbeddingFarewell);
  parts_->jobs.close();
  parts_->thread.join();
}

std::uint16_t EmbeddingFront::port() const { return parts_->door.port(); }

}  // namespace harmonics::inline in_serve
