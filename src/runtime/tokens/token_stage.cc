#include <harmonics/runtime/token_stage.h>

#include <algorithm>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/base/slowdown.h>

#include "row_kernels.h"
#include "token_borders.h"
#include "token_pass.h"
#include "token_stage_body.h"

namespace harmonics::inline in_runtime {
namespace {

/// Rows on the CPU, with kernels of our own.
class RowStageBody final : public TokenStageBody {
 public:
  RowStageBody(const HarmonicGraph& graph, const WeightSource& weights,
               const TokenStageOptions& options)
      : RowStageBody(graph, weights, options, layer_range(graph, options)) {}

  TokenTensors compute(std::span<const TokenSpan> spans, const TokenTensors& inputs) override {
    place_rows(spans);
    take_inputs(inputs);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (borders_.last && i == narrows_at_) narrow(spans);
      layers_[i]->run(pass_);
    }
    if (borders_.last && narrows_at_ == layers_.size()) narrow(spans);
    for (const TokenSpan& span : spans) {
      if (whole_) {
        cache_->drop(span.sequence);
      } else {
        cache_->set_length(span.sequence, span.first + span.count);
      }
    }
    return outputs();
  }

  Tensor saved(SequenceId sequence) const override {
    const std::int64_t tokens = cache_->length(sequence);
    const std::vector<float*> blocks = cache_->blocks(sequence);
    const auto floats = static_cast<std::int64_t>(cache_->block_floats());
    const std::int64_t count = blocks_of(tokens);
    // The first number is the length.
    Tensor out = Tensor::zeros({1 + count * floats});
    const std::span<float> to = out.mutable_values<float>();
    to[0] = static_cast<float>(tokens);
    for (std::int64_t block = 0; block < count; ++block) {
      std::copy_n(blocks[static_cast<std::size_t>(block)], floats, to.begin() + 1 + block * floats);
    }
    return out;
  }

  void restore(SequenceId sequence, const Tensor& saved) override {
    const std::int64_t most = cache_->length(sequence) == 0 ? max_length_ : 0;
    const std::int64_t tokens = saved_tokens(saved, cache_->block_floats(), sequence, most);
    cache_->reserve(sequence, tokens);
    const std::span<const float> from = saved.values<float>();
    const std::vector<float*> blocks = cache_->blocks(sequence);
    const std::size_t floats = cache_->block_floats();
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      std::copy_n(from.data() + 1 + block * floats, floats, blocks[block]);
    }
    cache_->set_length(sequence, tokens);
  }

  TokenStageFigures figures() const override {
    TokenStageFigures all = figures_;
    all.token_bytes = cache_->token_bytes();
    all.most_tokens = cache_->most_tokens();
    all.held_tokens = cache_->held_tokens();
    return all;
  }

  std::int64_t length(SequenceId sequence) const override { return cache_->length(sequence); }
  void fork(SequenceId from, SequenceId to, std::int64_t tokens) override {
    cache_->fork(from, to, tokens);
  }
  void drop(SequenceId sequence) override { cache_->drop(sequence); }
  void drop_all() override { cache_->drop_all(); }
  const std::vector<std::string>& entering() const override { return borders_.entering; }
  const std::vector<std::string>& leaving() const override { return borders_.leaving; }
  std::int64_t max_length() const override { return max_length_; }

 private:
  RowStageBody(const HarmonicGraph& graph, const WeightSource& weights,
               const TokenStageOptions& options, LayerRange range)
      : team_(options.threads), whole_(options.whole), borders_(token_borders(graph, range)) {
    max_length_ = graph.axes().empty() ? 0 : graph.axes().front().ceiling;
    find_functions(graph);
    check_widths(graph, range);
    add_layers(graph, weights, range);
    cache_ = std::make_unique<TokenCache>(caches_, options.cache_bytes);
    pass_.cache = cache_.get();
    pass_.team = &team_;
    pass_.unpacked.resize(static_cast<std::size_t>(team_.members()));
    pass_.scores.resize(static_cast<std::size_t>(team_.members()));
  }

