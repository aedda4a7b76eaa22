#include <harmonics/serve/http_stream.h>

#include <utility>

namespace harmonics::inline in_serve {

bool HttpStream::send(std::string_view piece) {
  std::function<void()> ring;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || ended_) return false;
    if (waiting_.size() + piece.size() > kMaxBacklog) {
      closed_ = true;
      waiting_ = {};
    } else {
      waiting_ += piece;
    }
    ring = ring_;
  }
  if (ring) ring();
  const std::lock_guard lock(mutex_);
  return !closed_;
}

void HttpStream::end() {
  std::function<void()> ring;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ring = ring_;
  }
  if (ring) ring();
}

void HttpStream::attach(std::function<void()> ring) {
  {
    const std::lock_guard lock(mutex_);
    ring_ = ring;
  }
  ring();
}

std::string HttpStream::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

bool HttpStream::is_over() const {
  const std::lock_guard lock(mutex_);
  return closed_ || (ended_ && waiting_.empty());
}

void HttpStream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  waiting_ = {};
  ring_ = nullptr;
}

}  // namespace harmonics::inline in_serve
