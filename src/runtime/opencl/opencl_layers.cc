#include <algorithm>

#include "opencl_operation.h"

namespace harmonics::inline in_runtime {
namespace {

std::int64_t product_from(const Shape& shape, std::size_t axis) {
  std::int64_t product = 1;
  for (std::size_t i = axis; i < shape.size(); ++i) product *= shape[i];
  return product;
}

class Linear final : public DeviceOperation {
 public:
  explicit Linear(bool has_bias) : has_bias_(has_bias) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t in = x.shape.back(), out = call.parameters[0].shape[0];
    Shape shape = x.shape;
    shape.back() = out;
    DeviceTensor y = call.queue.empty(std::move(shape));
    const std::int64_t rows = in == 0 ? 0 : x.size() / in;
    call.queue.multiply({rows, out, in, {x}, {call.parameters[0], true}, y});
    if (has_bias_) call.queue.run("add_rows", y.size(), {y, call.parameters[1], y, out});
    return y;
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const DeviceTensor& x = call.inputs[0];
    const std::int64_t in = x.shape.back(), out = call.parameters[0].shape[0];
    const std::int64_t rows = in == 0 ? 0 : x.size() / in;
    call.queue.multiply({out, in, rows, {gradient, true}, {x}, call.gradients[0], 0, 1.0f});
    if (has_bias_) {
      call.queue.run_groups("add_sums", out, {gradient, call.gradients[1], rows, 1, out});
    }
    if (!call.wanted[0]) return {DeviceTensor()};
    DeviceTensor gx = call.like_input();
    call.queue.multiply({rows, in, out, {gradient}, {call.parameters[0]}, gx});
    return {gx};
  }

 private:
  bool has_bias_;
};

/// The same bytes under another shape.
class Reshape final : public DeviceOperation {
 public:
  explicit Reshape(Shape output) : output_(std::move(output)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    Shape shape = output_;
    shape.insert(shape.begin(), call.rows());
    return call.inputs[0].reshaped(std::move(shape));
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    return {gradient.reshaped(call.inputs[0].shape)};
  }

 private:
  Shape output_;
};

class Add final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    call.queue.run("add", y.size(), {call.inputs[0], call.inputs[1], y});
    for (std::size_t i = 2; i < call.inputs.size(); ++i) {
      call.queue.run("add_to", y.size(), {y, call.inputs[i]});
    }
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    return std::vector<DeviceTensor>(call.inputs.size(), gradient);
  }
};

class Mul final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    call.queue.run("mul", y.size(), {call.inputs[0], call.inputs[1], y});
    for (std::size_t i = 2; i < call.inputs.size(); ++i) {
      call.queue.run("mul", y.size(), {y, call.inputs[i], y});
    }
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    std::vector<DeviceTensor> all(call.inputs.size());
    for (std::size_t own = 0; own < all.size(); ++own) {
      if (!call.wanted[own]) continue;
      all[own] = call.like_input();
      const DeviceTensor* so_far = &gradient;
      for (std::size_t other = 0; other < all.size(); ++other) {
        if (other == own) continue;
        call.queue.run("mul", gradient.size(), {*so_far, call.inputs[other], all[own]});
        so_far = &all[own];
      }
    }
    return all;
  }
};

class Concat final : public DeviceOperation {
 public:
  explicit Concat(std::size_t axis) : axis_(axis) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    Shape shape = call.inputs[0].shape;
    shape[axis_] = 0;
    for (const DeviceTensor& input : call.inputs) shape[axis_] += input.shape[axis_];
    DeviceTensor y = call.queue.empty(shape);
    const std::int64_t pitch = product_from(shape, axis_);
    std::int64_t offset = 0;
    for (const DeviceTensor& input : call.inputs) {
      const std::int64_t width = product_from(input.shape, axis_);
      call.queue.run("copy_blocks", input.size(), {input, 0, width, y, offset, pitch, width});
      offset += width;
    }
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    std::vector<DeviceTensor> all;
    const std::int64_t pitch = product_from(gradient.shape, axis_);
    std::int64_t offset = 0;
    for (const DeviceTensor& input : call.inputs) {
      const std::int64_t width = product_from(input.shape, axis_);
      DeviceTensor& own = all.emplace_back(call.queue.empty(input.shape));
      call.queue.run("copy_blocks", input.size(), {gradient, offset, pitch, own, 0, width, width});
      offset += width;
    }
    return all;
  }

 private:
  std::size_t axis_;
};

class Dropout final : public DeviceOperation {
 public:
  explicit Dropout(double p) : p_(p) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    return call.training && p_ > 0 ? masked(call, call.inputs[0]) : call.inputs[0];
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    return {p_ > 0 ? masked(call, gradient) : gradient};
  }

 private:
  // The mask is drawn again in the backward pass rather than kept.
  DeviceTensor masked(const DeviceCall& call, const DeviceTensor& x) const {
    DeviceTensor y = call.queue.empty(x.shape);
    const auto low = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits); };
    call.queue.run(
        "dropout", x.size(),
        {x, y, x.size() / std::max<std::int64_t>(call.rows(), 1),
         low(static_cast<std::uint64_t>(call.first_sample)), low(call.step), low(call.step >> 32),
         low(call.key), low(call.key >> 32), static_cast<std::uint32_t>(p_ * 4294967296.0),
         static_cast<float>(1.0 / (1.0 - p_))});
    return y;
  }

  double p_;
};

