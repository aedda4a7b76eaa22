#include "openai/text_loop.h"

#include <harmonics/base/clock.h>
#include <harmonics/base/format.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_serve {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point from) {
  return std::chrono::duration<double>(Steady::now() - from).count();
}

}  // namespace

/// A job that the generator has.
struct TextLoop::Live {
  Generator::RequestId id = 0;
  std::shared_ptr<const std::atomic<bool>> gone;
  std::function<void(const Error&)> on_error;
  Steady::time_point last = Steady::now();
  bool begun = false;
  bool ended = false;
};

TextLoop::TextLoop(TokenPipeline& pipeline, const GeneratorOptions& options)
    : generator_(pipeline, options), jobs_(options.max_waiting), thread_([this] { run(); }) {}

TextLoop::~TextLoop() {
  over_ = true;
  jobs_.close();
  thread_.join();
}

void TextLoop::add(TextJob job) {
  const std::function<void(const Error&)> on_error = job.on_error;
  if (over_ || !failure().empty()) {
    on_error(Error(ErrorCode::kUnavailable, "the service has ended"));
  } else if (jobs_.size() >= jobs_.capacity() || !jobs_.push(std::move(job))) {
    ++refused_;
    on_error(Error(ErrorCode::kResourceExhausted, "too many requests wait: try again later"));
  }
}

void TextLoop::take(TextJob job) {
  auto live = std::make_shared<Live>();
  live->gone = job.gone;
  live->on_error = job.on_error;
  GenerationRequest request = std::move(job.request);
  request.on_token = [this, live,
                      heard = std::move(request.on_token)](const GeneratedToken& token) {
    const double took = seconds_since(live->last);
    live->last = Steady::now();
    (live->begun ? figures_.next_token_s : figures_.first_token_s) += took;
    ++(live->begun ? figures_.next_tokens : figures_.first_tokens);
    live->begun = true;
    return !*live->gone && heard(token);
  };
  request.on_end = [live, heard = std::move(request.on_end)](Ending ending) {
    live->ended = true;
    if (!*live->gone) heard(ending);
  };
  ++figures_.requests;
  try {
    live->id = generator_.add(std::move(request));
    live_.push_back(live);
  } catch (const Error& error) {
    ++refused_;
    live->on_error(error);
  }
}

void TextLoop::cancel_gone() {
  for (const auto& live : live_) {
    if (live->ended || !*live->gone) continue;
    ++figures_.left;
    generator_.cancel(live->id);
    live->ended = true;
  }
  std::erase_if(live_, [](const auto& live) { return live->ended; });
}

void TextLoop::lose_all(const Error& error) {
  for (const auto& live : live_) {
    if (!live->ended) live->on_error(error);
  }
  live_.clear();
}

void TextLoop::publish() {
  const std::lock_guard lock(mutex_);
  published_ = figures_;
  published_.generator = generator_.figures();
}

void TextLoop::run() {
  try {
    for (;;) {
      const auto patience = generator_.idle() ? Channel<TextJob>::kForever : Nanoseconds(0);
      std::optional<TextJob> job = jobs_.pop(patience);
      if (!job && over_) break;
      for (; job; job = jobs_.pop(Nanoseconds(0))) take(*std::move(job));
      if (!generator_.idle()) generator_.advance();
      cancel_gone();
      publish();
    }
    lose_all(Error(ErrorCode::kUnavailable, "the service ends"));
  } catch (const Error& error) {
    log_warn("serve", "the model cannot be asked any more: {}", error.what());
    {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
    lose_all(error);
    jobs_.close();
    while (std::optional<TextJob> job = jobs_.pop(Nanoseconds(0))) job->on_error(error);
  }
}

TextFigures TextLoop::figures() const {
  const std::lock_guard lock(mutex_);
  TextFigures all = published_;
  all.refused = refused_;
  return all;
}

std::string TextLoop::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string figures_text(const TextFigures& f, const TokenLimits& limits) {
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    text += format(
        "# HELP harmonics_text_{0} {1}\n# TYPE harmonics_text_{0} {2}\n"
        "harmonics_text_{0} {3}\n",
        name, help, kind, value);
  };
  const auto count = [](auto value) { return static_cast<double>(value); };
  add("requests_total", "counter", "Requests taken.", count(f.requests));
  add("refused_total", "counter", "Requests refused.", count(f.refused));
  add("left_total", "counter", "Clients that left before their answer was whole.", count(f.left));
  add("running", "gauge", "Sequences that are computed.", count(f.generator.running));
  add("waiting", "gauge", "Requests that wait.", count(f.generator.waiting));
  add("prompt_tokens_total", "counter", "Tokens of prompts.", count(f.generator.prompt_tokens));
  add("made_tokens_total", "counter", "Tokens of answers.", count(f.generator.made_tokens));
  add("renewals_total", "counter", "Times that lost stages were made anew.",
      count(f.generator.renewals));
  add("cache_tokens", "gauge", "Tokens that the cache has room for.", count(limits.most_tokens));
  add("cache_reserved_tokens", "gauge", "Tokens of it that are spoken for.",
      count(f.generator.reserved_tokens));
  add("first_token_seconds_sum", "counter", "Time from a request to its first token.",
      f.first_token_s);
  add("first_token_seconds_count", "counter", "First tokens.", count(f.first_tokens));
  add("next_token_seconds_sum", "counter", "Time from one token to the next.", f.next_token_s);
  add("next_token_seconds_count", "counter", "Next tokens.", count(f.next_tokens));
  return text;
}

}  // namespace harmonics::inline in_serve
