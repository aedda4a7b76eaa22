// The programs of the house, which lie side by side: finding one from another, becoming it, running
// it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>

namespace harmonics::inline in_programs {

/// A program in the folder of the running one, and how to get it where it is not there.
struct SiblingProgram {
  const char* name;
  /// Of the Error where it is not there.
  ErrorCode missing = ErrorCode::kNotFound;
  /// What it is built with; null: it always is.
  const char* build_option = nullptr;
  const char* library = nullptr;
};

inline constexpr SiblingProgram kFrontProgram{"harmonics"};
inline constexpr SiblingProgram kTorchProgram{"harmonics-torch", ErrorCode::kNotFound,
                                              "HARMONICS_WITH_TORCH", "libtorch"};
inline constexpr SiblingProgram kClusterProgram{"harmonics-cluster", ErrorCode::kUnimplemented,
                                                "HARMONICS_WITH_GRPC", "gRPC"};
inline constexpr SiblingProgram kTextProgram{"harmonics-text"};
/// The same with libtorch, for a GPU.
inline constexpr SiblingProgram kTextTorchProgram{"harmonics-text-torch", ErrorCode::kNotFound,
                                                  "HARMONICS_WITH_TORCH", "libtorch"};
inline constexpr SiblingProgram kSupervisorProgram{"harmonics-supervisor"};

/// The folder of the running program.
[[nodiscard]] std::filesystem::path program_folder();
/// Where a program lies. It need not exist.
[[nodiscard]] std::filesystem::path path_of(const SiblingProgram& program);

/// Replaces this process by the program with these arguments, its own name first. Where it is
/// missing or does not start, here as below, an Error says how to get it.
[[noreturn]] void become_program(const SiblingProgram& program, char** argv);
/// The same; `words` come after its name, here as below.
[[noreturn]] void become_program(const SiblingProgram& program,
                                 const std::vector<std::string>& words);

/// Runs the program with its standard output in `file`, which only the user may read, and waits for
/// its end. Its exit code; nothing where a signal ended it.
[[nodiscard]] std::optional<int> run_program(const SiblingProgram& program,
                                             const std::vector<std::string>& words,
                                             const std::filesystem::path& file);

/// Runs the program and waits for its end. What it printed; nothing where it failed or printed more
/// than `max_bytes`.
[[nodiscard]] std::optional<std::string> ask_program(const SiblingProgram& program,
                                                     const std::vector<std::string>& words,
                                                     std::size_t max_bytes);

}  // namespace harmonics::inline in_programs