/// {batch, channels, height, width} to {batch, height * width, channels}.
class Tokens final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t area = in[2] * in[3];
    DeviceTensor y = call.queue.empty({in[0], area, in[1]});
    call.queue.run("transpose_matrices", y.size(), {call.inputs[0], y, in[1], area});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    DeviceTensor gx = call.like_input();
    call.queue.run("transpose_matrices", gx.size(), {gradient, gx, in[2] * in[3], in[1]});
    return {gx};
  }
};

/// A learned row before the others.
class ClassToken final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t width = in[2], own = in[1] * width, pitch = own + width;
    DeviceTensor y = call.queue.empty({in[0], in[1] + 1, width});
    call.queue.run("copy_blocks", in[0] * width, {call.parameters[0], 0, 0, y, 0, pitch, width});
    call.queue.run("copy_blocks", in[0] * own, {call.inputs[0], 0, own, y, width, pitch, own});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t width = in[2], own = in[1] * width, pitch = own + width;
    call.queue.run_groups("add_sums", width, {gradient, call.gradients[0], in[0], 1, pitch});
    DeviceTensor gx = call.like_input();
    call.queue.run("copy_blocks", gx.size(), {gradient, width, pitch, gx, 0, own, own});
    return {gx};
  }
};

class Position final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    DeviceTensor y = call.like_input();
    call.queue.run("add_rows", y.size(),
                   {call.inputs[0], call.parameters[0], y, call.parameters[0].size()});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const std::int64_t size = call.parameters[0].size();
    call.queue.run_groups("add_sums", size, {gradient, call.gradients[0], call.rows(), 1, size});
    return {gradient};
  }
};

/// One row of the first axis.
class Select final : public DeviceOperation {
 public:
  explicit Select(std::int64_t index) : index_(index) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    const Shape& in = call.inputs[0].shape;
    Shape shape(in.begin() + 1, in.end());
    shape[0] = in[0];
    DeviceTensor y = call.queue.empty(std::move(shape));
    const std::int64_t width = product_from(in, 2);
    call.queue.run("copy_blocks", y.size(),
                   {call.inputs[0], row_of(in) * width, in[1] * width, y, 0, width, width});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t width = product_from(in, 2);
    DeviceTensor gx = call.queue.zeros(in);
    call.queue.run("copy_blocks", gradient.size(),
                   {gradient, 0, width, gx, row_of(in) * width, in[1] * width, width});
    return {gx};
  }

 private:
  // Below 0 it counts from the end.
  [[nodiscard]] std::int64_t row_of(const Shape& in) const {
    return index_ < 0 ? index_ + in[1] : index_;
  }

  std::int64_t index_;
};

class Mean final : public DeviceOperation {
 public:
  DeviceTensor forward(const DeviceCall& call, KeptTensors&) const override {
    const Shape& in = call.inputs[0].shape;
    DeviceTensor y = call.queue.empty({in[0], in[2]});
    call.queue.run("mean_axis", y.size(), {call.inputs[0], y, in[1], in[2]});
    return y;
  }
  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors&,
                                     const DeviceTensor& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    DeviceTensor gx = call.like_input();
    call.queue.run("mean_axis_back", gx.size(), {gradient, gx, in[1], in[2]});
    return {gx};
  }
};

}  // namespace

DeviceOperationPtr make_device_layer(const LayerQuery& query, const TensorSpec& output) {
  const std::string_view type = query.type;
  if (type == "flatten" || type == "reshape" || type == "identity") {
    return std::make_unique<Reshape>(output.shape);
  }
  const auto is_float = [](const TensorSpec& spec) { return spec.dtype == DType::kFloat32; };
  if (!is_float(output) || !std::ranges::all_of(query.inputs, is_float)) return nullptr;
  if (type == "linear") return std::make_unique<Linear>(query.integer("bias") != 0);
  const auto alike = [&](const TensorSpec& spec) { return spec == output; };
  const bool plain = !query.has("constant") && std::ranges::all_of(query.inputs, alike);
  if (type == "add" && plain) return std::make_unique<Add>();
  if (type == "mul" && plain) return std::make_unique<Mul>();
  if (type == "concat") {
    return std::make_unique<Concat>(static_cast<std::size_t>(query.integer("axis") + 1));
  }
  if (type == "dropout") return std::make_unique<Dropout>(query.number("p"));
  if (type == "tokens") return std::make_unique<Tokens>();
  if (type == "class_token") return std::make_unique<ClassToken>();
  if (type == "position" && !query.has("rows")) return std::make_unique<Position>();
  if (type == "select") return std::make_unique<Select>(query.integer("index"));
  if (type == "mean") return std::make_unique<Mean>();
  if (DeviceOperationPtr norm = make_device_norm(query)) return norm;
  return make_device_window(query, output);
}

}  // namespace harmonics::inline in_runtime
