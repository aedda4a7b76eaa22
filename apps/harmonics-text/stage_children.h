// The processes that hold the parts of a model.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace harmonics::inline in_text_program {

/// Set in the environment of a child: the process that it belongs to.
inline constexpr const char* kStageParent = "HARMONICS_STAGE_PARENT";

/// Owns children that run this very program; they are killed with it, and what they have to say
/// goes to our standard error. One thread.
class StageChildren {
 public:
  StageChildren() = default;
  ~StageChildren() { clear(); }
  StageChildren(const StageChildren&) = delete;
  StageChildren& operator=(const StageChildren&) = delete;

  /// Starts one with these arguments; `token` is what it shows the others.
  void start(const std::vector<std::string>& words, const std::string& token);
  /// Kills all of them.
  void clear();
  /// An Error where one has ended: kUnavailable where a signal ended it, so that another may do.
  void check();

 private:
  std::vector<pid_t> children_;
};

/// In a child: it dies with its parent, however that ends.
void die_with_stage_parent();

/// A port of this machine that nobody listens on now.
[[nodiscard]] std::uint16_t unused_port();

}  // namespace harmonics::inline in_text_program
