#include "block_tables.h"

#include <harmonics/base/error.h>

namespace harmonics::inline in_runtime {

std::int64_t BlockTables::free_blocks() const {
  return most_ - static_cast<std::int64_t>(users_.size() - free_.size());
}

std::int64_t BlockTables::length(SequenceId sequence) const {
  const auto found = tables_.find(sequence);
  return found == tables_.end() ? 0 : found->second.length;
}

std::size_t BlockTables::take() {
  if (!free_.empty()) {
    const std::size_t block = free_.back();
    free_.pop_back();
    users_[block] = 1;
    return block;
  }
  users_.push_back(1);
  return users_.size() - 1;
}

void BlockTables::let_go(std::size_t block) {
  if (--users_[block] == 0) free_.push_back(block);
}

std::optional<BlockTables::Copy> BlockTables::reserve(SequenceId sequence, std::int64_t tokens) {
  const auto found = tables_.find(sequence);
  if (found == tables_.end() && tables_.size() >= kMaxSequences) {
    fail(ErrorCode::kResourceExhausted, "the cache keeps {} sequences, the most that it can",
         kMaxSequences);
  }
  const auto has = found == tables_.end() ? std::int64_t{0}
                                          : static_cast<std::int64_t>(found->second.blocks.size());
  const std::int64_t needs = blocks_of(tokens);
  // The block that is written next, if others look at it too.
  const bool shared =
      has > 0 && found->second.length < has * kTokens &&
      users_[found->second.blocks[static_cast<std::size_t>(found->second.length / kTokens)]] > 1;
  if (needs - has + (shared ? 1 : 0) > free_blocks()) {
    fail(ErrorCode::kResourceExhausted,
         "the cache has room for {} tokens, of which {} are taken: sequence {} needs {}; give it "
         "more memory, or run fewer sequences at once",
         most_tokens(), held_tokens(), sequence, tokens);
  }
  Table& table = tables_[sequence];
  std::optional<Copy> copy;
  if (shared && tokens > table.length) {
    std::size_t& block = table.blocks[static_cast<std::size_t>(table.length / kTokens)];
    copy = {block, take()};
    let_go(block);
    block = copy->to;
  }
  while (static_cast<std::int64_t>(table.blocks.size()) < needs) table.blocks.push_back(take());
  return copy;
}

void BlockTables::set_length(SequenceId sequence, std::int64_t tokens) {
  tables_.at(sequence).length = tokens;
}

void BlockTables::fork(SequenceId from, SequenceId to, std::int64_t tokens) {
  if (tokens < 0 || tokens > length(from) || tables_.contains(to) ||
      tables_.size() >= kMaxSequences) {
    fail(ErrorCode::kInvalidArgument,
         "sequence {} of {} tokens cannot start as the first {} of sequence {}: it must be new, "
         "and the other as long",
         to, length(to), tokens, from);
  }
  Table table;
  table.length = tokens;
  const auto count = static_cast<std::size_t>(blocks_of(tokens));
  if (count > 0) {
    const std::vector<std::size_t>& theirs = tables_.at(from).blocks;
    table.blocks.assign(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(count));
  }
  for (const std::size_t block : table.blocks) ++users_[block];
  tables_.emplace(to, std::move(table));
}

void BlockTables::drop(SequenceId sequence) {
  const auto found = tables_.find(sequence);
  if (found == tables_.end()) return;
  for (const std::size_t block : found->second.blocks) let_go(block);
  tables_.erase(found);
}

void BlockTables::drop_all() {
  while (!tables_.empty()) drop(tables_.begin()->first);
}

std::vector<std::size_t> BlockTables::blocks(SequenceId sequence) const {
  const auto found = tables_.find(sequence);
  return found == tables_.end() ? std::vector<std::size_t>() : found->second.blocks;
}

}  // namespace harmonics::inline in_runtime
