// The front: starts in milliseconds, never loads libtorch. What needs libtorch is checked here and
// then handed to harmonics-torch, which lies beside this program.
#include <string>

#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/programs/programs.h>

#include "subcommands.h"
#include "text_program.h"
#include "torch_program.h"

namespace harmonics::inline in_front {
namespace {

struct Dispatch {
  char** argv;

  int operator()(const GraphShowCommand& command) const { return graph_show(command); }
  int operator()(const GraphCheckCommand& command) const { return graph_check(command); }
  int operator()(const GraphPartsCommand& command) const { return graph_parts(command); }
  int operator()(const GraphDrawCommand& command) const { return graph_draw(command); }
  int operator()(const GraphZooCommand& command) const { return graph_zoo(command); }
  int operator()(const ImportCommand& command) const { return import_source(command); }
  int operator()(const ExportCommand& command) const { return export_model(command); }
  int operator()(const PlanCommand& command) const {
    if (!command.checks.empty()) return plan_check(command);
    return command.generates() ? plan_text(command) : plan(command);
  }
  int operator()(const DispatchTraceCommand& command) const { return dispatch_trace(command); }
  int operator()(const TraceCommand& command) const { return trace(command); }
  int operator()(const KeysNewCommand& command) const { return keys_new(command); }
  int operator()(const KeysShowCommand& command) const { return keys_show(command); }
  int operator()(const VerifyCommand& command) const {
    if (!command.compares_models()) return verify(command);
    become_torch_program(argv);
  }
  int operator()(const SignCommand& command) const { return sign(command); }
  int operator()(const CustodyExportCommand& command) const {
    if (command.weights.empty()) return custody_export(command);
    become_torch_program(argv);
  }
  int operator()(const CustodyImportCommand& command) const { return custody_import(command); }
  int operator()(const CustodyShowCommand& command) const { return custody_show(command); }
  int operator()(const TokensCommand& command) const { return tokens(command); }
  int operator()(const GenerateCommand& command) const {
    become_program(text_program(command.model.computing.backend), argv);
  }
  int operator()(const TokenStageCommand& command) const {
    become_program(text_program(command.computing.backend), argv);
  }
  int operator()(const ServeCommand& command) const {
    become_program(text_program(command.model.computing.backend), argv);
  }
  int operator()(const DoctorCommand& command) const { return doctor(command); }
  int operator()(const CompletionCommand& command) const { return completion(command); }
  int operator()(const DevicesCommand&) const { become_torch_program(argv); }
  int operator()(const TrainCommand&) const { become_torch_program(argv); }
  int operator()(const StageCommand& command) const {
    if (command.generate) become_program(text_program(command.computing.backend), argv);
    become_torch_program(argv);
  }
  int operator()(const RunCommand&) const { become_torch_program(argv); }
  int operator()(const QuantizeCommand&) const { become_torch_program(argv); }
  int operator()(const DispatchSweepCommand&) const { become_torch_program(argv); }
  int operator()(const ProfileCommand& command) const {
    if (!command.serve.empty()) return profile_serve(command);
    if (!command.runs.empty()) return profile_from_run(command);
    if (command.mode == ProfiledMode::kGeneration) become_program(kTextProgram, argv);
    become_torch_program(argv);
  }
  /// All others speak with a cluster.
  template <typename ClusterCommand>
  int operator()(const ClusterCommand&) const {
    become_program(kClusterProgram, argv);
  }
};

int front(int argc, char** argv) {
  const auto parsed = parse_command_line(argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    write_text(answer->exit_code == kExitDone ? TextStream::kOutput : TextStream::kError,
               answer->text);
    return answer->exit_code;
  }
  return std::visit(Dispatch{argv}, std::get<Command>(parsed));
}

}  // namespace
}  // namespace harmonics::inline in_front

int main(int argc, char** argv) {
  return harmonics::run_reporting_errors([&] { return harmonics::front(argc, argv); });
}
