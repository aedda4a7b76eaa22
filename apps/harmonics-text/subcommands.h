// What this program does, one function per subcommand; each gives the exit code.
#pragma once

#include <harmonics/options/commands.h>

namespace harmonics::inline in_text_program {

[[nodiscard]] int generate(const GenerateCommand& command);
[[nodiscard]] int token_stage(const TokenStageCommand& command);
/// 'harmonics stage --generate'; waits for the next who generates until a signal ends it.
[[nodiscard]] int text_stage(const StageCommand& command);
/// 'harmonics profile --mode generation'.
[[nodiscard]] int profile(const ProfileCommand& command);
[[nodiscard]] int serve(const ServeCommand& command);

}  // namespace harmonics::inline in_text_program
