#include <limits>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/runtime/devices.h>

#include "device_operations.h"

namespace harmonics::inline in_runtime {
namespace {

class DevicePlace final : public ExactPlace {
 public:
  explicit DevicePlace(std::unique_ptr<ExactDevice> device) : device_(std::move(device)) {}

  std::string name() const override { return device_->name(); }
  void at(std::string operation) override { device_->at(std::move(operation)); }

  ExactArray take(const Tensor& tensor) override {
    const Tensor taken =
        is_floating(tensor.dtype()) ? tensor : convert_tensor(tensor, DType::kInt64);
    ExactArray made = device_->empty(taken.shape(), taken.dtype());
    device_->write(made, taken);
    return made;
  }
  Tensor give(const ExactArray& array) override { return device_->download(array); }
  ExactArray zeros(const Shape& shape) override { return device_->zeros(shape); }
  void clear(const ExactArray& array) override {
    device_->run("fill", array.size(), {array, 0.0F});
  }
  void write(const ExactArray& to, const Tensor& from) override { device_->write(to, from); }

  ExactArray sum(const ExactArray& a, const ExactArray& b) override {
    ExactArray made = device_->empty(a.shape);
    device_->run("add", made.size(), {a, b, made});
    return made;
  }
  void add_to(const ExactArray& to, const ExactArray& other) override {
    device_->run("add", to.size(), {to, other, to});
  }

  std::vector<double> square_sums(std::span<const ExactArray> arrays) override {
    std::vector<double> sums;
    if (!device_->has_doubles()) {
      for (const ExactArray& array : arrays) {
        const Tensor here = give(array);
        sums.push_back(exact_kernels().square_sum(here.size(), numbers_of(here)));
      }
      return sums;
    }
    device_->at("sums of squares");
    const auto count = static_cast<std::int64_t>(arrays.size());
    const ExactArray all = device_->empty({count}, DType::kFloat64);
    for (std::int64_t i = 0; i < count; ++i) {
      const ExactArray& array = arrays[static_cast<std::size_t>(i)];
      device_->run("square_sum", kExactLanesPerRow, {array, array.size(), all, i});
    }
    const Tensor here = device_->download(all);
    sums.assign(here.values<double>().begin(), here.values<double>().end());
    return sums;
  }

  void update(ExactRule rule, const ExactUpdate& u, const ExactWeights& w) override {
    const std::int64_t count = w.value.size();
    switch (rule) {
      case ExactRule::kSgd:
        return device_->run("sgd", count, {w.value, w.gradient, u.factor, u.decay, u.rate});
      case ExactRule::kMomentum:
        return device_->run("sgd_momentum", count,
                            {w.value, w.gradient, w.first, u.factor, u.decay, u.rate, u.momentum});
      case ExactRule::kAdam:
        return device_->run("adam", count,
                            {w.value, w.gradient, w.first, w.second, u.factor, u.decay, u.shrink,
                             u.rate, u.beta1, u.beta2, u.square_root, u.epsilon});
    }
  }

  // What the CPU knows a device knows too, and nothing else.
  PlacedOperationPtr layer(const LayerQuery& query, const TensorSpec& output) override {
    if (make_exact_layer(query, output) == nullptr) return nullptr;
    PlacedOperationPtr made = make_linear_on(*device_, query);
    if (made == nullptr) made = make_attention_on(*device_, query);
    if (made == nullptr) made = make_element_layer_on(*device_, query, output);
    if (made == nullptr) made = make_token_layer_on(*device_, query);
    if (made == nullptr) made = make_norm_on(*device_, query);
    if (made == nullptr) made = make_window_on(*device_, query, output);
    return made;
  }
  PlacedOperationPtr activation(std::string_view name) override {
    return make_activation_on(*device_, name);
  }
  PlacedLossPtr loss(std::string_view name) override { return make_loss_on(*device_, name); }

 private:
  std::unique_ptr<ExactDevice> device_;
};

}  // namespace

DeviceArgument::DeviceArgument(std::int64_t number) : kind(Kind::kInt) {
  if (number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorCode::kUnimplemented,
         "a reproducible kernel counts to 2^31 elements, {} are too many: use smaller "
         "micro-batches",
         number);
  }
  whole = static_cast<std::int32_t>(number);
}

ExactArray ExactDevice::zeros(const Shape& shape) {
  ExactArray made = empty(shape);
  run("fill", made.size(), {made, 0.0F});
  return made;
}

ExactArray ExactDevice::numbers(const std::vector<std::int32_t>& numbers) {
  const Shape shape = {static_cast<std::int64_t>(numbers.size())};
  ExactArray made = empty(shape, DType::kInt32);
  write(made, Tensor::of<std::int32_t>(shape, numbers));
  return made;
}

std::unique_ptr<ExactPlace> make_exact_place(const RuntimeOptions& options) {
  if (options.backend == Backend::Auto) return make_exact_cpu_place(exact_kernels());
  const BackendChoice choice = resolve_backend(options);
  switch (choice.backend) {
    case Backend::GPU:
      return make_exact_device_place(make_exact_cuda_device(
          static_cast<std::size_t>(choice.device.index), options.device_memory_bytes));
    case Backend::FPGA:
      return make_exact_device_place(
          make_exact_opencl_device(choice.opencl_device, options.device_memory_bytes));
    default: return make_exact_cpu_place(exact_kernels());
  }
}

std::unique_ptr<ExactPlace> make_exact_device_place(std::unique_ptr<ExactDevice> device) {
  check_bits_of(*device);
  return std::make_unique<DevicePlace>(std::move(device));
}

}  // namespace harmonics::inline in_runtime
