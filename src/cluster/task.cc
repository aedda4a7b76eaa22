#include <harmonics/cluster/task.h>

#include <algorithm>

#include <harmonics/base/error.h>

namespace harmonics::inline in_cluster {
namespace {

/// Refuses what is too long, and adds up what it has seen.
class TextLimits {
 public:
  void add(std::string_view field, std::string_view text) {
    if (text.size() > kMaxTaskTextBytes) {
      fail(ErrorCode::kInvalidArgument, "task: {}: {} bytes, at most {} are allowed", field,
           text.size(), kMaxTaskTextBytes);
    }
    if (text.find('\0') != text.npos) {
      fail(ErrorCode::kInvalidArgument, "task: {}: holds a zero byte; remove it", field);
    }
    total_ += text.size();
    if (total_ > kMaxTaskBytes) {
      fail(ErrorCode::kInvalidArgument,
           "task: more than {} bytes of text in all; pass large data as a file", kMaxTaskBytes);
    }
  }
  void add(std::string_view field, const TextPairs& pairs) {
    for (const auto& [key, value] : pairs) {
      if (key.empty()) fail(ErrorCode::kInvalidArgument, "task: {}: an empty key", field);
      if (key.find('=') != key.npos) {
        fail(ErrorCode::kInvalidArgument, "task: {}: the key '{}' holds '='", field, key);
      }
      add(field, key);
      add(field, value);
    }
  }
  void add(std::string_view field, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(field, text);
  }

 private:
  std::size_t total_ = 0;
};

void check_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    fail(ErrorCode::kInvalidArgument, "task: {} is {}, must be {} to {}", field, value, low, high);
  }
}

void check_count(std::string_view field, std::size_t count, std::size_t limit) {
  if (count > limit) {
    fail(ErrorCode::kInvalidArgument, "task: {} has {} entries, at most {} are allowed", field,
         count, limit);
  }
}

void check_sizes(std::span<const TaskFile> files) {
  check_count("files", files.size(), kMaxTaskFiles);
  std::size_t bytes = 0;
  for (const TaskFile& file : files) {
    bytes += file.path.size() + file.data.size();
    if (bytes <= kMaxTaskFileBytes) continue;
    fail(ErrorCode::kInvalidArgument,
         "task: files: with '{}' ({} bytes) they have more than the {} bytes that travel with a "
         "task; put large ones where the workers can read them",
         file.path, file.data.size(), kMaxTaskFileBytes);
  }
}

void check_pipeline(const TaskSpec& spec, TextLimits& texts) {
  const PipelineSpec& pipeline = *spec.pipeline;
  if (!spec.command.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: a pipeline has no command: leave one of them out");
  }
  check_range("stages", pipeline.stages, 0, kMaxPipelineStages);
  if (!spec.working_dir.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "task: the stages of a pipeline run in folders of their own: leave working_dir out");
  }
  if (spec.gang != std::max<std::uint32_t>(1, pipeline.stages)) {
    fail(ErrorCode::kInvalidArgument,
         "task: the gang of a pipeline follows from its stages: leave it out");
  }
  check_range("checkpoint_every", pipeline.checkpoint_every, 1, kMaxCheckpointSteps);
  check_count("bindings", pipeline.bindings.size(), kMaxTaskEntries);
  check_count("settings", pipeline.settings.size(), kMaxTaskEntries);
  texts.add("model", pipeline.model);
  texts.add("graph", pipeline.graph);
  texts.add("bindings", pipeline.bindings);
  texts.add("settings", pipeline.settings);
  texts.add("checkpoint", pipeline.checkpoint);
}

}  // namespace

std::string_view to_string(OnDisconnect wish) {
  switch (wish) {
    case OnDisconnect::kStop: return "stop";
    case OnDisconnect::kForever: return "forever";
    case OnDisconnect::kContinue: return "continue";
  }
  return "unknown";
}

