#include <harmonics/base/stop.h>

#include <utility>

namespace harmonics::inline in_base {

void StopRequest::ask(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (asked_) return;
  why_ = why;
  asked_.store(true, std::memory_order_release);
  for (const auto& [key, wake] : alarms_) wake();
}

void StopRequest::set_patience(const Patience& patience) {
  in_touch_ns_ = patience.in_touch.count();
  alone_ns_ = patience.alone.count();
}

StopRequest::Instant StopRequest::limit(Instant from, bool in_touch) const {
  return from + Nanoseconds(in_touch ? in_touch_ns_.load() : alone_ns_.load());
}

StopRequest::Alarm::Alarm(std::shared_ptr<StopRequest> request, std::function<void()> wake)
    : request_(std::move(request)) {
  const std::lock_guard lock(request_->mutex_);
  if (request_->asked_) wake();
  key_ = ++request_->alarms_made_;
  request_->alarms_.emplace(key_, std::move(wake));
}

StopRequest::Alarm::~Alarm() {
  const std::lock_guard lock(request_->mutex_);
  request_->alarms_.erase(key_);
}

}  // namespace harmonics::inline in_base
