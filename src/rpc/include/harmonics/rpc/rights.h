// Who may ask what: the one place that says so, for every door of the server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <harmonics/rpc/views.h>

namespace harmonics::inline in_rpc {

/// Who shows a token, and what that token is good for.
struct Identity {
  std::string user;
  bool may_submit = false;
  bool may_view = false;
  bool may_administer = false;
  bool may_work = false;
};

enum class Right { kSubmit, kView, kAdminister };
/// "submit", "view", "admin".
[[nodiscard]] std::string_view to_string(Right right);
/// An admin may do all that others may; who submits sees their own.
[[nodiscard]] bool has_right(const Identity& who, Right right);
/// Why one who lacks it is refused.
[[nodiscard]] std::string missing_right(const Identity& who, Right right);

[[nodiscard]] Caller caller_of(const Identity& who);
[[nodiscard]] Viewer viewer_of(const Identity& who);

/// A priority displaces the tasks of others, so it is not for everyone to choose: above `most` an
/// Error (kPermissionDenied) unless `who` is an admin.
void check_priority(const Identity& who, std::int32_t priority, std::int32_t most);

/// What others have in their environment is nobody's business but theirs and an admin's.
void hide_from(const Identity& who, TaskView& task);
void hide_from(const Identity& who, TaskPage& page);

}  // namespace harmonics::inline in_rpc
