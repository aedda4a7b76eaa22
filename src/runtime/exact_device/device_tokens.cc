#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

class DeviceEmbedding final : public PlacedOperation {
 public:
  explicit DeviceEmbedding(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    Shape shape = call.inputs[0].shape;
    shape.push_back(call.parameters[0].shape[1]);
    ExactArray y = device_.empty(shape);
    device_.run("embedding", y.size(), {call.inputs[0], call.parameters[0], shape.back(), y});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const std::int64_t width = call.parameters[0].shape[1];
    device_.run("embedding_back", width,
                {call.inputs[0], call.inputs[0].size(), gradient, width, call.gradients[0]});
    return {ExactArray()};
  }

 private:
  ExactDevice& device_;
};

/// {batch, channels, height, width} to {batch, height * width, channels}.
class DeviceTokens final : public PlacedOperation {
 public:
  explicit DeviceTokens(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    const Shape& in = call.inputs[0].shape;
    ExactArray y = device_.empty({in[0], in[2] * in[3], in[1]});
    device_.run("transpose", y.size(), {call.inputs[0], y, in[1], in[2] * in[3]});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    ExactArray answer = device_.empty(in);
    device_.run("transpose", answer.size(), {gradient, answer, in[2] * in[3], in[1]});
    return {answer};
  }

 private:
  ExactDevice& device_;
};

class DeviceClassToken final : public PlacedOperation {
 public:
  explicit DeviceClassToken(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t width = in[2], own = in[1] * width;
    ExactArray y = device_.empty({in[0], in[1] + 1, width});
    device_.run("copy_blocks", in[0] * width, {call.parameters[0], 0, 0, y, 0, own + width, width});
    device_.run("copy_blocks", in[0] * own, {call.inputs[0], 0, own, y, width, own + width, own});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    const std::int64_t width = in[2], own = in[1] * width;
    device_.run("add_rows", width, {gradient, own + width, in[0], call.gradients[0], 0});
    ExactArray answer = device_.empty(in);
    device_.run("copy_blocks", in[0] * own, {gradient, width, own + width, answer, 0, own, own});
    return {answer};
  }

 private:
  ExactDevice& device_;
};

class DevicePosition final : public PlacedOperation {
 public:
  DevicePosition(ExactDevice& device, std::int64_t offset) : device_(device), offset_(offset) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    const ExactArray& x = call.inputs[0];
    ExactArray y = device_.empty(x.shape);
    device_.run("add_table", y.size(),
                {x, call.parameters[0], offset_ * x.shape.back(), extent_from(x.shape, 1), y});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const std::int64_t size = extent_from(gradient.shape, 1);
    device_.run("add_rows", size,
                {gradient, size, call.rows(), call.gradients[0], offset_ * gradient.shape.back()});
    return {gradient};
  }

 private:
  ExactDevice& device_;
  std::int64_t offset_;
};

/// One row of the first axis; below 0 it counts from the end.
class DeviceSelect final : public PlacedOperation {
 public:
  DeviceSelect(ExactDevice& device, std::int64_t index) : device_(device), index_(index) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    const Shape& in = call.inputs[0].shape;
    Shape shape(in.begin() + 1, in.end());
    shape[0] = in[0];
    ExactArray y = device_.empty(shape);
    const std::int64_t width = extent_from(in, 2), pitch = in[1] * width;
    device_.run("copy_blocks", in[0] * width,
                {call.inputs[0], row_of(in) * width, pitch, y, 0, width, width});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    ExactArray answer = device_.zeros(in);
    const std::int64_t width = extent_from(in, 2), pitch = in[1] * width;
    device_.run("copy_blocks", in[0] * width,
                {gradient, 0, width, answer, row_of(in) * width, pitch, width});
    return {answer};
  }

 private:
  [[nodiscard]] std::int64_t row_of(const Shape& in) const {
    return index_ < 0 ? index_ + in[1] : index_;
  }

  ExactDevice& device_;
  std::int64_t index_;
};

class DeviceMean final : public PlacedOperation {
 public:
  explicit DeviceMean(ExactDevice& device) : device_(device) {}

  ExactArray forward(const PlacedCall& call, PlacedKept&) const override {
    const Shape& in = call.inputs[0].shape;
    ExactArray y = device_.empty({in[0], in[2]});
    device_.run("mean_rows", y.size(), {call.inputs[0], in[1], in[2], y});
    return y;
  }
  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept&,
                                   const ExactArray& gradient) const override {
    const Shape& in = call.inputs[0].shape;
    ExactArray answer = device_.empty(in);
    device_.run("mean_rows_back", answer.size(), {gradient, in[1], in[2], answer});
    return {answer};
  }

 private:
  ExactDevice& device_;
};

}  // namespace

PlacedOperationPtr make_token_layer_on(ExactDevice& device, const LayerQuery& query) {
  const std::string_view type = query.type;
  if (type == "embedding") return std::make_unique<DeviceEmbedding>(device);
  if (type == "tokens") return std::make_unique<DeviceTokens>(device);
  if (type == "class_token") return std::make_unique<DeviceClassToken>(device);
  if (type == "position") {
    const std::int64_t offset = query.has("rows") ? query.integer_or("offset", 0) : 0;
    return std::make_unique<DevicePosition>(device, offset);
  }
  if (type == "select") return std::make_unique<DeviceSelect>(device, query.integer("index"));
  if (type == "mean") return std::make_unique<DeviceMean>(device);
  return nullptr;
}

}  // namespace harmonics::inline in_runtime
