// Vision transformers (Dosovitskiy et al., "An image is worth 16x16 words", 2020): patches of
// 16x16, pre-norm blocks, classification from the class token. Each block is four groups, so that a
// planner may cut where the published profiles of these models are cut.
#include <harmonics/base/format.h>

#include "zoo_models.h"

namespace harmonics::inline in_graph {
namespace {

constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kClasses = 1000;
constexpr double kNormEps = 1e-12;

// One block on top of `x`; the group `<name>.attention` may be open already. Returns its output.
std::string add_block(GraphBuilder& b, const std::string& name, const std::string& x,
                      const VitOptions& options) {
  b.group(name + ".attention");
  b.layer(name + ".norm1", "layer_norm", {{"eps", kNormEps}}, {x});
  b.layer(name + ".attn", "attention", {{"heads", options.heads}, {"project", std::int64_t{0}}},
          {name + ".norm1"});
  b.group(name + ".projection");
  b.layer(name + ".attn.proj", "linear", {{"out", options.width}}, {name + ".attn"});
  b.layer(name + ".sum1", "add", {}, {name + ".attn.proj", x});
  b.layer(name + ".norm2", "layer_norm", {{"eps", kNormEps}}, {name + ".sum1"});
  b.group(name + ".expand");
  b.layer(name + ".mlp.fc1", "linear", {{"out", 4 * options.width}}, {name + ".norm2"}, "gelu");
  b.group(name + ".contract");
  b.layer(name + ".mlp.fc2", "linear", {{"out", options.width}}, {name + ".mlp.fc1"});
  b.layer(name + ".sum2", "add", {}, {name + ".mlp.fc2", name + ".sum1"});
  return name + ".sum2";
}

}  // namespace

HarmonicGraph make_vit(const VitOptions& options) {
  GraphBuilder b(options.name);
  b.producer("image", Shape{3, 224, 224});
  b.group("blocks.0.attention");  // the embedding shares the first block's first group
  b.layer("patch_embed.proj", "conv2d",
          {{"out", options.width}, {"kernel", kPatch}, {"stride", kPatch}}, {"image"});
  b.layer("patch_embed.tokens", "tokens", {}, {"patch_embed.proj"});
  b.layer("cls_token", "class_token", {}, {"patch_embed.tokens"});
  b.layer("pos_embed", "position", {}, {"cls_token"});
  std::string x = "pos_embed";
  for (std::int64_t i = 0; i < options.blocks; ++i) {
    x = add_block(b, format("blocks.{}", i), x, options);
  }
  // Still in the last block's last group.
  b.layer("norm", "layer_norm", {{"eps", kNormEps}}, {x});
  b.layer("pool", "select", {{"index", std::int64_t{0}}}, {"norm"});
  b.layer("head", "linear", {{"out", kClasses}}, {"pool"});
  return finish_classifier(b, "head");
}

}  // namespace harmonics::inline in_graph
