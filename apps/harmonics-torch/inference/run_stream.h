// Running a graph over its rows: in this process, or in one for each part.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include <harmonics/schedule/learner.h>
#include <harmonics/serve/inference_service.h>

#include "inference_job.h"
#include "interrupt.h"
#include "run_report.h"

namespace harmonics::inline in_torch_program {

/// Counts batches as they come out, in order, and keeps what a report shows; whoever conducts the
/// stream pushes them to the consumers. One thread at a time.
class RunTally {
 public:
  /// Job and watch must outlive it.
  RunTally(const InferenceJob& job, NamedConsumers consumers, InterruptWatch& watch);
  ~RunTally();

  void add(const StreamedBatch& batch);
  /// A signal that came is an Error (kCancelled) that says how far it was.
  void check_interrupt() const;
  [[nodiscard]] const NamedConsumers& consumers() const { return consumers_; }
  /// Batches so far.
  [[nodiscard]] std::int64_t delivered() const { return delivered_; }
  /// For text between: wipes the bar.
  void clear();
  /// The report so far, with loss and accuracy. Once.
  [[nodiscard]] RunReport report();

 private:
  struct State;
  const InferenceJob& job_;
  NamedConsumers consumers_;
  InterruptWatch& watch_;
  std::unique_ptr<State> state_;
  std::int64_t delivered_ = 0;
};

/// Where --trace keeps what a part did when; `copy` is that of a part with several.
[[nodiscard]] std::filesystem::path pass_trace_file(const InferenceJob& job, std::size_t part,
                                                    std::optional<std::size_t> copy = {});
/// Whoever computes the parts of a job in this process.
[[nodiscard]] std::unique_ptr<Learner> inference_learner(const InferenceJob& job);

/// In this process, one thread for each part.
[[nodiscard]] RunReport run_here(const InferenceJob& job, InterruptWatch& watch);
/// A process for each part, which is started again when one dies or hangs.
[[nodiscard]] RunReport run_in_processes(const InferenceJob& job, InterruptWatch& watch);

/// Requests in place of data.
struct ServedStream {
  InferenceService& service;
  /// Told after each batch that came out.
  std::function<void()> on_batch;
};
/// A process for each part as above, until the service is drained.
void serve_in_processes(const InferenceJob& job, InterruptWatch& watch, const ServedStream& served);

}  // namespace harmonics::inline in_torch_program
