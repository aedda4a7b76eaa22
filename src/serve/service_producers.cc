#include <harmonics/serve/service_producers.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace harmonics::inline in_serve {
namespace {

class ServiceProducer final : public Producer {
 public:
  ServiceProducer(InferenceService& service, TensorCard input)
      : service_(service), input_(std::move(input)) {}

  TensorSpec sample_spec() const override { return input_.sample; }
  bool batched() const override { return true; }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  void begin_epoch(const SampleOrder& order) override { position_ = {order, 0}; }
  std::optional<Tensor> next() override {
    const FormedBatchPtr batch = service_.fetch(position_.delivered, {});
    if (!batch) return std::nullopt;
    ++position_.delivered;
    return batch->inputs.find(input_.name)->second;
  }
  void skip(std::int64_t count) override { position_.delivered += count; }
  ProducerPosition position() const override { return position_; }

 private:
  InferenceService& service_;
  const TensorCard input_;
  ProducerPosition position_;
};

}  // namespace

std::map<std::string, ProducerPtr, std::less<>> service_producers(
    InferenceService& service, std::span<const std::string> inputs) {
  std::map<std::string, ProducerPtr, std::less<>> producers;
  for (const std::string& name : inputs) {
    const auto& cards = service.card().inputs;
    const auto card = std::ranges::find(cards, name, &TensorCard::name);
    if (card == cards.end()) {
      fail(ErrorCode::kNotFound, "model '{}' has no input '{}'", service.card().name, name);
    }
    producers[name] = std::make_shared<ServiceProducer>(service, *card);
  }
  return producers;
}

}  // namespace harmonics::inline in_serve
