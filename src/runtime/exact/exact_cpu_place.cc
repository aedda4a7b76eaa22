#include <algorithm>
#include <utility>

#include "exact_place.h"
#include "exact_threads.h"

namespace harmonics::inline in_runtime {
namespace {

ExactArray array_of(Tensor tensor) {
  if (!tensor.defined()) return {};
  return {tensor.shape(), tensor.dtype(), std::move(tensor), nullptr};
}

std::vector<Tensor> tensors_of(std::span<const ExactArray> arrays) {
  std::vector<Tensor> tensors;
  for (const ExactArray& array : arrays) tensors.push_back(array.here);
  return tensors;
}

class CpuOperation final : public PlacedOperation {
 public:
  CpuOperation(const ExactKernels& kernels, ExactOperationPtr operation)
      : kernels_(kernels), operation_(std::move(operation)) {}

  ExactArray forward(const PlacedCall& call, PlacedKept& kept) const override {
    const Operands all(call);
    return array_of(operation_->forward(all.called(kernels_, call), kept.here));
  }

  std::vector<ExactArray> backward(const PlacedCall& call, const PlacedKept& kept,
                                   const ExactArray& gradient) const override {
    const Operands all(call);
    std::vector<ExactArray> answers;
    for (Tensor& answer :
         operation_->backward(all.called(kernels_, call), kept.here, gradient.here)) {
      answers.push_back(array_of(std::move(answer)));
    }
    return answers;
  }

 private:
  struct Operands {
    explicit Operands(const PlacedCall& call)
        : inputs(tensors_of(call.inputs)),
          parameters(tensors_of(call.parameters)),
          gradients(tensors_of(call.gradients)) {}
    [[nodiscard]] ExactCall called(const ExactKernels& kernels, const PlacedCall& call) const {
      return {kernels,       inputs,   parameters, gradients,        call.wanted,
              call.training, call.key, call.step,  call.first_sample};
    }
    std::vector<Tensor> inputs, parameters, gradients;
  };

  const ExactKernels& kernels_;
  ExactOperationPtr operation_;
};

class CpuLoss final : public PlacedLoss {
 public:
  CpuLoss(const ExactKernels& kernels, ExactLossPtr loss)
      : kernels_(kernels), loss_(std::move(loss)) {}

  ExactLosses forward(const ExactArray& prediction, const ExactArray& target) const override {
    return loss_->forward(kernels_, prediction.here, target.here);
  }
  ExactArray backward(const ExactArray& prediction, const ExactArray& target,
                      float scale) const override {
    return array_of(loss_->backward(kernels_, prediction.here, target.here, scale));
  }

 private:
  const ExactKernels& kernels_;
  ExactLossPtr loss_;
};

// The same update over a range of a parameter.
ExactUpdate part_of(const ExactUpdate& whole, std::int64_t begin, std::int64_t end) {
  ExactUpdate part = whole;
  part.count = end - begin;
  part.value += begin;
  part.gradient += begin;
  if (part.first != nullptr) part.first += begin;
  if (part.second != nullptr) part.second += begin;
  return part;
}

class CpuPlace final : public ExactPlace {
 public:
  explicit CpuPlace(const ExactKernels& kernels) : kernels_(kernels) {}

  std::string name() const override { return "cpu"; }
  void at(std::string) override {}

  ExactArray take(const Tensor& tensor) override { return array_of(tensor); }
  Tensor give(const ExactArray& array) override { return array.here; }
  ExactArray zeros(const Shape& shape) override { return array_of(Tensor::zeros(shape)); }
  void clear(const ExactArray& array) override {
    std::fill_n(own_numbers(array.here), array.size(), 0.0F);
  }
  void write(const ExactArray& to, const Tensor& from) override {
    std::ranges::copy(from.values<float>(), own_numbers(to.here));
  }

  ExactArray sum(const ExactArray& a, const ExactArray& b) override {
    Tensor made = Tensor::empty(a.shape);
    add(numbers_of(a.here), numbers_of(b.here), own_numbers(made), made.size());
    return array_of(std::move(made));
  }
  void add_to(const ExactArray& to, const ExactArray& other) override {
    float* const sum = own_numbers(to.here);
    add(sum, numbers_of(other.here), sum, to.size());
  }

  std::vector<double> square_sums(std::span<const ExactArray> arrays) override {
    std::vector<double> sums;
    for (const ExactArray& array : arrays) {
      sums.push_back(kernels_.square_sum(array.size(), numbers_of(array.here)));
    }
    return sums;
  }

  void update(ExactRule rule, const ExactUpdate& numbers, const ExactWeights& weights) override {
    const auto function = rule == ExactRule::kAdam       ? kernels_.adam
                          : rule == ExactRule::kMomentum ? kernels_.sgd_momentum
                                                         : kernels_.sgd;
    ExactUpdate whole = numbers;
    whole.value = own_numbers(weights.value.here);
    whole.gradient = numbers_of(weights.gradient.here);
    if (weights.first.defined()) whole.first = own_numbers(weights.first.here);
    if (weights.second.defined()) whole.second = own_numbers(weights.second.here);
    in_exact_threads(weights.value.size(), kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      function(part_of(whole, begin, end));
    });
  }

  PlacedOperationPtr layer(const LayerQuery& query, const TensorSpec& output) override {
    return placed(make_exact_layer(query, output));
  }
  PlacedOperationPtr activation(std::string_view name) override {
    return placed(make_exact_activation(name));
  }
  PlacedLossPtr loss(std::string_view name) override {
    ExactLossPtr made = make_exact_loss(name);
    return made == nullptr ? nullptr : std::make_unique<CpuLoss>(kernels_, std::move(made));
  }

 private:
  PlacedOperationPtr placed(ExactOperationPtr made) const {
    return made == nullptr ? nullptr : std::make_unique<CpuOperation>(kernels_, std::move(made));
  }
  void add(const float* a, const float* b, float* y, std::int64_t count) const {
    in_exact_threads(count, kExactGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels_.add(end - begin, a + begin, b + begin, y + begin);
    });
  }

  const ExactKernels& kernels_;
};

}  // namespace

ExactArray ExactArray::reshaped(Shape other) const {
  Tensor same = here.defined() ? here.reshaped(other) : Tensor();
  return {std::move(other), dtype, std::move(same), there};
}

std::unique_ptr<ExactPlace> make_exact_cpu_place(const ExactKernels& kernels) {
  return std::make_unique<CpuPlace>(kernels);
}

}  // namespace harmonics::inline in_runtime
