#include <harmonics/rpc/worker_line.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include <harmonics/base/log.h>

#include "connection.h"
#include "conversion.h"

namespace harmonics::inline in_rpc {

struct WorkerLine::Parts {
  std::string server;
  bool tls = false;
  std::string output_token;
  std::function<void(LineEvent)> hear;
  std::unique_ptr<wire::Cluster::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<wire::WorkerFrame, wire::ServerFrame>> stream;
  std::shared_ptr<const TaskSpec> last_spec;  ///< The reader's.
  std::thread reader;
  std::thread writer;

  std::mutex mutex;
  std::condition_variable changed;
  wire::WorkerFrame next;  ///< What the writer sends in its next turn.
  bool over = false;

  /// Tasks of an array come one after another and say the same, files included.
  void share(StartMessage& start) {
    if (last_spec != nullptr && *last_spec == *start.spec) start.spec = last_spec;
    last_spec = start.spec;
  }

  void read() {
    wire::ServerFrame frame;
    try {
      while (stream->Read(&frame)) {
        LineSays says{{frame.epoch()}, {}};
        for (const wire::ServerMessage& message : frame.messages()) {
          says.messages.push_back(decode(message));
          if (auto* start = std::get_if<StartMessage>(&says.messages.back())) share(*start);
        }
        hear(std::move(says));
      }
    } catch (const Error& error) {
      log_warn("rpc", "cutting the connection to {}: {}", server, error.what());
      context.TryCancel();
    }
    {
      const std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
    }
    writer.join();
    const grpc::Status status = stream->Finish();
    const bool refused = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
    const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE;
    hear(LineClosed{status.ok()   ? "the server closed the session"
                    : unreachable ? unreachable_text(server, tls, status.error_message())
                                  : status.error_message(),
                    refused});
  }

  void write() {
    wire::WorkerFrame frame;
    while (true) {
      {
        std::unique_lock lock(mutex);
        changed.wait(
            lock, [this] { return over || next.messages_size() > 0 || next.progress_size() > 0; });
        if (over) return;
        frame.Clear();
        frame.Swap(&next);
      }
      if (!stream->Write(frame)) return;
    }
  }
};

WorkerLine::WorkerLine(const ClientOptions& options, std::string output_token,
                       std::function<void(LineEvent)> hear)
    : parts_(std::make_unique<Parts>()) {
  parts_->server = options.server;
  parts_->tls = options.tls.has_value();
  parts_->output_token = std::move(output_token);
  parts_->hear = std::move(hear);
  parts_->stub = wire::Cluster::NewStub(open_channel(options.server, options.tls));
  add_token(parts_->context, options.token);
  parts_->stream = parts_->stub->Session(&parts_->context);
  parts_->writer = std::thread([this] { parts_->write(); });
  parts_->reader = std::thread([this] { parts_->read(); });
}

WorkerLine::~WorkerLine() {
  parts_->context.TryCancel();
  parts_->reader.join();
}

void WorkerLine::send(const WorkerMessage& message) {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->over) return;
  wire::WorkerMessage& out = *parts_->next.add_messages();
  encode(message, out);
  if (out.has_hello()) out.mutable_hello()->set_log_token(parts_->output_token);
  parts_->changed.notify_one();
}

void WorkerLine::report(const ProgressLine& progress) {
  const std::lock_guard lock(parts_->mutex);
  if (parts_->over) return;
  wire::Progress& out = *parts_->next.add_progress();
  out.mutable_id()->set_task(progress.id.task.value);
  out.mutable_id()->set_attempt(progress.id.attempt.value);
  out.set_line(progress.line);
  parts_->changed.notify_one();
}

}  // namespace harmonics::inline in_rpc
