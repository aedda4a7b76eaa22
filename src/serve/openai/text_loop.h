// The thread that computes, and what is asked of it (private to serve_text).
#pragma once

#include <array>
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
  /// Says true once nobody waits for it. Any thread.
  std::function<bool()> gone;
  /// Called in place of the request's listeners where it cannot be taken, or is lost.
  std::function<void(const Error&)> on_error;
};

/// How long something took, counted by ceilings in seconds.
struct TimeHistogram {
  static constexpr std::array<double, 12> kCeilings = {0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                       0.2,   0.5,   1,    2,    10,   60};
  std::array<std::uint64_t, kCeilings.size()> counts = {};
  double sum_s = 0;
  std::uint64_t count = 0;

  void add(double seconds);
};

/// Sums since the start, for Prometheus.
struct TextFigures {
  GeneratorFigures generator;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t left = 0;
  TimeHistogram first_token;
  TimeHistogram next_token;
};
[[nodiscard]] std::string figures_text(const TextFigures& figures, const TokenLimits& limits);

/// Owns the generator's thread: takes jobs in and advances while there are any.
class TextLoop {
 public:
  /// `owners`: how many there are that requests can be of.
  TextLoop(TokenPipeline& pipeline, const GeneratorOptions& options, std::size_t owners = 1);
  /// Jobs that have not ended hear an Error.
  ~TextLoop();
  TextLoop(const TextLoop&) = delete;
  TextLoop& operator=(const TextLoop&) = delete;

  /// Any thread. Too many, or none any more: on_error hears it, on this thread. Jobs of owners with
  /// more than their share under way are too many as well.
  void add(TextJob job);
  [[nodiscard]] TextFigures figures() const;
  /// Empty while all is well.
  [[nodiscard]] std::string failure() const;

 private:
  struct Live;
  struct Tally;

  void run();
  void take(TextJob job);
  void cancel_gone();
  void lose_all(const Error& error);
  void publish();

  const std::shared_ptr<Tally> tally_;
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
