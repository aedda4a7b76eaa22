#include <cstring>

#include <harmonics/runtime/devices.h>

#include "exact_operation.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

/// Rows of a table. Its gradient adds rows in the order of the batch; threads split its columns.
class ExactEmbedding final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    const Tensor ids = convert_tensor(call.inputs[0], DType::kInt64);
    const std::int64_t width = call.parameters[0].shape()[1];
    Shape shape = ids.shape();
    shape.push_back(width);
    Tensor y = Tensor::empty(shape);
    const float* const table = numbers_of(call.parameters[0]);
    float* to = own_numbers(y);
    for (const std::int64_t id : ids.values<std::int64_t>()) {
      std::memcpy(to, table + id * width, static_cast<std::size_t>(width) * sizeof(float));
      to += width;
    }
    if (call.training) kept.tensors = {ids};
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    const std::span<const std::int64_t> ids = kept.tensors[0].values<std::int64_t>();
    const std::int64_t width = call.parameters[0].shape()[1];
    const float* const g = numbers_of(gradient);
    float* const table = own_numbers(call.gradients[0]);
    in_exact_threads(width, kExactGrain / (static_cast<std::int64_t>(ids.size()) + 1) + 64,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::size_t i = 0; i < ids.size(); ++i) {
                         float* const row = table + ids[i] * width + begin;
                         const float* const own = g + static_cast<std::int64_t>(i) * width + begin;
                         call.kernels.add(end - begin, row, own, row);
                       }
                     });
    return {Tensor()};
  }
};

// {batch, rows, columns} to {batch, columns, rows}.
Tensor transposed(const Tensor& x, std::int64_t rows, std::int64_t columns, Shape shape) {
  Tensor y = Tensor::empty(std::move(shape));
  const float* from = numbers_of(x);
  float* to = own_numbers(y);
  const std::int64_t area = rows * columns, count = area == 0 ? 0 : x.size() / area;
  for (std::int64_t n = 0; n < count; ++n, from += area, to += area) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
    }
  }
  return y;
}

/// {batch, channels, height, width} to {batch, height * width, channels}.
class ExactTokens final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept&) const override {
    const Shape& in = call.inputs[0].shape();
    const std::int64_t area = in[2] * in[3];
    return transposed(call.inputs[0], in[1], area, {in[0], area, in[1]});
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    const Shape& in = call.inputs[0].shape();
    return {transposed(gradient, in[2] * in[3], in[1], in)};
  }
};

/// A learned row before the others.
class ExactClassToken final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept&) const override {
    const Shape& in = call.inputs[0].shape();
    const std::int64_t width = in[2], own = in[1] * width;
    Tensor y = Tensor::empty({in[0], in[1] + 1, width});
    const float *const x = numbers_of(call.inputs[0]), *const token =
                                                           numbers_of(call.parameters[0]);
    float* const to = own_numbers(y);
    for (std::int64_t n = 0; n < in[0]; ++n) {
      float* const row = to + n * (own + width);
      std::memcpy(row, token, static_cast<std::size_t>(width) * sizeof(float));
      std::memcpy(row + width, x + n * own, static_cast<std::size_t>(own) * sizeof(float));
    }
    return y;
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    const Shape& in = call.inputs[0].shape();
    const std::int64_t width = in[2], own = in[1] * width;
    const float* const g = numbers_of(gradient);
    call.kernels.add_rows(in[0], width, g, own + width, own_numbers(call.gradients[0]));
    Tensor answer = call.like_input();
    for (std::int64_t n = 0; n < in[0]; ++n) {
      std::memcpy(own_numbers(answer) + n * own, g + n * (own + width) + width,
                  static_cast<std::size_t>(own) * sizeof(float));
    }
    return {answer};
  }
};

