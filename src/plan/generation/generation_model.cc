#include <algorithm>
#include <ranges>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/generation.h>

#include "step_times.h"

namespace harmonics::inline in_plan {
namespace {

constexpr const char* kDtype = "torch.float32";  // what crosses from stage to stage
// Of whoever takes the logits: so much that it never counts.
constexpr double kUnboundMbps = 1e15;
constexpr double kUnboundMb = 1e15;

void check_range(std::string_view what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  fail(ErrorCode::kInvalidArgument, "{}: {} is not in 1..{}", what, value, most);
}

std::int64_t parts_of(std::int64_t whole, std::int64_t piece) {
  return (whole + piece - 1) / piece;
}

// One more layer, behind the last, on a class of its own.
void add_answers(PlanProblem& problem) {
  const std::size_t layers = problem.layers();
  const std::size_t classes = problem.classes.size();
  for (HostClass& one : problem.classes) {
    one.layer_time_s.push_back(0);
    one.barred.resize(layers, false);
    one.barred.push_back(true);
  }
  problem.layer_memory_mb.push_back(0);
  problem.cut_bytes.push_back(0);
  HostClass taker;
  taker.hosts = {"whoever generates"};
  taker.type = taker.hosts.front();
  taker.bandwidth_mbps = kUnboundMbps;
  taker.memory_mb = kUnboundMb;
  taker.layer_time_s.assign(layers + 1, 0);
  taker.barred.assign(layers + 1, true);
  taker.barred.back() = false;
  problem.classes.push_back(std::move(taker));
  if (!problem.order.empty()) problem.order.push_back(classes);
  const auto widen = [&](std::vector<double>& table, double value) {
    if (table.empty()) return;
    std::vector<double> wide((classes + 1) * (classes + 1), value);
    for (std::size_t u = 0; u < classes; ++u) {
      std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(u * classes), classes,
                  wide.begin() + static_cast<std::ptrdiff_t>(u * (classes + 1)));
    }
    table = std::move(wide);
  };
  widen(problem.link_mbps, kUnboundMbps);
  widen(problem.link_latency_s, 0);
}

const TokenTimesList* measured_of(const PlanInputs& inputs, const std::string& type,
                                  const std::string& model) {
  const auto known = inputs.types.find(type);
  if (known == inputs.types.end()) return nullptr;
  const auto found = known->second.generation.find(model);
  return found == known->second.generation.end() ? nullptr : &found->second;
}

}  // namespace

std::string_view generation_goal_name(GenerationGoal goal) {
  switch (goal) {
    case GenerationGoal::kTokens: return "tokens";
    case GenerationGoal::kFirstToken: return "first-token";
    case GenerationGoal::kBoth: break;
  }
  return "both";
}

GenerationModel::GenerationModel(const PlanInputs& inputs, const GenerationWish& wish)
    : wish_(wish), inputs_(inputs) {
  check_range("context", wish.context, kMaxPlannedContext);
  check_range("sequences", wish.sequences, kMaxPlannedSequences);
  check_range("chunk", wish.chunk, kMaxPlannedContext);
  if (wish_.prompt == 0) wish_.prompt = std::max<std::int64_t>(1, wish.context / 2);
  check_range("prompt (it counts in the context)", wish_.prompt, wish.context);
  std::string& name = wish_.hosts.model;
  if (inputs.models.contains(name + std::string(kGenerationSuffix))) name += kGenerationSuffix;
  const auto found = inputs.models.find(name);
  if (found == inputs.models.end() || found->second.cache_bytes.empty()) {
    fail(ErrorCode::kNotFound,
         "model '{}' was not measured for generation; there are: {}. 'harmonics profile MODEL "
         "--mode generation' measures it",
         name, listed(std::views::keys(inputs.models)));
  }
  model_ = found->second;
  std::vector<std::string> without;
  for (auto& [type, hosts] : inputs_.hosts) {
    const TokenTimesList* const measured = measured_of(inputs_, type, name);
    if (hosts.empty() || (measured != nullptr && has_step_times(*measured))) continue;
    log_warn("plan",
             "device type '{}' is left out: generation of '{}' was not measured there; 'harmonics "
             "profile MODEL --mode generation' does",
             type, name);
    for (const std::string& host : hosts) std::erase(wish_.hosts.excluded_hosts, host);
    without.push_back(type);
  }
  for (const std::string& type : without) inputs_.hosts.erase(type);
  if (inputs_.hosts.empty()) {
    fail(ErrorCode::kNotFound,
         "generation of '{}' was measured on no device type that has hosts: run 'harmonics profile "
         "MODEL --mode generation' on a machine of each type",
         name);
  }
  wish_.hosts.dtype = kDtype;
  inputs_.models = {{name, model_}};
  std::erase_if(inputs_.types,
                [&](const auto& type) { return !inputs_.hosts.contains(type.first); });
  if (!inputs_.links.machines.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "hosts that share a machine: plans for generation do not count that. Leave 'machines' out "
         "of the links, or plan with one host for each machine");
  }
}

double GenerationModel::cache_mb(std::int64_t sequences) const {
  const std::int64_t tokens =
      parts_of(wish_.context, kCacheBlockTokens) * kCacheBlockTokens * sequences;
  double bytes = 0;
  for (const std::int64_t layer : model_.cache_bytes) {
    bytes += static_cast<double>(layer) * static_cast<double>(tokens);
  }
  return bytes / kBytesPerMegabyte;
}

std::string GenerationModel::name() const {
  std::string name = wish_.hosts.model;
  if (name.ends_with(kGenerationSuffix)) name.resize(name.size() - kGenerationSuffix.size());
  return name;
}

std::int64_t GenerationModel::chunks() const { return parts_of(wish_.prompt, wish_.chunk); }

PlanProblem GenerationModel::decode_step(std::int64_t step_sequences, bool answers) const {
  return problem(step_sequences, answers, true);
}

PlanProblem GenerationModel::prefill_step(bool answers) const {
  return problem(parts_of(wish_.prompt, chunks()), answers, false);
}

PlanProblem GenerationModel::problem(std::int64_t rows, bool answers, bool decodes) const {
  const auto prompt = static_cast<double>(wish_.prompt);
  const auto whole = static_cast<double>(wish_.context);
  const double context = decodes ? (prompt + whole) / 2 : prompt / 2;
  PlanInputs step = inputs_;
  const std::string& name = wish_.hosts.model;
  ModelProfile& model = step.models.at(name);
  const auto held = static_cast<double>(parts_of(wish_.context, kCacheBlockTokens) *
                                        kCacheBlockTokens * wish_.sequences);
  for (std::size_t k = 0; k < model.layers(); ++k) {
    model.memory_mb[k] += static_cast<double>(model.cache_bytes[k]) * held / kBytesPerMegabyte;
  }
  for (const auto& [type, hosts] : step.hosts) {
    DeviceTypeProfile& profile = step.types.at(type);
    profile.models[name] = {
        {rows, kDtype,
         step_times(profile.generation.at(name), decodes, static_cast<double>(rows), context)}};
  }
  PlanRequest request = wish_.hosts;
  request.batch_size = rows;
  PlanProblem made = make_problem(step, request);
  // Of a chunk only the last row is looked at.
  if (!decodes) made.cut_bytes.back() /= static_cast<double>(rows);
  if (answers) add_answers(made);
  return made;
}

}  // namespace harmonics::inline in_plan
