#include <harmonics/plan/request.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/log.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/base/number_text.h>
#include <harmonics/plan/cut_bytes.h>

namespace harmonics::inline in_plan {
namespace {

constexpr std::size_t kListedHosts = 32;  // a message lists no more

// A host with all that tells it from others of its type.
struct Host {
  std::string name;
  std::string type;
  std::string group;
  bool single = false;  // named in a rule, a pin or the order: a class of its own
};

// Sorts the hosts into classes and applies pins and links.
class ProblemMaker {
 public:
  ProblemMaker(const PlanInputs& inputs, const PlanRequest& request)
      : inputs_(inputs), request_(request) {}

  PlanProblem make() {
    add_model();
    check_names();
    find_hosts();
    for (const Host& host : hosts_) add_host(host);
    add_order();
    add_pins();
    add_links();
    add_machines();
    check_problem(problem_);
    return std::move(problem_);
  }

 private:
  void add_model() {
    const auto found = inputs_.models.find(request_.model);
    if (found == inputs_.models.end()) {
      fail(ErrorCode::kNotFound, "unknown model '{}'; there are: {}", request_.model,
           listed(std::views::keys(inputs_.models)));
    }
    if (request_.batch_size < 1 || request_.batch_size > kMaxPlannedBatch) {
      fail(ErrorCode::kInvalidArgument, "batch size {} is not in 1..{}", request_.batch_size,
           kMaxPlannedBatch);
    }
    const ModelProfile& model = found->second;
    problem_.model = request_.model;
    problem_.dtype = request_.dtype;
    problem_.batch_size = request_.batch_size;
    problem_.layer_memory_mb = model.memory_mb;
    problem_.training = model.training;
    set_cut_bytes(model, problem_);
  }

  void expect_host(const std::string& name, std::string_view where) const {
    std::vector<std::string> known;
    for (const auto& [type, list] : inputs_.hosts) {
      if (std::ranges::find(list, name) != list.end()) return;
      known.insert(known.end(), list.begin(), list.end());
    }
    const std::string near = suggestion(name, known);
    fail(ErrorCode::kNotFound, "{}: there is no host '{}'{}", where, name,
         near.empty() && known.size() <= kListedHosts ? "; there are: " + listed(known) : near);
  }

  void check_names() {
    for (const std::string& name : request_.excluded_hosts) expect_host(name, "excluded hosts");
    for (const std::string& name : request_.host_order) {
      expect_host(name, "host order");
      if (!ordered_.insert(name).second) {
        fail(ErrorCode::kInvalidArgument, "host order: '{}' is there twice", name);
      }
    }
    for (const LayerPin& pin : request_.pins) {
      if (pin.first_layer < 1 || pin.first_layer > pin.last_layer ||
          pin.last_layer > problem_.layers()) {
        fail(ErrorCode::kInvalidArgument, "pinned layers {}-{} are not in 1..{}", pin.first_layer,
             pin.last_layer, problem_.layers());
      }
      if (!inputs_.hosts.contains(pin.where)) expect_host(pin.where, "pinned layers");
    }
  }

  // The measurement of a type for this request; nothing, and a warning, when there is none.
  const LayerTimes* times_of(const std::string& type) const {
    const auto known = inputs_.types.find(type);
    if (known == inputs_.types.end()) {
      fail(ErrorCode::kInvalidArgument, "the hosts' device type '{}' is unknown; there are: {}",
           type, listed(std::views::keys(inputs_.types)));
    }
    const auto profiles = known->second.models.find(request_.model);
    std::vector<std::string> measured;
    if (profiles != known->second.models.end()) {
      for (const LayerTimes& times : profiles->second) {
        if (times.dtype == request_.dtype && times.batch_size == request_.batch_size) {
          return &times;
        }
        measured.push_back(format("{} with {}", times.dtype, times.batch_size));
      }
    }
    log_warn("plan",
             "device type '{}' is left out: not measured for {}, {}, batch size {}; "
             "measured of it: {}",
             type, request_.model, request_.dtype, request_.batch_size, listed(measured));
    return nullptr;
  }

  void find_hosts() {
    std::set<std::string> named = ordered_;
    for (const LayerPin& pin : request_.pins) named.insert(pin.where);
    for (const LinkRule& rule : inputs_.links.rules) {
      named.insert(rule.first);
      named.insert(rule.second);
    }
    for (const auto& [name, machine] : inputs_.links.machines) {
      named.insert(machine.hosts.begin(), machine.hosts.end());
    }
    std::map<std::string, std::string> group_of;
    for (const auto& [group, list] : inputs_.links.groups) {
      for (const std::string& host : list) group_of[host] = group;
    }
    const std::set<std::string> excluded(request_.excluded_hosts.begin(),
                                         request_.excluded_hosts.end());
    for (const auto& [type, list] : inputs_.hosts) {
      if (list.empty()) continue;
      const LayerTimes* times = times_of(type);
      if (times == nullptr) continue;
      times_[type] = times;
      for (const std::string& name : list) {
        if (excluded.contains(name) || (!ordered_.empty() && !ordered_.contains(name))) continue;
        const auto group = group_of.find(name);
        hosts_.push_back(
            {name, type, group == group_of.end() ? "" : group->second, named.contains(name)});
      }
    }
  }

