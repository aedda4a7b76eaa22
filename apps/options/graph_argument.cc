#include <harmonics/options/graph_argument.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/nearest_word.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/zoo.h>

namespace harmonics::inline in_options {

std::string published_name(const std::string& name) {
  if (name == "vit-base") return "google/vit-base-patch16-224";
  if (name == "vit-large") return "google/vit-large-patch16-224";
  return name;
}

namespace {

// Whether it names a network of the zoo, as a word that is no file must. What is spelt as a path is
// left to who reads it.
bool is_of_zoo(const std::filesystem::path& text) {
  if (std::filesystem::exists(text)) return false;
  const std::vector<std::string> names = zoo_names();
  if (std::ranges::find(names, text.string()) != names.end()) return true;
  if (text.has_parent_path() || text.has_extension()) return false;
  fail(ErrorCode::kNotFound, "there is no file '{}', and no network of that name in the zoo ({}){}",
       text.string(), listed(names), suggestion(text.string(), names));
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
  if (is_of_zoo(text)) {
    return {zoo_graph(text.string()).with_axes(axes), published_name(text.string())};
  }
  HarmonicGraph graph = load_harp(text);
  if (!graph.resolved()) {
    fail(ErrorCode::kFailedPrecondition,
         "{}: the shape of producer '{}' is not known: declare it in the file", text.string(),
         graph.unresolved().front());
  }
  std::string name = graph.name();
  return {axes.empty() ? std::move(graph) : graph.with_axes(axes), std::move(name)};
}

}  // namespace harmonics::inline in_options
