#include <harmonics/options/graph_argument.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

namespace harmonics::inline in_options {

std::string published_name(const std::string& name) {
  if (name == "vit-base") return "google/vit-base-patch16-224";
  if (name == "vit-large") return "google/vit-large-patch16-224";
  return name;
}

namespace {

bool is_of_zoo(const std::filesystem::path& text) {
  const std::vector<std::string> names = zoo_names();
  return !std::filesystem::exists(text) && std::ranges::find(names, text.string()) != names.end();
}

}  // namespace

HarpDocument open_graph_document(const std::filesystem::path& text) {
  if (!is_of_zoo(text)) return load_harp_document(text);
  return parse_harp_document(to_harp(zoo_graph(text.string())), text.string());
}

std::string read_graph_text(const std::filesystem::path& text, std::size_t limit) {
  return is_of_zoo(text) ? to_harp(zoo_graph(text.string())) : read_text_file(text, limit);
}

GraphArgument open_graph_argument(const std::filesystem::path& text, const AxisValues& axes) {
  if (std::filesystem::exists(text)) {
    HarmonicGraph graph = load_harp(text);
    if (!graph.resolved()) {
      fail(ErrorCode::kFailedPrecondition,
           "{}: the shape of producer '{}' is not known: declare it in the file", text.string(),
           graph.unresolved().front());
    }
    std::string name = graph.name();
    return {axes.empty() ? std::move(graph) : graph.with_axes(axes), std::move(name)};
  }
  const std::vector<std::string> names = zoo_names();
  if (std::ranges::find(names, text.string()) == names.end()) {
    fail(ErrorCode::kNotFound, "there is no file '{}', and the zoo has only {}", text.string(),
         listed(names));
  }
  return {zoo_graph(text.string()).with_axes(axes), published_name(text.string())};
}

}  // namespace harmonics::inline in_options
