// Programs of others (ssh, sbatch, qstat …) that are asked something and answer within a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace harmonics::inline in_cluster_program {

/// Of each stream of an answer; what a program writes beyond is read and dropped.
inline constexpr std::size_t kMaxForeignOutput = std::size_t{8} << 20;

/// How a program ended and what it wrote.
struct ForeignAnswer {
  int exit_code = -1;  ///< -1: a signal ended it, ours included.
  bool timed_out = false;
  std::string out{};
  std::string err{};
  [[nodiscard]] bool done() const { return exit_code == 0; }
};

/// Where PATH has the program. One that is nowhere is an Error (kNotFound) that ends with `advice`.
[[nodiscard]] std::filesystem::path find_foreign(const std::string& name,
                                                 const std::string& advice);

/// Runs it with these words after its name and `input` on its standard input, and waits for its
/// end; after `patience` it is killed with all that it started in its group. Any thread. Throws an
/// Error where it cannot be started.
[[nodiscard]] ForeignAnswer ask_foreign(const std::filesystem::path& program,
                                        std::vector<std::string> words, const std::string& input,
                                        std::chrono::milliseconds patience);

/// What went wrong, in a line: the last words of its error output, or how it ended.
[[nodiscard]] std::string failure_text(const ForeignAnswer& answer);

/// The word as a shell reads it back: in single quotes where it needs them.
[[nodiscard]] std::string shell_quoted(const std::string& word);

/// Words as a shell would split them, quotes and backslashes understood and nothing expanded. A
/// quote without its partner is an Error.
[[nodiscard]] std::vector<std::string> shell_words(const std::string& text);

}  // namespace harmonics::inline in_cluster_program
