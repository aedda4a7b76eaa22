#include <harmonics/dispatch/shared_batcher.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>

#include <harmonics/share/batch_board.h>

namespace harmonics::inline in_dispatch {
namespace {

std::size_t row_bytes(const TensorSpec& row) { return static_cast<std::size_t>(byte_count(row)); }

BoardSizes board_sizes(const SharedBatcherConfig& config) {
  if (config.slot_rows == 0 || config.max_batch_rows == 0 || row_bytes(config.input_row) == 0 ||
      row_bytes(config.output_row) == 0) {
    fail(ErrorCode::kInvalidArgument,
         "batcher '{}': slot_rows, max_batch_rows and the rows must not be empty", config.name);
  }
  const std::string agreed =
      format("batches 1|{}|{}|{}|{}", spec_text(config.input_row), spec_text(config.output_row),
             config.slot_rows, config.max_batch_rows);
  const BoardSizes sizes{.slot_rows = config.slot_rows,
                         .input_row_bytes = row_bytes(config.input_row),
                         .output_row_bytes = row_bytes(config.output_row),
                         .fingerprint = std::hash<std::string>{}(agreed)};
  const std::size_t most = SharedBatcher::kMaxBoardBytes / kBatchSlots / config.slot_rows;
  if (sizes.input_row_bytes + sizes.output_row_bytes > most) {
    fail(ErrorCode::kInvalidArgument,
         "batcher '{}': {} requests of {} rows would take more than {} bytes of shared memory; "
         "lower slot_rows",
         config.name, kBatchSlots, config.slot_rows, SharedBatcher::kMaxBoardBytes);
  }
  return sizes;
}

TensorSpec with_rows(const TensorSpec& row, std::size_t rows) {
  TensorSpec spec = row;
  spec.shape.insert(spec.shape.begin(), static_cast<std::int64_t>(rows));
  return spec;
}

}  // namespace

struct SharedBatcher::Core {
  Core(const SharedBatcherConfig& given, Work wanted, std::function<void()> first)
      : config(given),
        work(std::move(wanted)),
        init(std::move(first)),
        board(given.name, board_sizes(given)) {}

  void own_if_nobody_does();
  void serve();
  void serve_batch(std::size_t& expected);
  void compute(std::span<const BatchBoard::Taken> batch);
  void compute_or_throw(std::span<const BatchBoard::Taken> batch);
  void run_piece(const Tensor& rows, Tensor& out, RowRange range);
  [[nodiscard]] std::size_t slot_until(Nanoseconds deadline);

  const SharedBatcherConfig config;
  const Work work;
  const std::function<void()> init;
  BatchBoard board;
  SteadyClock clock;
  std::mutex mutex;  // of the thread below, and of init_error
  std::thread owner;
  std::exception_ptr init_error;
  std::atomic<bool> ending{false};
};

// --- the owner ---

void SharedBatcher::Core::own_if_nobody_does() {
  if (board.has_owner()) return;
  const std::lock_guard lock(mutex);
  if (init_error) std::rethrow_exception(init_error);
  if (ending || !board.try_own()) return;
  if (owner.joinable()) owner.join();
  owner = std::thread([this] { serve(); });
}

void SharedBatcher::Core::serve() {
  try {
    if (init) init();
  } catch (...) {
    const std::lock_guard lock(mutex);
    init_error = std::current_exception();
  }
  try {
    std::size_t expected = 1;
    while (!ending && !init_error) serve_batch(expected);
  } catch (const std::exception& error) {
    log_warn("dispatch", "the owner of batcher '{}' gives up: {}", config.name, error.what());
  }
  board.disown();
}

// `expected` is how many requests to wait for: as many as there were last time and meanwhile.
void SharedBatcher::Core::serve_batch(std::size_t& expected) {
  board.wait_for_work(std::chrono::milliseconds(50));
  const Nanoseconds until = clock.now() + config.merge_wait;
  while (!ending && board.waiting() > 0 && board.waiting() < expected && clock.now() < until) {
    std::this_thread::yield();
  }
  const std::vector<BatchBoard::Taken> batch = board.take_batch(config.max_batch_rows);
  if (batch.empty()) return;
  compute(batch);
  expected = batch.size() + board.waiting();
}

void SharedBatcher::Core::compute(std::span<const BatchBoard::Taken> batch) {
  BatchAnswer answer{.done = true};
  try {
    compute_or_throw(batch);
  } catch (const Error& error) {
    answer = {.done = false, .code = error.code(), .error = error.what()};
  } catch (const std::bad_alloc&) {
    answer = {.done = false, .code = ErrorCode::kResourceExhausted, .error = "out of memory"};
  } catch (const std::exception& error) {
    answer = {.done = false, .code = ErrorCode::kUnknown, .error = error.what()};
  }
  if (!answer.done && batch.size() > 1) {
    for (const BatchBoard::Taken& one : batch) compute({&one, 1});
    return;
  }
  board.count_batch(batch);
  board.answer(batch, answer);
}

void SharedBatcher::Core::compute_or_throw(std::span<const BatchBoard::Taken> batch) {
  std::size_t rows = 0;
  for (const BatchBoard::Taken& one : batch) rows += one.rows;
  Tensor input = Tensor::empty(with_rows(config.input_row, rows).shape, config.input_row.dtype);
  const std::size_t in_bytes = row_bytes(config.input_row);
  std::byte* to = input.mutable_bytes().data();
  for (const BatchBoard::Taken& one : batch) {
    std::memcpy(to, board.input(one.slot), one.rows * in_bytes);
    to += one.rows * in_bytes;
  }
  const Tensor output = work(std::move(input));
  if (output.spec() != with_rows(config.output_row, rows) ||
      output.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument, "batcher '{}': work gave {} for {} rows, not {} on the CPU",
         config.name, spec_text(output.spec()), rows,
         spec_text(with_rows(config.output_row, rows)));
  }
  const std::size_t out_bytes = row_bytes(config.output_row);
  const std::byte* from = output.bytes().data();
  for (const BatchBoard::Taken& one : batch) {
    std::memcpy(board.output(one.slot), from, one.rows * out_bytes);
    from += one.rows * out_bytes;
  }
}

