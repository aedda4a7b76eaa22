// A decoder-only transformer over bytes: pre-norm blocks with causal attention predict the next
// token.
#include <harmonics/base/format.h>

#include "zoo_models.h"

namespace harmonics::inline in_graph {

HarmonicGraph make_transformer_small() {
  constexpr std::int64_t kVocabulary = 256;
  constexpr std::int64_t kLength = 32;
  constexpr std::int64_t kWidth = 128;
  constexpr std::int64_t kHeads = 4;
  constexpr int kBlocks = 2;

  GraphBuilder b("transformer_small");
  b.producer("tokens", Shape{kLength}, DType::kInt64);
  b.producer("targets", Shape{kLength}, DType::kInt64);
  b.group("embed");
  b.layer("wte", "embedding", {{"rows", kVocabulary}, {"width", kWidth}, {"scale", 0.02}},
          {"tokens"});
  b.layer("wpe", "position", {}, {"wte"});
  std::string x = "wpe";
  for (int i = 0; i < kBlocks; ++i) {
    const std::string h = format("h.{}", i);
    b.group(h);
    b.layer(h + ".ln_1", "layer_norm", {}, {x});
    b.layer(h + ".attn", "attention", {{"heads", kHeads}, {"causal", std::int64_t{1}}},
            {h + ".ln_1"});
    b.layer(h + ".sum_1", "add", {}, {x, h + ".attn"});
    b.layer(h + ".ln_2", "layer_norm", {}, {h + ".sum_1"});
    b.layer(h + ".mlp.fc", "linear", {{"out", 4 * kWidth}}, {h + ".ln_2"}, "gelu");
    b.layer(h + ".mlp.proj", "linear", {{"out", kWidth}}, {h + ".mlp.fc"});
    b.layer(h + ".sum_2", "add", {}, {h + ".sum_1", h + ".mlp.proj"});
    x = h + ".sum_2";
  }
  b.group("top");
  b.layer("ln_f", "layer_norm", {}, {x});
  b.layer("lm_head", "linear", {{"out", kVocabulary}, {"bias", std::int64_t{0}}}, {"ln_f"});
  b.tap("cross_entropy", "lm_head", "targets");
  b.consumer("prediction", "lm_head");
  return b.build();
}

}  // namespace harmonics::inline in_graph
