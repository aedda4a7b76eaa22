// How a runtime computes and learns: one struct of defaults each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <harmonics/graph/deployment.h>
#include <harmonics/settings/batch_shares.h>

namespace harmonics::inline in_runtime {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

/// "sgd", "adam", "adamw"; another name is an Error that lists them.
[[nodiscard]] OptimizerKind optimizer_from_name(std::string_view name);
[[nodiscard]] std::string_view optimizer_name(OptimizerKind kind);

/// What weight decay makes smaller: all that is learnt, or all but biases and the parameters of
/// norms.
enum class DecayScope { kAll, kWeights };

/// "all", "weights"; another name is an Error that lists them.
[[nodiscard]] DecayScope decay_from_name(std::string_view name);
[[nodiscard]] std::string_view decay_name(DecayScope scope);

/// The update rules are PyTorch's of the same names.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double learning_rate = 1e-3;
  double momentum = 0.0;  ///< sgd only
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  DecayScope decay = DecayScope::kAll;
  bool operator==(const OptimizerOptions&) const = default;
};

enum class ScheduleKind { kConstant, kStep, kCosine };

[[nodiscard]] ScheduleKind schedule_from_name(std::string_view name);
[[nodiscard]] std::string_view schedule_name(ScheduleKind kind);

/// The learning rate of each step, as a factor of the optimiser's rate: a linear warm-up over
/// `warmup_steps`, then constant, or times `factor` every `every_steps`, or a half cosine that
/// falls to `floor` at `total_steps` and stays there.
struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;
  std::int64_t every_steps = 1000;
  double factor = 0.1;
  std::int64_t total_steps = 0;
  double floor = 0.0;
  bool operator==(const LearningRateSchedule&) const = default;

  /// Factor for a step that counts from 0.
  [[nodiscard]] double at(std::int64_t step) const;
};

/// What arithmetic a runtime uses. Weights, optimiser state, norms and losses are always kept in
/// the graph's own precision; the mixed policies run matrix products and convolutions in 16 bits.
/// fp16 scales the loss dynamically and skips steps that overflow; it needs a GPU. Automatic means
/// bf16 on a GPU that has it and full precision elsewhere.
enum class PrecisionPolicy { kFull, kBf16, kFp16, kAuto };

[[nodiscard]] PrecisionPolicy precision_from_name(std::string_view name);
[[nodiscard]] std::string_view precision_name(PrecisionPolicy policy);

class ProvingStages;

/// Whether and how a run is signed (docs/guides/custody.md). `secure` of a deployment switches it
/// on as well.
struct SecureOptions {
  bool on = false;
  /// The name of the key to sign with. Empty: the only one in the folder; where there is none, the
  /// user's own is made.
  std::string key = {};
  /// The folder of keys; empty: the user's. The keys of parts in other processes are looked up
  /// there.
  std::filesystem::path keys = {};
  /// Where the chain goes. A file that exists is an Error, unless a checkpoint of its run is
  /// loaded. Empty: tensors are signed and checked, and nothing is kept.
  std::filesystem::path chain = {};
  /// A file in the way that this run cannot go on with, such as the chain of other parts, is set
  /// aside as `….aside1` and is no Error.
  bool sets_aside = false;
  /// Announce the root over the weights every so many steps too; 0: only at the start, at
  /// checkpoints and at the end.
  std::int64_t weights_every = 0;
  /// Sign what every layer gave in training too: for those who look for the one that was wrong.
  bool layers = false;
  /// Parts compute with these and prove what they computed, with zero knowledge: what
  /// harmonics/proven/proofs.h makes of an int8 network. It switches `on` as well. Such a run
  /// computes and learns nothing, on the CPU; its weights are those of the network.
  std::shared_ptr<const ProvingStages> proofs = nullptr;

  [[nodiscard]] bool is_on() const { return on || proofs != nullptr; }
};

/// How the data of a run was cut up, as far as whoever bound it says so: kept in checkpoints, for
/// those who open the data again.
struct DataSettings {
  /// 0: not said; checkpoints then hold the rows of the largest batch that came.
  std::int64_t batch_size = 0;
  std::optional<double> test_split = std::nullopt;
  std::optional<bool> shuffle = std::nullopt;
  bool operator==(const DataSettings&) const = default;
};

/// What a checkpoint does to settings of learning (learning_settings.h) that differ from its own.
/// Yield: those that are the defaults give way to the checkpoint's; others were given and win, and
/// a warning says which. Keep: all stay as they are; the caller has compared them.
enum class SettingsOnLoad { kYield, kKeep };

struct RuntimeOptions {
  /// Start weights and dropout are functions of this seed and of names alone, so that a graph
  /// learns the same whole or in parts.
  std::uint64_t seed = 1;
  /// Threads inside one operation; 0 leaves libtorch's own choice. Process-wide.
  int threads = 0;
  /// Take deterministic operations, warn of one that has no such form, and never round float32 to
  /// less on a GPU. Process-wide.
  bool deterministic = true;
  /// Compute in the arithmetic of docs/formats/reproducible.md: the same bits on every CPU, GPU and
  /// OpenCL device, whatever its vectors and however many threads, parts or processes. In full
  /// precision only; a layer that it does not know is an Error that names it.
  bool reproducible = false;
  /// A batch is cut into this many micro-batches whose gradients are added up.
  int micro_batches = 1;
  /// Stretches of a stage's layers, of which training keeps what enters and computes the rest again
  /// going back: less memory, up to a third more time, the same numbers. 1 keeps everything, 0
  /// takes as many as hold the least at once.
  int recompute = 1;
  /// How a batch is dealt out to replicas, each of which cuts its share into micro_batches. One
  /// process takes given shares one after another, and otherwise the whole batch.
  BatchShares shares = {};
  OptimizerOptions optimizer = {};
  LearningRateSchedule schedule = {};
  /// Largest norm of all gradients together; 0 switches clipping off.
  double clip_norm = 0.0;
  PrecisionPolicy precision = PrecisionPolicy::kFull;
  Backend backend = Backend::CPU;
  std::optional<std::uint32_t> device_index = std::nullopt;
  /// A backend that this machine lacks is an error instead of a warning and the CPU.
  bool strict = false;
  /// Which OpenCL device the fpga backend takes; chosen by the rules of opencl_devices.h when
  /// unset.
  std::optional<std::uint32_t> fpga_device_index = std::nullopt;
  /// Most memory that this process takes of an OpenCL device; 0: all that it has.
  std::uint64_t device_memory_bytes = 0;
  /// Weights that a file holds in the precision that computes are used where they are mapped, as
  /// long as nothing trains: for runs that only compute. The file must not be cut short meanwhile.
  bool maps_weights = false;
  /// On a GPU: passes over batches of a size that keeps coming are recorded and launched as a
  /// whole. The numbers are the same.
  bool records = true;
  /// Files to which the passes of stages are appended, by the name of their graph, in the form of
  /// HARMONICS_PASS_TRACE, which counts for all others.
  std::map<std::string, std::filesystem::path> pass_traces = {};
  SecureOptions secure = {};
  DataSettings data = {};
  SettingsOnLoad on_load = SettingsOnLoad::kYield;

  /// The learning rate of a step that counts from 0: the optimiser's by the schedule. In a
  /// reproducible run without the C library's functions.
  [[nodiscard]] double rate_at(std::int64_t step) const;

  /// Throws an Error that names the first value that makes no sense.
  void check() const;
};

}  // namespace harmonics::inline in_runtime
