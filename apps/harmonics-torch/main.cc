// What needs libtorch. Started by the front with its own arguments; `--probe` is asked by the
// doctor.
#include <string_view>
#include <type_traits>

#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>

#include "interrupt.h"
#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

int torch_main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--probe") return probe();
  const auto parsed = parse_command_line(argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    write_text(answer->exit_code == kExitDone ? TextStream::kOutput : TextStream::kError,
               answer->text);
    return answer->exit_code;
  }
  const Command& command = std::get<Command>(parsed);
  if (const auto* training = std::get_if<TrainCommand>(&command)) return train(*training);
  if (const auto* part = std::get_if<StageCommand>(&command)) return stage(*part);
  if (const auto* running = std::get_if<RunCommand>(&command)) return run(*running);
  release_interrupts();
  if (const auto* quantizing = std::get_if<QuantizeCommand>(&command)) return quantize(*quantizing);
  if (const auto* profiling = std::get_if<ProfileCommand>(&command)) return profile(*profiling);
  if (const auto* sweeping = std::get_if<DispatchSweepCommand>(&command)) {
    return dispatch_sweep(*sweeping);
  }
  if (const auto* verifying = std::get_if<VerifyCommand>(&command)) return verify(*verifying);
  if (const auto* exporting = std::get_if<CustodyExportCommand>(&command)) {
    return custody_export(*exporting);
  }
  if (const auto* listing = std::get_if<DevicesCommand>(&command)) return devices(*listing);
  fail(ErrorCode::kInvalidArgument,
       "harmonics-torch only trains, runs, quantizes, profiles, sweeps, verifies models and lists "
       "devices; call "
       "'harmonics'");
}

}  // namespace
}  // namespace harmonics::inline in_torch_program

int main(int argc, char** argv) {
  return harmonics::run_reporting_errors([&] { return harmonics::torch_main(argc, argv); });
}
