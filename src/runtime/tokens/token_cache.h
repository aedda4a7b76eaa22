// Keys and values of many sequences in blocks of a few tokens (private to runtime_tokens).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_runtime {

/// Of one attention layer.
struct CacheShape {
  std::int64_t heads = 0;  // of keys and values
  std::int64_t head_dim = 0;
};

/// A block holds kBlockTokens tokens of one sequence for all attention layers of a stage: of each
/// layer the keys {heads, kBlockTokens, head_dim}, then the values. Sequences with the same start
/// share blocks; whoever writes into a shared one gets a copy first. Not thread safe.
class TokenCache {
 public:
  static constexpr std::int64_t kBlockTokens = 16;

  TokenCache(std::vector<CacheShape> layers, std::uint64_t max_bytes);

  [[nodiscard]] std::int64_t length(SequenceId sequence) const;
  /// Makes room for `tokens` in all; beyond the ceiling an Error, and nothing has changed.
  void reserve(SequenceId sequence, std::int64_t tokens);
  void set_length(SequenceId sequence, std::int64_t tokens);
  void fork(SequenceId from, SequenceId to, std::int64_t tokens);
  void drop(SequenceId sequence);
  void drop_all();

  /// Keys of `layer` in the block that holds token `position`; values lie value_offset() behind.
  [[nodiscard]] float* keys(SequenceId sequence, std::size_t layer, std::int64_t position);
  [[nodiscard]] const float* keys(SequenceId sequence, std::size_t layer,
                                  std::int64_t position) const;
  [[nodiscard]] std::size_t value_offset(std::size_t layer) const;

  [[nodiscard]] std::uint64_t token_bytes() const {
    return block_floats_ * sizeof(float) / kBlockTokens;
  }
  [[nodiscard]] std::int64_t most_tokens() const { return most_blocks_ * kBlockTokens; }
  [[nodiscard]] std::int64_t held_tokens() const {
    return (most_blocks_ - free_blocks()) * kBlockTokens;
  }
  [[nodiscard]] std::size_t block_floats() const { return block_floats_; }
  /// The blocks of a sequence, for saving.
  [[nodiscard]] std::vector<float*> blocks(SequenceId sequence) const;

 private:
  struct Block {
    std::unique_ptr<float[]> numbers;
    int users = 0;
  };
  struct Table {
    std::vector<std::size_t> blocks;
    std::int64_t length = 0;
  };

  [[nodiscard]] std::int64_t free_blocks() const;
  std::size_t take_block();
  void let_go(std::size_t block);

  std::vector<CacheShape> layers_;
  std::vector<std::size_t> offsets_;  // of each layer within a block
  std::size_t block_floats_ = 0;
  std::int64_t most_blocks_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::size_t> free_;
  std::map<SequenceId, Table> tables_;
};

}  // namespace harmonics::inline in_runtime
