// Any bytes are a flow problem or an Error; what is read is in order, bounded and can be planned.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/plan/flow_plan.h>

namespace {

using namespace harmonics;

constexpr std::size_t kPlannedHosts = 6;
constexpr std::size_t kPlannedLayers = 40;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const FlowProblem problem = parse_helix_lp(text, "f");
    check_flow(problem);
    if (problem.hosts.size() > kPlannedHosts || problem.layers > kPlannedLayers) return 0;
    const FlowOutcome outcome = plan_flow(problem, {.work = 20'000});
    if (outcome.rate() > outcome.proof.rate * (1 + 1e-6)) std::abort();
    (void)flow_report_to_json(problem, outcome).dump();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
