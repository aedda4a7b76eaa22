#include <harmonics/runtime/token_stage.h>

#include "token_stage_contract_testing.h"

namespace harmonics::inline in_runtime {
namespace {

INSTANTIATE_TEST_SUITE_P(Rows, TokenStageContract,
                         testing::Values(TokenStageKind{
                             "Cpu",
                             [](const HarmonicGraph& graph, const WeightSource& weights,
                                const TokenStageOptions& options) {
                               return TokenStage(graph, weights, options);
                             }}),
                         kind_name);

}  // namespace
}  // namespace harmonics::inline in_runtime
