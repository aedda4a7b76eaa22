// harmonics stage --generate: one part of a language model, for whoever generates elsewhere.
#include <chrono>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/runtime/token_stage.h>

#include "stage_places.h"
#include "step_ring.h"
#include "subcommands.h"
#include "text_model.h"
#include "token_device.h"

namespace harmonics::inline in_text_program {
namespace {

// How often the next part is looked after while no step comes.
constexpr std::chrono::milliseconds kLookForSteps(100);
constexpr std::chrono::seconds kForTheNextPart(60);

int threads_of(const StageCommand& command) {
  for (const Setting& setting : command.training.settings) {
    if (setting.key == "threads") return number_from<int>(setting.value).value_or(1);
  }
  return 1;
}

TransportOptions own_options(const StageCommand& command, std::string run) {
  TransportOptions options;
  options.run = std::move(run);
  options.token = secret_of(command.token_file, "HARMONICS_TOKEN");
  options.tls.certificate_file = command.tls_certificate.string();
  options.tls.key_file = command.tls_key.string();
  options.tls.authority_file = command.tls_authority.string();
  options.needs_secret = true;
  return options;
}

/// A part and its two ends; it outlives those who use it.
class WaitingStage {
 public:
  WaitingStage(const StageCommand& command, const TextGraph& model, StagePlaces places)
      : command_(command),
        options_(own_options(command, stage_run(model.graph, places.cuts, command.run))),
        in_(places.steps.at(part())),
        out_(is_last(places) ? places.answers : places.steps.at(part() + 1)),
        device_(token_device(command.computing, model.weights)),
        stage_(device_.stage(
            model.graph, model.weights,
            {places.cuts[part()], places.cuts[part() + 1],
             static_cast<std::uint64_t>(command.cache_mb) << 20, threads_of(command)})) {
    in_.listen = true;
    out_.listen = is_last(places);
    say(format("part {} ({}, layers {} to {}, {}) waits at {}", part(), places.hosts[part()],
               places.cuts[part()] + 1, places.cuts[part() + 1], device_.name(), binding_url(in_)));
  }

  /// For one that generates, until it is done or lost.
  void serve() {
    const TransportPtr in = make_transport(in_, options_);
    const TransportPtr out = make_transport(out_, options_);
    try {
      while (std::optional<StepMessage> step = next_step(*in, *out)) {
        send_step(*out, computed_step(stage_, *std::move(step)), deadline_in(kForTheNextPart),
                  [&] { check_open(*in); });
      }
      out->close(deadline_in(kForTheNextPart));
    } catch (const Error& error) {
      say(format("part {} waits again: {}", part(), error.what()));
    }
    stage_.drop_all();
  }

 private:
  [[nodiscard]] std::size_t part() const { return static_cast<std::size_t>(command_.part); }
  [[nodiscard]] bool is_last(const StagePlaces& places) const {
    return part() + 1 == places.steps.size();
  }
  void say(const std::string& line) const {
    if (command_.training.output != OutputStyle::kQuiet) {
      write_text(TextStream::kError, line + "\n");
    }
  }

  static std::optional<StepMessage> next_step(Transport& in, Transport& out) {
    for (;;) {
      try {
        return receive_step(in, deadline_in(kLookForSteps));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kDeadlineExceeded) throw;
      }
      check_open(out);
    }
  }

  const StageCommand& command_;
  const TransportOptions options_;
  RemoteBinding in_, out_;
  const TokenDevice device_;
  TokenStage stage_;
};

}  // namespace

int text_stage(const StageCommand& command) {
  const TextGraph model = open_text_graph(command.training.file, command.training.weights);
  StagePlaces places = stage_places(model.graph, command.training.plan, command.hosts);
  if (command.part >= static_cast<std::int64_t>(places.steps.size())) {
    fail(ErrorCode::kInvalidArgument, "--part {}: the plan has parts 0 to {}", command.part,
         places.steps.size() - 1);
  }
  WaitingStage stage(command, model, std::move(places));
  for (;;) stage.serve();
}

}  // namespace harmonics::inline in_text_program
