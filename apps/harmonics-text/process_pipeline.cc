#include "process_pipeline.h"

#include <chrono>
#include <limits>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/transport/transport.h>

#include "stage_children.h"
#include "step_wire.h"

namespace harmonics::inline in_text_program {
namespace {

// How often children are looked after while no answer comes.
constexpr std::chrono::milliseconds kLookAfter(50);
// A step that takes longer has met a stage that hangs.
constexpr std::chrono::seconds kForAStep(60);
constexpr std::chrono::seconds kForTheStart(300);
constexpr int kStarts = 3;
constexpr std::size_t kSecretBytes = 16;

class ProcessPipeline final : public TokenPipeline {
 public:
  ProcessPipeline(const HarmonicGraph& graph, const TextModelFlags& flags)
      : flags_(flags),
        cuts_(token_cuts(graph, static_cast<std::size_t>(flags.parts))),
        input_(graph.layers().front().inputs.front()),
        logits_(logits_of(graph)),
        token_(random_hex(kSecretBytes)) {
    start();
  }

  const TokenLimits& limits() const override { return limits_; }
  std::size_t depth() const override { return cuts_.size() - 1; }

  void submit(const TokenStep& step) override {
    StepMessage message{step.spans, step.drops, {}, {}};
    const auto rows = static_cast<std::int64_t>(step.ids.size());
    message.tensors.emplace(input_, Tensor::of<std::int64_t>({rows}, std::span(step.ids)));
    send_step(*to_, message, deadline_in(kForAStep), [this] { children_.check(); });
  }

  Tensor receive() override {
    const StepMessage answer = next_answer(kForAStep);
    const auto found = answer.tensors.find(logits_);
    if (found == answer.tensors.end()) fail(ErrorCode::kDataLoss, "an answer without logits");
    return found->second;
  }

  void renew() override { start(); }

 private:
  // A part may be killed while it starts, too.
  void start() {
    for (int attempt = 1;; ++attempt) {
      to_.reset();
      from_.reset();
      children_.clear();
      try {
        return start_once();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnavailable || attempt == kStarts) throw;
        log_warn("text", "the parts of the model are made anew: {}", error.what());
      }
    }
  }

  void start_once() {
    std::vector<RemoteBinding> ends;
    for (std::size_t i = 0; i < cuts_.size(); ++i) {
      RemoteBinding end;
      end.name = format("steps.{}", i);
      end.host = "127.0.0.1";
      end.port = unused_port();
      end.transport = transport_from_name(flags_.transport);
      ends.push_back(std::move(end));
    }
    TransportOptions options;
    options.run = random_hex(kSecretBytes);
    options.token = token_;
    to_ = make_transport(ends.front(), options);
    from_ = make_transport(ends.back(), options);
    for (std::size_t part = 0; part + 1 < cuts_.size(); ++part) {
      children_.start(words_for(part, ends, options.run), token_);
    }
    StepMessage hello;
    hello.limits = TokenLimits{0, std::numeric_limits<std::int64_t>::max(), 0, 0};
    send_step(*to_, hello, deadline_in(kForTheStart), [this] { children_.check(); });
    limits_ = next_answer(kForTheStart).limits.value();
  }

  std::vector<std::string> words_for(std::size_t part, const std::vector<RemoteBinding>& ends,
                                     const std::string& run) const {
    std::vector<std::string> words = {"token-stage", flags_.model.string(),
                                      "--first",     std::to_string(cuts_[part]),
                                      "--end",       std::to_string(cuts_[part + 1]),
                                      "--in",        binding_url(ends[part]),
                                      "--out",       binding_url(ends[part + 1]),
                                      "--run",       run,
                                      "--threads",   std::to_string(flags_.threads),
                                      "--cache-mb",  std::to_string(flags_.cache_mb)};
    if (!flags_.weights.empty()) {
      words.insert(words.end(), {"--weights", flags_.weights.string()});
    }
    return words;
  }

  StepMessage next_answer(std::chrono::seconds patience) {
    const Deadline due = deadline_in(patience);
    for (;;) {
      try {
        std::optional<StepMessage> message = receive_step(*from_, deadline_in(kLookAfter));
        if (message) return *std::move(message);
        children_.check();
        fail(ErrorCode::kUnavailable, "the last part of the model has closed its end");
      } catch (const Error& error) {
        children_.check();
        if (error.code() != ErrorCode::kDeadlineExceeded ||
            std::chrono::steady_clock::now() > due) {
          throw;
        }
      }
    }
  }

  const TextModelFlags flags_;
  const std::vector<std::size_t> cuts_;
  const std::string input_;
  const std::string logits_;
  const std::string token_;
  TokenLimits limits_;
  TransportPtr to_, from_;
  StageChildren children_;
};

}  // namespace

TokenPipelinePtr make_process_pipeline(const HarmonicGraph& graph, const TextModelFlags& flags) {
  return std::make_unique<ProcessPipeline>(graph, flags);
}

}  // namespace harmonics::inline in_text_program