/// A learned table added to every sample, from row `offset` on.
class ExactPosition final : public ExactOperation {
 public:
  explicit ExactPosition(std::int64_t offset) : offset_(offset) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    Tensor y = call.like_input();
    const std::int64_t size = extent_from(y.shape(), 1);
    const float* const table = numbers_of(call.parameters[0]) + offset_ * y.shape().back();
    for (std::int64_t n = 0; n < call.rows(); ++n) {
      call.kernels.add(size, numbers_of(call.inputs[0]) + n * size, table,
                       own_numbers(y) + n * size);
    }
    return y;
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    const std::int64_t size = extent_from(gradient.shape(), 1);
    call.kernels.add_rows(call.rows(), size, numbers_of(gradient), size,
                          own_numbers(call.gradients[0]) + offset_ * gradient.shape().back());
    return {gradient};
  }

 private:
  std::int64_t offset_;
};

/// One row of the first axis.
class ExactSelect final : public ExactOperation {
 public:
  explicit ExactSelect(std::int64_t index) : index_(index) {}

  Tensor forward(const ExactCall& call, ExactKept&) const override {
    const Shape& in = call.inputs[0].shape();
    Shape shape(in.begin() + 1, in.end());
    shape[0] = in[0];
    Tensor y = Tensor::empty(shape);
    const std::int64_t width = extent_from(in, 2);
    for (std::int64_t n = 0; n < in[0]; ++n) {
      std::memcpy(own_numbers(y) + n * width,
                  numbers_of(call.inputs[0]) + (n * in[1] + row_of(in)) * width,
                  static_cast<std::size_t>(width) * sizeof(float));
    }
    return y;
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    const Shape& in = call.inputs[0].shape();
    Tensor answer = Tensor::zeros(in);
    const std::int64_t width = extent_from(in, 2);
    for (std::int64_t n = 0; n < in[0]; ++n) {
      std::memcpy(own_numbers(answer) + (n * in[1] + row_of(in)) * width,
                  numbers_of(gradient) + n * width,
                  static_cast<std::size_t>(width) * sizeof(float));
    }
    return {answer};
  }

 private:
  // Below 0 it counts from the end.
  [[nodiscard]] std::int64_t row_of(const Shape& in) const {
    return index_ < 0 ? index_ + in[1] : index_;
  }

  std::int64_t index_;
};

/// The chain over the rows of a sample, divided by their number.
class ExactMean final : public ExactOperation {
 public:
  Tensor forward(const ExactCall& call, ExactKept&) const override {
    const Shape& in = call.inputs[0].shape();
    const std::int64_t width = extent_from(in, 2);
    Tensor y = Tensor::zeros({in[0], in[2]});
    const auto count = static_cast<float>(in[1]);
    for (std::int64_t n = 0; n < in[0]; ++n) {
      float* const to = own_numbers(y) + n * width;
      call.kernels.add_rows(in[1], width, numbers_of(call.inputs[0]) + n * in[1] * width, width,
                            to);
      for (std::int64_t j = 0; j < width; ++j) to[j] = to[j] / count;
    }
    return y;
  }
  std::vector<Tensor> backward(const ExactCall& call, const ExactKept&,
                               const Tensor& gradient) const override {
    const Shape& in = call.inputs[0].shape();
    const std::int64_t width = extent_from(in, 2);
    Tensor answer = call.like_input();
    const auto count = static_cast<float>(in[1]);
    for (std::int64_t row = 0; row < in[0] * in[1]; ++row) {
      const float* const g = numbers_of(gradient) + row / in[1] * width;
      float* const to = own_numbers(answer) + row * width;
      for (std::int64_t j = 0; j < width; ++j) to[j] = g[j] / count;
    }
    return {answer};
  }
};

}  // namespace

ExactOperationPtr make_exact_token_layer(const LayerQuery& query) {
  const std::string_view type = query.type;
  if (type == "embedding") return std::make_unique<ExactEmbedding>();
  if (type == "tokens") return std::make_unique<ExactTokens>();
  if (type == "class_token") return std::make_unique<ExactClassToken>();
  if (type == "position") {
    return std::make_unique<ExactPosition>(query.has("rows") ? query.integer_or("offset", 0) : 0);
  }
  if (type == "select") return std::make_unique<ExactSelect>(query.integer("index"));
  if (type == "mean" && query.inputs.size() == 1) return std::make_unique<ExactMean>();
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
