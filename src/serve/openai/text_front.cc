#include <harmonics/serve/text_front.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/schedule/text_side.h>
#include <harmonics/serve/http_door.h>
#include <harmonics/text/text_flow.h>

#include "openai/openai_call.h"
#include "openai/openai_json.h"
#include "openai/openai_reply.h"
#include "openai/text_loop.h"

namespace harmonics::inline in_serve {
namespace {

constexpr std::size_t kMaxRequestBody = std::size_t{8} << 20;
constexpr std::chrono::milliseconds kTextFarewell{5000};

std::uint64_t drawn_seed() {
  std::uint64_t seed = 0;
  fill_entropy(std::as_writable_bytes(std::span(&seed, 1)));
  return seed;
}

/// Who asked, and how to answer.
struct Asker {
  std::string owner;
  std::shared_ptr<const std::atomic<bool>> left;
  ServingDoor::Answer answer;
};

/// The answers to one request: several choices grow, and one reply or stream comes of them. Heard
/// of by the loop's thread and, where a choice is refused, by that of the door.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(const TextSide& texts, CompletionCall call, CompletionHead head, Asker asker)
      : texts_(texts),
        call_(std::move(call)),
        head_(std::move(head)),
        asker_(std::move(asker)),
        answer_(asker_.answer) {
    if (call_.stream) stream_ = std::make_shared<HttpStream>();
  }

  /// The job for one more choice.
  TextJob job(std::vector<std::int64_t> prompt, std::int64_t max_tokens) {
    const std::size_t index = choices_.size();
    choices_.push_back({static_cast<std::int64_t>(index)});
    flows_.emplace_back(texts_.tokenizer(), call_.stops);
    // A prompt of several answers is counted once.
    if (static_cast<std::int64_t>(index) % call_.choices == 0) {
      usage_.prompt_tokens += static_cast<std::int64_t>(prompt.size());
    }
    TextJob job;
    job.gone = [gone = gone_, left = asker_.left] { return *gone || (left && *left); };
    job.request.owner = asker_.owner;
    GenerationRequest& request = job.request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling = call_.sampling;
    request.sampling.seed += index;
    request.end_ids = texts_.end_ids();
    request.logprobs = call_.logprobs;
    request.likeliest = call_.logprobs ? call_.likeliest : 0;
    const auto self = shared_from_this();
    request.on_token = [self, index](const GeneratedToken& token) {
      return self->add(index, token);
    };
    request.on_end = [self, index](Ending ending) { self->end(index, ending); };
    job.on_error = [self](const Error& error) { self->lose(error); };
    return job;
  }

 private:
  bool add(std::size_t index, const GeneratedToken& token) {
    const std::lock_guard lock(mutex_);
    if (lost_) return false;
    CompletionChoice& choice = choices_[index];
    const std::string fresh = flows_[index].add(token.id);
    ++usage_.completion_tokens;
    if (call_.logprobs) choice.tokens.push_back(token);
    choice.text += fresh;
    if (call_.stream && !fresh.empty()) send(choice);
    return !flows_[index].stopped();
  }

  void end(std::size_t index, Ending ending) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    CompletionChoice& choice = choices_[index];
    choice.text += flows_[index].finish();
    choice.finish = ending == Ending::kMaxTokens || ending == Ending::kFull ? "length" : "stop";
    if (call_.stream) send(choice);
    if (++ended_ == choices_.size()) finish();
  }

  void begin() {
    if (begun_) return;
    begun_ = true;
    HttpReply reply{200, "text/event-stream", {}, {{"Cache-Control", "no-cache"}}};
    reply.stream = stream_;
    for (const CompletionChoice& choice : choices_) {
      if (head_.chat)
        (void)stream_->send(chunk_event(head_, texts_.tokenizer(), {choice.index}, true));
    }
    answer_(std::move(reply));
  }

  void send(CompletionChoice& choice) {
    begin();
    if (!stream_->send(chunk_event(head_, texts_.tokenizer(), choice, false))) *gone_ = true;
    choice.text.clear();
    choice.tokens.clear();
  }

  void finish() {
    if (!call_.stream) {
      return answer_({200,
                      "application/json",
                      completion_json(head_, texts_.tokenizer(), choices_, usage_),
                      {}});
    }
    if (call_.include_usage) (void)stream_->send(usage_event(head_, usage_));
    (void)stream_->send(kDoneEvent);
    stream_->end();
  }

  void lose(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    lost_ = true;
    const int status = text_status(error.code());
    if (!begun_) return answer_(error_reply(status, error.what()));
    (void)stream_->send("data: " + openai_error(error.what(), status) + "\n\n");
    stream_->end();
  }

  const TextSide& texts_;
  const CompletionCall call_;
  const CompletionHead head_;
  const Asker asker_;
  const ServingDoor::Answer& answer_;
  std::shared_ptr<HttpStream> stream_;
  // Nobody takes the stream any more.
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::vector<CompletionChoice> choices_;
  std::vector<TextFlow> flows_;
  CompletionUsage usage_;
  std::size_t ended_ = 0;
  bool begun_ = false;
  bool lost_ = false;
};

}  // namespace

