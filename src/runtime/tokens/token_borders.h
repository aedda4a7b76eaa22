// What goes into a stage and what comes out, and which calls it takes (private to runtime).
#pragma once

#include <string>
#include <vector>

#include "block_tables.h"

namespace harmonics::inline in_runtime {

/// Layers [first, end) of a graph.
struct LayerRange {
  std::size_t first, end;
};
/// An Error where the options name no layers of the graph, or no number of threads.
[[nodiscard]] LayerRange layer_range(const HarmonicGraph& graph, const TokenStageOptions& options);

/// Numbers of a row of it; 0 for ids. A tensor that is no row for each token is an Error.
[[nodiscard]] std::size_t row_width(const HarmonicGraph& graph, const std::string& tensor);

struct TokenBorders {
  std::vector<std::string> entering, leaving;
  /// Of the last stage: what each consumer, in the order of `leaving`, takes, and its activation.
  struct Output {
    std::string tensor, activation;
  };
  std::vector<Output> outputs = {};
  bool last = false;
};
[[nodiscard]] TokenBorders token_borders(const HarmonicGraph& graph, LayerRange range);
/// An Error where an add or mul of the range has inputs of several widths.
void check_widths(const HarmonicGraph& graph, LayerRange range);

/// Rows of all spans. A span that does not go on where its sequence ends, a sequence that stands
/// twice or becomes too long, and more rows than a call takes are Errors.
[[nodiscard]] std::int64_t checked_rows(std::span<const TokenSpan> spans, const BlockTables& tables,
                                        std::int64_t max_length);
/// The tensor of that name with so many rows, or an Error that says how it must come.
[[nodiscard]] const Tensor& entering_rows(const TokenTensors& inputs, const std::string& name,
                                          std::size_t width, std::int64_t rows);
/// Numbers of the rows that are wanted of all spans, in their order.
[[nodiscard]] std::vector<std::size_t> wanted_rows(std::span<const TokenSpan> spans);

/// Tokens of what was saved; what does not fit a stage of so many numbers a block is an Error.
[[nodiscard]] std::int64_t saved_tokens(const Tensor& saved, std::size_t block_numbers,
                                        SequenceId sequence, std::int64_t max_length);

}  // namespace harmonics::inline in_runtime
