#include <algorithm>
#include <numeric>

#include <harmonics/base/format.h>
#include <harmonics/plan/flow_plan.h>
#include <harmonics/yaml/yaml_text.h>

namespace harmonics::inline in_plan {
namespace {

// More names than this are counted.
constexpr std::size_t kNamedLimits = 6;
constexpr std::size_t kShownRoutes = 20;

std::string end_name(const FlowProblem& problem, std::size_t end) {
  if (end == problem.source()) return "source";
  return end == problem.sink() ? "sink" : problem.hosts[end].name;
}

Json layers_json(FlowRange range) {
  Json layers = Json::array();
  layers.push(static_cast<std::uint64_t>(range.first_cut + 1));
  layers.push(static_cast<std::uint64_t>(range.last_cut));
  return layers;
}

double through(const FlowEvaluation& evaluation, std::size_t host) {
  double sum = 0;
  for (const FlowUse& use : evaluation.uses) sum += use.to == host ? use.rate : 0;
  return sum;
}

// Hosts that are used, by first layer.
std::vector<std::size_t> used_hosts(const FlowOutcome& outcome) {
  std::vector<std::size_t> hosts;
  for (std::size_t h = 0; h < outcome.ranges.size(); ++h) {
    if (outcome.ranges[h].used()) hosts.push_back(h);
  }
  std::ranges::stable_sort(hosts, [&](std::size_t a, std::size_t b) {
    const FlowRange x = outcome.ranges[a];
    const FlowRange y = outcome.ranges[b];
    return std::pair(x.first_cut, x.last_cut) < std::pair(y.first_cut, y.last_cut);
  });
  return hosts;
}

std::string route_text(const FlowProblem& problem, const FlowRoute& route) {
  std::string text = format("  {:10.3f}/s ", route.rate);
  for (const std::size_t host : route.hosts) text += " " + problem.hosts[host].name;
  return text + "\n";
}

Json hosts_json(const FlowProblem& problem, const FlowOutcome& outcome) {
  Json hosts = Json::array();
  for (const std::size_t h : used_hosts(outcome)) {
    const FlowRange range = outcome.ranges[h];
    const FlowHost& host = problem.hosts[h];
    hosts.push(Json::object()
                   .set("host", host.name)
                   .set("type", problem.kinds[host.kind].type)
                   .set("layers", layers_json(range))
                   .set("rate", through(outcome.evaluation, h))
                   .set("most", problem.rate(host.kind, range.first_cut, range.last_cut)));
  }
  return hosts;
}

Json routes_json(const FlowProblem& problem, const FlowEvaluation& evaluation) {
  Json routes = Json::array();
  for (const FlowRoute& route : flow_routes(problem, evaluation)) {
    Json hosts = Json::array();
    for (const std::size_t host : route.hosts) hosts.push(problem.hosts[host].name);
    routes.push(Json::object().set("rate", route.rate).set("hosts", std::move(hosts)));
  }
  return routes;
}

}  // namespace

std::string flow_limit_text(const FlowProblem& problem, const FlowEvaluation& evaluation) {
  std::vector<std::string> limits;
  for (const std::size_t host : evaluation.full_hosts) limits.push_back(problem.hosts[host].name);
  for (const FlowUse& use : evaluation.full_links) {
    limits.push_back(
        format("the link {} to {}", end_name(problem, use.from), end_name(problem, use.to)));
  }
  if (limits.empty()) return "nothing";
  const std::size_t named = std::min(limits.size(), kNamedLimits);
  std::string text = limits.front();
  for (std::size_t k = 1; k < named; ++k) {
    text += (k + 1 == limits.size() ? " and " : ", ") + limits[k];
  }
  if (named < limits.size()) text += format(" and {} more", limits.size() - named);
  return text;
}

std::string flow_to_yaml(const FlowProblem& problem, const FlowOutcome& outcome) {
  std::string text;
  for (const std::size_t h : used_hosts(outcome)) {
    text += format("- {}: [{}, {}]\n", yaml_name(problem.hosts[h].name),
                   outcome.ranges[h].first_cut + 1, outcome.ranges[h].last_cut);
  }
  return text;
}

std::string flow_report_to_text(const FlowProblem& problem, const FlowOutcome& outcome) {
  const std::vector<std::size_t> hosts = used_hosts(outcome);
  std::string text = format(
      "flow {:.6g}/s over {} of {} hosts, bound {:.6g}/s: {}\n"
      "what binds: {}\n",
      outcome.rate(), hosts.size(), problem.hosts.size(), outcome.proof.rate,
      outcome.proven ? "proven optimal"
                     : format("at most {:.2f} % are to be gained", 100 * outcome.gap()),
      flow_limit_text(problem, outcome.evaluation));
  for (const std::size_t h : hosts) {
    const FlowRange range = outcome.ranges[h];
    const FlowHost& host = problem.hosts[h];
    text += format("  {:<16} {:<16} {:>4}-{:<4} {:>12.3f}/s of {:.3f}\n", host.name,
                   problem.kinds[host.kind].type, range.first_cut + 1, range.last_cut,
                   through(outcome.evaluation, h),
                   problem.rate(host.kind, range.first_cut, range.last_cut));
  }
  const std::vector<FlowRoute> routes = flow_routes(problem, outcome.evaluation);
  text += format("{} routes:\n", routes.size());
  for (std::size_t k = 0; k < std::min(routes.size(), kShownRoutes); ++k) {
    text += route_text(problem, routes[k]);
  }
  if (routes.size() > kShownRoutes) text += format("  and {} more\n", routes.size() - kShownRoutes);
  return text;
}

Json flow_report_to_json(const FlowProblem& problem, const FlowOutcome& outcome) {
  Json weights = Json::array();
  for (const double weight : outcome.proof.layer_weights) weights.push(weight);
  return Json::object()
      .set("shape", "flow")
      .set("layers", static_cast<std::uint64_t>(problem.layers))
      .set("rate", outcome.rate())
      .set("bound", outcome.proof.rate)
      .set("gap", outcome.gap())
      .set("proven", outcome.proven)
      .set("binds", flow_limit_text(problem, outcome.evaluation))
      .set("hosts", hosts_json(problem, outcome))
      .set("routes", routes_json(problem, outcome.evaluation))
      .set("certificate",
           Json::object().set("rate", outcome.proof.rate).set("layer_weights", std::move(weights)))
      .set("work", outcome.work);
}

}  // namespace harmonics::inline in_plan
