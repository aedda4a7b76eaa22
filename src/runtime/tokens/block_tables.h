// Which blocks of a cache hold the tokens of which sequence (private to runtime).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_runtime {

/// Hands out numbers of blocks; the memory behind them is their owner's. Sequences with the same
/// start share blocks; whoever writes into a shared one gets another first. Not thread safe.
class BlockTables {
 public:
  /// Tokens of a block.
  static constexpr std::int64_t kTokens = 16;

  explicit BlockTables(std::int64_t most_blocks) : most_(most_blocks) {}

  [[nodiscard]] std::int64_t length(SequenceId sequence) const;
  /// What a block that was shared has to be copied to, before it is written.
  struct Copy {
    std::size_t from, to;
  };
  /// Makes room for `tokens` in all; beyond the ceiling an Error, and nothing has changed.
  [[nodiscard]] std::optional<Copy> reserve(SequenceId sequence, std::int64_t tokens);
  void set_length(SequenceId sequence, std::int64_t tokens);
  void fork(SequenceId from, SequenceId to, std::int64_t tokens);
  void drop(SequenceId sequence);
  void drop_all();

  /// The block that holds token `position`.
  [[nodiscard]] std::size_t block(SequenceId sequence, std::int64_t position) const {
    return tables_.at(sequence).blocks[static_cast<std::size_t>(position / kTokens)];
  }
  [[nodiscard]] std::vector<std::size_t> blocks(SequenceId sequence) const;
  /// Numbers that were ever handed out: 0 to this, without.
  [[nodiscard]] std::size_t numbered() const { return users_.size(); }

  [[nodiscard]] std::int64_t most_tokens() const { return most_ * kTokens; }
  [[nodiscard]] std::int64_t held_tokens() const { return (most_ - free_blocks()) * kTokens; }

 private:
  struct Table {
    std::vector<std::size_t> blocks;
    std::int64_t length = 0;
  };

  [[nodiscard]] std::int64_t free_blocks() const;
  [[nodiscard]] std::size_t take();
  void let_go(std::size_t block);

  std::int64_t most_;
  std::vector<int> users_;  // of each block
  std::vector<std::size_t> free_;
  std::map<SequenceId, Table> tables_;
};

/// How many blocks so many tokens take.
[[nodiscard]] constexpr std::int64_t blocks_of(std::int64_t tokens) {
  return (tokens + BlockTables::kTokens - 1) / BlockTables::kTokens;
}

}  // namespace harmonics::inline in_runtime