  void add_host(const Host& host) {
    const auto key = std::tuple(host.type, host.group, host.single ? host.name : "");
    const auto [place, added] = class_of_.try_emplace(key, problem_.classes.size());
    if (added) {
      const DeviceTypeProfile& type = inputs_.types.at(host.type);
      problem_.classes.push_back({.type = host.type,
                                  .hosts = {},
                                  .bandwidth_mbps = type.bandwidth_mbps,
                                  .memory_mb = type.memory_mb,
                                  .layer_time_s = times_.at(host.type)->time_s,
                                  .barred = {},
                                  .cores = type.cores,
                                  .price_per_hour = type.price_per_hour,
                                  .watts = type.watts,
                                  .forward_time_s = times_.at(host.type)->forward_s,
                                  .time_spread = times_.at(host.type)->spread});
      members_.push_back(host);
    }
    problem_.classes[place->second].hosts.push_back(host.name);
  }

  void add_order() {
    for (const std::string& name : request_.host_order) {
      for (std::size_t u = 0; u < members_.size(); ++u) {
        if (members_[u].name == name) problem_.order.push_back(u);
      }
    }
  }

  void add_pins() {
    for (const LayerPin& pin : request_.pins) {
      for (std::size_t u = 0; u < members_.size(); ++u) {
        const Host& member = members_[u];
        if (member.type == pin.where || (member.single && member.name == pin.where)) continue;
        std::vector<bool>& barred = problem_.classes[u].barred;
        barred.resize(problem_.layers(), false);
        for (std::size_t k = pin.first_layer - 1; k < pin.last_layer; ++k) barred[k] = true;
      }
    }
  }

  // How closely a rule's end names a host: 0 as a type, 1 as a group, 2 by name.
  static std::optional<int> closeness(const std::string& end, const Host& host) {
    if (end == host.name) return 2;
    if (!host.group.empty() && end == host.group) return 1;
    if (end == host.type) return 0;
    return std::nullopt;
  }

  // The rule that names the two most closely; of equals the slowest. Nothing: none speaks of them.
  const LinkRule* link_between(const Host& a, const Host& b) const {
    int best = -1;
    const LinkRule* found = nullptr;
    for (const LinkRule& rule : inputs_.links.rules) {
      for (const auto& [one, other] :
           {std::pair(rule.first, rule.second), std::pair(rule.second, rule.first)}) {
        const auto first = closeness(one, a);
        const auto second = closeness(other, b);
        if (!first || !second) continue;
        const int close = *first + *second;
        if (close < best || (close == best && rule.bandwidth_mbps >= found->bandwidth_mbps)) {
          continue;
        }
        best = close;
        found = &rule;
      }
    }
    return found;
  }

  void add_links() {
    if (inputs_.links.rules.empty()) return;
    for (std::size_t u = 0; u < members_.size(); ++u) {
      for (std::size_t v = 0; v < members_.size(); ++v) {
        const double ends =
            std::min(problem_.classes[u].bandwidth_mbps, problem_.classes[v].bandwidth_mbps);
        const LinkRule* link = link_between(members_[u], members_[v]);
        problem_.link_mbps.push_back(link == nullptr ? ends : link->bandwidth_mbps);
        problem_.link_latency_s.push_back(link == nullptr ? 0 : link->latency_ms / 1e3);
      }
    }
    const auto is_none = [](double latency) { return latency == 0; };
    if (std::ranges::all_of(problem_.link_latency_s, is_none)) problem_.link_latency_s.clear();
  }

  // Machines of which at least one host takes part.
  void add_machines() {
    for (const auto& [name, machine] : inputs_.links.machines) {
      SharedMachine shared{name, machine.cores, {}};
      for (std::size_t u = 0; u < members_.size(); ++u) {
        if (std::ranges::find(machine.hosts, members_[u].name) == machine.hosts.end()) continue;
        if (members_[u].single) shared.classes.push_back(u);
      }
      if (!shared.classes.empty()) problem_.machines.push_back(std::move(shared));
    }
  }

  const PlanInputs& inputs_;
  const PlanRequest& request_;
  PlanProblem problem_;
  std::set<std::string> ordered_;
  std::vector<Host> hosts_;
  std::map<std::string, const LayerTimes*> times_;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> class_of_;
  std::vector<Host> members_;  // the first host of each class
};

std::size_t layer_number(std::string_view text, std::string_view whole) {
  if (const auto value = number_from<std::size_t>(text)) return *value;
  fail(ErrorCode::kInvalidArgument, "'{}' is not of the form LAYER=HOST or FIRST-LAST=HOST", whole);
}

}  // namespace

LayerPin parse_layer_pin(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view layers = text.substr(0, equals);
  if (equals == std::string_view::npos || equals + 1 == text.size()) {
    static_cast<void>(layer_number("", text));
  }
  const std::size_t dash = layers.find('-');
  LayerPin pin;
  pin.first_layer = layer_number(layers.substr(0, dash), text);
  pin.last_layer = dash == std::string_view::npos ? pin.first_layer
                                                  : layer_number(layers.substr(dash + 1), text);
  pin.where = text.substr(equals + 1);
  return pin;
}

PlanProblem make_problem(const PlanInputs& inputs, const PlanRequest& request) {
  return ProblemMaker(inputs, request).make();
}

std::vector<ProfileKey> measured_profiles(const PlanInputs& inputs, std::string_view model) {
  std::set<ProfileKey> keys;
  for (const auto& [type, hosts] : inputs.hosts) {
    const auto known = inputs.types.find(type);
    if (hosts.empty() || known == inputs.types.end()) continue;
    const auto profiles = known->second.models.find(std::string(model));
    if (profiles == known->second.models.end()) continue;
    for (const LayerTimes& times : profiles->second) keys.insert({times.batch_size, times.dtype});
  }
  return {keys.begin(), keys.end()};
}

}  // namespace harmonics::inline in_plan
