#include <algorithm>
#include <string>

#include "opencl_operation.h"

namespace harmonics::inline in_runtime {
namespace {

/// Patches of one convolution are laid out in memory for as many samples as fit into this.
constexpr std::int64_t kMaxColumnElements = std::int64_t{16} << 20;

// One number for both axes, or two.
Shape pair_of(const LayerQuery& query, std::string_view name) {
  Shape value = query.list(name);
  if (value.size() == 1) value.push_back(value[0]);
  return value;
}

struct Window {
  Shape kernel, stride, padding;
  explicit Window(const LayerQuery& query)
      : kernel(pair_of(query, "kernel")),
        stride(query.has("stride") ? pair_of(query, "stride") : kernel),
        padding(pair_of(query, "padding")) {}
};

/// A convolution as matrix products over patches (im2col), group by group, a few samples at a time.
class Conv2d final : public DeviceOperation {
 public:
  Conv2d(const LayerQuery& query, const TensorSpec& output)
      : window_(query),
        groups_(query.integer("groups")),
        has_bias_(query.integer("bias") != 0),
        in_(query.inputs[0].shape),
        out_(output.shape),
        area_(out_[1] * out_[2]),
        taps_(in_[0] / groups_ * window_.kernel[0] * window_.kernel[1]) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.queue.empty({call.rows(), out_[0], out_[1], out_[2]});
    const std::int64_t own = out_[0] / groups_;
    const DeviceTensor& bias = call.parameters[has_bias_ ? 1 : 0];
    for_each_chunk(call.rows(), [&](std::int64_t first, std::int64_t samples, std::int64_t group) {
      const DeviceTensor columns = columns_of(call, first, samples, group);
      const DeviceTensor product = call.queue.empty({own, samples * area_});
      call.queue.multiply({own,
                           samples * area_,
                           taps_,
                           {call.parameters[0], false, group * own * taps_},
                           {columns},
                           product});
      call.queue.run(
          "columns_to_batch", product.size(),
          {product, bias, has_bias_ ? 1 : 0, y, first, samples, group * own, out_[0], area_});
    });
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    DeviceTensor gx;
    if (call.wanted[0]) gx = call.like_input();
    for_each_chunk(call.rows(), [&](std::int64_t first, std::int64_t samples, std::int64_t group) {
      backward_chunk(call, gradient, {first, samples, group}, gx);
    });
    return {gx};
  }

 private:
  struct Chunk {
    std::int64_t first, samples, group;
  };

  void backward_chunk(const DeviceCall& call, const DeviceTensor& gradient, const Chunk& chunk,
                      const DeviceTensor& gx) const {
    const std::int64_t own = out_[0] / groups_, width = chunk.samples * area_;
    const std::int64_t weights = chunk.group * own * taps_;
    const DeviceTensor columns = columns_of(call, chunk.first, chunk.samples, chunk.group);
    const DeviceTensor g = call.queue.empty({own, width});
    call.queue.run("batch_to_columns", g.size(),
                   {gradient, g, chunk.first, chunk.samples, chunk.group * own, out_[0], area_});
    call.queue.multiply(
        {own, taps_, width, {g}, {columns, true}, call.gradients[0], weights, 1.0f});
    if (has_bias_) {
      const DeviceTensor sums = call.queue.zeros({own});
      call.queue.run_groups("add_sums", own, {g, sums, width, width, 1});
      call.queue.run("add_blocks", own, {sums, call.gradients[1], chunk.group * own});
    }
    if (!gx.defined()) return;
    call.queue.multiply({taps_, width, own, {call.parameters[0], true, weights}, {g}, columns});
    const std::int64_t channels = in_[0] / groups_;
    call.queue.run("columns_to_image", chunk.samples * channels * in_[1] * in_[2],
                   {columns, gx, chunk.first, chunk.samples, chunk.group * channels, channels,
                    in_[0], in_[1], in_[2], window_.kernel[0], window_.kernel[1], window_.stride[0],
                    window_.stride[1], window_.padding[0], window_.padding[1], out_[1], out_[2]});
  }

  DeviceTensor columns_of(const DeviceCall& call, std::int64_t first, std::int64_t samples,
                          std::int64_t group) const {
    DeviceTensor columns = call.queue.empty({taps_, samples * area_});
    call.queue.run("image_to_columns", columns.size(),
                   {call.inputs[0], columns, first, samples, group * (in_[0] / groups_), in_[0],
                    in_[1], in_[2], window_.kernel[0], window_.kernel[1], window_.stride[0],
                    window_.stride[1], window_.padding[0], window_.padding[1], out_[1], out_[2]});
    return columns;
  }

