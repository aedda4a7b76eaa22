#include "run_outputs.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/data/csv_consumer.h>
#include <harmonics/data/kept_rows.h>
#include <harmonics/runtime/safetensors_consumer.h>

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::string_view kCsvScheme = "csv:";
constexpr std::string_view kSafetensorsScheme = "safetensors:";
constexpr std::string_view kSafetensorsEnding = ".safetensors";

bool is_csv(const Binding& output) { return output.spec.starts_with(kCsvScheme); }

ConsumerPtr open_output(const Binding& output, bool unequal_rows, const KeptPlace& kept) {
  const std::string path = output_path(output);
  if (is_csv(output)) {
    CsvConsumerOptions options;
    options.unequal_rows = unequal_rows;
    if (!kept.folder.empty()) {
      options.kept = std::make_shared<KeptRows>(kept.folder, output.name, kept.batches);
    }
    return std::make_shared<CsvConsumer>(path, std::move(options));
  }
  if (!kept.folder.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--out {}: rows that are kept as they come are lines of a csv:PATH", output.name);
  }
  if (unequal_rows) {
    fail(ErrorCode::kInvalidArgument,
         "--out {}: its rows follow a named axis and differ in length, which one tensor cannot: "
         "give the axis one length with --axis, or write csv:PATH",
         output.name);
  }
  return std::make_shared<SafetensorsConsumer>(path, output.name);
}

}  // namespace

std::string output_path(const Binding& output) {
  const std::string_view spec = output.spec;
  for (const std::string_view scheme : {kCsvScheme, kSafetensorsScheme}) {
    if (spec.starts_with(scheme) && spec.size() > scheme.size()) {
      return std::string(spec.substr(scheme.size()));
    }
  }
  const bool ends = spec.ends_with(kSafetensorsEnding) && spec.size() > kSafetensorsEnding.size();
  if (ends && !spec.starts_with(kCsvScheme)) return output.spec;
  fail(ErrorCode::kInvalidArgument,
       "--out {}: '{}' is not of the form csv:PATH, safetensors:PATH or PATH.safetensors",
       output.name, output.spec);
}

NamedConsumers open_outputs(const HarmonicGraph& graph, const std::vector<Binding>& outputs,
                            const KeptPlace& kept) {
  NamedConsumers consumers;
  std::set<std::filesystem::path> files;
  for (const Binding& output : outputs) {
    const auto node = std::ranges::find(graph.consumers(), output.name, &ConsumerNode::name);
    if (node == graph.consumers().end()) {
      fail(ErrorCode::kNotFound, "--out {}: the graph has no such consumer; it has: {}",
           output.name, listed(graph.consumers(), &ConsumerNode::name));
    }
    const std::string path = output_path(output);
    if (!files.insert(std::filesystem::weakly_canonical(path)).second) {
      fail(ErrorCode::kInvalidArgument,
           "--out {}: '{}' takes the rows of another consumer already: give each a file",
           output.name, path);
    }
    consumers[output.name] = open_output(output, !graph.named_extents(node->input).empty(), kept);
  }
  return consumers;
}

}  // namespace harmonics::inline in_torch_program
