#include <algorithm>
#include <utility>

#include "device_operations.h"
#include "exact/exact_columns.h"
#include "exact/exact_windows.h"

namespace harmonics::inline in_runtime {
namespace {

/// Numbers of the columns that are laid out at once.
constexpr std::int64_t kMaxDeviceColumns = std::int64_t{16} << 20;

/// As ExactConv2d (exact_convolution.cc) has it.
class DeviceConv2d final : public PlacedOperation {
 public:
  DeviceConv2d(ExactDevice& device, const LayerQuery& query, const Shape& output)
      : device_(device),
        columns_(query, output),
        shape_(device.numbers(numbers_of_shape(columns_))),
        groups_(query.integer("groups")),
        out_(output),
        own_(output[0] / groups_),
        has_bias_(query.integer("bias") != 0) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    ExactArray y = device_.empty({call.rows(), out_[0], out_[1], out_[2]});
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    const bool as_it_is = columns_.is_image();
    for_chunks(call.rows(), as_it_is, [&](const Chunk& chunk, const ExactArray& columns) {
      if (!as_it_is) spread(call, chunk, columns);
      multiply_on(device_, {.m = own_,
                            .n = area,
                            .k = taps,
                            .a = weights(call, chunk, taps, 1),
                            .b = as_it_is ? DeviceMatrix{call.inputs[0], image_at(chunk), area, 1,
                                                         0, 0, image_pitch()}
                                          : DeviceMatrix{columns, 0, area, 1, 0, 0, taps * area},
                            .c = outputs(y, chunk),
                            .count = chunk.count,
                            .start = has_bias_ ? SumStart::kFirstByRow : SumStart::kZero,
                            .first = has_bias_ ? call.parameters[1] : ExactArray(),
                            .first_offset = chunk.group * own_});
    });
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    ExactArray answer;
    if (call.wanted[0]) answer = device_.empty(call.inputs[0].shape);
    for_chunks(call.rows(), false, [&](const Chunk& chunk, const ExactArray& columns) {
      if (answer.defined()) back_to_images(call, chunk, {gradient, columns, answer});
      back_to_weights(call, chunk, {gradient, columns, answer});
    });
    if (has_bias_) {
      const std::int64_t planes = call.rows() * out_[0];
      const ExactArray sums = device_.empty({planes});
      device_.run("plane_sums", planes * kExactLanesPerRow, {gradient, columns_.area(), sums});
      device_.run("add_rows", out_[0], {sums, out_[0], call.rows(), call.gradients[1], 0});
    }
    return {answer};
  }

 private:
  struct Chunk {
    std::int64_t first, count, group;
  };
  struct Operands {
    const ExactArray &gradient, &columns, &answer;
  };

  static std::vector<std::int32_t> numbers_of_shape(const ExactColumns& c) {
    std::vector<std::int32_t> all;
    for (const std::int64_t number :
         {c.height, c.width, c.out_height, c.out_width, c.kernel[0], c.kernel[1], c.stride[0],
          c.stride[1], c.dilation[0], c.dilation[1], c.before[0], c.before[1]}) {
      all.push_back(static_cast<std::int32_t>(number));
    }
    return all;
  }

  // As many samples at once as their columns fit; all of them where nothing is laid out.
  template <typename Work>
  void for_chunks(std::int64_t rows, bool whole, const Work& work) const {
    const std::int64_t size = std::max<std::int64_t>(columns_.taps() * columns_.area(), 1);
    const std::int64_t most = std::max<std::int64_t>(kMaxDeviceColumns / size, 1);
    const std::int64_t each = whole ? rows : std::min(rows, most);
    if (rows == 0) return;
    const ExactArray columns = whole ? ExactArray() : device_.empty({each, size});
    for (std::int64_t first = 0; first < rows; first += each) {
      for (std::int64_t group = 0; group < groups_; ++group) {
        work(Chunk{first, std::min(each, rows - first), group}, columns);
      }
    }
  }

  [[nodiscard]] std::int64_t image_size() const {
    return columns_.channels * columns_.height * columns_.width;
  }
  [[nodiscard]] std::int64_t image_pitch() const { return groups_ * image_size(); }
  [[nodiscard]] std::int64_t image_at(const Chunk& chunk) const {
    return chunk.first * image_pitch() + chunk.group * image_size();
  }
  [[nodiscard]] DeviceMatrix outputs(const ExactArray& y, const Chunk& chunk) const {
    const std::int64_t area = columns_.area(), size = own_ * area;
    return {y, (chunk.first * groups_ + chunk.group) * size, area, 1, 0, 0, groups_ * size};
  }
  [[nodiscard]] DeviceMatrix weights(const PlacedCall& call, const Chunk& chunk, std::int64_t row,
                                     std::int64_t column) const {
    return {call.parameters[0], chunk.group * own_ * columns_.taps(), row, column};
  }

  void spread(const PlacedCall& call, const Chunk& chunk, const ExactArray& columns) const {
    const std::int64_t taps = columns_.taps();
    device_.run("spread", chunk.count * taps * columns_.area(),
                {call.inputs[0], image_at(chunk), image_pitch(), shape_, taps, columns});
  }

