// The files of --out: where the rows of a consumer go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>
#include <harmonics/schedule/stream.h>

namespace harmonics::inline in_torch_program {

/// The path in "csv:PATH", "safetensors:PATH" or "PATH.safetensors". Another text is an Error that
/// names the forms.
[[nodiscard]] std::string output_path(const Binding& output);

/// Where rows are kept as they come, behind the first `batches` that lie there; empty: nowhere.
struct KeptPlace {
  std::filesystem::path folder = {};
  std::int64_t batches = 0;
};

/// Opens the files of --out. A consumer that the graph does not have is an Error that lists them;
/// so is one file for two consumers, one tensor for rows of several lengths, and one for rows that
/// are kept as they come.
[[nodiscard]] NamedConsumers open_outputs(const HarmonicGraph& graph,
                                          const std::vector<Binding>& outputs,
                                          const KeptPlace& kept = {});

}  // namespace harmonics::inline in_torch_program