struct TextFront::Parts {
  Parts(TokenPipeline& stages, const TextSide& side, const TextTerms& wanted,
        const ListenAddress& address, const FrontAccess& shown)
      : texts(side),
        terms(wanted),
        access(shown),
        limits(stages.limits()),
        loop(stages, {wanted.max_sequences, wanted.max_waiting, wanted.prefill_chunk},
             std::max<std::size_t>(1, shown.keys.size())),
        door({address, shown, kMaxRequestBody},
             [this](HttpQuery query, ServingDoor::Answer answer) {
               handle(std::move(query), std::move(answer));
             }) {}

  const TextSide& texts;
  const TextTerms terms;
  const FrontAccess access;
  const TokenLimits limits;
  const std::int64_t created = unix_seconds();
  std::atomic<std::uint64_t> numbers = 0;
  std::atomic<bool> ending = false;
  TextLoop loop;
  ServingDoor door;

  void handle(const HttpQuery& query, const ServingDoor::Answer& answer);
  [[nodiscard]] HttpReply page(const HttpQuery& query) const;
  void complete(const HttpQuery& query, const Asker& asker, bool chat);
  [[nodiscard]] std::vector<std::int64_t> prompt_of(const CompletionCall& call,
                                                    std::size_t number) const;
};

void TextFront::Parts::handle(const HttpQuery& query, const ServingDoor::Answer& answer) {
  try {
    const bool chat = query.path == "/v1/chat/completions";
    if (query.path == "/v1/embeddings") {
      return answer(
          error_reply(404, "this model writes; embeddings come of an encoder, served alone"));
    }
    if (!chat && query.path != "/v1/completions") return answer(page(query));
    const std::optional<std::string> owner = client_of(access, query.header("authorization"));
    if (!owner) {
      return answer(error_reply(401, "show the token of this service: Authorization: Bearer …"));
    }
    if (query.method != "POST") return answer(error_reply(405, "completions take POST"));
    if (ending) return answer(error_reply(503, "the service ends"));
    complete(query, {*owner, query.left, answer}, chat);
  } catch (const Error& error) {
    answer(error_reply(text_status(error.code()), error.what()));
  }
}

HttpReply TextFront::Parts::page(const HttpQuery& query) const {
  if (query.method != "GET" && query.method != "HEAD") {
    return error_reply(405, format("{} takes GET", query.path));
  }
  if (query.path == "/metrics") {
    return {200, "text/plain; version=0.0.4", figures_text(loop.figures(), limits), {}};
  }
  if (query.path == "/health") {
    const std::string why = loop.failure();
    return why.empty() ? HttpReply{200, "application/json", "{}", {}} : error_reply(503, why);
  }
  if (!lets_in(access, query.header("authorization"))) {
    return error_reply(401, "show the token of this service: Authorization: Bearer …");
  }
  if (query.path == "/v1/models") {
    return {200, "application/json", models_json(terms.name, created), {}};
  }
  return error_reply(404, format("there is nothing at {}", query.path));
}

std::vector<std::int64_t> TextFront::Parts::prompt_of(const CompletionCall& call,
                                                      std::size_t number) const {
  if (call.chat) return texts.prompt(call.messages);
  const PromptText& prompt = call.prompts[number];
  if (const auto* text = std::get_if<std::string>(&prompt)) return texts.prompt(*text);
  return std::get<std::vector<std::int64_t>>(prompt);
}

void TextFront::Parts::complete(const HttpQuery& query, const Asker& asker, bool chat) {
  CompletionCall call = read_completion_call(query.body, chat);
  if (!call.model.empty() && call.model != terms.name) {
    fail(ErrorCode::kNotFound, "there is no model '{}' here; there is '{}'", call.model,
         terms.name);
  }
  if (!call.seeded) call.sampling.seed = drawn_seed();
  std::vector<std::vector<std::int64_t>> prompts;
  for (std::size_t i = 0; i < (chat ? 1 : call.prompts.size()); ++i) {
    prompts.push_back(prompt_of(call, i));
    if (static_cast<std::int64_t>(prompts.back().size()) >= limits.max_length) {
      fail(ErrorCode::kInvalidArgument,
           "the prompt has {} tokens, and the model's context is {} with the answer",
           prompts.back().size(), limits.max_length);
    }
  }
  const std::int64_t asked = call.max_tokens > 0 ? call.max_tokens : terms.max_tokens;
  const std::int64_t most = std::min(asked, terms.max_tokens);
  const std::int64_t choices = call.choices;
  CompletionHead head{format("{}-{}", chat ? "chatcmpl" : "cmpl", ++numbers), unix_seconds(),
                      terms.name, chat, call.logprobs};
  const auto made = std::make_shared<Completion>(texts, std::move(call), std::move(head), asker);
  std::vector<TextJob> jobs;
  for (const std::vector<std::int64_t>& prompt : prompts) {
    for (std::int64_t i = 0; i < choices; ++i) jobs.push_back(made->job(prompt, most));
  }
  for (TextJob& job : jobs) loop.add(std::move(job));
}

TextFront::TextFront(TokenPipeline& pipeline, const TextSide& texts, const TextTerms& terms,
                     const ListenAddress& address, const FrontAccess& access)
    : parts_(std::make_unique<Parts>(pipeline, texts, terms, address, access)) {}

TextFront::~TextFront() {
  parts_->ending = true;
  parts_->door.finish(kTextFarewell);
}

std::uint16_t TextFront::port() const { return parts_->door.port(); }

std::string TextFront::failure() const { return parts_->loop.failure(); }

}  // namespace harmonics::inline in_serve
