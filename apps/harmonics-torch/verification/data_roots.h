// The roots of the tensors that data becomes in a run, to be found again in its chain.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <harmonics/custody/chain.h>
#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>

namespace harmonics::inline in_torch_program {

/// The graph of a .harp file, with the shapes that follow from its data and from `data`.
[[nodiscard]] HarmonicGraph bound_graph(const std::filesystem::path& file,
                                        const std::vector<Binding>& data);

/// By producer of the command's data: the roots of every micro-batch of as many epochs as the
/// chains have steps for, of every batch of the rows that are held back, and of every batch in the
/// order of the file. Seed, batch size, micro-batches, split and shuffling come from the command's
/// flags, the checkpoint, or the model's file.
[[nodiscard]] std::map<std::string, std::set<Digest>> data_roots(const VerifyCommand& command,
                                                                 const std::vector<Chain>& chains);

}  // namespace harmonics::inline in_torch_program
