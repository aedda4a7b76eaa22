// What the layers of a stage work on during one call (private to runtime_tokens).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <harmonics/models/weight_rows.h>
#include <harmonics/runtime/token_stage.h>

#include "row_team.h"
#include "token_cache.h"

namespace harmonics::inline in_runtime {

/// One row: a token of a sequence.
struct TokenRow {
  SequenceId sequence = 0;
  std::int64_t position = 0;
  /// Tokens of the sequence when this call is done.
  std::int64_t length = 0;
};

/// A tensor of the graph, or several that live one after the other: `width` float32 a row, or ids.
struct TokenSlot {
  std::size_t width = 0;
  std::vector<float> numbers = {};
  std::vector<std::int64_t> ids = {};

  float* row(std::size_t index) { return numbers.data() + index * width; }
};

/// Everything that layers read and write; kept from call to call so that memory is.
struct TokenPass {
  std::vector<TokenSlot> slots;
  std::vector<TokenRow> rows;
  TokenCache* cache = nullptr;
  RowTeam* team = nullptr;
  /// A few rows of unpacked weights for each member of the team.
  std::vector<std::vector<float>> unpacked;
  /// Scores of one head and row for each member.
  std::vector<std::vector<float>> scores;

  /// The slot with room for all rows.
  TokenSlot& room(std::size_t slot) {
    TokenSlot& own = slots[slot];
    const std::size_t needs = own.width * rows.size();
    if (own.numbers.size() < needs) own.numbers.resize(needs);
    return own;
  }
};

/// One layer of a stage.
class TokenLayer {
 public:
  virtual ~TokenLayer() = default;
  virtual void run(TokenPass& pass) = 0;
};
using TokenLayerPtr = std::unique_ptr<TokenLayer>;

/// Some of the outputs of a product.
struct OutputRange {
  std::size_t first, count;
};

/// x · wᵀ + bias for all rows, from where the weights lie.
class TokenProduct {
 public:
  TokenProduct() = default;
  TokenProduct(WeightRows weight, std::vector<float> bias)
      : weight_(std::move(weight)), bias_(std::move(bias)) {}

  [[nodiscard]] std::size_t outputs() const { return static_cast<std::size_t>(weight_.rows()); }
  /// `x` and `y` hold pass.rows.size() rows of columns() and outputs().
  void run(TokenPass& pass, const float* x, float* y) const;
  [[nodiscard]] const WeightRows& weight() const { return weight_; }

 private:
  void run_block(TokenPass& pass, int member, std::size_t block, const float* x, float* y) const;
  [[nodiscard]] bool multiply_packed(const TokenPass& pass, OutputRange range, const float* x,
                                     float* y) const;
  void multiply_unpacked(TokenPass& pass, int member, OutputRange range, const float* x,
                         float* y) const;

  WeightRows weight_;
  std::vector<float> bias_;
};

using RowFunction = void (*)(float* x, std::size_t length);
/// The activation of that name, or null.
[[nodiscard]] RowFunction row_activation(std::string_view name);

/// How a layer is made: its place in the graph, slots of its inputs, and the source of weights.
struct TokenLayerRequest {
  const HarmonicGraph& graph;
  std::size_t layer;
  std::vector<std::size_t> inputs;
  std::size_t output;
  const WeightSource& weights;
  /// Attention layers so far; one that keeps keys and values adds its own.
  std::vector<CacheShape>& caches;
  TokenStageFigures& figures;
  /// Attention sees whole sequences.
  bool whole = false;

  [[nodiscard]] const LayerNode& node() const { return graph.layers()[layer]; }
  [[nodiscard]] LayerQuery query(std::vector<TensorSpec>& inputs_of) const;
  /// The parameter of that name; a shape that the graph does not say is an Error.
  [[nodiscard]] WeightRows rows(std::string_view parameter) const;
  /// The same as plain numbers; empty where the layer has no such parameter.
  [[nodiscard]] std::vector<float> numbers(std::string_view parameter) const;
};

/// A layer that cannot be computed row by row is an Error that names it.
[[nodiscard]] TokenLayerPtr make_token_layer(const TokenLayerRequest& request);
[[nodiscard]] TokenLayerPtr make_token_attention(const TokenLayerRequest& request);

/// An Error where it looks ahead, or where a mask would be needed.
void check_token_attention(const LayerQuery& query, bool whole);
/// Frequencies of rotary positions, one for each pair of numbers; empty where there are none.
[[nodiscard]] std::vector<float> turn_frequencies(const LayerQuery& query, std::int64_t head_dim);
/// The Error of a layer that does not work token by token.
[[noreturn]] void refuse_token_layer(const LayerNode& node);
/// An Error where it has an activation that generation does not know.
void check_token_activation(const LayerNode& node);

}  // namespace harmonics::inline in_runtime
