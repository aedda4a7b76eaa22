#include "remote_pipeline.h"

#include <chrono>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "stage_places.h"
#include "step_ring.h"

namespace harmonics::inline in_text_program {
namespace {

// Between two attempts to meet, while parts notice that the last one is over.
constexpr std::chrono::milliseconds kPause(50);
constexpr std::chrono::seconds kGoodbye(2);

TransportOptions access_options(const StageAccessFlags& flags, std::string run) {
  TransportOptions options;
  options.run = std::move(run);
  options.token = flags.token_file.empty() ? "" : secret_of(flags.token_file, "");
  options.tls.certificate_file = flags.tls_certificate.string();
  options.tls.key_file = flags.tls_key.string();
  options.tls.authority_file = flags.tls_authority.string();
  return options;
}

class RemotePipeline final : public StepRing {
 public:
  RemotePipeline(const HarmonicGraph& graph, StagePlaces places, const StageAccessFlags& flags)
      : StepRing(graph, places.in_flight > 0 ? places.in_flight : places.steps.size(),
                 std::chrono::seconds(flags.deadline_s)),
        places_(std::move(places)),
        options_(access_options(flags, stage_run(graph, places_.cuts, flags.run))),
        first_contact_(flags.first_contact_s) {
    places_.steps.front().listen = false;
    places_.answers.listen = false;
    start();
  }
  // So that the parts hear of a good end, and wait for the next who comes.
  ~RemotePipeline() override { part_in_peace(kGoodbye); }

  void renew() override { start(); }

 protected:
  void look() override { check_open(to()); }

 private:
  void start() {
    const Deadline due = deadline_in(first_contact_);
    for (;; std::this_thread::sleep_for(kPause)) {
      part();
      const auto left = due - std::chrono::steady_clock::now();
      try {
        return meet(make_transport(places_.steps.front(), options_),
                    make_transport(places_.answers, options_), left);
      } catch (const Error& error) {
        explain(error, std::chrono::steady_clock::now() >= due);
      }
    }
  }

  // Throws unless another attempt may help.
  void explain(const Error& error, bool late) const {
    if (error.code() == ErrorCode::kFailedPrecondition) {
      fail(error.code(), "{}; all parts must have the same model, plan and --run",
           std::string_view(error.what()));
    }
    const bool gone =
        error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kAborted;
    if (gone && !late) return;
    if (!gone && error.code() != ErrorCode::kDeadlineExceeded) throw error;
    fail(ErrorCode::kDeadlineExceeded,
         "the parts of the model on {} did not all answer within {} s: is 'harmonics stage "
         "--generate' running on each of them? ({})",
         listed(places_.hosts), first_contact_.count(), std::string_view(error.what()));
  }

  StagePlaces places_;
  const TransportOptions options_;
  const std::chrono::seconds first_contact_;
};

}  // namespace

TokenPipelinePtr make_remote_pipeline(const HarmonicGraph& graph, const TextModelFlags& flags) {
  return std::make_unique<RemotePipeline>(graph, stage_places(graph, flags.plan, flags.hosts),
                                          flags.access);
}

}  // namespace harmonics::inline in_text_program
