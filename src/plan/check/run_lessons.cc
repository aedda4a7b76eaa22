#include <harmonics/plan/run_lessons.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/listed.h>

namespace harmonics::inline in_plan {
namespace {

// Cores that differ by less from one are one.
constexpr double kAboutOneCore = 0.05;
// Figures of links keep so many digits: more were not measured.
constexpr double kKeptFigures = 1e4;
// A change that is smaller is none.
constexpr double kLeastChange = 1e-9;

double kept_figures(double value) {
  if (!(value > 0)) return 0;
  const double scale = std::pow(10.0, std::floor(std::log10(value)));
  return std::round(value / scale * kKeptFigures) / kKeptFigures * scale;
}

class RunLearner {
 public:
  RunLearner(PlanInputs& inputs, const MeasuredRun& run) : inputs_(inputs), run_(run) {}

  std::vector<std::string> learn() {
    for (const MeasuredStage& stage : run_.stages) types_[type_of(stage)].push_back(&stage);
    for (const auto& [type, stages] : types_) learn_times(type, stages);
    for (const MeasuredStage& stage : run_.stages) {
      for (const MeasuredLink& link : stage.links) learn_link(stage, link);
    }
    learn_machines();
    return std::move(lines_);
  }

 private:
  using Stages = std::vector<const MeasuredStage*>;

  [[nodiscard]] std::string type_of(const MeasuredStage& stage) const {
    for (const auto& [type, hosts] : inputs_.hosts) {
      if (std::ranges::find(hosts, stage.hosts.front()) != hosts.end()) return type;
    }
    fail(
        ErrorCode::kNotFound,
        "host '{}' of the run is not in the file of hosts: give the files that it was planned with",
        stage.hosts.front());
  }

  // Of a type, for what the run computed.
  [[nodiscard]] LayerTimes& times_of(const std::string& type) {
    auto& models = inputs_.types.at(type).models;
    const auto model = models.find(run_.model);
    if (model != models.end()) {
      for (LayerTimes& times : model->second) {
        if (times.batch_size == run_.batch_size && times.dtype == run_.dtype) return times;
      }
    }
    fail(ErrorCode::kNotFound,
         "device type '{}' has no times for model '{}', {}, batch size {}: give the files that the "
         "run was planned with",
         type, run_.model, run_.dtype, run_.batch_size);
  }

  // The forward part of a layer's time goes with it.
  static void scale_layer(LayerTimes& times, std::size_t layer, double factor) {
    times.time_s[layer] *= factor;
    if (!times.forward_s.empty()) times.forward_s[layer] *= factor;
  }

  static std::span<double> layers_of(LayerTimes& times, const MeasuredStage& stage) {
    if (stage.last_layer > times.time_s.size()) {
      fail(ErrorCode::kFailedPrecondition, "the run has layer {}, the files have {} layers",
           stage.last_layer, times.time_s.size());
    }
    return std::span(times.time_s)
        .subspan(stage.first_layer - 1, stage.last_layer - stage.first_layer + 1);
  }

  void learn_times(const std::string& type, const Stages& stages) {
    LayerTimes& times = times_of(type);
    std::vector<bool> ran(times.time_s.size());
    double before = 0;
    double after = 0;
    double cores = 0;
    for (const MeasuredStage* stage : stages) {
      const std::span<double> own = layers_of(times, *stage);
      const double sum = std::accumulate(own.begin(), own.end(), 0.0);
      before += sum;
      after += stage->compute_s();
      cores += busy_cores(*stage) / static_cast<double>(stages.size());
      std::fill_n(ran.begin() + static_cast<std::ptrdiff_t>(stage->first_layer - 1), own.size(),
                  true);
      if (!(sum > 0)) continue;
      for (std::size_t k = stage->first_layer - 1; k < stage->last_layer; ++k) {
        scale_layer(times, k, stage->compute_s() / sum);
      }
      say(sum, stage->compute_s(),
          format("{}: layers {} to {} take {:.6f} s, not {:.6f} s", type, stage->first_layer,
                 stage->last_layer, stage->compute_s(), sum));
    }
    for (std::size_t k = 0; before > 0 && k < ran.size(); ++k) {
      if (!ran[k]) scale_layer(times, k, after / before);
    }
    const bool shares = std::ranges::any_of(
        stages, [&](const MeasuredStage* stage) { return sharers(stage->machine) > 1; });
    if (!shares) return;
    double& kept = inputs_.types.at(type).cores;
    const double seen = std::abs(cores - 1) < kAboutOneCore ? 1 : kept_figures(cores);
    say(kept, seen, format("{}: a stage keeps {} cores busy, not {}", type, seen, kept));
    kept = seen;
  }

