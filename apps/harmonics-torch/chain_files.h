// The chain files of secure runs whose parts are in several processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <harmonics/graph/graph.h>
#include <harmonics/options/commands.h>

namespace harmonics::inline in_torch_program {

/// Where a part of the run, or a replica, keeps its chain until all of them are joined.
[[nodiscard]] std::filesystem::path part_chain(const std::filesystem::path& chain,
                                               std::size_t part);

/// What a process of a secure run is told: the flags, with a chain of its own. Nothing where the
/// run is not secure.
[[nodiscard]] std::vector<std::string> secure_words(const SecureFlags& secure, std::size_t part);

/// The parts begin new chains: those of an attempt before are set aside. A joined file that exists
/// is an Error (kAlreadyExists) that ends with `advice`.
void begin_chains(const std::filesystem::path& chain, std::size_t parts, const std::string& advice);

/// The same for replicas, which begin another chain also where the run goes on: a joined file of
/// the run before is then set aside.
void begin_replica_chains(const TrainCommand& command, std::size_t replicas);

/// Makes one file of the chains of all parts, in place of them: `harmonics verify` takes it. An
/// older file of the same run is replaced; one of another run is an Error (kAlreadyExists).
void join_chains(const std::filesystem::path& chain, std::size_t parts);

/// The opposite, for a run that goes on: parts whose file is missing get theirs back. Does nothing
/// when there is no joined file.
void split_chain(const std::filesystem::path& chain, std::span<const HarmonicGraph> parts);

}  // namespace harmonics::inline in_torch_program
