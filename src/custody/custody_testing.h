// A run of stages in a line that talk through memory, with a place for an attacker in between.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <harmonics/base/error.h>
#include <harmonics/custody/breach.h>
#include <harmonics/custody/chain.h>
#include <harmonics/custody/custody_log.h>
#include <harmonics/custody/verify.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_custody {

inline SigningKey test_key(const std::string& name, unsigned number) {
  Bytes seed(32, static_cast<std::byte>(number));
  return SigningKey::from_seed(name, seed);
}

inline std::string stage_name_of(std::size_t i) { return "part" + std::to_string(i); }
inline std::string boundary_of(std::size_t i) { return "hidden@" + std::to_string(i + 1); }

inline std::vector<SigningKey> line_keys(std::size_t stages, unsigned first = 1) {
  std::vector<SigningKey> keys;
  for (std::size_t i = 0; i < stages; ++i) {
    keys.push_back(test_key("signer" + std::to_string(i), first + static_cast<unsigned>(i)));
  }
  return keys;
}

inline Opening line_opening(const std::vector<SigningKey>& keys, unsigned nonce = 7) {
  Opening opening;
  opening.nonce.fill(static_cast<std::byte>(nonce));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    opening.stages.push_back({stage_name_of(i), keys[i].name(), keys[i].public_key(),
                              sha256(bytes_of(stage_name_of(i)))});
    if (i > 0) {
      opening.boundaries.push_back({boundary_of(i - 1), stage_name_of(i - 1), stage_name_of(i)});
    }
  }
  return checked_opening(opening);
}

inline Roster roster_of(const std::vector<SigningKey>& keys) {
  Roster roster;
  for (const SigningKey& key : keys) roster.add(key.name(), key.public_key());
  return roster;
}

/// What travels: what an attacker may change.
struct Parcel {
  Passage passage;
  Bytes tensor;
  Bytes attachment;
};

inline const std::vector<std::int64_t>& test_shape() {
  static const std::vector<std::int64_t> shape = {2, 3};
  return shape;
}
inline TensorView view_of(const Bytes& bytes) { return {1, test_shape(), bytes}; }

/// Stages part0 -> part1 -> …; every step sends each micro-batch forward and its gradient back.
class LineRun {
 public:
  using Attack = std::function<void(Parcel&)>;

  LineRun(std::vector<SigningKey> keys, const std::filesystem::path& file, unsigned nonce = 7)
      : keys_(std::move(keys)), opening_(line_opening(keys_, nonce)), file_(file) {
    start(std::make_shared<ChainWriter>(file_, opening_));
  }

  void start(std::shared_ptr<ChainWriter> writer) {
    logs_.clear();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      logs_.push_back(std::make_unique<CustodyLog>(opening_, stage_name_of(i), keys_[i], writer));
    }
  }
  void announce_weights(std::uint64_t step = 0) {
    for (auto& log : logs_) log->weights(step, sha256(bytes_of("weights")));
  }

  /// The tensor that a passage carries: a function of who and when.
  static Bytes tensor_of(const Passage& passage) {
    Bytes bytes(24);
    const Digest digest = sha256(bytes_of(passage_text(passage)));
    std::copy_n(digest.begin(), bytes.size(), bytes.begin());
    return bytes;
  }

  Parcel send(std::size_t from, const Passage& passage) {
    Bytes tensor = tensor_of(passage);
    Bytes attachment = logs_[from]->sign_outgoing(passage, view_of(tensor));
    return {passage, std::move(tensor), std::move(attachment)};
  }
  void receive(std::size_t at, const Passage& due, const Parcel& parcel) {
    logs_[at]->check_incoming(due, view_of(parcel.tensor), parcel.attachment);
  }
  void carry(std::size_t from, std::size_t to, const Passage& passage) {
    Parcel parcel = send(from, passage);
    if (attack) attack(parcel);
    receive(to, passage, parcel);
  }

  void step(std::uint64_t number, std::uint32_t micro_batches = 2) {
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      logs_[0]->data("input", m, view_of(tensor_of({"input", Direction::kForward, number, m})));
      for (std::size_t i = 0; i + 1 < logs_.size(); ++i) {
        carry(i, i + 1, {boundary_of(i), Direction::kForward, number, m});
      }
      for (std::size_t i = logs_.size() - 1; i > 0; --i) {
        carry(i, i - 1, {boundary_of(i - 1), Direction::kBackward, number, m});
      }
    }
    for (auto& log : logs_) log->end_step();
  }
  void close() {
    for (auto& log : logs_) log->close();
  }

  CustodyLog& log(std::size_t i) { return *logs_[i]; }
  [[nodiscard]] const Opening& opening() const { return opening_; }
  [[nodiscard]] std::size_t size() const { return logs_.size(); }

  Attack attack;

 private:
  std::vector<SigningKey> keys_;
  Opening opening_;
  std::filesystem::path file_;
  std::vector<std::unique_ptr<CustodyLog>> logs_;
};

/// A whole run in a file, read back.
inline Chain line_chain(const std::vector<SigningKey>& keys, std::uint64_t steps,
                        unsigned nonce = 7) {
  const TemporaryFolder folder;
  LineRun run(keys, folder.path() / "run.chain", nonce);
  run.announce_weights();
  for (std::uint64_t i = 0; i < steps; ++i) run.step(i);
  run.close();
  return read_chain(folder.path() / "run.chain");
}

/// The breach that `action` ends with; nothing when it ends well. Other errors pass through.
template <typename Action>
std::optional<Breach> breach_of(Action&& action) {
  try {
    action();
  } catch (const CustodyError& error) {
    return error.breach();
  }
  return std::nullopt;
}

inline VerifyReport verify_one(const Chain& chain, const Roster& roster,
                               const VerifyOptions& options = {}) {
  return verify_chain(std::span(&chain, 1), roster, options);
}

}  // namespace harmonics::inline in_custody
