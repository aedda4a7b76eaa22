#include "stage_places.h"

#include <algorithm>
#include <span>

#include <harmonics/base/environment.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/private_file.h>
#include <harmonics/graph/blob.h>
#include <harmonics/place/plan_partition.h>
#include <harmonics/plan/generation.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan_file.h>
#include <harmonics/schedule/token_pipeline.h>
#include <harmonics/transport/crc32c.h>

namespace harmonics::inline in_text_program {
namespace {

constexpr std::size_t kMaxTokenFile = 4096;

PlanFile read_plan(const HarmonicGraph& graph, const std::filesystem::path& file) {
  const std::string name = file.string();
  PlanFile plan = parse_plan_file(read_text_file(file, kMaxPlannerFileBytes), name);
  if (!plan.model.empty() && plan.model != graph.name()) {
    fail(ErrorCode::kInvalidArgument, "'{}' is a plan for model '{}', this is '{}'", name,
         plan.model, graph.name());
  }
  for (const PlanStage& stage : plan.plan.stages) {
    if (stage.hosts.size() == 1) continue;
    fail(ErrorCode::kUnimplemented,
         "'{}': layers {} to {} are on {}; generation takes one host for each stage: plan without "
         "--replicate",
         name, stage.first_layer, stage.last_layer, listed(stage.hosts));
  }
  return plan;
}

std::size_t steps_of(const PlanFile& plan) {
  return std::min<std::size_t>(plan.in_flight, kMaxStepsInFlight);
}

std::vector<std::size_t> cuts_of(const HarmonicGraph& graph, const Plan& plan,
                                 const std::filesystem::path& file) {
  try {
    return token_cuts(graph, partition_graph(graph, plan));
  } catch (const Error& error) {
    fail(error.code(), "'{}': {}", file.string(), std::string_view(error.what()));
  }
}

}  // namespace

std::vector<std::size_t> planned_cuts(const HarmonicGraph& graph,
                                      const std::filesystem::path& plan) {
  return cuts_of(graph, read_plan(graph, plan).plan, plan);
}

std::size_t planned_steps(const HarmonicGraph& graph, const std::filesystem::path& plan) {
  return steps_of(read_plan(graph, plan));
}

StagePlaces stage_places(const HarmonicGraph& graph, const std::filesystem::path& plan,
                         const std::filesystem::path& hosts) {
  const PlanFile planned = read_plan(graph, plan);
  StagePlaces places;
  places.in_flight = steps_of(planned);
  places.cuts = cuts_of(graph, planned.plan, plan);
  const HostAddresses addresses =
      parse_host_addresses(read_text_file(hosts, kMaxPlannerFileBytes), hosts.string());
  for (const PlanStage& stage : planned.plan.stages) {
    const std::string& host = stage.hosts.front();
    const auto found = addresses.find(host);
    if (found == addresses.end()) {
      fail(ErrorCode::kNotFound,
           "'{}' has no address for host '{}' of the plan: add a line '{}: ADDRESS:PORT'",
           hosts.string(), host, host);
    }
    RemoteBinding place =
        parse_binding(format("tcp://{}/steps.{}", found->second, places.steps.size()));
    places.hosts.push_back(host);
    places.steps.push_back(place);
    place.name = "answers";
    places.answers = std::move(place);
  }
  return places;
}

std::string stage_run(const HarmonicGraph& graph, const std::vector<std::size_t>& cuts,
                      const std::string& name) {
  std::uint32_t sum = crc32c(encode_graph(graph));
  for (const std::size_t cut : cuts) sum = crc32c(std::as_bytes(std::span(&cut, 1)), sum);
  return format("{} {:08x}", name.empty() ? "generate" : name, sum);
}

std::string secret_of(const std::filesystem::path& file, const char* variable) {
  if (file.empty()) return environment_text(variable);
  require_private(file, "a secret");
  std::string token = read_text_file(file, kMaxTokenFile);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) fail(ErrorCode::kInvalidArgument, "'{}' holds no token", file.string());
  return token;
}

}  // namespace harmonics::inline in_text_program
