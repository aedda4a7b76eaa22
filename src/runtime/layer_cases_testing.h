// One case or more for every layer that ships: what gradient checks and the backends' contract run.
#pragma once

#include <string>
#include <vector>

#include <harmonics/base/random.h>
#include <harmonics/graph/graph.h>
#include <harmonics/runtime/stage.h>

namespace harmonics::inline in_runtime {

struct LayerCase {
  std::string label;
  std::string type;
  Attributes attributes;
  std::vector<Shape> inputs;
  std::string activation = {};
};

inline Attributes with(std::initializer_list<std::pair<const std::string, Attribute>> items) {
  return Attributes(items);
}
inline Attribute whole(std::int64_t value) { return value; }

/// All layers but embedding, which takes ids.
inline std::vector<LayerCase> layer_cases() {
  return {
      {"linear", "linear", with({{"out", whole(4)}}), {{5}}},
      {"linear without bias, on tokens",
       "linear",
       with({{"out", whole(2)}, {"bias", whole(0)}}),
       {{3, 4}}},
      {"conv2d",
       "conv2d",
       with({{"out", whole(3)}, {"kernel", whole(3)}, {"padding", whole(1)}}),
       {{2, 5, 5}}},
      {"conv2d with stride and groups",
       "conv2d",
       with({{"out", whole(4)},
             {"kernel", Shape{2, 3}},
             {"stride", whole(2)},
             {"groups", whole(2)},
             {"bias", whole(0)}}),
       {{2, 6, 7}}},
      {"max_pool", "max_pool", with({{"kernel", whole(2)}}), {{2, 4, 6}}},
      {"avg_pool",
       "avg_pool",
       with({{"kernel", whole(3)}, {"stride", whole(2)}, {"padding", whole(1)}}),
       {{2, 5, 5}}},
      {"adaptive_avg_pool", "adaptive_avg_pool", with({{"size", whole(2)}}), {{2, 5, 5}}},
      {"adaptive_max_pool", "adaptive_max_pool", with({{"size", Shape{2, 1}}}), {{2, 5, 5}}},
      {"flatten", "flatten", {}, {{2, 3}}},
      {"reshape", "reshape", with({{"shape", Shape{3, 4}}}), {{2, 6}}},
      {"batch_norm of features", "batch_norm", {}, {{4}}},
      {"batch_norm of images", "batch_norm", {}, {{2, 3, 3}}},
      {"layer_norm", "layer_norm", {}, {{3, 5}}},
      {"dropout", "dropout", with({{"p", 0.3}}), {{20}}},
      {"attention", "attention", with({{"heads", whole(2)}}), {{4, 6}}},
      {"causal attention without projection",
       "attention",
       with({{"heads", whole(3)}, {"causal", whole(1)}, {"project", whole(0)}}),
       {{4, 6}}},
      {"add", "add", {}, {{4}, {4}, {4}}},
      {"mul", "mul", {}, {{4}, {4}, {4}}},
      {"concat", "concat", with({{"axis", whole(1)}}), {{2, 3}, {2, 1}}},
      {"identity", "identity", {}, {{4}}},
      {"tokens", "tokens", {}, {{3, 2, 2}}},
      {"class_token", "class_token", {}, {{3, 4}}},
      {"position", "position", {}, {{3, 4}}},
      {"select", "select", with({{"index", whole(1)}}), {{3, 4}}},
      {"mean", "mean", {}, {{3, 4}}},
  };
}

/// More of what windows and groups can be, for backends that compute them by hand.
inline std::vector<LayerCase> window_cases() {
  return {
      {"conv2d with stride, padding, groups and bias",
       "conv2d",
       with({{"out", whole(6)},
             {"kernel", Shape{3, 2}},
             {"stride", Shape{2, 1}},
             {"padding", Shape{1, 0}},
             {"groups", whole(2)}}),
       {{4, 7, 6}}},
      {"conv2d by depth",
       "conv2d",
       with({{"out", whole(3)}, {"kernel", whole(3)}, {"groups", whole(3)}}),
       {{3, 5, 5}}},
      {"conv2d of one pixel",
       "conv2d",
       with({{"out", whole(5)}, {"kernel", whole(1)}, {"stride", whole(2)}}),
       {{3, 5, 4}}},
      {"max_pool with overlap",
       "max_pool",
       with({{"kernel", whole(3)}, {"stride", Shape{1, 2}}, {"padding", whole(1)}}),
       {{2, 5, 6}}},
      {"avg_pool of unequal sides", "avg_pool", with({{"kernel", Shape{2, 3}}}), {{2, 5, 7}}},
      {"adaptive_avg_pool that overlaps",
       "adaptive_avg_pool",
       with({{"size", whole(3)}}),
       {{2, 5, 4}}},
      {"concat of channels", "concat", {}, {{2, 3, 3}, {1, 3, 3}, {3, 3, 3}}},
      {"select of rows of images", "select", with({{"index", whole(0)}}), {{2, 3, 4}}},
  };
}

}  // namespace harmonics::inline in_runtime
