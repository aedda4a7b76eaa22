// The .harp language: graphs as text, with the data and training settings that go with them.
// docs/formats/harp.md is its reference.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/graph/graph.h>

namespace harmonics::inline in_graph {

/// Ceilings of a text; a larger one is an Error at the place where it grows too large. The nodes
/// and connections of the graph itself are bounded by kMaxGraphNodes and kMaxGraphEdges.
inline constexpr std::size_t kMaxHarpTextBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxHarpDepth = 16;
/// Statements, arrows and rounds of `repeat`, counted after every `repeat` is written out.
inline constexpr std::size_t kMaxHarpSteps = 2'000'000;
inline constexpr std::size_t kMaxHarpSettings = 1'000;

/// One `key = value;` of a data, train or weights section; the value as text, without its quotes.
struct Setting {
  std::string key;
  std::string value;
  std::size_t line = 0;
  bool operator==(const Setting&) const = default;
};

/// The settings of one section, in the order of the text; no key occurs twice.
struct Settings {
  std::vector<Setting> entries;

  /// The setting of that key, or null.
  [[nodiscard]] const Setting* find(std::string_view key) const;
  bool operator==(const Settings&) const = default;
};

/// Everything that a .harp file says.
struct HarpDocument {
  HarmonicGraph graph;
  /// Bindings (`image = "csv:…"`) and how the samples are split.
  Settings data;
  /// Optimiser, epochs and so on.
  Settings train;
  /// `file`: where the weights lie.
  Settings weights;
  /// Where relative paths in both start: the file's folder; empty for a text without a file.
  std::filesystem::path folder;
};

// Parsing: pure functions, safe in any thread. A mistake is an Error (kInvalidArgument) that begins
// with "origin:line:column:", and shows the line with a caret below the place. The graph comes back
// validated; producers without a shape leave it unresolved (HarmonicGraph::resolved_with).

/// The graph of a text; sections are checked and dropped.
[[nodiscard]] HarmonicGraph parse_harp(std::string_view text);
/// The whole text. `origin_name` stands for the file in errors.
[[nodiscard]] HarpDocument parse_harp_document(std::string_view text, std::string_view origin_name);
/// The same from a file; one that cannot be read is an Error that names the path.
[[nodiscard]] HarmonicGraph load_harp(const std::filesystem::path& path);
[[nodiscard]] HarpDocument load_harp_document(const std::filesystem::path& path);

/// The graph as text: parse_harp(to_harp(g)) == g, also for the parts of a cut graph.
[[nodiscard]] std::string to_harp(const HarmonicGraph& graph);

}  // namespace harmonics::inline in_graph
