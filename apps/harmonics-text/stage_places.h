// Where the parts of a language model meet: a plan says which host has which, a file where it is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/transport/binding.h>

namespace harmonics::inline in_text_program {

/// Layers [cuts[i], cuts[i + 1]) are part i, as the plan's stages say. A plan for another model or
/// another number of layers, and one whose stages have several hosts, is an Error.
[[nodiscard]] std::vector<std::size_t> planned_cuts(const HarmonicGraph& graph,
                                                    const std::filesystem::path& plan);

/// Steps that the plan wants to have under way, where it is a report that says so; else 0.
[[nodiscard]] std::size_t planned_steps(const HarmonicGraph& graph,
                                        const std::filesystem::path& plan);

/// Steps come to each part at the address of its host; answers wait at that of the last. Whose
/// address it is listens there: `listen` is left open for the caller to say.
struct StagePlaces {
  std::vector<std::size_t> cuts;
  std::vector<std::string> hosts;
  std::vector<RemoteBinding> steps;
  RemoteBinding answers;
  /// As planned_steps says.
  std::size_t in_flight = 0;
};
/// A host of the plan without an address is an Error.
[[nodiscard]] StagePlaces stage_places(const HarmonicGraph& graph,
                                       const std::filesystem::path& plan,
                                       const std::filesystem::path& hosts);

/// What both ends call the run: it tells one model, or one way to cut it, from another.
[[nodiscard]] std::string stage_run(const HarmonicGraph& graph,
                                    const std::vector<std::size_t>& cuts, const std::string& name);

/// What a file of a secret holds; of no file: what `variable` of the environment has, if it is
/// there. A file that others can read, or that holds nothing, is an Error.
[[nodiscard]] std::string secret_of(const std::filesystem::path& file, const char* variable);

}  // namespace harmonics::inline in_text_program
