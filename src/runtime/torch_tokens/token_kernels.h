// What a token stage on libtorch computes with: two ways of one meaning (private to runtime).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace harmonics::inline in_runtime {

/// A call: rows of tokens, of which some at the end may be there only to fill up a shape.
struct TorchTokenPass {
  // Whole numbers by row: its position, and where its keys and values go (block * 16 + place).
  at::Tensor positions, slots;
  /// Blocks of each row's sequence, {rows, columns}; what a sequence does not have is any block.
  at::Tensor blocks;
  /// Rows that the layers after the last attention take; undefined: all.
  at::Tensor wanted;
  std::vector<at::Tensor> values;  // by slot

  [[nodiscard]] std::int64_t rows() const { return positions.size(0); }
};

/// activation(norm(x)·wᵀ + b), twice that side by side multiplied where it is gated.
struct ProductPlan {
  at::Tensor weight;  // {outputs, inputs}; gated: of the activated half, then of the other
  at::Tensor bias;    // float32, or undefined
  at::Tensor norm;    // weight of an rms_norm of x, float32, or undefined
  double eps = 0;
  std::string activation = {};
  bool gated = false;
  bool wide = false;  // gives float32
};

/// Attention but for its last product. Heads come as queries, keys, values.
struct AttentionPlan {
  ProductPlan project;
  std::int64_t heads = 0, groups = 0, head_dim = 0;
  std::int64_t window = 0;
  /// Cosine and sine of all angles at all positions, {positions, half}; undefined: none.
  at::Tensor cosines, sines;
  at::Tensor cache;  // {2, blocks, groups, 16, head_dim}: keys and values
};

/// One thread at a time.
class TokenKernels {
 public:
  virtual ~TokenKernels() = default;
  /// `summand` is added to it, where it is defined.
  [[nodiscard]] virtual at::Tensor product(const ProductPlan& plan, const at::Tensor& x,
                                           const at::Tensor& summand) = 0;
  /// The rms_norm of each row.
  [[nodiscard]] virtual at::Tensor norm(const at::Tensor& x, const at::Tensor& weight,
                                        double eps) = 0;
  /// Queries {rows, heads * head_dim}, turned; keys and values are in the cache.
  [[nodiscard]] virtual at::Tensor project(const AttentionPlan& plan, const at::Tensor& x,
                                           const TorchTokenPass& pass) = 0;
  /// What the queries find, {rows, heads * head_dim}.
  [[nodiscard]] virtual at::Tensor mix(const AttentionPlan& plan, const at::Tensor& queries,
                                       const TorchTokenPass& pass) = 0;
};

/// By libtorch's own kernels. `steady`: products of always so many rows, and attention over always
/// so many tokens at a time.
[[nodiscard]] std::unique_ptr<TokenKernels> make_plain_token_kernels(bool steady);
/// By kernels of our own where they are faster, or at all times if `steady`, and otherwise as
/// above; null where this build has no CUDA or the device no compiler.
[[nodiscard]] std::unique_ptr<TokenKernels> make_fused_token_kernels(at::Device device,
                                                                     at::ScalarType numbers,
                                                                     bool steady);

/// The activation of that name, or none for "".
[[nodiscard]] at::Tensor activated(const at::Tensor& x, const std::string& activation);
/// Norm over rows in float32, and back to the dtype of x; `bias` undefined: rms_norm.
[[nodiscard]] at::Tensor row_norm(const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& bias, double eps);

}  // namespace harmonics::inline in_runtime
