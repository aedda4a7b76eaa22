#include <harmonics/runtime/token_stage.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <harmonics/base/error.h>

#include "row_kernels.h"
#include "token_pass.h"

namespace harmonics::inline in_runtime {
namespace {

constexpr int kMaxThreads = 256;

struct LayerRange {
  std::size_t first, end;
};

LayerRange range_of(const HarmonicGraph& graph, const TokenStageOptions& options) {
  const std::size_t count = graph.layers().size();
  const LayerRange range{options.first_layer, options.end_layer == 0 ? count : options.end_layer};
  if (range.first >= range.end || range.end > count) {
    fail(ErrorCode::kInvalidArgument, "layers {} to {} of a graph of {} are no stage", range.first,
         range.end, count);
  }
  if (options.threads < 1 || options.threads > kMaxThreads) {
    fail(ErrorCode::kInvalidArgument, "a stage of {} threads: 1 to {} can be", options.threads,
         kMaxThreads);
  }
  return range;
}

// Numbers of a row of it; 0 for ids.
std::size_t row_width(const HarmonicGraph& graph, const std::string& tensor) {
  const TensorSpec& spec = graph.spec(tensor);
  const bool ids = !is_floating(spec.dtype);
  const NamedExtents& extents = graph.named_extents(tensor);
  if (extents.empty() || spec.shape.size() != (ids ? 1u : 2u)) {
    fail(ErrorCode::kUnimplemented,
         "tensor '{}' is {}: generation takes tensors with a row for each token, {{T}} of ids and "
         "{{T, width}} of numbers",
         tensor, graph.shape_text_of(tensor));
  }
  return ids ? 0 : static_cast<std::size_t>(spec.shape[1]);
}

}  // namespace

class TokenStage::Body {
 public:
  Body(const HarmonicGraph& graph, const WeightSource& weights, const TokenStageOptions& options)
      : team_(options.threads), whole_(options.whole) {
    const LayerRange range = range_of(graph, options);
    max_length_ = graph.axes().empty() ? 0 : graph.axes().front().ceiling;
    find_borders(graph, range);
    add_layers(graph, weights, range);
    cache_ = std::make_unique<TokenCache>(caches_, options.cache_bytes);
    pass_.cache = cache_.get();
    pass_.team = &team_;
    pass_.unpacked.resize(static_cast<std::size_t>(team_.members()));
    pass_.scores.resize(static_cast<std::size_t>(team_.members()));
  }

  TokenTensors compute(std::span<const TokenSpan> spans, const TokenTensors& inputs) {
    place_rows(spans);
    take_inputs(inputs);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (last_ && i == narrows_at_) narrow(spans);
      layers_[i]->run(pass_);
    }
    if (last_ && narrows_at_ == layers_.size()) narrow(spans);
    for (const TokenSpan& span : spans) {
      if (whole_) {
        cache_->drop(span.sequence);
      } else {
        cache_->set_length(span.sequence, span.first + span.count);
      }
    }
    return outputs();
  }

  Tensor saved(SequenceId sequence) const {
    const std::int64_t tokens = cache_->length(sequence);
    const std::vector<float*> blocks = cache_->blocks(sequence);
    const auto floats = static_cast<std::int64_t>(cache_->block_floats());
    const std::int64_t count = (tokens + TokenCache::kBlockTokens - 1) / TokenCache::kBlockTokens;
    // The first number is the length.
    Tensor out = Tensor::zeros({1 + count * floats});
    const std::span<float> to = out.mutable_values<float>();
    to[0] = static_cast<float>(tokens);
    for (std::int64_t block = 0; block < count; ++block) {
      std::copy_n(blocks[static_cast<std::size_t>(block)], floats, to.begin() + 1 + block * floats);
    }
    return out;
  }

  void restore(SequenceId sequence, const Tensor& saved) {
    const std::span<const float> from = saved.values<float>();
    const auto floats = static_cast<std::int64_t>(cache_->block_floats());
    const std::int64_t tokens = from.empty() ? -1 : static_cast<std::int64_t>(from[0]);
    const std::int64_t count = (tokens + TokenCache::kBlockTokens - 1) / TokenCache::kBlockTokens;
    if (tokens < 1 || tokens > max_length_ ||
        static_cast<std::int64_t>(from.size()) != 1 + count * floats ||
        cache_->length(sequence) != 0) {
      fail(ErrorCode::kInvalidArgument,
           "what was saved ({} numbers) does not fit sequence {} of this stage: it must be new, "
           "and the stage the same",
           from.size(), sequence);
    }
    cache_->reserve(sequence, tokens);
    const std::vector<float*> blocks = cache_->blocks(sequence);
    for (std::int64_t block = 0; block < count; ++block) {
      std::copy_n(from.begin() + 1 + block * floats, floats,
                  blocks[static_cast<std::size_t>(block)]);
    }
    cache_->set_length(sequence, tokens);
  }