  // The part's own thread was on a core for so much of its compute; its others likewise.
  [[nodiscard]] static double busy_cores(const MeasuredStage& stage) {
    const double threads = stage.threads > 0 ? static_cast<double>(stage.threads) : stage.cores;
    return stage.compute_s() > 0 ? stage.cpu_s / stage.compute_s() * threads : threads;
  }

  void learn_link(const MeasuredStage& stage, const MeasuredLink& link) {
    const std::string& from = stage.hosts.front();
    const std::string& to = run_.stages[link.to].hosts.front();
    const double mbps = kept_figures(link.bytes_per_s / kBytesPerMegabit);
    for (const std::string& type : {type_of(stage), type_of(run_.stages[link.to])}) {
      double& own = inputs_.types.at(type).bandwidth_mbps;
      if (own >= mbps) continue;
      say(own, mbps, format("{}: {} Mbps, not {}", type, mbps, own));
      own = mbps;
    }
    LinkRule rule{from, to, mbps, kept_figures(1e3 * link.latency_s)};
    const auto same = [&](const LinkRule& one) {
      return (one.first == from && one.second == to) || (one.first == to && one.second == from);
    };
    const auto known = std::ranges::find_if(inputs_.links.rules, same);
    if (known != inputs_.links.rules.end() && known->bandwidth_mbps == rule.bandwidth_mbps &&
        known->latency_ms == rule.latency_ms) {
      return;
    }
    lines_.push_back(
        format("{} to {}: {} Mbps, latency {:.3f} ms", from, to, mbps, rule.latency_ms));
    if (known == inputs_.links.rules.end()) {
      inputs_.links.rules.push_back(std::move(rule));
    } else {
      *known = std::move(rule);
    }
  }

  [[nodiscard]] std::size_t sharers(const std::string& machine) const {
    if (machine.empty()) return 0;
    return static_cast<std::size_t>(
        std::ranges::count(run_.stages, machine, &MeasuredStage::machine));
  }

  void learn_machines() {
    std::map<std::string, MachineRule> machines;
    for (const MeasuredStage& stage : run_.stages) {
      if (sharers(stage.machine) < 2) continue;
      MachineRule& machine = machines[stage.machine];
      machine.cores = stage.cores;
      machine.hosts.insert(machine.hosts.end(), stage.hosts.begin(), stage.hosts.end());
    }
    for (auto& [name, machine] : machines) {
      const auto known = inputs_.links.machines.find(name);
      if (known != inputs_.links.machines.end() && known->second == machine) continue;
      for (const std::string& host : machine.hosts) leave_machines(host);
      lines_.push_back(
          format("{} share the {} cores of {}", listed(machine.hosts), machine.cores, name));
      inputs_.links.machines[name] = std::move(machine);
    }
  }

  void leave_machines(const std::string& host) {
    for (auto& [name, machine] : inputs_.links.machines) std::erase(machine.hosts, host);
    std::erase_if(inputs_.links.machines, [](const auto& one) { return one.second.hosts.empty(); });
  }

  void say(double before, double after, std::string line) {
    if (std::abs(after - before) > kLeastChange * std::max(before, after)) {
      lines_.push_back(std::move(line));
    }
  }

  PlanInputs& inputs_;
  const MeasuredRun& run_;
  std::map<std::string, Stages> types_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> learn_from_run(PlanInputs& inputs, const MeasuredRun& run) {
  return RunLearner(inputs, run).learn();
}

}  // namespace harmonics::inline in_plan
