// The operations of a reproducible stage on a device, by family (private to runtime).
#pragma once

#include "exact_device.h"

namespace harmonics::inline in_runtime {

/// Where the numbers of a product lie: elements from `offset` on, `row` and `column` apart; after
/// `inner` steps along the chain `outer` further. Of many matrices `near` apart, and `far` after
/// DeviceProduct::near of them.
struct DeviceMatrix {
  const ExactArray& array;
  std::int64_t offset = 0, row = 0, column = 1, outer = 0, near = 0, far = 0;
};

enum class SumStart { kZero, kWhatIsThere, kFirstByColumn, kFirstByRow };

/// c = the chains of a times b, for `count` matrices; those of a row of c lie side by side.
struct DeviceProduct {
  std::int64_t m = 0, n = 0, k = 0;
  DeviceMatrix a, b, c;
  std::int64_t inner = 0;  ///< 0: all of k
  std::int64_t count = 1, near = 1;
  SumStart start = SumStart::kZero;
  ExactArray first = {};
  std::int64_t first_offset = 0;
};
void multiply_on(ExactDevice& device, const DeviceProduct& product);

/// Rows of sixteen lanes each, in work items.
inline constexpr std::int64_t kExactLanesPerRow = 16;

// x·wᵀ + b over the last axis, and its gradients, as exact_linear.h has them.
[[nodiscard]] ExactArray linear_forward_on(ExactDevice& device, const ExactArray& x,
                                           const ExactArray& weight, const ExactArray& bias);
[[nodiscard]] ExactArray linear_back_on(ExactDevice& device, const ExactArray& gradient,
                                        const ExactArray& weight);
struct DeviceLinearGradients {
  const ExactArray &x, &gradient, &to_weight;
  ExactArray to_bias;
};
void linear_gradients_on(ExactDevice& device, const DeviceLinearGradients& all);

// Null for types of other families.
[[nodiscard]] PlacedOperationPtr make_linear_on(ExactDevice& device, const LayerQuery& query);
[[nodiscard]] PlacedOperationPtr make_attention_on(ExactDevice& device, const LayerQuery& query);
[[nodiscard]] PlacedOperationPtr make_element_layer_on(ExactDevice& device, const LayerQuery& query,
                                                       const TensorSpec& output);
[[nodiscard]] PlacedOperationPtr make_token_layer_on(ExactDevice& device, const LayerQuery& query);
[[nodiscard]] PlacedOperationPtr make_norm_on(ExactDevice& device, const LayerQuery& query);
[[nodiscard]] PlacedOperationPtr make_window_on(ExactDevice& device, const LayerQuery& query,
                                                const TensorSpec& output);
[[nodiscard]] PlacedOperationPtr make_activation_on(ExactDevice& device, std::string_view name);
[[nodiscard]] PlacedLossPtr make_loss_on(ExactDevice& device, std::string_view name);

}  // namespace harmonics::inline in_runtime
