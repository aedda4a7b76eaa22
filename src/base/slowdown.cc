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

SlowedWork::SlowedWork(double factor) : factor_(factor) {
  if (factor_ <= 1) return;
  before_ = cores_.emplace().now();
  begun_ = std::chrono::steady_clock::now();
}

SlowedWork::~SlowedWork() {
  if (!cores_) return;
  const Nanoseconds waited = cores_->now().for_core - before_.for_core;
  const Nanoseconds spent = std::chrono::steady_clock::now() - begun_;
  std::this_thread::sleep_for(std::max(spent - waited, Nanoseconds(0)) * (factor_ - 1));
}

}  // namespace harmonics::inline in_base
