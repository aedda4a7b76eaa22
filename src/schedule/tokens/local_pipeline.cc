#include <algorithm>
#include <deque>

#include <harmonics/base/error.h>
#include <harmonics/graph/partition.h>
#include <harmonics/schedule/token_pipeline.h>

namespace harmonics::inline in_schedule {
namespace {

class LocalPipeline final : public TokenPipeline {
 public:
  LocalPipeline(const HarmonicGraph& graph, const WeightSource& weights,
                const TokenPartsOptions& options)
      : logits_(logits_of(graph)) {
    const std::vector<std::size_t> cuts =
        options.cuts.empty() ? token_cuts(graph, options.parts) : options.cuts;
    limits_.most_tokens = std::numeric_limits<std::int64_t>::max();
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
      const TokenStageOptions own{cuts[part], cuts[part + 1], options.cache_bytes, options.threads};
      stages_.push_back(options.make_stage ? options.make_stage(graph, weights, own)
                                           : TokenStage(graph, weights, own));
      const TokenStageFigures figures = stages_.back().figures();
      limits_.max_length = stages_.back().max_length();
      limits_.most_tokens = std::min(limits_.most_tokens, figures.most_tokens);
      limits_.token_bytes += figures.token_bytes;
      limits_.weight_bytes += figures.weight_bytes;
    }
  }

  const TokenLimits& limits() const override { return limits_; }
  std::size_t depth() const override { return 1; }

  void submit(const TokenStep& step) override {
    TokenTensors tensors;
    const auto rows = static_cast<std::int64_t>(step.ids.size());
    tensors.emplace(stages_.front().entering().front(),
                    Tensor::of<std::int64_t>({rows}, std::span(step.ids)));
    for (TokenStage& stage : stages_) {
      for (const SequenceId sequence : step.drops) stage.drop(sequence);
      if (!step.spans.empty()) tensors = stage.compute(step.spans, tensors);
    }
    answers_.push_back(step.spans.empty() ? Tensor::zeros({0, 1}) : tensors.at(logits_));
  }

  Tensor receive() override {
    Tensor answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

  void renew() override {
    fail(ErrorCode::kUnimplemented, "stages of this process do not fail alone");
  }

 private:
  std::string logits_;
  std::vector<TokenStage> stages_;
  TokenLimits limits_;
  std::deque<Tensor> answers_;
};

}  // namespace

std::string logits_of(const HarmonicGraph& graph) {
  const std::vector<ConsumerNode>& all = graph.consumers();
  const auto named = std::ranges::find(all, "logits", &ConsumerNode::name);
  if (named != all.end()) return named->name;
  if (all.size() == 1) return all.front().name;
  fail(ErrorCode::kInvalidArgument,
       "'{}' has no consumer 'logits': generation needs a model with a head, such as "
       "LlamaForCausalLM",
       graph.name());
}

std::vector<std::size_t> token_cuts(const HarmonicGraph& graph,
                                    const std::vector<HarmonicGraph>& parts) {
  std::vector<std::size_t> cuts = {0};
  for (const HarmonicGraph& part : parts) {
    std::size_t end = cuts.back();
    for (const LayerNode& node : part.layers()) {
      const auto index = graph.layer_index(node.name);
      if (index) end = std::max(end, *index + 1);  // else a weight that is sent on
    }
    cuts.push_back(end);
  }
  return cuts;
}

std::vector<std::size_t> token_cuts(const HarmonicGraph& graph, std::size_t parts) {
  if (parts > 1) return token_cuts(graph, partition_graph(graph, parts));
  return {0, graph.layers().size()};
}

TokenPipelinePtr make_local_pipeline(const HarmonicGraph& graph, const WeightSource& weights,
                                     const TokenPartsOptions& options) {
  return std::make_unique<LocalPipeline>(graph, weights, options);
}

}  // namespace harmonics::inline in_schedule
