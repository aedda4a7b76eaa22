// GRAPH on a command line: a file, or a network of the zoo.
#pragma once

#include <filesystem>
#include <string>

#include <harmonics/graph/graph.h>
#include <harmonics/graph/harp.h>

namespace harmonics::inline in_options {

struct GraphArgument {
  HarmonicGraph graph;
  /// What the planner's files call it unless the user says otherwise: the name under which a vision
  /// transformer is published, else the zoo's name, or the graph's for a file.
  std::string model;
};

/// What the planner's files call a network of the zoo: the name under which it is published, where
/// it is; any other name stays as it is.
[[nodiscard]] std::string published_name(const std::string& name);

/// Reads the file of that name or, where there is none and the zoo has a network of that name,
/// that network: without data, settings and weights of its own. Neither is an Error (kNotFound).
[[nodiscard]] HarpDocument open_graph_document(const std::filesystem::path& text);
/// The text of the same.
[[nodiscard]] std::string read_graph_text(const std::filesystem::path& text, std::size_t limit);

/// Reads the file of that name or, where there is none, takes the network of that name from the
/// zoo. Neither is an Error, and so is a graph with producers of unknown shape, since nothing can
/// be measured or cut then. Its shapes are worked out at these lengths of named axes.
[[nodiscard]] GraphArgument open_graph_argument(const std::filesystem::path& text,
                                                const AxisValues& axes = {});

}  // namespace harmonics::inline in_options
