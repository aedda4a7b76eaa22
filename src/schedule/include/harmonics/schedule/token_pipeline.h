// TokenPipeline: the stages of a language model in a row, wherever they are.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/models/weight_source.h>
#include <harmonics/runtime/token_stage.h>

namespace harmonics::inline in_schedule {

/// Rows for all stages: spans, their ids one after another, and sequences to forget first.
struct TokenStep {
  std::vector<TokenSpan> spans;
  std::vector<std::int64_t> ids;
  std::vector<SequenceId> drops;
};

/// What a row of stages can take.
struct TokenLimits {
  /// The longest sequence.
  std::int64_t max_length = 0;
  /// Tokens that all caches have room for, and bytes that one takes in all of them.
  std::int64_t most_tokens = 0;
  std::uint64_t token_bytes = 0;
  std::uint64_t weight_bytes = 0;
};

/// Steps go in at one end and logits of the wanted rows, {rows, vocabulary}, come out in the same
/// order. One thread at a time.
class TokenPipeline {
 public:
  virtual ~TokenPipeline() = default;
  [[nodiscard]] virtual const TokenLimits& limits() const = 0;
  /// How many steps keep all stages at work.
  [[nodiscard]] virtual std::size_t depth() const = 0;
  virtual void submit(const TokenStep& step) = 0;
  /// The answer to the earliest step that has none yet.
  [[nodiscard]] virtual Tensor receive() = 0;
  /// After an Error: stages anew, with empty caches; what was in flight is lost. An Error where
  /// this cannot be had.
  virtual void renew() = 0;
};
using TokenPipelinePtr = std::unique_ptr<TokenPipeline>;

struct TokenPartsOptions {
  std::size_t parts = 1;
  /// Of each stage.
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;
  int threads = 1;
  /// Where the layers are cut, as token_cuts gives it; empty: into `parts`.
  std::vector<std::size_t> cuts = {};
  /// Empty: on the CPU.
  TokenStageMaker make_stage = {};
};

/// Where the layers of a graph are cut into so many parts, as `partition_graph` cuts them: layers
/// [cuts[i], cuts[i + 1]) are part i.
[[nodiscard]] std::vector<std::size_t> token_cuts(const HarmonicGraph& graph, std::size_t parts);
/// The same of parts that a plan has made of it.
[[nodiscard]] std::vector<std::size_t> token_cuts(const HarmonicGraph& graph,
                                                  const std::vector<HarmonicGraph>& parts);

/// The consumer whose rows are the logits: the only one, else "logits"; otherwise an Error.
[[nodiscard]] std::string logits_of(const HarmonicGraph& graph);

/// All stages in this process, one after another.
[[nodiscard]] TokenPipelinePtr make_local_pipeline(const HarmonicGraph& graph,
                                                   const WeightSource& weights,
                                                   const TokenPartsOptions& options);

}  // namespace harmonics::inline in_schedule
