// RunAgreement: what the processes of a run settle between them, step by step.
//
// StageRow and Trainer ask it at the same points in every process; how the batches pass the stages
// in between is the BatchRunner's matter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include <harmonics/schedule/batch_runner.h>

namespace harmonics::inline in_schedule {

/// What all parts of a run must do alike while they fit.
struct FitTerms {
  /// Epochs of the whole run after which fit ends.
  std::int64_t last_epoch = 0;
  /// No data is sized: every epoch is one step.
  bool epochs_are_steps = false;
  bool evaluates = false;
  int patience = 0;
  bool saves = false;
  std::int64_t save_every_steps = 0;
  std::int64_t save_every_epochs = 0;
};

/// What all parts of a stream must do alike.
struct StreamTerms {
  /// Batches that the consumers of a part have got; kNoConsumers where it has none. Agreed: the
  /// batch that the stream begins with.
  std::int64_t delivered = 0;
  /// 0: two for each part. Agreed: the least that was asked for.
  std::uint64_t in_flight = 0;
  /// Parts of the run.
  std::uint64_t parts = 1;
};
inline constexpr std::int64_t kNoConsumers = std::numeric_limits<std::int64_t>::max();

/// Writes the state of the stages here to a file and gives the file's digest.
using WriteState = std::function<std::string(const std::filesystem::path&)>;

/// As it stands it is right where all parts are in this process. One thread.
class RunAgreement {
 public:
  virtual ~RunAgreement() = default;

  /// Called before each batch: waits until the batch of that step is due. False: the epoch is over.
  [[nodiscard]] virtual bool await_batch(std::uint64_t /*step*/) { return true; }
  /// Rows of the batch that is due, of which `data` is what was read here.
  [[nodiscard]] virtual std::int64_t rows(const NamedTensors& data) const {
    return batch_rows(data);
  }
  /// The square sums of all parts' gradients, by parameter; `own` are those of the stages here.
  [[nodiscard]] virtual std::map<std::string, double> all_square_sums(
      std::map<std::string, double> own, std::uint64_t /*step*/) {
    return own;
  }
  /// Called when an epoch has ended here.
  virtual void end_epoch() {}
  /// True when parts elsewhere learn, so that those here must as well.
  [[nodiscard]] virtual bool learns() const { return false; }
  /// True when await_batch says where an epoch ends, rather than the data that is bound here.
  [[nodiscard]] virtual bool paces_epochs() const { return false; }

  /// What the parts fit by; terms that contradict each other are an Error that names two parts.
  /// One part that evaluates, or whose epochs are steps, makes all of them do so.
  [[nodiscard]] virtual FitTerms agree(const FitTerms& own, std::uint64_t /*step*/) { return own; }
  /// What the parts stream by; `own` is what those here can do.
  [[nodiscard]] virtual StreamTerms agree(const StreamTerms& own, std::uint64_t /*step*/) {
    return own;
  }
  /// The sums of all parts' taps; `own` are those of the stages here.
  [[nodiscard]] virtual TapReport all_taps(const TapReport& own, std::uint64_t /*step*/) {
    return own;
  }
  /// Called after each step, of which there were `steps` so far: true when the run ends here.
  /// `wished` says that someone wants it to end. Other parts need to hear of it, so that it may be
  /// true some steps later, in all parts after the same one.
  [[nodiscard]] virtual bool ends_after(std::uint64_t /*steps*/, bool wished) { return wished; }
  /// Saves the state of all parts at this step under `path`: the file itself, or a manifest of the
  /// parts' files, which counts when all of them are there.
  virtual void save(const std::filesystem::path& path, std::uint64_t /*step*/,
                    const WriteState& write) {
    static_cast<void>(write(path));
  }

  /// Something went wrong here: parts elsewhere get an Error, and `why` is told in every later
  /// call. Does nothing before they were called.
  virtual void abandon(const std::string& /*why*/) {}
};

}  // namespace harmonics::inline in_schedule
