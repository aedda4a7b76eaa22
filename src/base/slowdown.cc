#include <harmonics/base/slowdown.h>

#include <algorithm>
#include <string>
#include <thread>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>

namespace harmonics::inline in_base {

double slowdown_from_environment() {
  const std::string text = environment_text(kSlowdownVariable);
  if (text.empty()) return 1;
  const auto factor = number_from<double>(text);
  if (factor && *factor >= 1 && *factor <= kMaxSlowdown) return *factor;
  fail(ErrorCode::kInvalidArgument, "{}='{}' is no factor from 1 to {}: unset it",
       kSlowdownVariable, text, kMaxSlowdown);
}

Nanoseconds slowed_pause(Nanoseconds spent, Nanoseconds waited, double factor) {
  const auto there = std::chrono::duration_cast<Nanoseconds>((spent - waited) * factor);
  return std::max(there - spent, Nanoseconds(0));
}

SlowedWork::SlowedWork(double factor) : factor_(factor) {
  if (factor_ <= 1) return;
  before_ = cores_.emplace().now();
  begun_ = std::chrono::steady_clock::now();
}

SlowedWork::~SlowedWork() {
  if (!cores_) return;
  const Nanoseconds waited = cores_->now().for_core - before_.for_core;
  const Nanoseconds spent = std::chrono::steady_clock::now() - begun_;
  std::this_thread::sleep_for(slowed_pause(spent, waited, factor_));
}

}  // namespace harmonics::inline in_base
