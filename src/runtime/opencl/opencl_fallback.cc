#include "opencl_fallback.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <utility>

#include <harmonics/tensor/torch.h>

#include "torch_errors.h"

namespace harmonics::inline in_runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

// What a backward pass needs: leaves, in the order inputs then parameters, and what came of them.
struct Record {
  Tensors leaves;
  at::Tensor result;
};

at::Tensor fetch(OpenClQueue& queue, const DeviceTensor& tensor, bool learns) {
  at::Tensor value = to_torch(queue.download(tensor));
  if (learns && at::isFloatingType(value.scalar_type())) value.set_requires_grad(true);
  return value;
}

DeviceTensor send(OpenClQueue& queue, const at::Tensor& value) {
  return queue.upload(from_torch(value));
}

/// The steps that layers and activations share.
class Fallback : public DeviceOperation {
 public:
  Fallback(std::string name, std::vector<bool> trainable)
      : name_(std::move(name)), trainable_(std::move(trainable)) {}

  DeviceTensor forward(const DeviceCall& call, KeptTensors& kept) const override {
    auto record = std::make_shared<Record>();
    for (const DeviceTensor& input : call.inputs) {
      record->leaves.push_back(fetch(call.queue, input, call.training));
    }
    for (std::size_t i = 0; i < call.parameters.size(); ++i) {
      record->leaves.push_back(
          fetch(call.queue, call.parameters[i], call.training && trainable_[i]));
    }
    const at::AutoGradMode recording(call.training);
    record->result = guarded("layer", name_, [&] {
      return compute(call, std::span(record->leaves).first(call.inputs.size()),
                     std::span(record->leaves).subspan(call.inputs.size()))
          .contiguous();
    });
    for (std::size_t i = 0; i < trainable_.size() && call.training; ++i) {
      if (trainable_[i]) continue;
      call.queue.write(call.parameters[i], from_torch(record->leaves[call.inputs.size() + i]));
    }
    if (call.training) kept.foreign = record;
    return send(call.queue, record->result.detach());
  }

  std::vector<DeviceTensor> backward(const DeviceCall& call, const KeptTensors& kept,
                                     const DeviceTensor& gradient) const override {
    const auto record = std::static_pointer_cast<Record>(kept.foreign);
    std::vector<DeviceTensor> all(call.inputs.size());
    if (!record->result.requires_grad()) return all;
    const at::Tensor from = to_torch(call.queue.download(gradient));
    guarded("the backward pass of layer", name_, [&] {
      record->result.backward(from.to(record->result.scalar_type()));
      return 0;
    });
    for (std::size_t i = 0; i < record->leaves.size(); ++i) {
      const at::Tensor& own = record->leaves[i].grad();
      if (!own.defined()) continue;
      const DeviceTensor sent = send(call.queue, own.contiguous());
      if (i < all.size()) {
        all[i] = sent;
      } else {
        call.queue.run("add_to", sent.size(), {call.gradients[i - all.size()], sent});
      }
    }
    return all;
  }

 protected:
  virtual at::Tensor compute(const DeviceCall& call, std::span<const at::Tensor> inputs,
                             std::span<const at::Tensor> parameters) const = 0;

 private:
  std::string name_;
  std::vector<bool> trainable_;
};

class FallbackLayer final : public Fallback {
 public:
  FallbackLayer(std::string name, LayerForward forward, std::vector<bool> trainable)
      : Fallback(std::move(name), std::move(trainable)), forward_(std::move(forward)) {}

 private:
  at::Tensor compute(const DeviceCall& call, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override {
    LayerCall torch_call;
    torch_call.inputs = inputs;
    torch_call.parameters = parameters;
    torch_call.training = call.training;
    torch_call.key = call.key;
    torch_call.step = call.step;
    torch_call.first_sample = call.first_sample;
    return forward_(torch_call);
  }

  LayerForward forward_;
};

class FallbackActivation final : public Fallback {
 public:
  FallbackActivation(std::string name, TorchActivation activation, std::size_t parameters)
      : Fallback(std::move(name), std::vector<bool>(parameters, true)),
        activation_(std::move(activation)) {}

 private:
  at::Tensor compute(const DeviceCall&, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override {
    return activation_(inputs[0], parameters);
  }

  TorchActivation activation_;
};

class FallbackLoss final : public DeviceLoss {
 public:
  FallbackLoss(std::string name, TorchLoss loss, bool judges)
      : name_(std::move(name)), loss_(std::move(loss)), judges_(judges) {}

  DeviceLosses forward(OpenClQueue& queue, const DeviceTensor& prediction,
                       const DeviceTensor& target) const override {
    auto record = std::make_shared<Record>();
    record->leaves = {fetch(queue, prediction, true)};
    const at::Tensor wanted = to_torch(queue.download(target));
    const at::AutoGradMode recording(true);
    record->result = guarded("the loss", name_, [&] { return loss_(record->leaves[0], wanted); });
    DeviceLosses losses;
    losses.samples = send(queue, record->result.detach().to(at::kFloat));
    if (judges_) {
      const at::Tensor best = record->leaves[0].detach().argmax(-1);
      const at::Tensor right = at::isFloatingType(wanted.scalar_type())
                                   ? wanted.argmax(-1)
                                   : wanted.to(at::kLong).reshape(best.sizes());
      losses.right = send(queue, best.eq(right).to(at::kInt));
    }
    losses.foreign = record;
    return losses;
  }

  DeviceTensor backward(OpenClQueue& queue, const DeviceTensor&, const DeviceTensor&,
                        const DeviceLosses& losses, float scale) const override {
    const auto record = std::static_pointer_cast<Record>(losses.foreign);
    guarded("the backward pass of loss", name_, [&] {
      record->result.backward(at::full_like(record->result, scale));
      return 0;
    });
    return send(queue, record->leaves[0].grad().contiguous());
  }

 private:
  std::string name_;
  TorchLoss loss_;
  bool judges_;
};

}  // namespace

DeviceOperationPtr make_fallback_layer(std::string name, LayerForward forward,
                                       std::vector<bool> trainable) {
  return std::make_unique<FallbackLayer>(std::move(name), std::move(forward), std::move(trainable));
}
DeviceOperationPtr make_fallback_activation(std::string name, TorchActivation activation,
                                            std::size_t parameters) {
  return std::make_unique<FallbackActivation>(std::move(name), std::move(activation), parameters);
}
DeviceLossPtr make_fallback_loss(std::string name, TorchLoss loss, bool judges) {
  return std::make_unique<FallbackLoss>(std::move(name), std::move(loss), judges);
}

}  // namespace harmonics::inline in_runtime
