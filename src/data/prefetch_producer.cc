#include <harmonics/data/prefetch_producer.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <thread>
#include <utility>
#include <variant>

#include <harmonics/base/channel.h>

namespace harmonics::inline in_data {

/// The thread and the channel through which it hands over tensors. Destroying it stops the thread.
class PrefetchProducer::Reader {
 public:
  using Item = std::variant<Tensor, std::exception_ptr>;

  Reader(Producer& source, std::size_t depth)
      : ready_(depth), thread_([this, &source] { run(source); }) {}
  ~Reader() {
    ready_.close();
    thread_.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Waits for the next tensor or error; nothing at the end of the epoch.
  std::optional<Item> take() {
    while (true) {
      if (auto item = ready_.pop(std::chrono::hours(1))) return item;
      if (ready_.closed() && ready_.size() == 0) return std::nullopt;
    }
  }

 private:
  void run(Producer& source) {
    try {
      while (auto tensor = source.next()) {
        if (!ready_.push(std::move(*tensor))) return;
      }
    } catch (...) {
      ready_.push(std::current_exception());
    }
    ready_.close();
  }

  Channel<Item> ready_;
  std::thread thread_;
};

PrefetchProducer::PrefetchProducer(ProducerPtr source, std::size_t depth)
    : ChainedProducer(std::move(source), "PrefetchProducer"),
      depth_(depth),
      spec_(this->source().sample_spec()),
      batched_(this->source().batched()),
      size_(this->source().size()),
      sample_count_(this->source().sample_count()),
      position_(this->source().position()) {
  if (depth < 1 || depth > kMaxPrefetchDepth) {
    fail(ErrorCode::kInvalidArgument, "a prefetch depth of {}: it must be 1 to {}", depth,
         kMaxPrefetchDepth);
  }
}

PrefetchProducer::~PrefetchProducer() = default;

void PrefetchProducer::begin_epoch(const SampleOrder& order) {
  reader_.reset();
  source().begin_epoch(order);
  position_ = {order, 0};
}

std::optional<Tensor> PrefetchProducer::next() {
  if (reader_ == nullptr) reader_ = std::make_unique<Reader>(source(), depth_);
  auto item = reader_->take();
  if (!item) {
    reader_.reset();  // the source stands at its end and says so again when it is asked again
    return std::nullopt;
  }
  if (auto* error = std::get_if<std::exception_ptr>(&*item)) {
    reader_.reset();  // the source stands before the tensor that it could not make
    std::rethrow_exception(std::move(*error));
  }
  ++position_.delivered;
  return std::get<Tensor>(std::move(*item));
}

void PrefetchProducer::skip(std::int64_t count) {
  if (count <= 0) return;
  reader_.reset();
  const std::int64_t room = std::numeric_limits<std::int64_t>::max() - position_.delivered;
  const std::int64_t target = position_.delivered + std::min(count, room);
  if (source().position().delivered > target) source().begin_epoch(position_.order);
  source().skip(target - source().position().delivered);
  position_.delivered = source().position().delivered;
}

}  // namespace harmonics::inline in_data
