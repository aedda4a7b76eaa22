#include "replica_producer.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_schedule {
namespace {

/// One pass over the source: what was read of it and not yet taken by all.
struct SourcePass {
  std::deque<Tensor> tensors;
  std::int64_t first = 0;           // number of the first of these
  std::optional<std::int64_t> end;  // once the source has ended
};

class SharedSource {
 public:
  SharedSource(ProducerPtr source, std::size_t readers, Nanoseconds patience)
      : source_(std::move(source)), patience_(patience), readers_(readers) {}

  template <typename Ask>
  auto ask(Ask&& question) {
    const std::lock_guard lock(mutex_);
    return question(*source_);
  }

  void begin(std::size_t reader, const SampleOrder& order) {
    const std::lock_guard lock(mutex_);
    Reader& own = readers_[reader];
    own = {own.pass + 1, 0};
    if (own.pass > newest_) {
      source_->begin_epoch(order);
      newest_ = own.pass;
      passes_[newest_] = {};
    }
    forget();
  }

  std::optional<Tensor> next(std::size_t reader) {
    std::unique_lock lock(mutex_);
    Reader& own = readers_[reader];
    SourcePass& pass = passes_[own.pass];
    const auto is_there = [&] { return own.taken < pass.first + std::ssize(pass.tensors); };
    const auto may_read = [&] { return is_there() || pass.tensors.size() < kMaxReplicaLead; };
    if (!moved_.wait_for(lock, patience_, may_read)) {
      fail(ErrorCode::kDeadlineExceeded,
           "a replica is {} batches ahead of another, which takes none: it hangs or is gone",
           pass.tensors.size());
    }
    if (!is_there()) read_into(pass, own);
    if (!is_there()) return std::nullopt;
    Tensor tensor = pass.tensors[static_cast<std::size_t>(own.taken - pass.first)];
    ++own.taken;
    forget();
    return tensor;
  }

 private:
  struct Reader {
    std::int64_t pass = 0;
    std::int64_t taken = 0;
  };

  void read_into(SourcePass& pass, const Reader& reader) {
    if (pass.end) return;
    if (reader.pass != newest_) {
      fail(ErrorCode::kFailedPrecondition,
           "a replica began a new pass over the data before another one had ended the last");
    }
    if (std::optional<Tensor> tensor = source_->next()) {
      pass.tensors.push_back(std::move(*tensor));
    } else {
      pass.end = reader.taken;
    }
  }

  // Drops what every reader has passed.
  void forget() {
    const auto slowest = std::ranges::min(
        readers_, {}, [](const Reader& one) { return std::pair(one.pass, one.taken); });
    passes_.erase(passes_.begin(), passes_.lower_bound(slowest.pass));
    SourcePass& pass = passes_[slowest.pass];
    while (!pass.tensors.empty() && pass.first < slowest.taken) {
      pass.tensors.pop_front();
      ++pass.first;
    }
    moved_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  const ProducerPtr source_;
  const Nanoseconds patience_;
  std::vector<Reader> readers_;
  std::int64_t newest_ = 0;
  std::map<std::int64_t, SourcePass> passes_ = {{0, {}}};
};

class SharedReader final : public Producer {
 public:
  SharedReader(std::shared_ptr<SharedSource> shared, std::size_t reader)
      : shared_(std::move(shared)), reader_(reader) {}

  [[nodiscard]] TensorSpec sample_spec() const override {
    return shared_->ask([](Producer& source) { return source.sample_spec(); });
  }
  [[nodiscard]] bool batched() const override {
    return shared_->ask([](Producer& source) { return source.batched(); });
  }
  [[nodiscard]] std::optional<std::int64_t> size() const override {
    return shared_->ask([](Producer& source) { return source.size(); });
  }
  [[nodiscard]] std::optional<std::int64_t> sample_count() const override {
    return shared_->ask([](Producer& source) { return source.sample_count(); });
  }
  void begin_epoch(const SampleOrder& order) override {
    shared_->begin(reader_, order);
    position_ = {order, 0};
  }
  [[nodiscard]] std::optional<Tensor> next() override {
    std::optional<Tensor> tensor = shared_->next(reader_);
    if (tensor) ++position_.delivered;
    return tensor;
  }
  [[nodiscard]] ProducerPosition position() const override { return position_; }

 private:
  const std::shared_ptr<SharedSource> shared_;
  const std::size_t reader_;
  ProducerPosition position_;
};

}  // namespace

std::vector<ProducerPtr> share_producer(const ProducerPtr& source, std::size_t readers,
                                        Nanoseconds patience) {
  const auto shared = std::make_shared<SharedSource>(source, readers, patience);
  std::vector<ProducerPtr> all;
  for (std::size_t i = 0; i < readers; ++i)
    all.push_back(std::make_shared<SharedReader>(shared, i));
  return all;
}

}  // namespace harmonics::inline in_schedule
