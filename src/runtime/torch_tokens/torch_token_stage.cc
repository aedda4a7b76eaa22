#include <harmonics/runtime/torch_token_stage.h>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/tensor/torch.h>

#include "tokens/token_stage_body.h"
#include "torch/gpu_copies.h"
#include "torch/recorded_pass.h"
#include "torch_tokens/token_steps.h"

namespace harmonics::inline in_runtime {
namespace {

// Calls of one shape that are launched piece by piece first: libtorch chooses its kernels then.
constexpr int kSeenBefore = 2;
// Shapes of calls that are kept; a call of a further one is launched piece by piece.
constexpr std::size_t kMaxShapes = 64;
constexpr std::int64_t kMostRecordedRows = 256;
constexpr std::int64_t kLeastBlocks = 8;
// On a CPU the last few of many numbers are worked out in another way than the others, so that
// where `deterministic` is asked for no row may be among them.
constexpr std::int64_t kLeastSteadyRows = 16;

/// How much of everything a call has, filled up so that few shapes occur.
struct CallShape {
  std::int64_t rows = 0, blocks = 0;
  std::int64_t wanted = -1;  // -1: all rows, as they come
  auto operator<=>(const CallShape&) const = default;
};

std::int64_t filled_up(std::int64_t count) {
  if (count > kMostRecordedRows) {
    return (count + kMostRecordedRows - 1) / kMostRecordedRows * kMostRecordedRows;
  }
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

/// A shape of calls: the memory that they come in, and what was recorded of them.
struct Call {
  int seen = 0;
  at::Tensor numbers_here, numbers;            // whole numbers, in main memory and on the device
  std::map<std::size_t, at::Tensor> entering;  // by slot
  TorchTokenPass pass;
  std::vector<at::Tensor> leaving;
  std::unique_ptr<RecordedPass> recorded;
};

class TorchStageBody final : public TokenStageBody {
 public:
  TorchStageBody(const HarmonicGraph& graph, const WeightSource& weights,
                 const TokenStageOptions& options, const TorchTokenOptions& torch)
      : device_(torch.device.kind == DeviceKind::kCuda
                    ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(torch.device.index))
                    : at::Device(at::kCPU)),
        numbers_(to_torch(Tensor::zeros({1}, torch.numbers)).scalar_type()),
        threads_(options.threads),
        borders_(token_borders(graph, layer_range(graph, options))),
        least_rows_(torch.deterministic && device_.is_cpu() ? kLeastSteadyRows : 1),
        max_length_(graph.axes().empty() ? 0 : graph.axes().front().ceiling),
        tables_(0) {
    if (options.whole) {
      fail(ErrorCode::kUnimplemented, "'{}': encoders are computed on the CPU", graph.name());
    }
    const LayerRange range = layer_range(graph, options);
    check_widths(graph, range);
    for (const std::string& name : borders_.entering) widths_[name] = row_width(graph, name);
    const at::NoGradGuard no_grad;
    const c10::OptionalDeviceGuard guard(device_);
    if (torch.fused) kernels_ = make_fused_token_kernels(device_, numbers_, torch.deterministic);
    if (!kernels_) kernels_ = make_plain_token_kernels(torch.deterministic);
    steps_ = make_token_steps({graph, range, borders_, weights, device_, numbers_,
                               options.cache_bytes, max_length_, torch.deterministic},
                              *kernels_);
    tables_ = BlockTables(steps_.blocks);
    if (torch.recorded) recorder_ = make_pass_recorder(torch.device);
    if (recorder_) recorder_->begin_set();
    find_narrowing();
  }

  TokenTensors compute(std::span<const TokenSpan> spans, const TokenTensors& inputs) override {
    const std::int64_t rows = checked_rows(spans, tables_, max_length_);
    check_inputs(inputs, rows);
    const at::NoGradGuard no_grad;
    const c10::OptionalDeviceGuard guard(device_);
    if (device_.is_cpu()) use_compute_threads(threads_);
    for (const TokenSpan& span : spans) reserve(span.sequence, span.first + span.count);
    const CallShape shape = shape_of(spans, rows);
    Call& call = call_of(shape);
    place_rows(call, shape, spans, inputs);
    run(call, shape);
    for (const TokenSpan& span : spans) {
      tables_.set_length(span.sequence, span.first + span.count);
    }
    std::int64_t leaving = rows;
    if (shape.wanted >= 0) leaving = static_cast<std::int64_t>(wanted_rows(spans).size());
    TokenTensors outputs = handed_on(call, leaving);
    if (calls_.size() > kMaxShapes) calls_.erase(shape);
    return outputs;
  }

  std::int64_t length(SequenceId sequence) const override { return tables_.length(sequence); }
  void fork(SequenceId from, SequenceId to, std::int64_t tokens) override {
    tables_.fork(from, to, tokens);
  }
  void drop(SequenceId sequence) override { tables_.drop(sequence); }
  void drop_all() override { tables_.drop_all(); }

  // As a stage on the CPU does it.
  Tensor saved(SequenceId sequence) const override {
    const at::NoGradGuard no_grad;
    const std::int64_t tokens = tables_.length(sequence);
    std::vector<at::Tensor> pieces{at::full({1}, static_cast<double>(tokens), at::kFloat)};
    const std::vector<std::size_t> blocks = tables_.blocks(sequence);
    for (std::int64_t i = 0; i < blocks_of(tokens); ++i) {
      const auto block = static_cast<std::int64_t>(blocks[static_cast<std::size_t>(i)]);
      for (const at::Tensor& cache : steps_.caches) {
        pieces.push_back(cache.select(1, block).to(at::kCPU).to(at::kFloat).reshape({-1}));
      }
    }
    return from_torch(at::cat(pieces));
  }

  void restore(SequenceId sequence, const Tensor& saved) override {
    const at::NoGradGuard no_grad;
    const std::int64_t most = tables_.length(sequence) == 0 ? max_length_ : 0;
    const std::int64_t tokens = saved_tokens(saved, block_numbers(steps_.shapes), sequence, most);
    reserve(sequence, tokens);
    const at::Tensor from = to_torch(saved);
    std::int64_t first = 1;
    for (const std::size_t block : tables_.blocks(sequence)) {
      for (const at::Tensor& cache : steps_.caches) {
        const at::Tensor to = cache.select(1, static_cast<std::int64_t>(block));
        to.copy_(from.narrow(0, first, to.numel()).view(to.sizes()));
        first += to.numel();
      }
    }
    tables_.set_length(sequence, tokens);
  }

  TokenStageFigures figures() const override {
    TokenStageFigures all;
    all.weight_bytes = all.copied_bytes = steps_.weight_bytes;
    all.token_bytes = block_numbers(steps_.shapes) * c10::elementSize(numbers_) /
                      static_cast<std::uint64_t>(BlockTables::kTokens);
    all.most_tokens = tables_.most_tokens();
    all.held_tokens = tables_.held_tokens();
    return all;
  }

  const std::vector<std::string>& entering() const override { return borders_.entering; }
  const std::vector<std::string>& leaving() const override { return borders_.leaving; }
  std::int64_t max_length() const override { return max_length_; }

 private:
  // Where rows become the wanted ones, and which slots hold rows then.
  void find_narrowing() {
    for (std::size_t i = 0; i < steps_.steps.size(); ++i) {
      if (steps_.steps[i].mixes) narrows_at_ = i + 1;
    }
    std::set<std::size_t> made;
    for (const std::string& name : borders_.entering) made.insert(steps_.slots.at(name));
    for (std::size_t i = 0; i < narrows_at_; ++i) made.insert(steps_.steps[i].output);
    const auto add = [&](std::size_t slot) {
      if (made.contains(slot)) narrowed_.insert(slot);
    };
    for (std::size_t i = narrows_at_; i < steps_.steps.size(); ++i) {
      std::ranges::for_each(steps_.steps[i].inputs, add);
    }
    for (const auto& output : borders_.outputs) add(steps_.slots.at(output.tensor));
  }

  void check_inputs(const TokenTensors& inputs, std::int64_t rows) const {
    for (const auto& [name, width] : widths_) (void)entering_rows(inputs, name, width, rows);
    for (const IdTable& table : steps_.tables) {
      for (const std::int64_t id : inputs.at(table.ids).values<std::int64_t>()) {
        if (id >= 0 && id < table.rows) continue;
        fail(ErrorCode::kOutOfRange, "layer '{}': id {} is no row of its table of {}", table.layer,
             id, table.rows);
      }
    }
  }

  void reserve(SequenceId sequence, std::int64_t tokens) {
    const auto copy = tables_.reserve(sequence, tokens);
    if (!copy) return;
    for (const at::Tensor& cache : steps_.caches) {
      cache.select(1, static_cast<std::int64_t>(copy->to))
          .copy_(cache.select(1, static_cast<std::int64_t>(copy->from)));
    }
  }

  CallShape shape_of(std::span<const TokenSpan> spans, std::int64_t rows) const {
    CallShape shape{filled_up(std::max(rows, least_rows_)), kLeastBlocks};
    std::int64_t wanted = 0;
    for (const TokenSpan& span : spans) {
      shape.blocks = std::max(shape.blocks, filled_up(blocks_of(span.first + span.count)));
      wanted += span.wanted;
    }
    if (borders_.last && wanted < rows) {
      shape.wanted = wanted == 0 ? 0 : filled_up(std::max(wanted, least_rows_));
    }
    return shape;
  }

  Call& call_of(const CallShape& shape) {
    Call& call = calls_[shape];
    if (call.numbers.defined()) return call;
    std::int64_t ids = 0;
    for (const auto& [name, width] : widths_) ids += width == 0 ? 1 : 0;
    const std::int64_t count =
        shape.rows * (ids + 2 + shape.blocks) + std::max<std::int64_t>(shape.wanted, 0);
    const auto options = at::TensorOptions().dtype(at::kLong);
    call.numbers_here = at::empty({count}, options.pinned_memory(device_.is_cuda()));
    call.numbers =
        device_.is_cuda() ? at::empty({count}, options.device(device_)) : call.numbers_here;
    std::int64_t first = 0;
    const auto take = [&](std::int64_t length) {
      const std::int64_t begin = std::exchange(first, first + length);
      return call.numbers.narrow(0, begin, length);
    };
    for (const auto& [name, width] : widths_) {
      const auto numbers = static_cast<std::int64_t>(width);
      call.entering[steps_.slots.at(name)] =
          width == 0 ? take(shape.rows)
                     : at::zeros({shape.rows, numbers},
                                 at::TensorOptions().dtype(at::kFloat).device(device_));
    }
    call.pass.positions = take(shape.rows);
    call.pass.slots = take(shape.rows);
    call.pass.blocks = take(shape.rows * shape.blocks).view({shape.rows, shape.blocks});
    if (shape.wanted >= 0) call.pass.wanted = take(shape.wanted);
    return call;
  }

  // Rows that only fill up write where nobody reads.
  void place_rows(Call& call, const CallShape& shape, std::span<const TokenSpan> spans,
                  const TokenTensors& inputs) {
    std::int64_t* to = call.numbers_here.data_ptr<std::int64_t>();
    for (const auto& [name, width] : widths_) {
      const Tensor& rows = inputs.at(name);
      if (width == 0) {
        const auto values = rows.values<std::int64_t>();
        std::fill(std::ranges::copy(values, to).out, to + shape.rows, 0);
        to += shape.rows;
      } else {
        const at::Tensor values = to_torch(rows);
        call.entering.at(steps_.slots.at(name)).narrow(0, 0, values.size(0)).copy_(values);
      }
    }
    std::int64_t* const positions = to;
    std::int64_t* const slots = positions + shape.rows;
    std::int64_t* const blocks = slots + shape.rows;
    std::fill(positions, slots, 0);
    std::fill(slots, blocks, steps_.blocks * BlockTables::kTokens);
    std::fill_n(blocks, shape.rows * shape.blocks, steps_.blocks);
    std::int64_t row = 0;
    for (const TokenSpan& span : spans) {
      const std::vector<std::size_t> own = tables_.blocks(span.sequence);
      const auto seen = static_cast<std::size_t>(blocks_of(span.first + span.count));
      for (std::int64_t i = 0; i < span.count; ++i, ++row) {
        const std::int64_t position = span.first + i;
        const auto at = static_cast<std::size_t>(position / BlockTables::kTokens);
        positions[row] = position;
        slots[row] = static_cast<std::int64_t>(own[at]) * BlockTables::kTokens +
                     position % BlockTables::kTokens;
        std::copy_n(own.begin(), seen, blocks + row * shape.blocks);
      }
    }
    if (shape.wanted >= 0) {
      std::int64_t* const wanted = blocks + shape.rows * shape.blocks;
      std::fill(std::ranges::copy(wanted_rows(spans), wanted).out, wanted + shape.wanted, 0);
    }
    // Who waits for the outputs has waited for these too.
    if (device_.is_cuda()) {
      call.numbers.copy_(call.numbers_here, /*non_blocking=*/shape.wanted != 0);
    }
  }

  void run(Call& call, const CallShape& shape) {
    if (!call.recorded && recorder_ && shape.rows <= kMostRecordedRows &&
        call.seen++ >= kSeenBefore) {
      try {
        recorder_->rehearse([&] { run_steps(call); });
        call.recorded = recorder_->record([&] { run_steps(call); });
      } catch (const std::exception& error) {
        const std::string text = error.what();
        log_info("runtime", "a token stage is launched piece by piece: {}",
                 text.substr(0, text.find('\n')));
        recorder_.reset();
      }
    }
    if (call.recorded) return call.recorded->launch();
    run_steps(call);
  }

  void run_steps(Call& call) {
    TorchTokenPass pass = call.pass;
    pass.values.resize(steps_.slots.size());
    for (const auto& [slot, value] : call.entering) {
      pass.values[slot] = value.scalar_type() == at::kFloat ? value.to(numbers_) : value;
    }
    for (std::size_t i = 0; i < steps_.steps.size(); ++i) {
      if (i == narrows_at_) narrow(pass);
      steps_.steps[i].run(pass);
    }
    if (narrows_at_ == steps_.steps.size()) narrow(pass);
    call.leaving.clear();
    for (std::size_t i = 0; i < borders_.leaving.size(); ++i) {
      if (borders_.last) {
        const auto& output = borders_.outputs[i];
        const at::Tensor& value = pass.values[steps_.slots.at(output.tensor)];
        call.leaving.push_back(activated(value.to(at::kFloat), output.activation));
      } else {
        call.leaving.push_back(pass.values[steps_.slots.at(borders_.leaving[i])].to(at::kFloat));
      }
    }
  }

  // No attention follows: from here on only the wanted rows.
  void narrow(TorchTokenPass& pass) const {
    if (!pass.wanted.defined()) return;
    for (const std::size_t slot : narrowed_) {
      pass.values[slot] = pass.values[slot].index_select(0, pass.wanted);
    }
    pass.positions = pass.positions.index_select(0, pass.wanted);
  }

  TokenTensors handed_on(const Call& call, std::int64_t rows) const {
    TokenTensors all;
    for (std::size_t i = 0; i < borders_.leaving.size(); ++i) {
      const at::Tensor own = call.leaving[i].narrow(0, 0, rows);
      all.emplace(borders_.leaving[i], from_torch(GpuCopies::in_main_memory(own)));
    }
    return all;
  }

  const at::Device device_;
  const at::ScalarType numbers_;
  const int threads_;
  const TokenBorders borders_;
  const std::int64_t least_rows_;
  const std::int64_t max_length_;
  std::map<std::string, std::size_t> widths_;  // of what enters; 0 for ids
  std::unique_ptr<TokenKernels> kernels_;
  TokenSteps steps_;
  BlockTables tables_;
  std::unique_ptr<PassRecorder> recorder_;
  std::size_t narrows_at_ = 0;  // the step after the last attention
  std::set<std::size_t> narrowed_;
  std::map<CallShape, Call> calls_;
};

}  // namespace

TokenStage make_torch_token_stage(const HarmonicGraph& graph, const WeightSource& weights,
                                  const TokenStageOptions& options,
                                  const TorchTokenOptions& torch) {
  if (torch.numbers != DType::kFloat32 && torch.numbers != DType::kBFloat16 &&
      torch.numbers != DType::kFloat16) {
    fail(ErrorCode::kInvalidArgument, "a token stage in {}: float32, bfloat16 and float16 can be",
         dtype_name(torch.numbers));
  }
  try {
    return TokenStage(std::make_unique<TorchStageBody>(graph, weights, options, torch));
  } catch (const c10::Error& error) {
    fail(ErrorCode::kResourceExhausted,
         "the device took no stage of '{}' with a cache of {} MiB: {}", graph.name(),
         options.cache_bytes >> 20, error.what_without_backtrace());
  }
}

}  // namespace harmonics::inline in_runtime
