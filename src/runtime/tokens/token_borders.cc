#include "token_borders.h"

#include <algorithm>
#include <set>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {
namespace {

constexpr int kMaxThreads = 256;

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

LayerRange layer_range(const HarmonicGraph& graph, const TokenStageOptions& options) {
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

// Tensors that are read here and made before; and made here, or before, and read later.
TokenBorders token_borders(const HarmonicGraph& graph, LayerRange range) {
  TokenBorders borders;
  const auto& layers = graph.layers();
  std::set<std::string> made, later;
  for (std::size_t i = 0; i < range.first; ++i) made.insert(layers[i].name);
  for (std::size_t i = range.first; i < range.end; ++i) {
    for (const std::string& input : layers[i].inputs) {
      if (made.contains(input) || graph.producer_index(input)) add_once(borders.entering, input);
    }
  }
  borders.last = range.end == layers.size();
  for (std::size_t i = range.end; i < layers.size(); ++i) {
    later.insert(layers[i].inputs.begin(), layers[i].inputs.end());
  }
  for (const ConsumerNode& node : graph.consumers()) later.insert(node.input);
  for (std::size_t i = 0; i < range.end; ++i) {
    if (!later.contains(layers[i].name)) continue;
    if (i < range.first) add_once(borders.entering, layers[i].name);
    if (!borders.last) borders.leaving.push_back(layers[i].name);
  }
  if (!borders.last) return borders;
  for (const ConsumerNode& node : graph.consumers()) {
    borders.leaving.push_back(node.name);
    borders.outputs.push_back({node.input, node.activation});
  }
  return borders;
}

void check_widths(const HarmonicGraph& graph, LayerRange range) {
  for (std::size_t i = range.first; i < range.end; ++i) {
    const LayerNode& node = graph.layers()[i];
    if (node.type != "add" && node.type != "mul") continue;
    for (const std::string& input : node.inputs) {
      if (row_width(graph, input) == row_width(graph, node.name)) continue;
      fail(ErrorCode::kUnimplemented, "layer '{}' ({}): generation takes inputs of one width",
           node.name, node.type);
    }
  }
}

std::int64_t checked_rows(std::span<const TokenSpan> spans, const BlockTables& tables,
                          std::int64_t max_length) {
  std::set<SequenceId> seen;
  std::int64_t rows = 0;
  for (const TokenSpan& span : spans) {
    const std::int64_t length = tables.length(span.sequence);
    if (span.count < 1 || span.first != length || span.wanted < 0 || span.wanted > span.count ||
        !seen.insert(span.sequence).second) {
      fail(ErrorCode::kInvalidArgument,
           "{} tokens of sequence {} from {} on: it has {}, and each sequence stands once in a "
           "call",
           span.count, span.sequence, span.first, length);
    }
    if (span.count > max_length - span.first) {
      fail(ErrorCode::kOutOfRange, "sequence {} would be {} tokens long; the model takes {}",
           span.sequence, span.first + span.count, max_length);
    }
    rows += span.count;
    if (rows > kMaxTokenRows) {
      fail(ErrorCode::kResourceExhausted, "a call of more than {} tokens: take fewer at once",
           kMaxTokenRows);
    }
  }
  return rows;
}

const Tensor& entering_rows(const TokenTensors& inputs, const std::string& name, std::size_t width,
                            std::int64_t rows) {
  const auto found = inputs.find(name);
  const bool ids = width == 0;
  const Shape shape = ids ? Shape{rows} : Shape{rows, static_cast<std::int64_t>(width)};
  const DType dtype = ids ? DType::kInt64 : DType::kFloat32;
  if (found == inputs.end() || found->second.shape() != shape || found->second.dtype() != dtype) {
    fail(ErrorCode::kInvalidArgument, "tensor '{}' must come as {} {}{}", name, dtype_name(dtype),
         shape_text(shape),
         found == inputs.end() ? ", and did not"
                               : format(", not {}", spec_text(found->second.spec())));
  }
  return found->second;
}

std::vector<std::size_t> wanted_rows(std::span<const TokenSpan> spans) {
  std::vector<std::size_t> wanted;
  std::size_t end = 0;
  for (const TokenSpan& span : spans) {
    end += static_cast<std::size_t>(span.count);
    for (std::size_t row = end - static_cast<std::size_t>(span.wanted); row < end; ++row) {
      wanted.push_back(row);
    }
  }
  return wanted;
}

std::int64_t saved_tokens(const Tensor& saved, std::size_t block_numbers, SequenceId sequence,
                          std::int64_t max_length) {
  const std::span<const float> from = saved.values<float>();
  const std::int64_t tokens = from.empty() ? -1 : static_cast<std::int64_t>(from[0]);
  if (tokens < 1 || tokens > max_length ||
      from.size() != 1 + static_cast<std::size_t>(blocks_of(tokens)) * block_numbers) {
    fail(ErrorCode::kInvalidArgument,
         "what was saved ({} numbers) does not fit sequence {} of this stage: it must be new, "
         "and the stage the same",
         from.size(), sequence);
  }
  return tokens;
}

}  // namespace harmonics::inline in_runtime
