#include <map>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/graph/export.h>

#include "export_boxes.h"

namespace harmonics::inline in_graph {
namespace {

std::string dot_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string_view dot_style(BoxKind kind) {
  switch (kind) {
    case BoxKind::kProducer: return "shape=cds, fillcolor=\"#d8f0ea\", color=\"#3f8f7f\"";
    case BoxKind::kConsumer: return "shape=cds, fillcolor=\"#e2efd6\", color=\"#6a9440\"";
    case BoxKind::kLoss: return "shape=ellipse, fillcolor=\"#fdeccc\", color=\"#c48a1f\"";
    case BoxKind::kLayer: break;
  }
  return "shape=box, fillcolor=\"#ffffff\", color=\"#6b7f99\"";
}

std::string node_line(std::size_t index, const Box& box) {
  std::string label = box.title;
  for (const std::string& detail : box.details) label += "\n" + detail;
  return format("n{} [label={}, {}];\n", index, dot_quote(label), dot_style(box.kind));
}

}  // namespace

std::string to_dot(const HarmonicGraph& graph) {
  const BoxGraph drawn = boxes_of(graph);
  std::string text = format("digraph {} {{\n", dot_quote(graph.name()));
  text += "  node [style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=11];\n";
  text += "  edge [color=\"#8794a5\", fontname=\"Helvetica\", fontsize=10];\n";
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < drawn.boxes.size(); ++i) {
    if (drawn.boxes[i].group.empty()) {
      text += format("  {}", node_line(i, drawn.boxes[i]));
    } else {
      groups[drawn.boxes[i].group].push_back(i);
    }
  }
  std::size_t cluster = 0;
  for (const auto& [group, members] : groups) {
    text += format("  subgraph cluster_{} {{\n    label={}; style=\"filled,rounded\"; ", cluster++,
                   dot_quote(group));
    text += "color=\"#eef2f8\"; fontname=\"Helvetica\"; fontsize=10;\n";
    for (const std::size_t i : members) text += format("    {}", node_line(i, drawn.boxes[i]));
    text += "  }\n";
  }
  for (const Arrow& arrow : drawn.arrows) {
    text += format("  n{} -> n{}", arrow.from, arrow.to);
    if (arrow.is_target) text += " [style=dashed]";
    text += ";\n";
  }
  return text + "}\n";
}

}  // namespace harmonics::inline in_graph
