// SecureRun: the custody of the parts of a run that are in this process.
//
// The schedulers and CycleRuntime make one for a run that is `secure`; the runner of their row
// signs and checks with it (docs/guides/custody.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <harmonics/custody/custody_log.h>
#include <harmonics/schedule/stage_custody.h>
#include <harmonics/schedule/stage_row.h>

namespace harmonics::inline in_schedule {

/// What an opening says of one part: its name, who signs for it, its graph, and what leaves the
/// graph in it.
struct SecurePart {
  std::string stage;
  std::string signer;
  PublicKey key{};
  Digest graph{};
  std::vector<std::string> outputs;
};

/// 16 bytes that no other run has.
using RunNonce = std::array<std::byte, 16>;
[[nodiscard]] RunNonce new_run_nonce();

/// The opening of a run of these parts. Two parts of one name are an Error that names them.
[[nodiscard]] Opening make_opening(std::span<const SecurePart> parts,
                                   std::vector<BoundaryEntry> boundaries, const RunNonce& nonce);

/// The folder of keys that these options mean, and the key in it.
[[nodiscard]] std::filesystem::path key_folder(const SecureOptions& options);
[[nodiscard]] SigningKey signing_key(const SecureOptions& options);

/// What a checkpoint keeps of a secure run: its opening, and each log's state by stage. Empty: the
/// run was not secure, or had not begun.
struct SavedCustody {
  Bytes opening;
  std::map<std::string, Bytes> logs;
};

/// Logs begin with the first batch. `part` may be used by a thread per part, everything else by one
/// thread between batches.
class SecureRun {
 public:
  /// `parts` are those here, in the order of the row, all signed with `key`. More of them than the
  /// row has speak for its last stage.
  SecureRun(SecureOptions options, SigningKey key, std::vector<SecurePart> parts);

  [[nodiscard]] const SecureOptions& options() const { return options_; }
  [[nodiscard]] const SigningKey& key() const { return key_; }
  [[nodiscard]] const std::vector<SecurePart>& parts() const { return parts_; }

  /// Who takes part; must be said before the first batch.
  void set_opening(Opening opening) { opening_ = std::move(opening); }
  /// Goes on from a checkpoint; before the first batch, else it is an Error. Where the checkpoint
  /// is of other parts or keys the first batch begins another chain, and says so.
  void restore(SavedCustody saved);
  /// A checkpoint is of one process of the run, whose parts keep theirs elsewhere: the first batch
  /// always begins another chain.
  void begin_anew() { begins_anew_ = true; }
  /// Before each batch: makes the logs, if that has not happened. An Error once the run is closed
  /// or has failed.
  void begin();
  [[nodiscard]] StageCustody& part(std::size_t index) { return *custody_.at(index); }
  /// The weights of all parts were replaced from outside.
  void forget_weights();

  /// Between batches: announces the weights, signs heads, syncs the chain, and gives what `restore`
  /// takes; nothing once the run is closed or has failed. `steps` were made so far.
  [[nodiscard]] SavedCustody save(std::span<const Stage> stages, std::uint64_t steps);
  /// Something went wrong: the chain stays without its end, and every later batch is an Error.
  void spoil(const std::string& why);
  [[nodiscard]] bool has_begun() const { return !custody_.empty(); }
  /// Announces the weights as they are now and signs closing heads. Does nothing before the first
  /// batch of a run that was not restored, a second time, or after a failure.
  void close(std::span<const Stage> stages, std::uint64_t steps);
  /// What each part here signed last, a line each; empty before the first head.
  [[nodiscard]] std::string proof() const;

 private:
  [[nodiscard]] std::vector<CustodyLog*> logs() const;
  [[nodiscard]] bool can_go_on() const;
  [[nodiscard]] bool is_own(const std::string& stage) const;
  void make_logs();
  void take_saved();

  const SecureOptions options_;
  const SigningKey key_;
  const std::vector<SecurePart> parts_;
  Opening opening_;
  SavedCustody saved_;
  std::shared_ptr<ChainWriter> writer_;
  std::vector<std::unique_ptr<StageCustody>> custody_;  // by part
  std::string stopped_by_;
  bool closed_ = false;
  bool begins_anew_ = false;
  bool weights_replaced_ = false;  // after what was restored, and before the logs were made
};

/// The custody of the parts of a row, signed with `key`. Where all parts of the run are in it,
/// the opening is made as well.
[[nodiscard]] std::shared_ptr<SecureRun> make_custody(const StageRow& row,
                                                      const SecureOptions& options, SigningKey key);

/// The same for a row of one part that is whole in this process and one of several replicas: its
/// second part signs the sums of gradients. Who takes part is known when the replicas have met
/// (secure_replicas.h). A row of several parts is an Error.
[[nodiscard]] std::shared_ptr<SecureRun> make_replica_custody(const StageRow& row,
                                                              const SecureOptions& options,
                                                              SigningKey key, std::size_t replica);

/// Closes the row's custody, if it has one that has begun, as the end of a run; where that fails
/// the log says so. For destructors: it does nothing while an exception unwinds.
void close_quietly(const StageRow& row) noexcept;

}  // namespace harmonics::inline in_schedule