  void back_to_images(const PlacedCall& call, const Chunk& chunk, const Operands& o) const {
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    multiply_on(device_, {.m = taps,
                          .n = area,
                          .k = own_,
                          .a = weights(call, chunk, 1, taps),
                          .b = outputs(o.gradient, chunk),
                          .c = {o.columns, 0, area, 1, 0, 0, taps * area},
                          .count = chunk.count});
    device_.run("gather", chunk.count * image_size(),
                {o.columns, shape_, taps, o.answer, image_at(chunk), image_pitch()});
  }

  // Chains over the chunk's samples and, in each, its places.
  void back_to_weights(const PlacedCall& call, const Chunk& chunk, const Operands& o) const {
    const std::int64_t area = columns_.area(), taps = columns_.taps();
    spread(call, chunk, o.columns);
    DeviceMatrix gradient = outputs(o.gradient, chunk);
    gradient.outer = gradient.far;
    gradient.far = 0;
    multiply_on(device_, {.m = own_,
                          .n = taps,
                          .k = chunk.count * area,
                          .a = gradient,
                          .b = {o.columns, 0, 1, area, taps * area},
                          .c = {call.gradients[0], chunk.group * own_ * taps, taps},
                          .inner = area,
                          .start = SumStart::kWhatIsThere});
  }

  ExactDevice& device_;
  ExactColumns columns_;
  ExactArray shape_;
  std::int64_t groups_;
  Shape out_;
  std::int64_t own_;
  bool has_bias_;
};

/// As ExactPool (exact_windows.cc) has it.
class DevicePool final : public PlacedOperation {
 public:
  DevicePool(ExactDevice& device, const LayerQuery& query, const ExactReaches& reaches)
      : device_(device),
        largest_(query.type.ends_with("max_pool")),
        height_(static_cast<std::int64_t>(reaches.rows.size())),
        width_(static_cast<std::int64_t>(reaches.columns.size())) {
    const Shape& in = query.inputs[0].shape;
    down_ = device.numbers(flat(reaches.rows));
    across_ = device.numbers(flat(reaches.columns));
    rows_ = device.numbers(holders(reaches.rows, in[1]));
    columns_ = device.numbers(holders(reaches.columns, in[2]));
    size_ = device.numbers({static_cast<std::int32_t>(in[1]), static_cast<std::int32_t>(in[2]),
                            static_cast<std::int32_t>(height_), static_cast<std::int32_t>(width_)});
  }

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    const Shape& in = call.inputs[0].shape;
    const Shape out = {in[0], in[1], height_, width_};
    ExactArray y = device_.empty(out);
    ExactArray places = device_.empty(largest_ ? out : Shape{1}, DType::kInt32);
    if (largest_) {
      device_.run("pool_largest", y.size(), {call.inputs[0], down_, across_, size_, y, places});
    } else {
      device_.run("pool_mean", y.size(), {call.inputs[0], down_, across_, size_, y});
    }
    if (call.training) kept.there = {places};
    return y;
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    ExactArray answer = device_.empty(call.inputs[0].shape);
    device_.run("pool_back", answer.size(),
                {gradient, kept.there[0], largest_ ? 1 : 0, down_, across_, rows_, columns_, size_,
                 answer});
    return {answer};
  }

 private:
  static std::vector<std::int32_t> flat(const std::vector<ExactReach>& windows) {
    std::vector<std::int32_t> all;
    for (const ExactReach& w : windows) {
      for (const std::int64_t number : {w.first, w.end, w.pace, w.counted}) {
        all.push_back(static_cast<std::int32_t>(number));
      }
    }
    return all;
  }

  // For each place of the input the first and the end of the windows that may hold it.
  static std::vector<std::int32_t> holders(const std::vector<ExactReach>& windows,
                                           std::int64_t extent) {
    std::vector<std::int32_t> all;
    for (std::int64_t at = 0; at < extent; ++at) {
      std::int32_t first = 0, end = 0;
      for (std::size_t w = 0; w < windows.size(); ++w) {
        if (at < windows[w].first || at >= windows[w].end) continue;
        if (end == 0) first = static_cast<std::int32_t>(w);
        end = static_cast<std::int32_t>(w) + 1;
      }
      all.push_back(first);
      all.push_back(end);
    }
    return all;
  }

  ExactDevice& device_;
  bool largest_;
  std::int64_t height_, width_;
  ExactArray down_, across_, rows_, columns_, size_;
};

}  // namespace

PlacedOperationPtr make_window_on(ExactDevice& device, const LayerQuery& query,
                                  const TensorSpec& output) {
  if (query.type == "conv2d") return std::make_unique<DeviceConv2d>(device, query, output.shape);
  if (!query.type.ends_with("_pool")) return nullptr;
  return std::make_unique<DevicePool>(device, query, ExactReaches(query, output.shape));
}

}  // namespace harmonics::inline in_runtime
