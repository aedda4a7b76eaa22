// For tests: the arithmetic of PlainBackend on rows of float32, in plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <harmonics/tensor/tensor.h>

namespace harmonics::inline in_runtime {

/// A matrix: `rows` times `width`.
struct Rows {
  std::size_t rows = 0;
  std::size_t width = 0;
  std::vector<float> values;

  Rows() = default;
  Rows(std::size_t count, std::size_t wide) : rows(count), width(wide), values(count * wide) {}
  explicit Rows(const Tensor& tensor)
      : rows(static_cast<std::size_t>(tensor.shape().at(0))),
        width(rows == 0 ? 0 : static_cast<std::size_t>(tensor.size()) / rows),
        values(tensor.values<float>().begin(), tensor.values<float>().end()) {}

  [[nodiscard]] float* row(std::size_t index) { return values.data() + index * width; }
  [[nodiscard]] const float* row(std::size_t index) const { return values.data() + index * width; }
  [[nodiscard]] Tensor tensor() const {
    return Tensor::of<float>({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)},
                             values);
  }
  void add(const Rows& other) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  }
};

/// input times the transpose of `weight` (out times in), plus `bias`.
inline Rows linear(const Rows& input, std::span<const float> weight, std::span<const float> bias,
                   std::size_t out) {
  Rows output(input.rows, out);
  for (std::size_t r = 0; r < input.rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      float sum = bias.empty() ? 0.0F : bias[o];
      for (std::size_t i = 0; i < input.width; ++i) {
        sum += input.row(r)[i] * weight[o * input.width + i];
      }
      output.row(r)[o] = sum;
    }
  }
  return output;
}

/// Adds the gradients of weight and bias, and gives that of the input.
inline Rows linear_back(const Rows& input, const Rows& gradient, std::span<const float> weight,
                        std::span<float> to_weight, std::span<float> to_bias) {
  Rows answer(input.rows, input.width);
  for (std::size_t r = 0; r < input.rows; ++r) {
    for (std::size_t o = 0; o < gradient.width; ++o) {
      const float slope = gradient.row(r)[o];
      if (!to_bias.empty()) to_bias[o] += slope;
      for (std::size_t i = 0; i < input.width; ++i) {
        to_weight[o * input.width + i] += slope * input.row(r)[i];
        answer.row(r)[i] += slope * weight[o * input.width + i];
      }
    }
  }
  return answer;
}

inline Rows softmax(Rows scores) {
  for (std::size_t r = 0; r < scores.rows; ++r) {
    const std::span<float> row(scores.row(r), scores.width);
    const float best = *std::ranges::max_element(row);
    double sum = 0;
    for (const float score : row) sum += std::exp(double{score} - best);
    for (float& score : row) score = static_cast<float>(std::exp(double{score} - best) / sum);
  }
  return scores;
}

/// Cross entropy of scores and whole numbers: the losses' sum, and their slopes.
struct Judged {
  double loss = 0;
  std::int64_t correct = 0;
  Rows slopes;
};

inline Judged cross_entropy(const Rows& scores, std::span<const std::int64_t> classes) {
  Judged judged{0, 0, Rows(scores.rows, scores.width)};
  for (std::size_t r = 0; r < scores.rows; ++r) {
    const float* row = scores.row(r);
    const float* best = std::max_element(row, row + scores.width);
    double sum = 0;
    for (std::size_t i = 0; i < scores.width; ++i) sum += std::exp(double{row[i]} - *best);
    const auto right = static_cast<std::size_t>(classes[r]);
    judged.loss += std::log(sum) - (double{row[right]} - *best);
    judged.correct += best - row == classes[r] ? 1 : 0;
    for (std::size_t i = 0; i < scores.width; ++i) {
      const double share = std::exp(double{row[i]} - *best) / sum;
      judged.slopes.row(r)[i] = static_cast<float>(share - (i == right ? 1 : 0));
    }
  }
  return judged;
}

}  // namespace harmonics::inline in_runtime
