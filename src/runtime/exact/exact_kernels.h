// The kernels of the reproducible arithmetic as a table of functions (private to runtime).
//
// One description (exact_vector.h, exact_functions.h, exact_products.h, exact_elements.h,
// exact_rows.h) is compiled once for each instruction set; all of them give the same bits, which
// docs/formats/reproducible.md states. Nothing here allocates or starts threads: a caller may split
// independent outputs among threads as it likes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harmonics::inline in_runtime {

/// Functions of one number, of at most 2 ulp; sqrt and reciprocal are IEEE's.
enum class ExactFunction { kExp, kLog, kTanh, kErf, kRsqrt, kSqrt, kReciprocal };

/// Activations of one number.
enum class ExactActivation { kRelu, kSigmoid, kTanh, kGelu, kGeluTanh, kQuickGelu, kSelu, kSilu };

/// c[i][j] = the chain of fused multiply-adds over p = 0 … k-1 of a[i][p] * b[p][j], from c[i][j]
/// on. Elements of a and b lie `row` apart from one row to the next and `column` from one column to
/// the next; those of a row of c side by side.
struct ExactProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_column = 1;
  const float* b = nullptr;
  std::int64_t b_row = 0, b_column = 1;
  float* c = nullptr;
  std::int64_t c_row = 0;
};

/// Floats that a product needs beside its operands.
inline constexpr std::int64_t kExactProductScratch = 256 * (512 + 64) + 1024;

/// Rows of `width` numbers each; what a norm keeps of them.
struct ExactNormRows {
  std::int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  float* means = nullptr;
  float* scales = nullptr;
  float epsilon = 0;
};

/// The gradient of such rows.
struct ExactNormBack {
  std::int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* means = nullptr;
  const float* scales = nullptr;
  const float* gradient = nullptr;
  float* answer = nullptr;
};

/// Columns [first, end) of rows: the gradients of a norm's weight and bias, to which is added.
struct ExactNormColumns {
  std::int64_t rows = 0, width = 0, first = 0, end = 0;
  const float* x = nullptr;
  const float* means = nullptr;
  const float* scales = nullptr;
  const float* gradient = nullptr;
  float* to_weight = nullptr;
  float* to_bias = nullptr;
};

/// One update of `count` weights.
struct ExactUpdate {
  std::int64_t count = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;   ///< momentum or mean
  float* second = nullptr;  ///< square
  float factor = 1, decay = 0, shrink = 1, rate = 0, momentum = 0;
  float beta1 = 0, beta2 = 0, square_root = 1, epsilon = 0;
};

struct ExactKernels {
  const char* name;  ///< "scalar", "avx2", "avx512", "neon"

  void (*map)(ExactFunction function, std::int64_t count, const float* x, float* y);
  void (*activate)(ExactActivation kind, std::int64_t count, const float* x, float* y);
  /// y = gradient times the slope at x.
  void (*activate_back)(ExactActivation kind, std::int64_t count, const float* x,
                        const float* gradient, float* y);

  void (*multiply)(const ExactProduct& product, float* scratch);

  void (*add)(std::int64_t count, const float* a, const float* b, float* y);
  void (*times)(std::int64_t count, const float* a, const float* b, float* y);
  void (*scale)(std::int64_t count, const float* x, float factor, float* y);
  /// y = (x - mean) * scale * weight + bias, the last two fused.
  void (*normalize)(std::int64_t count, const float* x, const float* four, float* y);
  /// y = factor * ((gradient - mean) - xhat * slope), xhat = (x - at) * scale; `five` holds at,
  /// scale, mean, slope, factor.
  void (*normalize_back)(std::int64_t count, const float* x, const float* gradient,
                         const float* five, float* y);

  // Sums in 16 lanes.
  float (*sum)(std::int64_t count, const float* x);
  float (*squares)(std::int64_t count, const float* x, float mean);
  /// Of gradient * (x - mean) * scale.
  float (*dot)(std::int64_t count, const float* gradient, const float* x, const float* two);
  double (*square_sum)(std::int64_t count, const float* x);

  // Chains over rows, column by column: to[j] goes on from what it holds.
  void (*add_rows)(std::int64_t rows, std::int64_t width, const float* x, std::int64_t stride,
                   float* to);

  void (*softmax)(std::int64_t count, const float* x, float* y);
  void (*softmax_back)(std::int64_t count, const float* y, const float* gradient, float* answer);
  /// log of the sum of exp(x); `probabilities`, where not null, gets the softmax.
  float (*log_sum_exp)(std::int64_t count, const float* x, float* probabilities);

  void (*layer_norm)(const ExactNormRows& rows);
  void (*layer_norm_back)(const ExactNormBack& rows);
  void (*layer_norm_columns)(const ExactNormColumns& columns);
  void (*rms_norm)(const ExactNormRows& rows);
  void (*rms_norm_back)(const ExactNormBack& rows);

  void (*sgd)(const ExactUpdate& update);
  void (*sgd_momentum)(const ExactUpdate& update);
  void (*adam)(const ExactUpdate& update);
};

/// The widest that this machine runs, or what HARMONICS_EXACT names ("scalar", "avx2", "avx512",
/// "neon"); a name that is none, or that this machine cannot run, is an Error that lists those that
/// it can.
[[nodiscard]] const ExactKernels& exact_kernels();
/// The same by name, for tests and benches.
[[nodiscard]] const ExactKernels& exact_kernels(std::string_view name);
/// Those that this machine runs, the narrowest first.
[[nodiscard]] std::vector<std::string> exact_kernel_names();

// One per instruction set; only exact_choice.cc calls them, after it has asked the machine.
[[nodiscard]] const ExactKernels& exact_kernels_scalar();
[[nodiscard]] const ExactKernels& exact_kernels_avx2();
[[nodiscard]] const ExactKernels& exact_kernels_avx512();
[[nodiscard]] const ExactKernels& exact_kernels_neon();

}  // namespace harmonics::inline in_runtime
