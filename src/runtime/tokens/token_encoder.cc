#include <harmonics/runtime/token_encoder.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {
namespace {

constexpr std::string_view kHiddenState = "last_hidden_state";
// Keys and values live for one call, whose tokens are bounded.
constexpr std::uint64_t kEncoderCache = std::uint64_t{1} << 40;

const ConsumerNode* hidden_state_of(const HarmonicGraph& graph) {
  const std::vector<ConsumerNode>& all = graph.consumers();
  const auto found = std::ranges::find(all, kHiddenState, &ConsumerNode::name);
  return found == all.end() ? nullptr : &*found;
}

TokenStageOptions encoder_options(const HarmonicGraph& graph, int threads) {
  const ConsumerNode* const consumer = hidden_state_of(graph);
  const auto last = consumer ? graph.layer_index(consumer->input) : std::nullopt;
  if (!last || !consumer->activation.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' has no layer whose numbers leave as '{}': embeddings need an encoder, such as "
         "BertModel",
         graph.name(), kHiddenState);
  }
  TokenStageOptions options;
  options.end_layer = *last + 1;
  options.cache_bytes = kEncoderCache;
  options.threads = threads;
  options.whole = true;
  return options;
}

// Rows of the table that input_ids look up.
std::int64_t rows_of_table(const HarmonicGraph& graph) {
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const LayerNode& node = graph.layers()[i];
    if (node.type != "embedding" || node.inputs.front() != "input_ids") continue;
    return graph.layer_shape(i).parameters.front().shape.front();
  }
  fail(ErrorCode::kInvalidArgument, "'{}' looks 'input_ids' up in no table", graph.name());
}

}  // namespace

bool is_encoder(const HarmonicGraph& graph) { return hidden_state_of(graph) != nullptr; }

TokenEncoder::TokenEncoder(const HarmonicGraph& graph, const WeightSource& weights, int threads)
    : stage_(graph, weights, encoder_options(graph, threads)) {
  if (stage_.leaving().size() != 1) {
    fail(ErrorCode::kUnimplemented, "'{}': layers after '{}' read more than it", graph.name(),
         kHiddenState);
  }
  vocabulary_ = rows_of_table(graph);
  width_ = graph.spec(hidden_state_of(graph)->input).shape.back();
}

TokenEncoder::~TokenEncoder() = default;

std::vector<Tensor> TokenEncoder::encode(std::span<const std::vector<std::int64_t>> texts) {
  std::vector<TokenSpan> spans;
  std::vector<std::int64_t> ids;
  for (const std::vector<std::int64_t>& text : texts) {
    const auto count = static_cast<std::int64_t>(text.size());
    spans.push_back({spans.size() + 1, 0, count, count});
    ids.insert(ids.end(), text.begin(), text.end());
  }
  const auto rows = static_cast<std::int64_t>(ids.size());
  TokenTensors inputs;
  for (const std::string& name : stage_.entering()) {
    const std::vector<std::int64_t> same(ids.size(), name == "attention_mask" ? 1 : 0);
    inputs.emplace(name,
                   Tensor::of<std::int64_t>({rows}, std::span(name == "input_ids" ? ids : same)));
  }
  const TokenTensors out = stage_.compute(spans, inputs);
  const std::span<const float> all = out.begin()->second.values<float>();
  std::vector<Tensor> states;
  std::size_t at = 0;
  for (const TokenSpan& span : spans) {
    const auto size = static_cast<std::size_t>(span.count * width_);
    states.push_back(Tensor::of<float>({span.count, width_}, all.subspan(at, size)));
    at += size;
  }
  return states;
}

}  // namespace harmonics::inline in_runtime
