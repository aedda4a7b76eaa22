#include "process_pipeline.h"

#include <chrono>

#include <harmonics/base/entropy.h>
#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include "stage_children.h"
#include "stage_places.h"
#include "step_ring.h"

namespace harmonics::inline in_text_program {
namespace {

constexpr std::chrono::seconds kForTheStart(300);
constexpr int kStarts = 3;
constexpr std::size_t kSecretBytes = 16;

class ProcessPipeline final : public StepRing {
 public:
  ProcessPipeline(const HarmonicGraph& graph, std::vector<std::size_t> cuts,
                  const TextModelFlags& flags)
      : StepRing(graph, steps_for(graph, cuts.size() - 1, flags),
                 std::chrono::seconds(flags.access.deadline_s)),
        flags_(flags),
        cuts_(std::move(cuts)),
        token_(random_hex(kSecretBytes)) {
    start();
  }

  void renew() override { start(); }

 protected:
  void look() override { children_.check(); }

 private:
  // A part may be killed while it starts, too.
  void start() {
    for (int attempt = 1;; ++attempt) {
      part();
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
    TransportPtr to = make_transport(ends.front(), options);
    TransportPtr from = make_transport(ends.back(), options);
    for (std::size_t part = 0; part + 1 < cuts_.size(); ++part) {
      children_.start(words_for(part, ends, options.run), token_);
    }
    meet(std::move(to), std::move(from), kForTheStart);
  }

  // As many as there are parts, unless a plan knows better.
  static std::size_t steps_for(const HarmonicGraph& graph, std::size_t parts,
                               const TextModelFlags& flags) {
    const std::size_t planned = flags.plan.empty() ? 0 : planned_steps(graph, flags.plan);
    return planned > 0 ? planned : parts;
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
    if (flags_.computing.backend == TextBackend::kGpu) {
      words.insert(words.end(), {"--backend", "gpu"});
    }
    if (flags_.computing.deterministic) words.push_back("--deterministic");
    return words;
  }

  const TextModelFlags flags_;
  const std::vector<std::size_t> cuts_;
  const std::string token_;
  StageChildren children_;
};

}  // namespace

TokenPipelinePtr make_process_pipeline(const HarmonicGraph& graph, std::vector<std::size_t> cuts,
                                       const TextModelFlags& flags) {
  return std::make_unique<ProcessPipeline>(graph, std::move(cuts), flags);
}

}  // namespace harmonics::inline in_text_program
