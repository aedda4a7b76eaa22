// harmonics token-stage: one part of a generation over processes.
#include <chrono>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/options/command_line.h>
#include <harmonics/runtime/token_stage.h>

#include "stage_children.h"
#include "step_ring.h"
#include "subcommands.h"
#include "text_model.h"
#include "token_device.h"

namespace harmonics::inline in_text_program {
namespace {

// Whoever started it ends it; between steps it waits as long as it takes.
constexpr std::chrono::hours kForTheNext(24);
constexpr std::chrono::seconds kForTheOther(300);

}  // namespace

int token_stage(const TokenStageCommand& command) {
  die_with_stage_parent();
  TransportOptions options;
  options.run = command.run;
  options.token = environment_text("HARMONICS_TOKEN");
  const TransportPtr in = make_transport(parse_binding(command.in), options);
  const TransportPtr out = make_transport(parse_binding(command.out), options);
  const TextGraph model = open_text_graph(command.model, command.weights);
  TokenStage stage =
      token_device(command.computing, model.weights)
          .stage(model.graph, model.weights,
                 {static_cast<std::size_t>(command.first), static_cast<std::size_t>(command.end),
                  static_cast<std::uint64_t>(command.cache_mb) << 20,
                  static_cast<int>(command.threads)});
  while (std::optional<StepMessage> step = receive_step(*in, deadline_in(kForTheNext))) {
    send_step(*out, computed_step(stage, *std::move(step)), deadline_in(kForTheOther));
  }
  out->close(deadline_in(kForTheOther));
  return kExitDone;
}

}  // namespace harmonics::inline in_text_program
