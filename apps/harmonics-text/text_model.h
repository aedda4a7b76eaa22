// A language model as the command line names it: graph, weights, tokenizer, chat template.
#pragma once

#include <filesystem>
#include <string>

#include <harmonics/models/weight_source.h>
#include <harmonics/options/text_commands.h>
#include <harmonics/schedule/text_side.h>
#include <harmonics/schedule/token_pipeline.h>

namespace harmonics::inline in_text_program {

/// The graph and where its weights lie.
struct TextGraph {
  HarmonicGraph graph;
  WeightSource weights;
  /// The file of the tokenizer that the model names; empty where it names none.
  std::filesystem::path tokenizer;
};
[[nodiscard]] TextGraph open_text_graph(const std::filesystem::path& model,
                                        const std::filesystem::path& weights);

struct TextModel {
  TextGraph graph;
  TextSide texts;
  TokenPipelinePtr pipeline;
  /// What computes all parts, "cpu" or "gpu"; empty: each part its own, on other machines.
  std::string backend;
};
/// Opens the model and makes its stages as the flags say.
[[nodiscard]] TextModel open_text_model(const TextModelFlags& flags);
/// The same of a graph that is open already.
[[nodiscard]] TextModel open_text_model(const TextModelFlags& flags, TextGraph graph);

}  // namespace harmonics::inline in_text_program