  TokenStageFigures figures() const {
    TokenStageFigures all = figures_;
    all.token_bytes = cache_->token_bytes();
    all.most_tokens = cache_->most_tokens();
    all.held_tokens = cache_->held_tokens();
    return all;
  }

  TokenCache& cache() { return *cache_; }
  const std::vector<std::string>& entering() const { return entering_; }
  const std::vector<std::string>& leaving() const { return leaving_; }
  std::int64_t max_length() const { return max_length_; }

 private:
  // Tensors that are read here and made before; and made here, or before, and read later.
  void find_borders(const HarmonicGraph& graph, LayerRange range) {
    const auto& layers = graph.layers();
    std::set<std::string> made, later;
    for (std::size_t i = 0; i < range.first; ++i) made.insert(layers[i].name);
    for (std::size_t i = range.first; i < range.end; ++i) {
      for (const std::string& input : layers[i].inputs) {
        if (made.contains(input) || graph.producer_index(input)) enter(input);
      }
    }
    last_ = range.end == layers.size();
    for (std::size_t i = range.end; i < layers.size(); ++i) {
      later.insert(layers[i].inputs.begin(), layers[i].inputs.end());
    }
    for (const ConsumerNode& node : graph.consumers()) later.insert(node.input);
    for (std::size_t i = 0; i < range.end; ++i) {
      if (!later.contains(layers[i].name)) continue;
      if (i < range.first) enter(layers[i].name);
      if (!last_) leaving_.push_back(layers[i].name);
    }
    if (!last_) return;
    for (const ConsumerNode& node : graph.consumers()) {
      leaving_.push_back(node.name);
      outputs_.push_back({node.input, nullptr});
      if (node.activation.empty()) continue;
      outputs_.back().second = row_activation(node.activation);
      if (outputs_.back().second == nullptr) {
        fail(ErrorCode::kUnimplemented, "consumer '{}': generation does not know '{}'", node.name,
             node.activation);
      }
    }
  }

  void enter(const std::string& tensor) {
    if (std::ranges::find(entering_, tensor) == entering_.end()) entering_.push_back(tensor);
  }

  std::size_t slot_of(const HarmonicGraph& graph, const std::string& tensor) {
    const auto [found, fresh] = slots_.emplace(tensor, slots_.size());
    if (fresh) pass_.slots.push_back({row_width(graph, tensor)});
    return found->second;
  }

  void add_layers(const HarmonicGraph& graph, const WeightSource& weights, LayerRange range) {
    for (const std::string& tensor : entering_) slot_of(graph, tensor);
    for (std::size_t i = range.first; i < range.end; ++i) {
      const LayerNode& node = graph.layers()[i];
      std::vector<std::size_t> inputs;
      for (const std::string& input : node.inputs) inputs.push_back(slot_of(graph, input));
      const std::size_t output = slot_of(graph, node.name);
      check_widths(node, inputs, output);
      layers_.push_back(make_token_layer(
          {graph, i, std::move(inputs), output, weights, caches_, figures_, whole_}));
      if (node.type == "attention") narrows_at_ = layers_.size();
    }
    if (!last_) return;
    for (const auto& [tensor, function] : outputs_) (void)slot_of(graph, tensor);
    // What the remaining layers read.
    for (std::size_t i = range.first + narrows_at_; i < range.end; ++i) {
      for (const std::string& input : graph.layers()[i].inputs) narrowed_.insert(slots_.at(input));
    }
    for (const auto& [tensor, function] : outputs_) narrowed_.insert(slots_.at(tensor));
  }

  void check_widths(const LayerNode& node, const std::vector<std::size_t>& inputs,
                    std::size_t output) const {
    if (node.type != "add" && node.type != "mul") return;
    for (const std::size_t input : inputs) {
      if (pass_.slots[input].width == pass_.slots[output].width) continue;
      fail(ErrorCode::kUnimplemented, "layer '{}' ({}): generation takes inputs of one width",
           node.name, node.type);
    }
  }

  void place_rows(std::span<const TokenSpan> spans) {
    pass_.rows.clear();
    std::set<SequenceId> seen;
    for (const TokenSpan& span : spans) {
      const std::int64_t length = cache_->length(span.sequence);
      if (span.count < 1 || span.first != length || span.wanted < 0 || span.wanted > span.count ||
          !seen.insert(span.sequence).second) {
        fail(ErrorCode::kInvalidArgument,
             "{} tokens of sequence {} from {} on: it has {}, and each sequence stands once in a "
             "call",
             span.count, span.sequence, span.first, length);
      }
      if (span.first + span.count > max_length_) {
        fail(ErrorCode::kOutOfRange, "sequence {} would be {} tokens long; the model takes {}",
             span.sequence, span.first + span.count, max_length_);
      }
      for (std::int64_t i = 0; i < span.count; ++i) {
        pass_.rows.push_back({span.sequence, span.first + i, span.first + span.count});
        if (static_cast<std::int64_t>(pass_.rows.size()) > kMaxTokenRows) {
          fail(ErrorCode::kResourceExhausted, "a call of more than {} tokens: take fewer at once",
               kMaxTokenRows);
        }
      }
    }
    for (const TokenSpan& span : spans) cache_->reserve(span.sequence, span.first + span.count);
  }