  template <typename Visit>
  void for_each_chunk(std::int64_t rows, const Visit& visit) const {
    const std::int64_t fitting =
        std::max<std::int64_t>(1, kMaxColumnElements / std::max<std::int64_t>(1, taps_ * area_));
    for (std::int64_t first = 0; first < rows; first += fitting) {
      const std::int64_t samples = std::min(fitting, rows - first);
      for (std::int64_t group = 0; group < groups_; ++group) visit(first, samples, group);
    }
  }

  Window window_;
  std::int64_t groups_;
  bool has_bias_;
  Shape in_;
  Shape out_;
  std::int64_t area_;
  std::int64_t taps_;
};

/// Largest or mean value of each window; `kernel_` names the kernel.
class Pool final : public DeviceOperation {
 public:
  Pool(const LayerQuery& query, Shape output)
      : window_(query),
        kernel_(query.type),
        remembers_(query.type == "max_pool"),
        out_(std::move(output)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const override {
    const Shape& in = call.inputs[0].shape;
    DeviceTensor y = call.queue.empty({in[0], out_[0], out_[1], out_[2]});
    if (remembers_) {
      kept.tensors = {call.queue.empty(y.shape, DType::kInt32)};
      call.queue.run(kernel_.c_str(), y.size(),
                     {call.inputs[0], y, kept.tensors[0], in[2], in[3], window_.kernel[0],
                      window_.kernel[1], window_.stride[0], window_.stride[1], window_.padding[0],
                      window_.padding[1], out_[1], out_[2]});
    } else {
      call.queue.run(
          kernel_.c_str(), y.size(),
          {call.inputs[0], y, in[2], in[3], window_.kernel[0], window_.kernel[1], window_.stride[0],
           window_.stride[1], window_.padding[0], window_.padding[1], out_[1], out_[2]});
    }
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    if (!call.wanted[0]) return {DeviceTensor()};
    const Shape& in = call.inputs[0].shape;
    DeviceTensor gx = call.like_input();
    const std::string kernel = kernel_ + "_back";
    if (remembers_) {
      call.queue.run(kernel.c_str(), gx.size(),
                     {gradient, kept.tensors[0], gx, in[2], in[3], window_.kernel[0],
                      window_.kernel[1], window_.stride[0], window_.stride[1], window_.padding[0],
                      window_.padding[1], out_[1], out_[2]});
    } else {
      call.queue.run(
          kernel.c_str(), gx.size(),
          {gradient, gx, in[2], in[3], window_.kernel[0], window_.kernel[1], window_.stride[0],
           window_.stride[1], window_.padding[0], window_.padding[1], out_[1], out_[2]});
    }
    return {gx};
  }

 private:
  Window window_;
  std::string kernel_;
  bool remembers_;
  Shape out_;
};

/// The same with windows that follow from the size of the output.
class AdaptivePool final : public DeviceOperation {
 public:
  AdaptivePool(std::string_view type, Shape output)
      : kernel_(type), remembers_(type == "adaptive_max_pool"), out_(std::move(output)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const override {
    const Shape& in = call.inputs[0].shape;
    DeviceTensor y = call.queue.empty({in[0], out_[0], out_[1], out_[2]});
    if (remembers_) {
      kept.tensors = {call.queue.empty(y.shape, DType::kInt32)};
      call.queue.run(kernel_.c_str(), y.size(),
                     {call.inputs[0], y, kept.tensors[0], in[2], in[3], out_[1], out_[2]});
    } else {
      call.queue.run(kernel_.c_str(), y.size(),
                     {call.inputs[0], y, in[2], in[3], out_[1], out_[2]});
    }
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    if (!call.wanted[0]) return {DeviceTensor()};
    const Shape& in = call.inputs[0].shape;
    DeviceTensor gx = call.like_input();
    const std::string kernel = kernel_ + "_back";
    if (remembers_) {
      call.queue.run(kernel.c_str(), gx.size(),
                     {gradient, kept.tensors[0], gx, in[2], in[3], out_[1], out_[2]});
    } else {
      call.queue.run(kernel.c_str(), gx.size(), {gradient, gx, in[2], in[3], out_[1], out_[2]});
    }
    return {gx};
  }

 private:
  std::string kernel_;
  bool remembers_;
  Shape out_;
};

}  // namespace

DeviceOperationPtr make_device_window(const LayerQuery& query, const TensorSpec& output) {
  const std::string_view type = query.type;
  if (type == "conv2d") {
    const bool plain = !query.has("dilation") && query.list("padding").size() <= 2;
    return plain ? std::make_unique<Conv2d>(query, output) : nullptr;
  }
  if (type == "max_pool" || type == "avg_pool") {
    const bool plain = !query.has("dilation") && !query.has("round_up") &&
                       !query.has("count_padding") && query.list("padding").size() <= 2;
    return plain ? std::make_unique<Pool>(query, output.shape) : nullptr;
  }
  if (type == "adaptive_avg_pool" || type == "adaptive_max_pool") {
    return std::make_unique<AdaptivePool>(type, output.shape);
  }
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
