#include "request_feed.h"

#include <utility>

#include <harmonics/base/error.h>

#include "inference_job.h"
#include "results_channel.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr Window kFeedWindow = {std::uint64_t{64} << 20, 16};

/// The batch that is due, shared by the producers of a part. One thread.
class FedBatches {
 public:
  FedBatches(std::vector<std::string> names, TransportPtr end, Nanoseconds patience)
      : receiver_(std::move(names), std::move(end)), patience_(patience) {}

  /// Nothing at the end. Numbers rise one by one.
  [[nodiscard]] std::optional<Tensor> tensor(const std::string& name, std::int64_t number) {
    while (!ended_ && (!batch_ || batch_->number < number)) {
      batch_ = receiver_.receive(deadline_in(patience_));
      ended_ = !batch_;
    }
    if (ended_) return std::nullopt;
    if (batch_->number != number) {
      fail(ErrorCode::kDataLoss, "batch {} of the requests came where {} was due", batch_->number,
           number);
    }
    return batch_->outputs.at(name);
  }

 private:
  ResultsReceiver receiver_;
  const Nanoseconds patience_;
  std::optional<StreamedBatch> batch_;
  bool ended_ = false;
};

class FedProducer final : public Producer {
 public:
  FedProducer(std::shared_ptr<FedBatches> batches, std::string name, TensorSpec sample)
      : batches_(std::move(batches)), name_(std::move(name)), sample_(std::move(sample)) {}

  TensorSpec sample_spec() const override { return sample_; }
  bool batched() const override { return true; }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  void begin_epoch(const SampleOrder& order) override { position_ = {order, 0}; }
  std::optional<Tensor> next() override {
    std::optional<Tensor> tensor = batches_->tensor(name_, position_.delivered);
    if (tensor) ++position_.delivered;
    return tensor;
  }
  void skip(std::int64_t count) override { position_.delivered += count; }
  ProducerPosition position() const override { return position_; }

 private:
  const std::shared_ptr<FedBatches> batches_;
  const std::string name_;
  const TensorSpec sample_;
  ProducerPosition position_;
};

}  // namespace

RequestFeed::RequestFeed(InferenceService& service, Place place, TransportOptions options)
    : service_(service), place_(std::move(place)) {
  options.stop = stop_;
  options.window = kFeedWindow;
  end_ = make_transport(place_.binding, options);
  thread_ = std::jthread([this](const std::stop_token& stop) { send(stop); });
}

RequestFeed::~RequestFeed() {
  thread_.request_stop();
  stop_->ask("the attempt is over");
  thread_.join();
}

void RequestFeed::send(const std::stop_token& stop) {
  try {
    ResultsSender sender(place_.inputs, std::move(end_), place_.patience);
    std::int64_t number = place_.first;
    while (const FormedBatchPtr batch = service_.fetch(number, stop)) {
      sender.send({number, batch->rows, batch->inputs, {}});
      ++number;
    }
    if (!stop.stop_requested()) sender.close();
  } catch (const std::exception&) {
    // The part's own end says what went wrong.
  }
}

NamedProducers fed_producers(const HarmonicGraph& part, TransportPtr end, Nanoseconds patience) {
  const std::vector<std::string> names = requested_inputs(part);
  const auto batches = std::make_shared<FedBatches>(names, std::move(end), patience);
  NamedProducers producers;
  for (const std::string& name : names) {
    producers[name] = std::make_shared<FedProducer>(batches, name, part.spec(name));
  }
  return producers;
}

}  // namespace harmonics::inline in_torch_program
