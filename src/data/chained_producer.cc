#include <harmonics/data/chained_producer.h>

#include <utility>

namespace harmonics::inline in_data {

ChainedProducer::ChainedProducer(ProducerPtr source, std::string_view producer)
    : source_(std::move(source)) {
  if (source_ == nullptr) fail(ErrorCode::kInvalidArgument, "a {} needs a source", producer);
  source_->begin_epoch(source_->position().order);
}

void ChainedProducer::require_samples(std::string_view producer) const {
  if (!source_->batched()) return;
  fail(ErrorCode::kInvalidArgument,
       "a {} works on samples, but its source yields batches: put the BatchProducer after it",
       producer);
}

std::optional<Tensor> ChainedProducer::next_changed(
    const std::function<Tensor(const Tensor&, std::int64_t)>& change) {
  const ProducerPosition before = source_->position();
  const std::optional<Tensor> tensor = source_->next();
  if (!tensor) return std::nullopt;
  try {
    return change(*tensor, before.delivered);
  } catch (...) {
    source_->seek(before);
    throw;
  }
}

}  // namespace harmonics::inline in_data
