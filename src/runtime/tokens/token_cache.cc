#include "token_cache.h"

#include <algorithm>
#include <limits>

namespace harmonics::inline in_runtime {

std::size_t block_numbers(const std::vector<CacheShape>& layers) {
  std::size_t all = 0;
  for (const CacheShape& layer : layers) {
    all += static_cast<std::size_t>(2 * layer.heads * BlockTables::kTokens * layer.head_dim);
  }
  return all;
}

std::int64_t most_blocks(std::size_t block_bytes, std::uint64_t max_bytes) {
  // Without attention there is nothing to keep but lengths.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::uint64_t most = block_bytes == 0 ? kMost : max_bytes / block_bytes;
  return static_cast<std::int64_t>(std::min(most, kMost));
}

TokenCache::TokenCache(std::vector<CacheShape> layers, std::uint64_t max_bytes)
    : layers_(std::move(layers)),
      block_floats_(block_numbers(layers_)),
      tables_(most_blocks(block_floats_ * sizeof(float), max_bytes)) {
  std::size_t offset = 0;
  for (const CacheShape& layer : layers_) {
    offsets_.push_back(offset);
    offset += static_cast<std::size_t>(2 * layer.heads * kBlockTokens * layer.head_dim);
  }
}

void TokenCache::reserve(SequenceId sequence, std::int64_t tokens) {
  const auto copy = tables_.reserve(sequence, tokens);
  while (numbers_.size() < tables_.numbered()) {
    numbers_.push_back(std::make_unique<float[]>(block_floats_));
  }
  if (copy) std::copy_n(numbers_[copy->from].get(), block_floats_, numbers_[copy->to].get());
}

float* TokenCache::keys(SequenceId sequence, std::size_t layer, std::int64_t position) {
  return numbers_[tables_.block(sequence, position)].get() + offsets_[layer];
}

const float* TokenCache::keys(SequenceId sequence, std::size_t layer, std::int64_t position) const {
  return numbers_[tables_.block(sequence, position)].get() + offsets_[layer];
}

std::size_t TokenCache::value_offset(std::size_t layer) const {
  return static_cast<std::size_t>(layers_[layer].heads * kBlockTokens * layers_[layer].head_dim);
}

std::vector<float*> TokenCache::blocks(SequenceId sequence) const {
  std::vector<float*> all;
  for (const std::size_t block : tables_.blocks(sequence)) all.push_back(numbers_[block].get());
  return all;
}

}  // namespace harmonics::inline in_runtime
