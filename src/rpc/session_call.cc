#include "session_call.h"

#include <deque>
#include <mutex>

#include <harmonics/base/log.h>

#include "connection.h"

namespace harmonics::inline in_rpc {
namespace {

/// Messages that go into one frame.
constexpr std::size_t kMaxFrameMessages = 256;
constexpr std::size_t kMaxFrameBytes = 1 << 20;

class SessionCall;

/// What the backend holds: outlives the call, after which it does nothing.
class Line final : public SessionLine {
 public:
  explicit Line(SessionCall* call) : call_(call) {}
  void open(Epoch epoch) override;
  void send(const ServerMessage& message) override;
  void close() override;
  void detach() {
    const std::lock_guard lock(mutex_);
    call_ = nullptr;
  }

 private:
  std::mutex mutex_;
  SessionCall* call_;
};

class SessionCall final : public grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame> {
 public:
  SessionCall(ClusterBackend& backend, RequestId connection, const grpc::Status& verdict,
              std::atomic<std::uint64_t>& sessions)
      : backend_(backend), connection_(connection), line_(std::make_shared<Line>(this)) {
    if (!verdict.ok()) {
      finished_ = true;
      Finish(verdict);
      return;
    }
    sessions_ = &sessions;
    ++sessions;
    StartRead(&in_);
  }

  void set_epoch(Epoch epoch) {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
  }
  void queue(const ServerMessage& message) {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    if (queue_.size() >= kMaxQueuedMessages) {
      log_warn("rpc", "a worker does not take its messages ({} wait): closing its session",
               queue_.size());
      queue_.clear();
      begin_closing();
      return;
    }
    queue_.push_back(message);
    write_next();
  }
  void close_after_queue() {
    const std::lock_guard lock(mutex_);
    begin_closing();
  }

  void OnReadDone(bool ok) override {
    if (!ok || !take_frame()) {
      const std::lock_guard lock(mutex_);
      queue_.clear();
      begin_closing();
      return;
    }
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      queue_.clear();
      closing_ = true;
    }
    write_next();
  }
  void OnDone() override {
    line_->detach();
    if (greeted_) backend_.gone(connection_);
    if (sessions_ != nullptr) --*sessions_;
    delete this;
  }

 private:
  /// False: the worker broke the rules, end the call.
  bool take_frame() {
    std::vector<WorkerMessage> messages;
    std::vector<ProgressLine> progress;
    try {
      for (const wire::WorkerMessage& message : in_.messages()) {
        if (message.has_hello() && !greeted_) {
          greeted_ = true;
          backend_.hello(connection_, line_, std::get<HelloMessage>(decode(message)),
                         message.hello().log_token());
        } else if (!greeted_ || message.has_hello()) {
          fail(ErrorCode::kInvalidArgument, "a session begins with one hello");
        } else {
          messages.push_back(decode(message));
        }
      }
      for (const wire::Progress& line : in_.progress()) {
        progress.push_back({decode(line.id()), line.line()});
      }
    } catch (const Error& error) {
      log_warn("rpc", "closing a worker's session: {}", error.what());
      return false;
    }
    if (!messages.empty() || !progress.empty()) {
      backend_.says(connection_, std::move(messages), std::move(progress));
    }
    return true;
  }

  // All below under mutex_.
  void begin_closing() {
    closing_ = true;
    write_next();
  }
  void write_next() {
    if (writing_ || finished_) return;
    if (queue_.empty()) {
      if (closing_) {
        finished_ = true;
        Finish(grpc::Status::OK);
      }
      return;
    }
    out_.Clear();
    out_.set_epoch(epoch_.value);
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < kMaxFrameMessages && bytes < kMaxFrameBytes && !queue_.empty();
         ++i) {
      wire::ServerMessage& message = *out_.add_messages();
      encode(queue_.front(), message);
      bytes += message.ByteSizeLong();
      queue_.pop_front();
    }
    writing_ = true;
    StartWrite(&out_);
  }

  ClusterBackend& backend_;
  const RequestId connection_;
  std::atomic<std::uint64_t>* sessions_ = nullptr;  ///< Null: it does not count.
  const std::shared_ptr<Line> line_;
  wire::WorkerFrame in_;
  bool greeted_ = false;

  std::mutex mutex_;
  Epoch epoch_;
  std::deque<ServerMessage> queue_;  ///< As they are: tasks of an array share what they say.
  wire::ServerFrame out_;
  bool writing_ = false;
  bool closing_ = false;
  bool finished_ = false;
};

void Line::open(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  if (call_ != nullptr) call_->set_epoch(epoch);
}
void Line::send(const ServerMessage& message) {
  const std::lock_guard lock(mutex_);
  if (call_ != nullptr) call_->queue(message);
}
void Line::close() {
  const std::lock_guard lock(mutex_);
  if (call_ != nullptr) call_->close_after_queue();
}

}  // namespace

grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* start_session(
    ClusterBackend& backend, RequestId connection, const grpc::Status& verdict,
    std::atomic<std::uint64_t>& sessions) {
  return new SessionCall(backend, connection, verdict, sessions);
}

}  // namespace harmonics::inline in_rpc
