#include "text_model.h"

#include <malloc.h>

#include <harmonics/base/error.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/import_model.h>
#include <harmonics/settings/train_settings.h>

#include "process_pipeline.h"
#include "remote_pipeline.h"
#include "stage_places.h"
#include "token_device.h"

namespace harmonics::inline in_text_program {
TextGraph open_text_graph(const std::filesystem::path& model,
                          const std::filesystem::path& weights) {
  TextGraph out;
  if (model.extension() == ".harp") {
    const HarpDocument document = load_harp_document(model);
    out.graph = document.graph;
    const std::filesystem::path file = merge_weights(document, model, weights);
    if (file.empty()) {
      fail(ErrorCode::kInvalidArgument, "'{}' names no weights: give --weights FILE",
           model.string());
    }
    out.weights = WeightSource::open(file);
    if (const Setting* const named = document.weights.find("tokenizer")) {
      out.tokenizer = document.folder / named->value;
    }
    return out;
  }
  if (!weights.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' brings its own weights: leave out --weights",
         model.string());
  }
  ImportedModel imported = import_model(model);
  out.graph = std::move(imported.graph);
  out.weights = std::move(imported.weights);
  out.tokenizer = model;
  return out;
}

namespace {

// The pipeline, and what computes it.
void make_pipeline(const TextModelFlags& flags, TextModel& model) {
  const TextGraph& own = model.graph;
  if (!flags.hosts.empty()) {
    model.pipeline = make_remote_pipeline(own.graph, flags);
    return;
  }
  const TokenDevice device = token_device(flags.computing, own.weights);
  model.backend = device.name();
  TokenPartsOptions options;
  options.cuts = flags.plan.empty() ? token_cuts(own.graph, static_cast<std::size_t>(flags.parts))
                                    : planned_cuts(own.graph, flags.plan);
  options.cache_bytes = static_cast<std::uint64_t>(flags.cache_mb) << 20;
  options.threads = static_cast<int>(flags.threads);
  options.make_stage = device.make_stage;
  if (!flags.processes) {
    model.pipeline = make_local_pipeline(own.graph, own.weights, options);
    return;
  }
  // Whether there is a GPU has been found out, and said.
  TextModelFlags found = flags;
  found.computing.backend = device.is_gpu() ? TextBackend::kGpu : TextBackend::kCpu;
  model.pipeline = make_process_pipeline(own.graph, options.cuts, found);
}

}  // namespace

TextModel open_text_model(const TextModelFlags& flags) {
  return open_text_model(flags, open_text_graph(flags.model, flags.weights));
}

TextModel open_text_model(const TextModelFlags& flags, TextGraph graph) {
  const std::filesystem::path texts = flags.tokenizer.empty() ? graph.tokenizer : flags.tokenizer;
  if (texts.empty()) {
    fail(ErrorCode::kInvalidArgument, "'{}' names no tokenizer: give --tokenizer PATH",
         flags.model.string());
  }
  TextSide side(texts);
  TextModel model{std::move(graph), std::move(side), nullptr, ""};
  make_pipeline(flags, model);
#if defined(__GLIBC__)
  ::malloc_trim(0);  // what reading tokenizer and graph took
#endif
  return model;
}

}  // namespace harmonics::inline in_text_program