std::string to_string(AttemptId id) { return format("{}.{}", id.task.value, id.attempt.value); }

Needs needs_of(const TaskSpec& spec) {
  // Without devices the memory of devices does not matter; one spelling lets such tasks queue
  // together.
  return {spec.required_gpus, spec.required_gpus == 0 ? 0 : spec.min_gpu_memory_mb, spec.cpus,
          spec.memory_mb};
}

std::uint32_t default_cpus(const TaskSpec& spec) {
  return spec.required_gpus == 0 && !spec.pipeline ? 1 : 0;
}

void lift_old_settings(PipelineSpec& spec) {
  std::erase_if(spec.settings, [&spec](const auto& setting) {
    const auto& [key, value] = setting;
    if (key != "elastic" && key != "secure") return false;
    bool& wish = key == "elastic" ? spec.elastic : spec.secure;
    wish = wish || value == "true";
    return true;
  });
}

void set_pipeline(TaskSpec& spec, PipelineSpec pipeline) {
  spec.gang = std::max<std::uint32_t>(1, pipeline.stages);
  spec.pipeline = std::move(pipeline);
}

void check_task(const TaskSpec& spec) {
  constexpr std::int64_t kMaxMemory = std::int64_t{1} << 40;
  if (spec.name.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: the name is missing; give it one (\"name\", --name)");
  }
  check_range("length of name", static_cast<std::int64_t>(spec.name.size()), 1, kMaxTaskNameBytes);
  check_range("required_gpus", spec.required_gpus, 0, kMaxDevicesPerWorker);
  check_range("min_gpu_memory", static_cast<std::int64_t>(spec.min_gpu_memory_mb), 0, kMaxMemory);
  check_range("cpus", spec.cpus, 0, 1 << 16);
  check_range("memory_mb", static_cast<std::int64_t>(spec.memory_mb), 0, kMaxMemory);
  check_range("timeout_s", spec.timeout_s, 0, kMaxTaskTimeoutSeconds);
  check_range("max_retries", spec.max_retries, 0, kMaxTaskRetries);
  if (spec.max_losses != kUnlimitedLosses) {
    check_range("max_losses", spec.max_losses, 1, kMaxTaskLosses);
  }
  check_range("priority", spec.priority, -kMaxTaskPriority, kMaxTaskPriority);
  check_range("gang", spec.gang, 1, kMaxGangWorkers);
  check_range("array", spec.array, 0, kMaxArrayTasks);
  check_count("params", spec.params.size(), kMaxTaskEntries);
  check_count("env", spec.env.size(), kMaxTaskEntries);
  check_count("command", spec.command.size(), kMaxTaskEntries);
  check_count("artifacts", spec.artifacts.size(), kMaxTaskEntries);
  check_count("depends_on", spec.depends_on.size(), kMaxTaskDependencies);
  check_sizes(spec.files.all());
  TextLimits texts;
  texts.add("name", spec.name);
  texts.add("params", spec.params);
  texts.add("env", spec.env);
  texts.add("command", spec.command);
  texts.add("artifacts", spec.artifacts);
  texts.add("working_dir", spec.working_dir);
  texts.add("idempotency_key", spec.idempotency_key);
  if (spec.pipeline) check_pipeline(spec, texts);
  if (!spec.command.empty() && spec.command.front().empty()) {
    fail(ErrorCode::kInvalidArgument, "task: command: the program's name is empty");
  }
}

void check_artifacts(const TaskSpec& spec) {
  for (const std::string& pattern : spec.artifacts) {
    // Part by part: a name may hold dots, "a..b" is one.
    const bool leaves = ("/" + pattern + "/").find("/../") != std::string::npos;
    if (!pattern.empty() && pattern.front() != '/' && !leaves) continue;
    fail(ErrorCode::kInvalidArgument,
         "task: artifacts: '{}' must be a path below the task's working directory", pattern);
  }
}

}  // namespace harmonics::inline in_cluster