// --- those who ask ---

std::size_t SharedBatcher::Core::slot_until(Nanoseconds deadline) {
  for (;;) {
    const std::size_t slot = board.take_slot();
    if (slot < kBatchSlots) return slot;
    if (clock.now() > deadline) {
      fail(ErrorCode::kDeadlineExceeded, "batcher '{}': all {} places stayed taken", config.name,
           kBatchSlots);
    }
    own_if_nobody_does();
    board.wait_for_room();
  }
}

void SharedBatcher::Core::run_piece(const Tensor& rows, Tensor& out, RowRange range) {
  const Nanoseconds deadline = clock.now() + config.timeout;
  const std::size_t in_bytes = row_bytes(config.input_row);
  const std::size_t out_bytes = row_bytes(config.output_row);
  struct Slot {
    BatchBoard& board;
    std::size_t index;
    ~Slot() { board.free_slot(index); }
  };
  const Slot slot{board, slot_until(deadline)};
  std::memcpy(board.input(slot.index), rows.bytes().data() + range.begin * in_bytes,
              range.size() * in_bytes);
  board.post(slot.index, range.size());
  BatchAnswer answer;
  for (;;) {
    board.wait_for_answer(slot.index);
    if (board.answered(slot.index, answer)) break;
    own_if_nobody_does();
    if (clock.now() > deadline) {
      fail(ErrorCode::kDeadlineExceeded, "batcher '{}': no answer for {} rows in time", config.name,
           range.size());
    }
  }
  if (!answer.done) throw Error(answer.code, answer.error);
  std::memcpy(out.mutable_bytes().data() + range.begin * out_bytes, board.output(slot.index),
              range.size() * out_bytes);
}

// --- the public face ---

SharedBatcher::SharedBatcher(const SharedBatcherConfig& config, Work work,
                             std::function<void()> init)
    : core_(std::make_unique<Core>(config, std::move(work), std::move(init))) {
  core_->own_if_nobody_does();
}

SharedBatcher::~SharedBatcher() {
  core_->ending = true;
  core_->board.wake_owner();
  if (core_->owner.joinable()) core_->owner.join();
}

Tensor SharedBatcher::run(const Tensor& rows) {
  const SharedBatcherConfig& config = core_->config;
  const std::size_t count =
      rows.shape().empty() ? 0 : static_cast<std::size_t>(rows.shape().front());
  if (count == 0 || rows.spec() != with_rows(config.input_row, count) ||
      rows.device().kind != DeviceKind::kCpu) {
    fail(ErrorCode::kInvalidArgument, "batcher '{}' takes rows of {} on the CPU, {} was given",
         config.name, spec_text(config.input_row), spec_text(rows.spec()));
  }
  Tensor out = Tensor::empty(with_rows(config.output_row, count).shape, config.output_row.dtype);
  for (std::size_t begin = 0; begin < count; begin += config.slot_rows) {
    core_->run_piece(rows, out, {begin, std::min(count, begin + config.slot_rows)});
  }
  return out;
}

bool SharedBatcher::owns() const { return core_->board.owns(); }

SharedBatcherCounts SharedBatcher::counts() const {
  const std::array<std::uint64_t, 3> counts = core_->board.counts();
  return {counts[0], counts[1], counts[2], core_->board.waiting()};
}

TensorFunctions merged_functions(SharedBatcher& batcher) {
  return tensor_functions(
      [&batcher](Tensor&& rows, const WorkDevice&) { return batcher.run(rows); });
}

}  // namespace harmonics::inline in_dispatch
