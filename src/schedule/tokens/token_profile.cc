#include <harmonics/schedule/token_profile.h>

#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/graph/units.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_schedule {
namespace {

// Ids are taken from so many: every vocabulary has them.
constexpr std::int64_t kIds = 8;
// What crosses from stage to stage is counted in numbers of so many bytes.
constexpr std::size_t kNumberBytes = 4;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The units in a row.
class UnitRow {
 public:
  UnitRow(const HarmonicGraph& graph, const WeightSource& weights,
          const TokenProfileOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {
    for (const Unit& unit : graph_units(graph)) {
      stages_.emplace_back(graph, weights,
                           TokenStageOptions{unit.first_layer, unit.last_layer + 1,
                                             options.cache_bytes, options.threads});
    }
    seconds_.resize(stages_.size());
    numbers_.resize(stages_.size());
  }

  ModelProfile model() const {
    ModelProfile made;
    made.parameters_in = static_cast<std::int64_t>(sizeof(std::int64_t) / kNumberBytes);
    made.parameters_out = numbers_;
    for (const TokenStage& stage : stages_) {
      const TokenStageFigures figures = stage.figures();
      made.memory_mb.push_back(static_cast<double>(figures.weight_bytes) / kBytesPerMegabyte);
      made.cache_bytes.push_back(static_cast<std::int64_t>(figures.token_bytes));
    }
    return made;
  }

  std::int64_t max_length() const { return stages_.front().max_length(); }

  void check_cache(std::int64_t tokens) const {
    std::uint64_t bytes = 0;
    for (const TokenStage& stage : stages_) bytes += stage.figures().token_bytes;
    bytes *= static_cast<std::uint64_t>(tokens);
    if (bytes <= options_.cache_bytes) return;
    fail(ErrorCode::kResourceExhausted,
         "caches of {} tokens would take {:.0f} MB, there are {:.0f}: measure with a shorter "
         "--context or fewer --sequences",
         tokens, static_cast<double>(bytes) / kBytesPerMegabyte,
         static_cast<double>(options_.cache_bytes) / kBytesPerMegabyte);
  }

  // So many sequences that hold so many tokens.
  void hold(std::int64_t sequences, std::int64_t tokens) {
    for (TokenStage& stage : stages_) stage.drop_all();
    for (std::int64_t done = 0; done < tokens;) {
      const std::int64_t count = std::min(options_.chunk, tokens - done);
      step({{0, done, count, 1}});
      done += count;
    }
    if (tokens == 0) return;
    for (TokenStage& stage : stages_) {
      // Each in memory of its own.
      const bool keeps = stage.figures().token_bytes > 0;
      const Tensor saved = keeps ? stage.saved(0) : Tensor::zeros({1});
      for (std::int64_t k = 1; k < sequences; ++k) {
        const auto sequence = static_cast<SequenceId>(k);
        if (keeps) {
          stage.restore(sequence, saved);
        } else {
          stage.fork(0, sequence, tokens);
        }
      }
    }
  }

  // Decoding goes on where the step before ended.
  TokenTimes decode(std::int64_t sequences, std::int64_t held) {
    hold(sequences, held);
    std::int64_t at = held;
    measure([&] {
      std::vector<TokenSpan> spans;
      for (std::int64_t k = 0; k < sequences; ++k) {
        spans.push_back({static_cast<SequenceId>(k), at, 1, 1});
      }
      ++at;
      return spans;
    });
    return {sequences, 1, held + options_.warmup + options_.repeats / 2, medians()};
  }

  TokenTimes prefill(std::int64_t held) {
    hold(1, held);
    measure([&] {
      // The same place again each time.
      for (TokenStage& stage : stages_) shorten(stage, held);
      return std::vector<TokenSpan>{{0, held, options_.chunk, 1}};
    });
    return {1, options_.chunk, held, medians()};
  }

 private:
  static void shorten(TokenStage& stage, std::int64_t tokens) {
    if (stage.length(0) <= tokens) return;
    constexpr SequenceId kKept = 1;
    if (tokens > 0) stage.fork(0, kKept, tokens);
    stage.drop(0);
    if (tokens == 0) return;
    stage.fork(kKept, 0, tokens);
    stage.drop(kKept);
  }

  template <typename Spans>
  void measure(Spans spans) {
    for (int k = 0; k < options_.warmup; ++k) step(spans());
    for (auto& list : seconds_) list.clear();
    for (int k = 0; k < options_.repeats; ++k) step(spans());
  }

  std::vector<double> medians() const {
    std::vector<double> all;
    for (const auto& list : seconds_) all.push_back(median(list));
    return all;
  }

  void step(const std::vector<TokenSpan>& spans) {
    std::vector<std::int64_t> ids;
    for (const TokenSpan& span : spans) {
      for (std::int64_t k = 0; k < span.count; ++k) ids.push_back((span.first + k) % kIds);
    }
    const auto rows = static_cast<std::int64_t>(ids.size());
    TokenTensors tensors;
    tensors.emplace(stages_.front().entering().front(),
                    Tensor::of<std::int64_t>({rows}, std::span(std::as_const(ids))));
    for (std::size_t unit = 0; unit < stages_.size(); ++unit) {
      const Nanoseconds start = clock_.now();
      tensors = stages_[unit].compute(spans, tensors);
      seconds_[unit].push_back(in_seconds(clock_.now() - start));
      std::size_t bytes = 0;
      for (const auto& [name, tensor] : tensors) {
        bytes += tensor.byte_size() / static_cast<std::size_t>(tensor.shape().front());
      }
      numbers_[unit] = static_cast<std::int64_t>(bytes / kNumberBytes);
    }
  }

  const TokenProfileOptions& options_;
  const Clock& clock_;
  std::vector<TokenStage> stages_;
  std::vector<std::vector<double>> seconds_;
  std::vector<std::int64_t> numbers_;
};

void check_options(const TokenProfileOptions& options, const UnitRow& row) {
  const std::int64_t passes = options.warmup + options.repeats;
  const std::int64_t least = std::max(options.chunk, passes + 1);
  if (options.repeats < 1 || options.warmup < 0 || options.chunk < 1 || options.sequences.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "a profile takes one repeat, one token of a chunk and one number of sequences at least");
  }
  if (options.context < least || options.context > row.max_length()) {
    fail(
        ErrorCode::kInvalidArgument,
        "a context of {} tokens cannot be measured: this model takes up to {}, and a chunk and all "
        "passes need {}",
        options.context, row.max_length(), least);
  }
  row.check_cache(*std::ranges::max_element(options.sequences) * options.context);
}

}  // namespace

TokenProfile profile_tokens(const HarmonicGraph& graph, const WeightSource& weights,
                            const TokenProfileOptions& options, const Clock& clock,
                            const std::function<void(std::size_t, std::size_t)>& on_step) {
  UnitRow row(graph, weights, options, clock);
  check_options(options, row);
  TokenProfile profile;
  const std::int64_t full = options.context - options.warmup - options.repeats;
  const std::int64_t late = options.context - options.chunk;
  std::size_t done = 0;
  const std::size_t all = 2 * options.sequences.size() + 2;
  const auto add = [&](auto measured) {
    if (on_step) on_step(done, all);
    ++done;
    profile.times.push_back(measured());
  };
  for (const std::int64_t sequences : options.sequences) {
    add([&] { return row.decode(sequences, 1); });
    if (full > 1) add([&] { return row.decode(sequences, full); });
  }
  add([&] { return row.prefill(0); });
  if (late > 0) add([&] { return row.prefill(late); });
  profile.model = row.model();
  return profile;
}

}  // namespace harmonics::inline in_schedule
