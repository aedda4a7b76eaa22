#include "exact_windows.h"

#include <algorithm>
#include <utility>

#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

using Reach = ExactReach;

std::int64_t pair_at(const Shape& value, std::size_t axis) {
  return value.size() > axis ? value[axis] : value[0];
}

/// The windows along one axis of a pool.
std::vector<Reach> pool_reaches(const LayerQuery& query, std::size_t axis, std::int64_t extent,
                                std::int64_t places) {
  const std::int64_t kernel = pair_at(query.list("kernel"), axis);
  const std::int64_t stride = query.has("stride") ? pair_at(query.list("stride"), axis) : kernel;
  const std::int64_t pace = query.has("dilation") ? pair_at(query.list("dilation"), axis) : 1;
  const Shape padding = query.list("padding");
  const std::int64_t before = pair_at(padding, axis);
  const std::int64_t after = padding.size() == 4 ? padding[axis + 2] : before;
  const bool counts_padding = query.integer_or("count_padding", 1) != 0;
  std::vector<Reach> all;
  for (std::int64_t place = 0; place < places; ++place) {
    const std::int64_t start = place * stride - before;
    Reach reach{extent, 0, pace, 0};
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t at = start + k * pace;
      const bool inside = at >= 0 && at < extent;
      if (inside) reach.first = std::min(reach.first, at);
      if (inside) reach.end = at + 1;
      if (inside || (counts_padding && at >= -before && at < extent + after)) ++reach.counted;
    }
    all.push_back(reach);
  }
  return all;
}

/// Windows that share the axis out evenly.
std::vector<Reach> adaptive_reaches(std::int64_t extent, std::int64_t places) {
  std::vector<Reach> all;
  for (std::int64_t place = 0; place < places; ++place) {
    const std::int64_t first = place * extent / places;
    const std::int64_t end = ((place + 1) * extent + places - 1) / places;
    all.push_back({first, end, 1, end - first});
  }
  return all;
}

/// Largest or mean value of each window, plane by plane. A mean is the chain over the window row by
/// row, from 0, divided by the places that count; of several that are largest the first counts.
class ExactPool final : public ExactOperation {
 public:
  ExactPool(ExactReaches reaches, bool largest)
      : rows_(std::move(reaches.rows)), columns_(std::move(reaches.columns)), largest_(largest) {}

  Tensor forward(const ExactCall& call, ExactKept& kept) const override {
    const Shape& in = call.inputs[0].shape();
    const Shape out = {in[0], in[1], height(), width()};
    Tensor y = Tensor::empty(out), places = Tensor::empty(largest_ ? out : Shape{0}, DType::kInt32);
    const float* const x = numbers_of(call.inputs[0]);
    const std::span<std::int32_t> from = places.mutable_values<std::int32_t>();
    const std::int64_t area = height() * width();
    in_exact_threads(in[0] * in[1], kExactGrain / (in[2] * in[3] + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t p = begin; p < end; ++p) {
                         const float* const plane = x + p * in[2] * in[3];
                         float* const to = own_numbers(y) + p * area;
                         if (largest_) {
                           take_largest(plane, in[3], to, from.data() + p * area);
                         } else {
                           take_means(plane, in[3], to);
                         }
                       }
                     });
    if (call.training) kept.tensors = {places};
    return y;
  }

  std::vector<Tensor> backward(const ExactCall& call, const ExactKept& kept,
                               const Tensor& gradient) const override {
    const Shape& in = call.inputs[0].shape();
    Tensor answer = Tensor::zeros(in);
    const std::int64_t area = height() * width();
    const std::span<const std::int32_t> from = kept.tensors[0].values<std::int32_t>();
    in_exact_threads(in[0] * in[1], kExactGrain / (in[2] * in[3] + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t p = begin; p < end; ++p) {
                         const float* const g = numbers_of(gradient) + p * area;
                         float* const to = own_numbers(answer) + p * in[2] * in[3];
                         if (largest_) {
                           give_largest(g, from.data() + p * area, to);
                         } else {
                           share_means(g, in[3], to);
                         }
                       }
                     });
    return {answer};
  }

 private:
  [[nodiscard]] std::int64_t height() const { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::int64_t width() const { return static_cast<std::int64_t>(columns_.size()); }

  void take_largest(const float* plane, std::int64_t pitch, float* to, std::int32_t* from) const {
    for (const Reach& row : rows_) {
      for (const Reach& column : columns_) {
        *from = largest_in(plane, pitch, row, column);
        *to++ = plane[*from++];
      }
    }
  }

  static std::int32_t largest_in(const float* plane, std::int64_t pitch, const Reach& row,
                                 const Reach& column) {
    std::int64_t best = row.first * pitch + column.first;
    for (std::int64_t y = row.first; y < row.end; y += row.pace) {
      for (std::int64_t x = column.first; x < column.end; x += column.pace) {
        const float value = plane[y * pitch + x];
        if (value > plane[best] || value != value) best = y * pitch + x;
      }
    }
    return static_cast<std::int32_t>(best);
  }

  void take_means(const float* plane, std::int64_t pitch, float* to) const {
    for (const Reach& row : rows_) {
      for (const Reach& column : columns_) {
        float sum = 0;
        for (std::int64_t y = row.first; y < row.end; ++y) {
          for (std::int64_t x = column.first; x < column.end; ++x) sum = sum + plane[y * pitch + x];
        }
        *to++ = sum / static_cast<float>(row.counted * column.counted);
      }
    }
  }

  void give_largest(const float* gradient, const std::int32_t* from, float* to) const {
    for (std::int64_t i = 0; i < height() * width(); ++i) to[from[i]] = to[from[i]] + gradient[i];
  }

  void share_means(const float* gradient, std::int64_t pitch, float* to) const {
    for (const Reach& row : rows_) {
      for (const Reach& column : columns_) {
        const float share = *gradient++ / static_cast<float>(row.counted * column.counted);
        share_out(share, {row, column}, pitch, to);
      }
    }
  }

  static void share_out(float share, const std::pair<Reach, Reach>& window, std::int64_t pitch,
                        float* to) {
    const auto& [row, column] = window;
    for (std::int64_t y = row.first; y < row.end; ++y) {
      for (std::int64_t x = column.first; x < column.end; ++x) {
        to[y * pitch + x] = to[y * pitch + x] + share;
      }
    }
  }

  std::vector<Reach> rows_, columns_;
  bool largest_;
};

}  // namespace

ExactReaches::ExactReaches(const LayerQuery& query, const Shape& output) {
  const Shape& in = query.inputs[0].shape;
  const bool adaptive = query.type.starts_with("adaptive_");
  rows = adaptive ? adaptive_reaches(in[1], output[1]) : pool_reaches(query, 0, in[1], output[1]);
  columns =
      adaptive ? adaptive_reaches(in[2], output[2]) : pool_reaches(query, 1, in[2], output[2]);
}

ExactOperationPtr make_exact_window(const LayerQuery& query, const TensorSpec& output) {
  const std::string_view type = query.type;
  if (type == "conv2d") return make_exact_convolution(query, output.shape);
  if (!type.ends_with("_pool")) return nullptr;
  return std::make_unique<ExactPool>(ExactReaches(query, output.shape), type.ends_with("max_pool"));
}

}  // namespace harmonics::inline in_runtime
