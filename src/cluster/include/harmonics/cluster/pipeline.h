// A graph that is trained, or run over data, in stages, each on a worker of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace harmonics::inline in_cluster {

/// Keys in the order in which they were given.
using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// The most stages of a pipeline, and so the most workers that one is planned on.
inline constexpr std::uint32_t kMaxPipelineStages = 64;
/// The longest text of a plan: it goes through a variable of the environment.
inline constexpr std::size_t kMaxPlanBytes = 64 << 10;
inline constexpr std::uint32_t kMaxCheckpointSteps = 1'000'000'000;

/// What is trained or run, and how. The key "pipeline" of task JSON; a value.
struct PipelineSpec {
  std::string model{};       ///< Where the graph comes from, for people: a file.
  std::string graph{};       ///< Its .harp text; all shapes must be known from it alone.
  std::uint32_t stages = 0;  ///< 0: as many as the plan finds best.
  TextPairs bindings{};      ///< A source for each producer, as workers see it.
  TextPairs settings{};      ///< Keys of the train section, such as epochs.
  /// A folder that the server and all workers see; empty: one in the server's state folder.
  std::string checkpoint{};
  std::uint32_t checkpoint_every = 100;  ///< Steps.
  bool profile = false;  ///< Measure the model on each worker before the first plan.
  bool trace = false;    ///< Keep when each stage worked on what, in its folder.
  bool elastic = false;  ///< Move to a better plan when workers join.
  bool secure = false;   ///< Sign and check what goes between stages.
  bool infer = false;    ///< Rows of the data go through the model, which learns nothing.
  // Of inference alone.
  std::string weights{};         ///< A file that all workers see.
  std::string weights_digest{};  ///< SHA-256 of what it held when it was submitted, in hex.
  TextPairs outputs{};           ///< By consumer: "csv:FILE", an artifact of the task.
  bool operator==(const PipelineSpec&) const = default;
};

/// The form of an output.
inline constexpr std::string_view kCsvOutput = "csv:";
/// The artifact that an output is; it has passed `check_inference`.
[[nodiscard]] std::string output_file(std::string_view output);
/// Throws an `Error` (kInvalidArgument) for a pipeline that infers and has no weights, no output,
/// or one that is no file below the task's folder; and for one that trains and has any of these.
void check_inference(const PipelineSpec& spec);

/// Tasks of earlier versions said "elastic" and "secure" among the settings: makes them fields.
void lift_old_settings(PipelineSpec& spec);

/// A pipeline or none, in the room of a pointer: most tasks have none. Compares by value.
class MaybePipeline {
 public:
  MaybePipeline() = default;
  MaybePipeline(PipelineSpec spec) : spec_(std::make_shared<const PipelineSpec>(std::move(spec))) {}
  [[nodiscard]] explicit operator bool() const { return spec_ != nullptr; }
  const PipelineSpec& operator*() const { return *spec_; }
  const PipelineSpec* operator->() const { return spec_.get(); }
  bool operator==(const MaybePipeline& other) const {
    return spec_ == other.spec_ || (spec_ && other.spec_ && *spec_ == *other.spec_);
  }

 private:
  std::shared_ptr<const PipelineSpec> spec_;
};

}  // namespace harmonics::inline in_cluster
