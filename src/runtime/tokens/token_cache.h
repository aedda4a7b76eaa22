// Keys and values of many sequences in blocks of a few tokens (private to runtime_tokens).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "block_tables.h"

namespace harmonics::inline in_runtime {

/// Of one attention layer.
struct CacheShape {
  std::int64_t heads = 0;  // of keys and values
  std::int64_t head_dim = 0;
};

/// Numbers that one block of all these layers takes.
[[nodiscard]] std::size_t block_numbers(const std::vector<CacheShape>& layers);
/// Blocks that so much memory holds.
[[nodiscard]] std::int64_t most_blocks(std::size_t block_bytes, std::uint64_t max_bytes);

/// A block holds kBlockTokens tokens of one sequence for all attention layers of a stage: of each
/// layer the keys {heads, kBlockTokens, head_dim}, then the values. Not thread safe.
class TokenCache {
 public:
  static constexpr std::int64_t kBlockTokens = BlockTables::kTokens;

  TokenCache(std::vector<CacheShape> layers, std::uint64_t max_bytes);

  /// As BlockTables has them.
  [[nodiscard]] std::int64_t length(SequenceId sequence) const { return tables_.length(sequence); }
  void reserve(SequenceId sequence, std::int64_t tokens);
  void set_length(SequenceId sequence, std::int64_t tokens) {
    tables_.set_length(sequence, tokens);
  }
  void fork(SequenceId from, SequenceId to, std::int64_t tokens) { tables_.fork(from, to, tokens); }
  void drop(SequenceId sequence) { tables_.drop(sequence); }
  void drop_all() { tables_.drop_all(); }
  [[nodiscard]] const BlockTables& tables() const { return tables_; }

  /// Keys of `layer` in the block that holds token `position`; values lie value_offset() behind.
  [[nodiscard]] float* keys(SequenceId sequence, std::size_t layer, std::int64_t position);
  [[nodiscard]] const float* keys(SequenceId sequence, std::size_t layer,
                                  std::int64_t position) const;
  [[nodiscard]] std::size_t value_offset(std::size_t layer) const;

  [[nodiscard]] std::uint64_t token_bytes() const {
    return block_floats_ * sizeof(float) / kBlockTokens;
  }
  [[nodiscard]] std::int64_t most_tokens() const { return tables_.most_tokens(); }
  [[nodiscard]] std::int64_t held_tokens() const { return tables_.held_tokens(); }
  [[nodiscard]] std::size_t block_floats() const { return block_floats_; }
  /// The blocks of a sequence, for saving.
  [[nodiscard]] std::vector<float*> blocks(SequenceId sequence) const;

 private:
  std::vector<CacheShape> layers_;
  std::vector<std::size_t> offsets_;  // of each layer within a block
  std::size_t block_floats_ = 0;
  BlockTables tables_;
  std::vector<std::unique_ptr<float[]>> numbers_;  // of each block
};

}  // namespace harmonics::inline in_runtime
