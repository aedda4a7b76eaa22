#include <harmonics/rpc/rights.h>

#include <harmonics/base/error.h>

namespace harmonics::inline in_rpc {
namespace {

constexpr const char* kHidden = "(hidden)";

}  // namespace

std::string_view to_string(Right right) {
  switch (right) {
    case Right::kSubmit: return "submit";
    case Right::kView: return "view";
    case Right::kAdminister: return "admin";
  }
  return "";
}

bool has_right(const Identity& who, Right right) {
  switch (right) {
    case Right::kSubmit: return who.may_submit || who.may_administer;
    case Right::kView: return who.may_view || who.may_submit || who.may_administer;
    case Right::kAdminister: return who.may_administer;
  }
  return false;
}

std::string missing_right(const Identity& who, Right right) {
  return format("'{}' may not do that: it needs a token with the role '{}'", who.user,
                to_string(right));
}

Caller caller_of(const Identity& who) { return {who.user, who.may_administer}; }
Viewer viewer_of(const Identity& who) { return {who.user, who.may_view || who.may_administer}; }

void check_priority(const Identity& who, std::int32_t priority, std::int32_t most) {
  if (who.may_administer || priority <= most) return;
  fail(ErrorCode::kPermissionDenied,
       "priority {} is above {}, the most that '{}' may ask for: a token with the role 'admin' "
       "may, or the server's --max-priority is raised",
       priority, most, who.user);
}

void hide_from(const Identity& who, TaskView& task) {
  if (who.may_administer || task.user == who.user) return;
  for (auto& [name, value] : task.spec.env) value = kHidden;
}

void hide_from(const Identity& who, TaskPage& page) {
  for (TaskView& task : page.tasks) hide_from(who, task);
}

}  // namespace harmonics::inline in_rpc
