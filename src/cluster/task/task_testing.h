// Tasks with every field that there is, for tests of what writes and reads them.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <utility>

#include <harmonics/base/random.h>
#include <harmonics/cluster/task_fields.h>

namespace harmonics::inline in_cluster {

/// Gives the fields of a record values within their limits.
class TaskFiller {
 public:
  /// `every`: each field gets a value that differs from its default; else chance leaves some.
  TaskFiller(Random& random, bool every) : random_(random), every_(every) {}

  template <typename Record>
  Record filled() {
    Record record;
    visit_fields(std::type_identity<Record>(), [&](const TaskField& field, auto member) {
      if (!every_ && !field.always && random_.below(3) == 0) return;
      const auto unset = record.*member;
      do fill(field, record.*member);
      while (record.*member == unset);
    });
    return record;
  }

 private:
  void fill(const TaskField& field, std::integral auto& number) {
    const auto span = std::min<std::uint64_t>(field.high - field.low, 999);
    const std::int64_t drawn = field.low + static_cast<std::int64_t>(random_.below(span + 1));
    number = static_cast<std::remove_reference_t<decltype(number)>>(
        !field.word.empty() && random_.below(8) == 0 ? field.means : drawn);
  }
  void fill(const TaskField&, bool& flag) { flag = true; }
  void fill(const TaskField& field, std::string& text) {
    text = std::string(field.key) + " \"\u00fc\"\n";
    for (std::uint64_t n = random_.below(random_.below(8) == 0 ? 200 : 12); n > 0; --n) {
      text += static_cast<char>(' ' + random_.below(95));
    }
  }
  void fill(const TaskField& field, TextPairs& pairs) {
    pairs.clear();
    for (std::uint64_t n = 1 + random_.below(3); n > 0; --n) {
      fill(field, pairs.emplace_back("key " + std::to_string(n), "").second);
    }
  }
  void fill(const TaskField& field, std::vector<std::string>& texts) {
    texts.resize(1 + random_.below(3));
    for (std::string& text : texts) fill(field, text);
    if (texts.size() > 1) texts.back().clear();
  }
  void fill(const TaskField&, std::vector<TaskId>& tasks) {
    tasks = {TaskId{random_()}, TaskId{random_()}};
  }
  void fill(const TaskField&, OnDisconnect& wish) {
    wish = static_cast<OnDisconnect>(random_.below(3));
  }
  void fill(const TaskField&, MaybePipeline& pipeline) { pipeline = filled<PipelineSpec>(); }
  void fill(const TaskField&, TaskFiles& files) {
    std::vector<TaskFile> list(3);
    list[0] = filled<TaskFile>();
    list[1] = {"data/raw", std::string("\0\xff", 2), false};
    files = std::move(list);
  }

  void fill(const TaskField&, ResourceCounts& counts) {
    counts = {{"fpga", 1 + random_.below(4)}, {"tokens of \"x\"", random_.below(100)}};
  }
  void fill(const TaskField&, MaybeTerms& terms) { terms = filled<TaskTerms>(); }
  void fill(const TaskField&, TaskVariants& variants) {
    std::vector<TaskVariant> list(1 + random_.below(3));
    for (TaskVariant& variant : list) {
      variant = filled<TaskVariant>();
      if (variant.gpu_share != kWholeDevice) variant.required_gpus = 1;
    }
    variants = std::move(list);
  }

  Random& random_;
  bool every_;
};

/// One that may be submitted: with a command, or a pipeline.
inline TaskSpec random_task_spec(Random& random, bool every, bool pipeline) {
  auto spec = TaskFiller(random, every).filled<TaskSpec>();
  if (spec.gpu_share != kWholeDevice) spec.required_gpus = 1;
  if (spec.terms) {
    TaskTerms terms = *spec.terms;
    terms.apart.resize(std::min<std::size_t>(terms.apart.size(), kMaxTermBytes));
    for (std::string& model : terms.gpu_models) model = "V" + model.substr(0, kMaxTermBytes - 1);
    spec.terms = std::move(terms);
  }
  if (pipeline) {
    spec.variants = {};
    spec.container.clear();
    set_pipeline(spec, spec.pipeline ? *spec.pipeline : PipelineSpec{});
    spec.command.clear();
    spec.working_dir.clear();
  } else {
    spec.pipeline = {};
    if (spec.command.empty()) spec.container.clear();
  }
  return spec;
}

}  // namespace harmonics::inline in_cluster
