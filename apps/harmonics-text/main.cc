// Language models token by token. Started by the front with its own arguments.
#include <harmonics/base/error.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>

#include "subcommands.h"

namespace harmonics::inline in_text_program {
namespace {

int text_main(int argc, char** argv) {
  const auto parsed = parse_command_line(argc, argv);
  if (const UsageAnswer* answer = std::get_if<UsageAnswer>(&parsed)) {
    write_text(answer->exit_code == kExitDone ? TextStream::kOutput : TextStream::kError,
               answer->text);
    return answer->exit_code;
  }
  const Command& command = std::get<Command>(parsed);
  if (const auto* generating = std::get_if<GenerateCommand>(&command)) return generate(*generating);
  if (const auto* part = std::get_if<TokenStageCommand>(&command)) return token_stage(*part);
  if (const auto* stage = std::get_if<StageCommand>(&command); stage && stage->generate) {
    return text_stage(*stage);
  }
  if (const auto* measuring = std::get_if<ProfileCommand>(&command);
      measuring && measuring->mode == ProfiledMode::kGeneration) {
    return profile(*measuring);
  }
  if (const auto* serving = std::get_if<ServeCommand>(&command)) return serve(*serving);
  fail(ErrorCode::kInvalidArgument,
       "harmonics-text only generates and serves texts; call 'harmonics'");
}

}  // namespace
}  // namespace harmonics::inline in_text_program

int main(int argc, char** argv) {
  return harmonics::run_reporting_errors([&] { return harmonics::text_main(argc, argv); });
}
