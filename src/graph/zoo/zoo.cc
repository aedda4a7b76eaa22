#include <harmonics/graph/zoo.h>

#include <functional>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "zoo_models.h"

namespace harmonics::inline in_graph {
namespace {

struct Entry {
  const char* name;
  std::function<HarmonicGraph()> make;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"digits-mlp", make_digits_mlp},
      {"lenet", make_lenet},
      {"lenet-digits", make_lenet_digits},
      {"resnet18",
       [] {
         return make_resnet({"resnet18", {2, 2, 2, 2}, false});
       }},
      {"resnet50",
       [] {
         return make_resnet({"resnet50", {3, 4, 6, 3}, true});
       }},
      {"transformer-small", make_transformer_small},
      {"vit-base",
       [] {
         return make_vit({"vit_base", 12, 768, 12});
       }},
      {"vit-large",
       [] {
         return make_vit({"vit_large", 24, 1024, 16});
       }},
  };
  return all;
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

HarmonicGraph zoo_graph(std::string_view name) {
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry.make();
  }
  fail(ErrorCode::kNotFound, "the zoo has no '{}'; it has: {}", name, listed(zoo_names()));
}

HarmonicGraph finish_classifier(GraphBuilder& builder, const std::string& logits) {
  builder.producer("label", Shape{1}, DType::kInt64);
  builder.tap("cross_entropy", logits, "label");
  builder.consumer("prediction", logits);
  return builder.build();
}

}  // namespace harmonics::inline in_graph
