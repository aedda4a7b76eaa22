#include <harmonics/cluster/task.h>

#include <algorithm>
#include <concepts>
#include <set>

#include <harmonics/base/error.h>
#include <harmonics/cluster/task_fields.h>

namespace harmonics::inline in_cluster {
namespace {

void check_count(std::string_view key, std::size_t count, std::size_t limit) {
  if (count > limit) {
    fail(ErrorCode::kInvalidArgument, "task: {} has {} entries, at most {} are allowed", key, count,
         limit);
  }
}

void check_share(std::uint32_t gpus, std::uint32_t share) {
  if (share == kWholeDevice || gpus == 1) return;
  fail(ErrorCode::kInvalidArgument,
       "task: a share of a GPU is of one: ask for 0.0001 to 0.9999, or for whole GPUs");
}

/// Refuses a field that is outside its limits, and adds up the text that it has seen.
class FieldLimits {
 public:
  template <typename Record>
  void check(const Record& record) {
    visit_fields(std::type_identity<Record>(),
                 [&](const TaskField& field, auto member) HARMONICS_WITH_ITS_FIELD {
                   if constexpr (std::integral<std::remove_cvref_t<decltype(record.*member)>>) {
                     check_number(field, record.*member);
                   } else {
                     check(field.key, record.*member);
                   }
                 });
  }