  void take_inputs(const TokenTensors& inputs) {
    for (const std::string& name : entering_) {
      const auto found = inputs.find(name);
      TokenSlot& slot = pass_.slots[slots_.at(name)];
      const bool ids = slot.width == 0;
      const auto rows = static_cast<std::int64_t>(pass_.rows.size());
      const Shape shape = ids ? Shape{rows} : Shape{rows, static_cast<std::int64_t>(slot.width)};
      const DType dtype = ids ? DType::kInt64 : DType::kFloat32;
      if (found == inputs.end() || found->second.shape() != shape ||
          found->second.dtype() != dtype) {
        fail(ErrorCode::kInvalidArgument, "tensor '{}' must come as {} {}{}", name,
             dtype_name(dtype), shape_text(shape),
             found == inputs.end() ? ", and did not"
                                   : format(", not {}", spec_text(found->second.spec())));
      }
      if (ids) {
        const auto values = found->second.values<std::int64_t>();
        slot.ids.assign(values.begin(), values.end());
      } else {
        const auto values = found->second.values<float>();
        if (slot.numbers.size() < values.size()) slot.numbers.resize(values.size());
        std::ranges::copy(values, slot.numbers.begin());
      }
    }
  }

  // No attention follows: from here on only the wanted rows.
  void narrow(std::span<const TokenSpan> spans) {
    std::vector<std::size_t> wanted;
    std::size_t end = 0;
    for (const TokenSpan& span : spans) {
      end += static_cast<std::size_t>(span.count);
      for (std::size_t row = end - static_cast<std::size_t>(span.wanted); row < end; ++row) {
        wanted.push_back(row);
      }
    }
    for (const std::size_t index : narrowed_) {
      TokenSlot& slot = pass_.slots[index];
      if (slot.numbers.size() < slot.width * pass_.rows.size()) continue;  // made later
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
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      Tensor rows = rows_of(last_ ? outputs_[i].first : leaving_[i]);
      if (last_ && outputs_[i].second != nullptr) {
        const std::span<float> values = rows.mutable_values<float>();
        outputs_[i].second(values.data(), values.size());
      }
      all.emplace(leaving_[i], std::move(rows));
    }
    return all;
  }

  RowTeam team_;
  const bool whole_;
  TokenPass pass_;
  bool last_ = false;
  std::int64_t max_length_ = 0;
  std::vector<std::string> entering_, leaving_;
  std::vector<std::pair<std::string, RowFunction>> outputs_;  // of the last stage
  std::map<std::string, std::size_t, std::less<>> slots_;
  std::vector<TokenLayerPtr> layers_;
  std::size_t narrows_at_ = 0;  // the layer after the last attention
  std::set<std::size_t> narrowed_;
  std::vector<CacheShape> caches_;
  std::unique_ptr<TokenCache> cache_;
  TokenStageFigures figures_;
};

TokenStage::TokenStage(const HarmonicGraph& graph, const WeightSource& weights,
                       const TokenStageOptions& options)
    : body_(std::make_unique<Body>(graph, weights, options)) {}
TokenStage::~TokenStage() = default;
TokenStage::TokenStage(TokenStage&&) noexcept = default;

const std::vector<std::string>& TokenStage::entering() const { return body_->entering(); }
const std::vector<std::string>& TokenStage::leaving() const { return body_->leaving(); }
std::int64_t TokenStage::max_length() const { return body_->max_length(); }
TokenStageFigures TokenStage::figures() const { return body_->figures(); }
TokenTensors TokenStage::compute(std::span<const TokenSpan> spans, const TokenTensors& inputs) {
  return body_->compute(spans, inputs);
}
std::int64_t TokenStage::length(SequenceId sequence) const {
  return body_->cache().length(sequence);
}
void TokenStage::fork(SequenceId from, SequenceId to, std::int64_t tokens) {
  body_->cache().fork(from, to, tokens);
}
void TokenStage::drop(SequenceId sequence) { body_->cache().drop(sequence); }
void TokenStage::drop_all() { body_->cache().drop_all(); }
Tensor TokenStage::saved(SequenceId sequence) const { return body_->saved(sequence); }
void TokenStage::restore(SequenceId sequence, const Tensor& saved) {
  body_->restore(sequence, saved);
}

std::string token_kernel() { return kernel_name(); }

}  // namespace harmonics::inline in_runtime
