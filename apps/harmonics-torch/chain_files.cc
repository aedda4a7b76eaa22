#include "chain_files.h"

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/custody/chain.h>
#include <harmonics/schedule/stage_custody.h>

namespace harmonics::inline in_torch_program {
namespace {

void write_chain(const std::filesystem::path& path, const Chain& chain) {
  AtomicFile file(path);
  file.write(encode_chain(chain));
  file.commit();
}

}  // namespace

std::filesystem::path part_chain(const std::filesystem::path& chain, std::size_t part) {
  return std::filesystem::path(chain).concat(format(".part{}", part));
}

std::vector<std::string> secure_words(const SecureFlags& secure, std::size_t part) {
  if (secure.mode == SecureMode::kNone) return {};
  std::vector<std::string> words = {secure.mode == SecureMode::kZk        ? "--secure=zk"
                                    : secure.mode == SecureMode::kNetwork ? "--secure=network"
                                                                          : "--secure"};
  if (!secure.proof.empty()) {
    words.insert(words.end(), {"--proof", part_chain(secure.proof, part).string()});
  }
  if (!secure.key.empty()) words.insert(words.end(), {"--key", secure.key});
  if (!secure.keys.empty()) words.insert(words.end(), {"--keys", secure.keys.string()});
  if (secure.weights_every > 0) {
    words.insert(words.end(), {"--sign-weights-every", std::to_string(secure.weights_every)});
  }
  if (secure.layers) words.push_back("--sign-layers");
  return words;
}

void begin_chains(const std::filesystem::path& chain, std::size_t parts,
                  const std::string& advice) {
  if (std::filesystem::exists(chain)) {
    fail(ErrorCode::kAlreadyExists, "'{}' exists already: a chain is not overwritten; {}",
         chain.string(), advice);
  }
  for (std::size_t part = 0; part < parts; ++part) set_chain_aside(part_chain(chain, part));
}

void begin_replica_chains(const TrainCommand& command, std::size_t replicas) {
  if (command.resume) set_chain_aside(command.secure.proof);
  begin_chains(command.secure.proof, replicas, "name another file");
}

void join_chains(const std::filesystem::path& chain, std::size_t parts) {
  Chain joined = read_chain(part_chain(chain, 0));
  for (std::size_t part = 1; part < parts; ++part) {
    Chain other = read_chain(part_chain(chain, part));
    if (other.opening != joined.opening) {
      fail(ErrorCode::kDataLoss, "'{}' and '{}' are chains of different runs",
           part_chain(chain, 0).string(), part_chain(chain, part).string());
    }
    std::ranges::move(other.records, std::back_inserter(joined.records));
  }
  if (std::filesystem::exists(chain) && read_chain(chain).opening != joined.opening) {
    fail(ErrorCode::kAlreadyExists,
         "'{}' is the chain of another run and is not overwritten; the chains of this run are "
         "'{}' and so on",
         chain.string(), part_chain(chain, 0).string());
  }
  write_chain(chain, joined);
  for (std::size_t part = 0; part < parts; ++part) {
    std::filesystem::remove(part_chain(chain, part));
  }
}

void split_chain(const std::filesystem::path& chain, std::span<const HarmonicGraph> parts) {
  if (!std::filesystem::exists(chain)) return;
  const Chain joined = read_chain(chain);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (std::filesystem::exists(part_chain(chain, part))) continue;
    const std::string& name = parts[part].name();
    Chain own{joined.opening, {}};
    for (const ChainRecord& record : joined.records) {
      const std::string& stage = joined.opening.stages[record.stage].stage;
      if (stage == name || stage == reader_of(name)) own.records.push_back(record);
    }
    write_chain(part_chain(chain, part), own);
  }
}

}  // namespace harmonics::inline in_torch_program