 private:
  HARMONICS_WITH_ITS_FIELD static void check_number(const TaskField& field,
                                                    std::integral auto value) {
    const auto number = static_cast<std::int64_t>(value);
    if (!field.word.empty() && number == field.means) return;
    if (number < field.low || number > field.high) refuse(field, number);
  }
  [[noreturn, gnu::cold, gnu::noinline]] static void refuse(const TaskField& field,
                                                            std::int64_t number) {
    fail(ErrorCode::kInvalidArgument, "task: {} is {}, must be {} to {}", field.key, number,
         field.low, field.high);
  }
  void check(std::string_view field, std::string_view text) {
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
  void check(std::string_view field, const TextPairs& pairs) {
    check_count(field, pairs.size(), kMaxTaskEntries);
    for (const auto& [key, value] : pairs) {
      if (key.empty()) fail(ErrorCode::kInvalidArgument, "task: {}: an empty key", field);
      if (key.find('=') != key.npos) {
        fail(ErrorCode::kInvalidArgument, "task: {}: the key '{}' holds '='", field, key);
      }
      check(field, key);
      check(field, value);
    }
  }
  void check(std::string_view field, const std::vector<std::string>& texts) {
    check_count(field, texts.size(), kMaxTaskEntries);
    for (const std::string& text : texts) check(field, text);
  }
  void check(std::string_view field, const std::vector<TaskId>& tasks) {
    check_count(field, tasks.size(), kMaxTaskDependencies);
  }
  void check(std::string_view, OnDisconnect) {}
  void check(std::string_view, const MaybePipeline& pipeline) {
    if (pipeline) check(*pipeline);
  }
  void check(std::string_view field, const TaskFiles& files) {
    check_count(field, files.all().size(), kMaxTaskFiles);
    std::size_t bytes = 0;
    for (const TaskFile& file : files.all()) {
      bytes += file.path.size() + file.data.size();
      if (bytes <= kMaxTaskFileBytes) continue;
      fail(ErrorCode::kInvalidArgument,
           "task: files: with '{}' ({} bytes) they have more than the {} bytes that travel with a "
           "task; put large ones where the workers can read them",
           file.path, file.data.size(), kMaxTaskFileBytes);
    }
  }

  void check(std::string_view field, const ResourceCounts& counts) {
    check_count(field, counts.size(), kMaxResources);
    std::set<std::string_view> names;
    for (const auto& [name, count] : counts) {
      check_term(field, name);
      if (!names.insert(name).second) {
        fail(ErrorCode::kInvalidArgument, "task: {}: '{}' is named twice", field, name);
      }
      if (count <= kMaxResourceCount) continue;
      fail(ErrorCode::kInvalidArgument, "task: {}: {} of '{}', at most {} are possible", field,
           count, name, kMaxResourceCount);
    }
  }
  void check(std::string_view, const MaybeTerms& terms) {
    if (!terms) return;
    check(*terms);
    for (const std::string& model : terms->gpu_models) check_term("gpu_models", model);
    for (const auto& [key, value] : terms->labels) check_term("labels", key);
    check_count("labels", terms->labels.size(), kMaxLabels);
    if (!terms->apart.empty()) check_term("apart", terms->apart);
  }
  void check(std::string_view field, const TaskVariants& variants) {
    check_count(field, variants.all().size(), kMaxVariants);
    for (const TaskVariant& variant : variants.all()) {
      check(variant);
      check_share(variant.required_gpus, variant.gpu_share);
    }
  }
  void check_term(std::string_view field, std::string_view name) {
    check(field, name);
    if (!name.empty() && name.size() <= kMaxTermBytes) return;
    fail(ErrorCode::kInvalidArgument, "task: {}: '{}' has {} bytes, must have 1 to {}", field, name,
         name.size(), kMaxTermBytes);
  }

  std::size_t total_ = 0;
};

/// What the fields of a pipeline leave no room for.
void check_pipeline(const TaskSpec& spec) {
  if (!spec.command.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: a pipeline has no command: leave one of them out");
  }
  if (!spec.working_dir.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "task: the stages of a pipeline run in folders of their own: leave working_dir out");
  }
  if (spec.gang != std::max<std::uint32_t>(1, spec.pipeline->stages)) {
    fail(ErrorCode::kInvalidArgument,
         "task: the gang of a pipeline follows from its stages: leave it out");
  }
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

std::string output_file(std::string_view output) {
  return std::string(output.substr(std::min(output.size(), kCsvOutput.size())));
}

namespace {

/// Names that the folder of a stage has for itself.
bool is_of_stage_folder(std::string_view file) {
  const std::string_view first = file.substr(0, file.find('/'));
  for (const std::string_view own :
       {"run", "state", "stop", "progress", "artifacts", "model.harp", "plan.yml", ".", ""}) {
    if (first == own) return true;
  }
  for (const std::string_view stream : {"out.", "err.", "metrics."}) {
    if (first.starts_with(stream) &&
        first.find_first_not_of("0123456789", stream.size()) == first.npos) {
      return true;
    }
  }
  return false;
}

void check_output(const std::string& name, const std::string& output) {
  const std::string file = output_file(output);
  // Of plain parts: no "..", no pattern, and a name that says one thing.
  const bool plain = file.find_first_of("*?[]\\\n") == file.npos;
  const bool leaves = ("/" + file + "/").find("/../") != std::string::npos;
  if (!output.starts_with(kCsvOutput) || file.empty() || file.front() == '/' ||
      file.back() == '/' || leaves || !plain) {
    fail(ErrorCode::kInvalidArgument,
         "task: out: {}: '{}' must be csv:FILE, with FILE a path below the task's folder, from "
         "where 'harmonics artifacts' fetches it",
         name, output);
  }
  if (is_of_stage_folder(file)) {
    fail(ErrorCode::kInvalidArgument,
         "task: out: {}: '{}' is a name that the task's folder has for itself: choose another",
         name, file);
  }
}

}  // namespace

void check_inference(const PipelineSpec& spec) {
  if (!spec.infer) {
    if (spec.weights.empty() && spec.outputs.empty()) return;
    fail(ErrorCode::kInvalidArgument,
         "task: a pipeline that trains has no weights and outputs of its own: say infer, or leave "
         "them out");
  }
  if (spec.weights.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: a pipeline that infers needs weights");
  }
  if (spec.outputs.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: a pipeline that infers needs an output (out)");
  }
  std::set<std::string> files;
  for (const auto& [name, output] : spec.outputs) {
    check_output(name, output);
    const std::string file = output_file(output);
    if (!files.insert(file).second) {
      fail(ErrorCode::kInvalidArgument, "task: out: two consumers write to '{}'", file);
    }
  }
}

void set_pipeline(TaskSpec& spec, PipelineSpec pipeline) {
  spec.gang = std::max<std::uint32_t>(1, pipeline.stages);
  spec.pipeline = std::move(pipeline);
}

void check_task(const TaskSpec& spec) {
  if (spec.name.empty()) {
    fail(ErrorCode::kInvalidArgument, "task: the name is missing; give it one (\"name\", --name)");
  }
  if (spec.name.size() > kMaxTaskNameBytes) {
    fail(ErrorCode::kInvalidArgument, "task: length of name is {}, must be 1 to {}",
         spec.name.size(), kMaxTaskNameBytes);
  }
  FieldLimits().check(spec);
  check_share(spec.required_gpus, spec.gpu_share);
  if (!spec.container.empty() && spec.command.empty() && !spec.pipeline) {
    fail(ErrorCode::kInvalidArgument, "task: a container needs a command to run in it");
  }
  if (spec.pipeline && (!spec.variants.empty() || !spec.container.empty())) {
    fail(ErrorCode::kInvalidArgument,
         "task: a pipeline has no variants and no container: leave them out");
  }
  if (spec.pipeline) check_pipeline(spec);
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