  void find_functions(const HarmonicGraph& graph) {
    for (std::size_t i = 0; i < borders_.outputs.size(); ++i) {
      const std::string& activation = borders_.outputs[i].activation;
      functions_.push_back(activation.empty() ? nullptr : row_activation(activation));
      if (activation.empty() || functions_.back() != nullptr) continue;
      fail(ErrorCode::kUnimplemented, "consumer '{}': generation does not know '{}'",
           graph.consumers()[i].name, activation);
    }
  }

  // A slot for a tensor that nothing lives in any more, or a fresh one.
  void give_slot(const HarmonicGraph& graph, const std::string& tensor) {
    const std::size_t width = row_width(graph, tensor);
    std::vector<std::size_t>& free = free_[width];
    if (free.empty()) {
      free.push_back(pass_.slots.size());
      pass_.slots.push_back({width});
    }
    slots_[tensor] = free.back();
    free.pop_back();
  }

  // The last layer of the range that reads each tensor; what leaves is read by none.
  std::map<std::string, std::size_t> last_readers(const HarmonicGraph& graph,
                                                  LayerRange range) const {
    std::map<std::string, std::size_t> last;
    for (std::size_t i = range.first; i < range.end; ++i) {
      for (const std::string& input : graph.layers()[i].inputs) last[input] = i;
    }
    if (borders_.last) {
      for (const auto& output : borders_.outputs) last.erase(output.tensor);
    } else {
      for (const std::string& tensor : borders_.leaving) last.erase(tensor);
    }
    return last;
  }

  void add_layers(const HarmonicGraph& graph, const WeightSource& weights, LayerRange range) {
    const std::map<std::string, std::size_t> last = last_readers(graph, range);
    for (const std::string& tensor : borders_.entering) give_slot(graph, tensor);
    for (std::size_t i = range.first; i < range.end; ++i) {
      const LayerNode& node = graph.layers()[i];
      std::vector<std::size_t> inputs;
      for (const std::string& input : node.inputs) inputs.push_back(slots_.at(input));
      give_slot(graph, node.name);
      layers_.push_back(make_token_layer(
          {graph, i, std::move(inputs), slots_.at(node.name), weights, caches_, figures_, whole_}));
      const std::set<std::string> read(node.inputs.begin(), node.inputs.end());
      for (const std::string& input : read) {
        const auto reader = last.find(input);
        if (reader == last.end() || reader->second != i) continue;
        const std::size_t slot = slots_.at(input);
        free_[pass_.slots[slot].width].push_back(slot);
      }
      if (node.type == "attention") narrows_at_ = layers_.size();
    }
    if (borders_.last) find_narrowed(graph, range);
  }

  // What is there when the last attention is done and is read after it.
  void find_narrowed(const HarmonicGraph& graph, LayerRange range) {
    std::set<std::string> made(borders_.entering.begin(), borders_.entering.end());
    for (std::size_t i = 0; i < narrows_at_; ++i) {
      made.insert(graph.layers()[range.first + i].name);
    }
    const auto read = [&](const std::string& tensor) {
      if (made.contains(tensor)) narrowed_.insert(slots_.at(tensor));
    };
    for (std::size_t i = range.first + narrows_at_; i < range.end; ++i) {
      for (const std::string& input : graph.layers()[i].inputs) read(input);
    }
    for (const auto& output : borders_.outputs) read(output.tensor);
  }

  void place_rows(std::span<const TokenSpan> spans) {
    (void)checked_rows(spans, cache_->tables(), max_length_);
    pass_.rows.clear();
    for (const TokenSpan& span : spans) {
      for (std::int64_t i = 0; i < span.count; ++i) {
        pass_.rows.push_back({span.sequence, span.first + i, span.first + span.count});
      }
    }
    for (const TokenSpan& span : spans) cache_->reserve(span.sequence, span.first + span.count);
  }

  void take_inputs(const TokenTensors& inputs) {
    for (const std::string& name : borders_.entering) {
      TokenSlot& slot = pass_.slots[slots_.at(name)];
      const Tensor& rows =
          entering_rows(inputs, name, slot.width, static_cast<std::int64_t>(pass_.rows.size()));
      if (slot.width == 0) {
        const auto values = rows.values<std::int64_t>();
        slot.ids.assign(values.begin(), values.end());
      } else {
        const auto values = rows.values<float>();
        if (slot.numbers.size() < values.size()) slot.numbers.resize(values.size());
        std::ranges::copy(values, slot.numbers.begin());
      }
    }
  }

