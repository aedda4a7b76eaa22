// What a task consists of, said once. Task JSON, the bytes of a store, the messages of rpc, the
// limits of `check_task` and the views of a server all go through these lines: a new field is a
// member of its record and a line here.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <harmonics/cluster/task.h>

namespace harmonics::inline in_cluster {

inline constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMaxTaskMemoryMb = std::int64_t{1} << 40;

/// What is said of a field beyond its type.
struct TaskField {
  std::string_view key;            ///< In task JSON and in errors.
  std::string_view wire = key;     ///< In cluster.proto.
  std::int64_t low = 0;            ///< Of a number: the least
  std::int64_t high = kAnyNumber;  ///< and the largest.
  std::string_view word{};         ///< In task JSON, for the number `means`.
  std::int64_t means = 0;          ///< Allowed, even if it is not from `low` to `high`.
  bool always = false;             ///< Task JSON shows it even where it is the default.
  bool shell = false;              ///< In task JSON a text stands for a command of the shell.
  bool unset_if_zero = false;  ///< A message without it, as of earlier peers, means the default.
  bool parts = false;   ///< Task JSON says 0.25 where the number is a quarter of kWholeDevice.
  bool joined = false;  ///< Task JSON says it with "required_gpus".
  /// A field that a store of an earlier version does not hold: the bit, its own for good, that says
  /// that it follows. In stores the others stand in the order of these lines.
  std::uint64_t bit = 0;
};

/// Said of a visitor that every task passes through, when it is stored or read back: what it asks
/// of a field is known where it is compiled then, and no field is put together at run time.
#define HARMONICS_WITH_ITS_FIELD __attribute__((always_inline))

/// Calls `visit(TaskField, pointer to member)` for each field, in the order of task JSON.
template <typename Visit>
void visit_fields(std::type_identity<TaskSpec>, Visit&& visit) {
  using Task = TaskSpec;
  using Field = TaskField;
  visit(Field{.key = "name", .always = true}, &Task::name);
  visit(Field{.key = "required_gpus", .high = kMaxDevicesPerWorker, .always = true},
        &Task::required_gpus);
  visit(Field{.key = "min_gpu_memory",
              .wire = "min_gpu_memory_mb",
              .high = kMaxTaskMemoryMb,
              .always = true},
        &Task::min_gpu_memory_mb);
  visit(Field{.key = "params", .always = true}, &Task::params);
  visit(Field{.key = "command", .shell = true}, &Task::command);
  visit(Field{.key = "env"}, &Task::env);
  visit(Field{.key = "working_dir"}, &Task::working_dir);
  visit(Field{.key = "cpus", .high = 1 << 16}, &Task::cpus);
  visit(Field{.key = "memory_mb", .high = kMaxTaskMemoryMb}, &Task::memory_mb);
  visit(Field{.key = "timeout_s", .high = kMaxTaskTimeoutSeconds}, &Task::timeout_s);
  visit(Field{.key = "max_retries", .high = kMaxTaskRetries}, &Task::max_retries);
  visit(Field{.key = "max_losses",
              .low = 1,
              .high = kMaxTaskLosses,
              .word = "unlimited",
              .means = kUnlimitedLosses,
              .unset_if_zero = true,
              .bit = 4},
        &Task::max_losses);
  visit(Field{.key = "priority", .low = -kMaxTaskPriority, .high = kMaxTaskPriority},
        &Task::priority);
  visit(Field{.key = "gang", .low = 1, .high = kMaxGangWorkers}, &Task::gang);
  visit(Field{.key = "array", .high = kMaxArrayTasks}, &Task::array);
  visit(Field{.key = "depends_on"}, &Task::depends_on);
  visit(Field{.key = "idempotency_key"}, &Task::idempotency_key);
  visit(Field{.key = "artifacts"}, &Task::artifacts);
  visit(Field{.key = "on_disconnect"}, &Task::on_disconnect);  // Bits 1 and 8: fact_codec.cc.
  visit(Field{.key = "pipeline", .bit = 2}, &Task::pipeline);
  visit(Field{.key = "files", .bit = 64}, &Task::files);
  visit(Field{.key = "gpu_share",
              .low = 1,
              .high = kWholeDevice,
              .unset_if_zero = true,
              .joined = true,
              .bit = 128},
        &Task::gpu_share);
  visit(Field{.key = "needs", .bit = 256}, &Task::terms);
  visit(Field{.key = "variants", .bit = 512}, &Task::variants);
  visit(Field{.key = "wait_for_machines", .bit = 1024}, &Task::wait_for_machines);
  visit(Field{.key = "container", .bit = 2048}, &Task::container);
}

/// The same of a task's terms. In stores they stand in the order of these lines.
template <typename Visit>
void visit_fields(std::type_identity<TaskTerms>, Visit&& visit) {
  visit(TaskField{.key = "resources"}, &TaskTerms::resources);
  visit(TaskField{.key = "gpu_models"}, &TaskTerms::gpu_models);
  visit(TaskField{.key = "labels"}, &TaskTerms::labels);
  visit(TaskField{.key = "apart"}, &TaskTerms::apart);
}

/// The same of a variant.
template <typename Visit>
void visit_fields(std::type_identity<TaskVariant>, Visit&& visit) {
  using Variant = TaskVariant;
  using Field = TaskField;
  visit(Field{.key = "required_gpus", .high = kMaxDevicesPerWorker, .always = true},
        &Variant::required_gpus);
  visit(Field{.key = "gpu_share", .low = 1, .high = kWholeDevice, .joined = true},
        &Variant::gpu_share);
  visit(Field{.key = "min_gpu_memory",
              .wire = "min_gpu_memory_mb",
              .high = kMaxTaskMemoryMb,
              .always = true},
        &Variant::min_gpu_memory_mb);
  visit(Field{.key = "cpus", .high = 1 << 16}, &Variant::cpus);
  visit(Field{.key = "memory_mb", .high = kMaxTaskMemoryMb}, &Variant::memory_mb);
  visit(Field{.key = "resources"}, &Variant::resources);
  visit(Field{.key = "weight", .low = 1, .high = 1'000 * std::int64_t{kWholeDevice}, .parts = true},
        &Variant::weight);
}

/// The same of a pipeline. In stores its flags are one number at the end, the first in its lowest
/// bit; fields with a bit of their own, which stands above those of flags, follow it.
template <typename Visit>
void visit_fields(std::type_identity<PipelineSpec>, Visit&& visit) {
  using Pipeline = PipelineSpec;
  using Field = TaskField;
  visit(Field{.key = "model"}, &Pipeline::model);
  visit(Field{.key = "graph"}, &Pipeline::graph);
  visit(Field{.key = "stages", .high = kMaxPipelineStages, .word = "auto"}, &Pipeline::stages);
  visit(Field{.key = "bind", .wire = "bindings"}, &Pipeline::bindings);
  visit(Field{.key = "settings"}, &Pipeline::settings);
  visit(Field{.key = "checkpoint"}, &Pipeline::checkpoint);
  visit(Field{.key = "checkpoint_every", .low = 1, .high = kMaxCheckpointSteps},
        &Pipeline::checkpoint_every);
  visit(Field{.key = "profile"}, &Pipeline::profile);
  visit(Field{.key = "trace"}, &Pipeline::trace);
  visit(Field{.key = "elastic"}, &Pipeline::elastic);
  visit(Field{.key = "secure"}, &Pipeline::secure);
  visit(Field{.key = "infer"}, &Pipeline::infer);
  visit(Field{.key = "weights", .bit = 1 << 16}, &Pipeline::weights);
  visit(Field{.key = "weights_digest", .bit = 1 << 17}, &Pipeline::weights_digest);
  visit(Field{.key = "out", .wire = "outputs", .bit = 1 << 18}, &Pipeline::outputs);
}

/// The same of a file, whose content task JSON calls "text" or "hex".
template <typename Visit>
void visit_fields(std::type_identity<TaskFile>, Visit&& visit) {
  visit(TaskField{.key = "path"}, &TaskFile::path);
  visit(TaskField{.key = "data"}, &TaskFile::data);
  visit(TaskField{.key = "executable"}, &TaskFile::executable);
}

}  // namespace harmonics::inline in_cluster
