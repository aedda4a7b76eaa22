#include "token_cache.h"

#include <algorithm>
#include <limits>

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {

TokenCache::TokenCache(std::vector<CacheShape> layers, std::uint64_t max_bytes)
    : layers_(std::move(layers)) {
  for (const CacheShape& layer : layers_) {
    offsets_.push_back(block_floats_);
    block_floats_ += static_cast<std::size_t>(2 * layer.heads * kBlockTokens * layer.head_dim);
  }
  // Without attention there is nothing to keep but lengths.
  const std::uint64_t most = block_floats_ == 0 ? std::numeric_limits<std::int32_t>::max()
                                                : max_bytes / (block_floats_ * sizeof(float));
  most_blocks_ = static_cast<std::int64_t>(
      std::min<std::uint64_t>(most, std::numeric_limits<std::int32_t>::max()));
}

std::int64_t TokenCache::free_blocks() const {
  return most_blocks_ - static_cast<std::int64_t>(blocks_.size() - free_.size());
}

std::int64_t TokenCache::length(SequenceId sequence) const {
  const auto found = tables_.find(sequence);
  return found == tables_.end() ? 0 : found->second.length;
}

std::size_t TokenCache::take_block() {
  if (!free_.empty()) {
    const std::size_t block = free_.back();
    free_.pop_back();
    blocks_[block].users = 1;
    return block;
  }
  blocks_.push_back({std::make_unique<float[]>(block_floats_), 1});
  return blocks_.size() - 1;
}

void TokenCache::let_go(std::size_t block) {
  if (--blocks_[block].users == 0) free_.push_back(block);
}

void TokenCache::reserve(SequenceId sequence, std::int64_t tokens) {
  const auto found = tables_.find(sequence);
  if (found == tables_.end() && tables_.size() >= kMaxSequences) {
    fail(ErrorCode::kResourceExhausted, "the cache keeps {} sequences, the most that it can",
         kMaxSequences);
  }
  const auto has = found == tables_.end() ? std::int64_t{0}
                                          : static_cast<std::int64_t>(found->second.blocks.size());
  const std::int64_t needs = (tokens + kBlockTokens - 1) / kBlockTokens;
  // The block that is written next, if others look at it too.
  const bool shared =
      has > 0 && found->second.length < has * kBlockTokens &&
      blocks_[found->second.blocks[static_cast<std::size_t>(found->second.length / kBlockTokens)]]
              .users > 1;
  if (needs - has + (shared ? 1 : 0) > free_blocks()) {
    fail(ErrorCode::kResourceExhausted,
         "the cache has room for {} tokens, of which {} are taken: sequence {} needs {}; give it "
         "more memory, or run fewer sequences at once",
         most_tokens(), held_tokens(), sequence, tokens);
  }
  Table& table = tables_[sequence];
  if (shared && tokens > table.length) {
    std::size_t& block = table.blocks[static_cast<std::size_t>(table.length / kBlockTokens)];
    const std::size_t own = take_block();
    std::copy_n(blocks_[block].numbers.get(), block_floats_, blocks_[own].numbers.get());
    let_go(block);
    block = own;
  }
  while (static_cast<std::int64_t>(table.blocks.size()) < needs) {
    table.blocks.push_back(take_block());
  }
}

void TokenCache::set_length(SequenceId sequence, std::int64_t tokens) {
  tables_.at(sequence).length = tokens;
}

void TokenCache::fork(SequenceId from, SequenceId to, std::int64_t tokens) {
  if (tokens < 0 || tokens > length(from) || tables_.contains(to) ||
      tables_.size() >= kMaxSequences) {
    fail(ErrorCode::kInvalidArgument,
         "sequence {} of {} tokens cannot start as the first {} of sequence {}: it must be new, "
         "and the other as long",
         to, length(to), tokens, from);
  }
  Table table;
  table.length = tokens;
  const auto count = static_cast<std::size_t>((tokens + kBlockTokens - 1) / kBlockTokens);
  if (count > 0) {
    const std::vector<std::size_t>& theirs = tables_.at(from).blocks;
    table.blocks.assign(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (const std::size_t block : table.blocks) ++blocks_[block].users;
  tables_.emplace(to, std::move(table));
}

void TokenCache::drop(SequenceId sequence) {
  const auto found = tables_.find(sequence);
  if (found == tables_.end()) return;
  for (const std::size_t block : found->second.blocks) let_go(block);
  tables_.erase(found);
}

void TokenCache::drop_all() {
  while (!tables_.empty()) drop(tables_.begin()->first);
}

float* TokenCache::keys(SequenceId sequence, std::size_t layer, std::int64_t position) {
  const Table& table = tables_.at(sequence);
  return blocks_[table.blocks[static_cast<std::size_t>(position / kBlockTokens)]].numbers.get() +
         offsets_[layer];
}

const float* TokenCache::keys(SequenceId sequence, std::size_t layer, std::int64_t position) const {
  const Table& table = tables_.at(sequence);
  return blocks_[table.blocks[static_cast<std::size_t>(position / kBlockTokens)]].numbers.get() +
         offsets_[layer];
}

std::size_t TokenCache::value_offset(std::size_t layer) const {
  return static_cast<std::size_t>(layers_[layer].heads * kBlockTokens * layers_[layer].head_dim);
}

std::vector<float*> TokenCache::blocks(SequenceId sequence) const {
  std::vector<float*> all;
  const auto found = tables_.find(sequence);
  if (found == tables_.end()) return all;
  for (const std::size_t block : found->second.blocks) all.push_back(blocks_[block].numbers.get());
  return all;
}

}  // namespace harmonics::inline in_runtime