  // No attention follows: from here on only the wanted rows.
  void narrow(std::span<const TokenSpan> spans) {
    const std::vector<std::size_t> wanted = wanted_rows(spans);
    for (const std::size_t index : narrowed_) {
      TokenSlot& slot = pass_.slots[index];
      for (std::size_t to = 0; to < wanted.size(); ++to) {
        if (wanted[to] != to) std::copy_n(slot.row(wanted[to]), slot.width, slot.row(to));
      }
    }
    for (std::size_t to = 0; to < wanted.size(); ++to) pass_.rows[to] = pass_.rows[wanted[to]];
    pass_.rows.resize(wanted.size());
  }

  Tensor rows_of(const std::string& tensor) {
    TokenSlot& slot = pass_.slots[slots_.at(tensor)];
    const std::size_t count = pass_.rows.size() * slot.width;
    return Tensor::of<float>(
        {static_cast<std::int64_t>(pass_.rows.size()), static_cast<std::int64_t>(slot.width)},
        std::span<const float>(slot.numbers.data(), count));
  }

  TokenTensors outputs() {
    TokenTensors all;
    for (std::size_t i = 0; i < borders_.leaving.size(); ++i) {
      Tensor rows = rows_of(borders_.last ? borders_.outputs[i].tensor : borders_.leaving[i]);
      if (borders_.last && functions_[i] != nullptr) {
        const std::span<float> values = rows.mutable_values<float>();
        functions_[i](values.data(), values.size());
      }
      all.emplace(borders_.leaving[i], std::move(rows));
    }
    return all;
  }

  RowTeam team_;
  const bool whole_;
  const TokenBorders borders_;
  TokenPass pass_;
  std::int64_t max_length_ = 0;
  std::vector<RowFunction> functions_;  // of the consumers, null for none
  /// Where each tensor lies while it is wanted: later ones lie there too.
  std::map<std::string, std::size_t, std::less<>> slots_;
  std::map<std::size_t, std::vector<std::size_t>> free_;  // slots by width, while layers are made
  std::vector<TokenLayerPtr> layers_;
  std::size_t narrows_at_ = 0;  // the layer after the last attention
  std::set<std::size_t> narrowed_;
  std::vector<CacheShape> caches_;
  std::unique_ptr<TokenCache> cache_;
  TokenStageFigures figures_;
};

}  // namespace

TokenStage::TokenStage(const HarmonicGraph& graph, const WeightSource& weights,
                       const TokenStageOptions& options)
    : TokenStage(std::make_unique<RowStageBody>(graph, weights, options)) {}
TokenStage::TokenStage(std::unique_ptr<TokenStageBody> body)
    : body_(std::move(body)), slowdown_(slowdown_from_environment()) {}
TokenStage::~TokenStage() = default;
TokenStage::TokenStage(TokenStage&&) noexcept = default;

const std::vector<std::string>& TokenStage::entering() const { return body_->entering(); }
const std::vector<std::string>& TokenStage::leaving() const { return body_->leaving(); }
std::int64_t TokenStage::max_length() const { return body_->max_length(); }
TokenStageFigures TokenStage::figures() const { return body_->figures(); }
TokenTensors TokenStage::compute(std::span<const TokenSpan> spans, const TokenTensors& inputs) {
  const SlowedWork slowed(slowdown_);
  return body_->compute(spans, inputs);
}
std::int64_t TokenStage::length(SequenceId sequence) const { return body_->length(sequence); }
void TokenStage::fork(SequenceId from, SequenceId to, std::int64_t tokens) {
  body_->fork(from, to, tokens);
}
void TokenStage::drop(SequenceId sequence) { body_->drop(sequence); }
void TokenStage::drop_all() { body_->drop_all(); }
Tensor TokenStage::saved(SequenceId sequence) const { return body_->saved(sequence); }
void TokenStage::restore(SequenceId sequence, const Tensor& saved) {
  body_->restore(sequence, saved);
}

std::string token_kernel() { return kernel_name(); }

}  // namespace harmonics::inline in_runtime
