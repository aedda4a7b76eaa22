// SharedBatcher: processes with small batches let one of them compute for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <harmonics/base/clock.h>
#include <harmonics/dispatch/tensor_results.h>
#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_dispatch {

/// The same in all processes.
struct SharedBatcherConfig {
  /// What the processes share, by a name of their own: letters, digits, '.', '_' and '-'.
  std::string name;
  /// One row of input and of output, without the batch axis.
  TensorSpec input_row;
  TensorSpec output_row;
  /// Rows of one request; larger ones go in pieces.
  std::size_t slot_rows = 1024;
  /// Rows of all processes that the owner computes at once.
  std::size_t max_batch_rows = 16'384;
  /// How long the owner waits for requests that it expects, before it computes those it has.
  Nanoseconds merge_wait = std::chrono::microseconds(300);
  /// A request that takes longer is an Error (kDeadlineExceeded).
  Nanoseconds timeout = std::chrono::minutes(10);
};

struct SharedBatcherCounts {
  /// Batches that were computed, the requests in them and their rows, by all owners so far.
  std::uint64_t batches = 0;
  std::uint64_t requests = 0;
  std::uint64_t rows = 0;
  /// Requests that wait for the owner now.
  std::uint64_t waiting = 0;
};

/// Rows of several processes merged into one sub-batch: requests lie in shared memory, one process,
/// the owner, gathers what waits, computes it at once on a thread of its own and hands results
/// back. The first process becomes the owner; when it leaves or dies, one of those who wait takes
/// over and computes again what was not answered, so `work` must be the same function everywhere. A
/// request whose rows make `work` throw gets the error (with its code) without spoiling others: the
/// requests of a batch that failed are computed one by one.
///
/// Memory: 64 requests of slot_rows each; a configuration beyond kMaxBoardBytes is an Error
/// (kInvalidArgument), as are other settings than those of the processes that are already there.
class SharedBatcher {
 public:
  using Work = std::function<Tensor(Tensor&&)>;
  static constexpr std::size_t kMaxBoardBytes = std::size_t{8} << 30;

  /// `work` takes {rows, input_row…} and gives {rows, output_row…}, both on the CPU; it is called
  /// on the owner's thread, where `init` was called once before.
  SharedBatcher(const SharedBatcherConfig& config, Work work, std::function<void()> init = nullptr);
  ~SharedBatcher();
  SharedBatcher(const SharedBatcher&) = delete;
  SharedBatcher& operator=(const SharedBatcher&) = delete;

  /// Has rows {n, input_row…} computed, by whoever owns; any thread, any number of them.
  [[nodiscard]] Tensor run(const Tensor& rows);

  /// True while this one computes for all.
  [[nodiscard]] bool owns() const;
  [[nodiscard]] SharedBatcherCounts counts() const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

/// The functions of a TensorDispatcher whose sub-batches are computed by the owner. The batcher
/// outlives the dispatcher.
[[nodiscard]] TensorFunctions merged_functions(SharedBatcher& batcher);

}  // namespace harmonics::inline in_dispatch
