#include <harmonics/data/shuffle_producer.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <harmonics/base/random.h>

namespace harmonics::inline in_data {
namespace {

// The order of `count` things in an epoch; the windows of a stream are told apart by `number`.
void draw_order(std::vector<std::int64_t>& order, std::size_t count, const SampleOrder& epoch,
                std::int64_t number) {
  order.resize(count);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const std::uint64_t key = random_key(epoch.seed, "shuffle");
  Random random(number == 0 ? key : random_key(key + static_cast<std::uint64_t>(number), "window"),
                epoch.epoch);
  shuffle(order, random);
}

}  // namespace

ShuffleProducer::ShuffleProducer(ProducerPtr source, std::uint64_t seed, std::int64_t window)
    : ChainedProducer(std::move(source), "ShuffleProducer"),
      indexed_(std::dynamic_pointer_cast<IndexedProducer>(source_pointer())),
      window_(window) {
  require_samples("ShuffleProducer");
  if (window < 1 || window > kMaxShuffleWindow) {
    fail(ErrorCode::kInvalidArgument, "a shuffle window of {} samples: it must be 1 to {}", window,
         kMaxShuffleWindow);
  }
  begin_epoch({seed, 0});
}

void ShuffleProducer::begin_epoch(const SampleOrder& order) {
  source().begin_epoch(order);
  ordered_ = ordered_ && order == position_.order;
  loaded_window_ = -1;
  position_ = {order, 0};
}

std::optional<Tensor> ShuffleProducer::next() {
  const TensorSpec spec = sample_spec();
  Tensor sample = Tensor::empty(spec.shape, spec.dtype);
  if (next_rows(1, sample.mutable_bytes()) == 0) return std::nullopt;
  return sample;
}

std::int64_t ShuffleProducer::next_rows(std::int64_t count, std::span<std::byte> out) {
  const std::int64_t got =
      indexed_ != nullptr ? gather_indexed(count, out) : gather_window(count, out);
  position_.delivered += got;
  return got;
}

// The next rows of an indexed source, in this epoch's order.
std::span<const std::int64_t> ShuffleProducer::rows_ahead(std::int64_t count) {
  if (!ordered_) {
    draw_order(order_, static_cast<std::size_t>(indexed_->row_count()), position_.order, 0);
    ordered_ = true;
  }
  count = std::clamp<std::int64_t>(std::ssize(order_) - position_.delivered, 0, count);
  return std::span(order_).subspan(static_cast<std::size_t>(position_.delivered),
                                   static_cast<std::size_t>(count));
}

std::int64_t ShuffleProducer::gather_indexed(std::int64_t count, std::span<std::byte> out) {
  const std::span<const std::int64_t> rows = rows_ahead(count);
  if (rows.empty()) return 0;
  indexed_->read(rows, out.first(rows.size() * sample_bytes(sample_spec())));
  return std::ssize(rows);
}

std::vector<std::int64_t> ShuffleProducer::lengths_ahead(std::int64_t count) {
  if (indexed_ == nullptr) return {};
  return indexed_->row_lengths(rows_ahead(count));
}

std::int64_t ShuffleProducer::gather_window(std::int64_t count, std::span<std::byte> out) {
  const std::size_t each = sample_bytes(sample_spec());
  for (std::int64_t done = 0; done < count; ++done) {
    const std::int64_t at = position_.delivered + done;
    if (loaded_window_ != at / window_) load_window(at / window_);
    const std::int64_t place = at % window_;
    if (place >= std::ssize(order_)) return done;
    if (each == 0) continue;
    const auto from = static_cast<std::size_t>(order_[static_cast<std::size_t>(place)]);
    std::memcpy(out.data() + static_cast<std::size_t>(done) * each, samples_.data() + from * each,
                each);
  }
  return count;
}

void ShuffleProducer::load_window(std::int64_t number) {
  const std::int64_t first = number * window_;
  loaded_window_ = -1;
  if (source().position().delivered > first) source().begin_epoch(position_.order);
  source().skip(first - source().position().delivered);
  samples_.resize(static_cast<std::size_t>(window_) * sample_bytes(sample_spec()));
  const std::int64_t got = source().next_rows(window_, samples_);
  draw_order(order_, static_cast<std::size_t>(got), position_.order, number);
  loaded_window_ = number;
}

void ShuffleProducer::skip(std::int64_t count) {
  if (const auto samples = size()) count = std::min(count, *samples - position_.delivered);
  if (count > 0) position_.delivered += count;
}

}  // namespace harmonics::inline in_data
