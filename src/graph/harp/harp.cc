#include <harmonics/graph/harp.h>

#include <algorithm>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

#include "harp_binder.h"
#include "harp_parser.h"

namespace harmonics::inline in_graph {

const Setting* Settings::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

HarpDocument parse_harp_document(std::string_view text, std::string_view origin_name) {
  if (text.size() > kMaxHarpTextBytes) {
    fail(ErrorCode::kInvalidArgument, "{} has {} bytes; a .harp text may have {}", origin_name,
         text.size(), kMaxHarpTextBytes);
  }
  const HarpSource source{text, origin_name};
  HarpTree tree = HarpParser(source).run();
  HarpDocument document;
  document.data = std::move(tree.data);
  document.train = std::move(tree.train);
  document.weights = std::move(tree.weights);
  document.graph = bind_harp(source, std::move(tree));
  return document;
}

HarmonicGraph parse_harp(std::string_view text) { return parse_harp_document(text, "harp").graph; }

HarpDocument load_harp_document(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxHarpTextBytes);
  HarpDocument document = parse_harp_document(text, path.string());
  document.folder = path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path();
  return document;
}

HarmonicGraph load_harp(const std::filesystem::path& path) {
  return load_harp_document(path).graph;
}

}  // namespace harmonics::inline in_graph
