#include "openai/text_loop.h"

#include <map>

#include <harmonics/base/clock.h>
#include <harmonics/base/format.h>
#include <harmonics/base/log.h>

namespace harmonics::inline in_serve {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point from) {
  return std::chrono::duration<double>(Steady::now() - from).count();
}

GeneratorOptions with_shares(GeneratorOptions options, std::size_t most) {
  options.max_waiting = most;
  return options;
}

}  // namespace

void TimeHistogram::add(double seconds) {
  for (std::size_t i = 0; i < kCeilings.size(); ++i) counts[i] += seconds <= kCeilings[i] ? 1 : 0;
  sum_s += seconds;
  ++count;
}

/// Who has how many jobs here. Outlives the loop while a job is somewhere.
struct TextLoop::Tally {
  explicit Tally(std::size_t most) : most_each(most) {}
  const std::size_t most_each;
  std::mutex mutex;
  std::map<std::string, std::size_t, std::less<>> jobs;

  /// Counts one more of the owner's while what it gives lives; null: there are too many.
  static std::shared_ptr<void> ticket(const std::shared_ptr<Tally>& tally,
                                      const std::string& owner) {
    const std::lock_guard lock(tally->mutex);
    std::size_t& count = tally->jobs[owner];
    if (count >= tally->most_each) return nullptr;
    ++count;
    return {tally.get(), [tally, owner](void*) {
              const std::lock_guard inner(tally->mutex);
              const auto found = tally->jobs.find(owner);
              if (--found->second == 0) tally->jobs.erase(found);
            }};
  }
};

/// A job that the generator has.
struct TextLoop::Live {
  Generator::RequestId id = 0;
  std::function<bool()> gone;
  std::function<void(const Error&)> on_error;
  Steady::time_point last = Steady::now();
  bool begun = false;
  bool ended = false;
};

// What may wait is shared out, so that none of many owners keeps the others from asking.
TextLoop::TextLoop(TokenPipeline& pipeline, const GeneratorOptions& options, std::size_t owners)
    : tally_(std::make_shared<Tally>(options.max_sequences +
                                     (options.max_waiting + owners - 1) / owners)),
      generator_(pipeline, with_shares(options, tally_->most_each * owners)),
      jobs_(tally_->most_each * owners),
      thread_([this] { run(); }) {}

TextLoop::~TextLoop() {
  over_ = true;
  jobs_.close();
  thread_.join();
}

void TextLoop::add(TextJob job) {
  const std::function<void(const Error&)> on_error = job.on_error;
  const std::shared_ptr<void> ticket = Tally::ticket(tally_, job.request.owner);
  if (ticket) {  // as long as anyone may hear of it
    job.request.on_end = [ticket, heard = std::move(job.request.on_end)](Ending ending) {
      heard(ending);
    };
  }
  if (over_ || !failure().empty()) {
    on_error(Error(ErrorCode::kUnavailable, "the service has ended"));
  } else if (!ticket) {
    ++refused_;
    on_error(Error(ErrorCode::kResourceExhausted,
                   format("{} requests of this key are under way, its share: try again later",
                          tally_->most_each)));
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
    (live->begun ? figures_.next_token : figures_.first_token).add(took);
    live->begun = true;
    if (!live->gone()) return heard(token);
    ++figures_.left;
    return false;
  };
  request.on_end = [live, heard = std::move(request.on_end)](Ending ending) {
    live->ended = true;
    if (!live->gone()) heard(ending);
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
    if (live->ended || !live->gone()) continue;
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
  const auto add_times = [&](const char* name, const char* help, const TimeHistogram& times) {
    text +=
        format("# HELP harmonics_text_{0} {1}\n# TYPE harmonics_text_{0} histogram\n", name, help);
    for (std::size_t i = 0; i < times.counts.size(); ++i) {
      text += format("harmonics_text_{}_bucket{{le=\"{}\"}} {}\n", name,
                     TimeHistogram::kCeilings[i], times.counts[i]);
    }
    text += format(
        "harmonics_text_{0}_bucket{{le=\"+Inf\"}} {1}\nharmonics_text_{0}_sum {2}\n"
        "harmonics_text_{0}_count {1}\n",
        name, times.count, times.sum_s);
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
  add_times("first_token_seconds", "Time from a request to its first token.", f.first_token);
  add_times("next_token_seconds", "Time from one token to the next.", f.next_token);
  return text;
}

}  // namespace harmonics::inline in_serve
