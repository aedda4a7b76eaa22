// What a task needs of a worker: devices or a share of one, cores, memory, and on what terms.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <harmonics/cluster/pipeline.h>

namespace harmonics::inline in_cluster {

/// Shares of devices, and weights of variants, are counted in these: exact, where sums of decimal
/// fractions are not.
inline constexpr std::uint32_t kWholeDevice = 10'000;
inline constexpr std::size_t kMaxResources = 32;   // kinds, of a worker or a task
inline constexpr std::size_t kMaxLabels = 64;      // of a worker or a task
inline constexpr std::size_t kMaxVariants = 8;     // beside what the task itself says
inline constexpr std::size_t kMaxTermBytes = 128;  // a name of a resource, label, model, group
inline constexpr std::uint64_t kMaxResourceCount = std::uint64_t{1} << 40;

/// So many of each, by name ("fpga", "tokens"); names differ.
using ResourceCounts = std::vector<std::pair<std::string, std::uint64_t>>;
/// How many there are of one; 0: none.
[[nodiscard]] std::uint64_t count_of(const ResourceCounts& counts, std::string_view name);

/// What few tasks ask for. The key "needs" of task JSON; a value.
struct TaskTerms {
  ResourceCounts resources{};             ///< Of each worker, for itself alone.
  std::vector<std::string> gpu_models{};  ///< Its devices are of one of these; empty: of any.
  TextPairs labels{};                     ///< That its workers have.
  std::string apart{};  ///< No two tasks with the same word here run on one worker.
  bool operator==(const TaskTerms&) const = default;
  auto operator<=>(const TaskTerms&) const = default;
};

/// Terms or none, in the room of a pointer and shared by copies. Compares by value.
class MaybeTerms {
 public:
  MaybeTerms() = default;
  MaybeTerms(TaskTerms terms)
      : terms_(terms == TaskTerms{} ? nullptr
                                    : std::make_shared<const TaskTerms>(std::move(terms))) {}
  [[nodiscard]] explicit operator bool() const { return terms_ != nullptr; }
  const TaskTerms& operator*() const { return *terms_; }
  const TaskTerms* operator->() const { return terms_.get(); }
  bool operator==(const MaybeTerms& other) const {
    return terms_ == other.terms_ || (terms_ && other.terms_ && *terms_ == *other.terms_);
  }
  std::strong_ordering operator<=>(const MaybeTerms& other) const {
    if (terms_ == other.terms_) return std::strong_ordering::equal;
    if (!terms_ || !other.terms_) return (terms_ != nullptr) <=> (other.terms_ != nullptr);
    return *terms_ <=> *other.terms_;
  }

 private:
  std::shared_ptr<const TaskTerms> terms_;
};

/// Other amounts with which the task runs as well. Models, labels and the group are the task's.
struct TaskVariant {
  std::uint32_t required_gpus = 0;
  std::uint32_t gpu_share = kWholeDevice;
  std::uint64_t min_gpu_memory_mb = 4096;
  std::uint32_t cpus = 0;
  std::uint64_t memory_mb = 0;
  ResourceCounts resources{};
  /// The task itself weighs kWholeDevice; of what fits, the heaviest is taken.
  std::uint32_t weight = kWholeDevice;
  bool operator==(const TaskVariant&) const = default;
  auto operator<=>(const TaskVariant&) const = default;
};

/// Variants or none, in the room of a pointer and shared by copies. Compares by value.
class TaskVariants {
 public:
  TaskVariants() = default;
  TaskVariants(std::vector<TaskVariant> variants)
      : list_(variants.empty()
                  ? nullptr
                  : std::make_shared<const std::vector<TaskVariant>>(std::move(variants))) {}
  [[nodiscard]] bool empty() const { return list_ == nullptr; }
  [[nodiscard]] std::span<const TaskVariant> all() const {
    return empty() ? std::span<const TaskVariant>() : std::span<const TaskVariant>(*list_);
  }
  bool operator==(const TaskVariants& other) const {
    return list_ == other.list_ || (list_ && other.list_ && *list_ == *other.list_);
  }
  std::strong_ordering operator<=>(const TaskVariants& other) const {
    if (list_ == other.list_) return std::strong_ordering::equal;
    if (!list_ || !other.list_) return (list_ != nullptr) <=> (other.list_ != nullptr);
    return *list_ <=> *other.list_;
  }

 private:
  std::shared_ptr<const std::vector<TaskVariant>> list_;
};

/// What one worker must have free for a task.
struct Needs {
  std::uint32_t gpus = 0;
  std::uint64_t gpu_memory_mb = 0;
  std::uint32_t cpus = 0;
  std::uint64_t memory_mb = 0;
  std::uint32_t share = kWholeDevice;  ///< Of each device.
  MaybeTerms terms{};
  bool operator==(const Needs&) const = default;
  auto operator<=>(const Needs&) const = default;

  /// Whole devices, cores and memory are all that it needs.
  [[nodiscard]] bool plain() const { return share == kWholeDevice && !terms; }
  /// Of all devices together.
  [[nodiscard]] std::uint64_t units() const { return std::uint64_t{gpus} * share; }
};

/// Whether a device of that model is one that `wanted` names: the name or whole words of it, in
/// letters of either case. "A100" is "NVIDIA A100-SXM4-80GB", "A10" is not.
[[nodiscard]] bool is_model(std::string_view model, std::string_view wanted);

/// "0.25" for 2,500: as many digits as it takes.
[[nodiscard]] std::string share_text(std::uint64_t units);

}  // namespace harmonics::inline in_cluster
