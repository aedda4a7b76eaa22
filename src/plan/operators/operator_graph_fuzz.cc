// Any bytes are an operator graph or an Error; what is read survives being written and read again,
// and can be planned.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/operator_plan.h>

namespace {

using namespace harmonics;

constexpr std::size_t kPlannedNodes = 12;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  set_log_level(LogLevel::kOff);
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const OperatorGraph graph = parse_operator_graph(text, "f");
    if (!(parse_operator_graph(operator_graph_to_json(graph), "f") == graph)) std::abort();
    if (graph.nodes.size() > kPlannedNodes) return 0;
    const OperatorPlanOptions options{.work = 100'000};
    (void)operator_report_to_json(graph, options, plan_operators(graph, options)).dump();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
