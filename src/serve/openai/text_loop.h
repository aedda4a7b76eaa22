// The thread that computes, and what is asked of it (private to serve_text).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <harmonics/base/channel.h>
#include <harmonics/base/error.h>
#include <harmonics/schedule/token_generator.h>

namespace harmonics::inline in_serve {

/// A request on its way to the generator. Its listeners are called on the loop's thread.
struct TextJob {
  GenerationRequest request;
  /// True once nobody waits for it.
  std::shared_ptr<const std::atomic<bool>> gone;
  /// Called in place of the request's listeners where it cannot be taken, or is lost.
  std::function<void(const Error&)> on_error;
};

/// Sums since the start, for Prometheus.
struct TextFigures {
  GeneratorFigures generator;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t left = 0;
  double first_token_s = 0;
  std::uint64_t first_tokens = 0;
  double next_token_s = 0;
  std::uint64_t next_tokens = 0;
};
[[nodiscard]] std::string figures_text(const TextFigures& figures, const TokenLimits& limits);

/// Owns the generator's thread: takes jobs in and advances while there are any.
class TextLoop {
 public:
  TextLoop(TokenPipeline& pipeline, const GeneratorOptions& options);
  /// Jobs that have not ended hear an Error.
  ~TextLoop();
  TextLoop(const TextLoop&) = delete;
  TextLoop& operator=(const TextLoop&) = delete;

  /// Any thread. Too many, or none any more: on_error hears it, on this thread.
  void add(TextJob job);
  [[nodiscard]] TextFigures figures() const;
  /// Empty while all is well.
  [[nodiscard]] std::string failure() const;

 private:
  struct Live;

  void run();
  void take(TextJob job);
  void cancel_gone();
  void lose_all(const Error& error);
  void publish();

  Generator generator_;
  Channel<TextJob> jobs_;
  std::list<std::shared_ptr<Live>> live_;
  mutable std::mutex mutex_;
  TextFigures figures_;  // the thread's
  TextFigures published_;
  std::string failure_;
  std::atomic<bool> over_ = false;
  std::atomic<std::uint64_t> refused_ = 0;
  std::thread thread_;
};

}  // namespace harmonics::inline in_serve
