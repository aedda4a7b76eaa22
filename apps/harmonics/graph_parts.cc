// harmonics graph parts: where a graph is cut, and what crosses between its parts.
#include <algorithm>

#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/options/graph_argument.h>

#include "subcommands.h"

namespace harmonics::inline in_front {
namespace {

/// What crosses from one part to a later one; its gradient comes back the same way.
struct Crossing {
  std::string name;
  std::size_t from = 0;
  std::size_t to = 0;
  TensorSpec sample;
  std::string shape;
  bool gradient = false;
};

bool sends(const HarmonicGraph& part, const std::string& name) {
  return std::ranges::find(part.consumers(), name, &ConsumerNode::name) != part.consumers().end();
}

std::vector<Crossing> crossings(const std::vector<HarmonicGraph>& parts) {
  std::vector<Crossing> found;
  for (std::size_t to = 0; to < parts.size(); ++to) {
    for (const ProducerNode& node : parts[to].producers()) {
      for (std::size_t from = 0; from < to; ++from) {
        if (!sends(parts[from], node.name)) continue;
        found.push_back({node.name, from, to, parts[to].spec(node.name),
                         parts[to].shape_text_of(node.name), node.gradient_slots > 0});
      }
    }
  }
  return found;
}

double flops_of(const HarmonicGraph& part) {
  double sum = 0;
  for (std::size_t i = 0; i < part.layers().size(); ++i) sum += part.layer_shape(i).flops;
  return sum;
}

std::string table_text(const std::vector<HarmonicGraph>& parts, bool colour) {
  Table table{{{"part", Align::kRight},
               {"name"},
               {"first layer"},
               {"last layer"},
               {"layers", Align::kRight},
               {"parameters", Align::kRight},
               {"flops", Align::kRight}},
              {}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const HarmonicGraph& part = parts[i];
    table.rows.push_back({format("{}", i), part.name(), part.layers().front().name,
                          part.layers().back().name, format("{}", part.layers().size()),
                          with_thousands(part.parameter_count()), in_short(flops_of(part))});
  }
  Table boundaries{{{"boundary"},
                    {"from", Align::kRight},
                    {"to", Align::kRight},
                    {"sample"},
                    {"bytes", Align::kRight},
                    {"gradient"}},
                   {}};
  for (const Crossing& one : crossings(parts)) {
    boundaries.rows.push_back({one.name, format("{}", one.from), format("{}", one.to),
                               format("{} {}", dtype_name(one.sample.dtype), one.shape),
                               with_thousands(byte_count(one.sample)),
                               one.gradient ? "yes" : "no"});
  }
  return table.text(colour) +
         (boundaries.rows.empty() ? std::string() : "\n" + boundaries.text(colour));
}

Json parts_json(const std::vector<HarmonicGraph>& parts) {
  Json listed = Json::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Json layers = Json::array();
    for (const LayerNode& node : parts[i].layers()) layers.push(node.name);
    listed.push(Json()
                    .set("part", static_cast<std::int64_t>(i))
                    .set("name", parts[i].name())
                    .set("layers", std::move(layers))
                    .set("parameters", parts[i].parameter_count())
                    .set("flops", flops_of(parts[i])));
  }
  Json boundaries = Json::array();
  for (const Crossing& one : crossings(parts)) {
    Json shape = Json::array();
    for (const std::int64_t axis : one.sample.shape) shape.push(axis);
    boundaries.push(Json()
                        .set("name", one.name)
                        .set("from", static_cast<std::int64_t>(one.from))
                        .set("to", static_cast<std::int64_t>(one.to))
                        .set("dtype", dtype_name(one.sample.dtype))
                        .set("shape", std::move(shape))
                        .set("bytes", byte_count(one.sample))
                        .set("gradient", one.gradient));
  }
  return Json().set("parts", std::move(listed)).set("boundaries", std::move(boundaries));
}

}  // namespace

int graph_parts(const GraphPartsCommand& command) {
  const std::vector<HarmonicGraph> parts =
      partition_graph(open_graph_document(command.file).graph.with_axes(command.axes),
                      static_cast<std::size_t>(command.parts));
  switch (command.output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, table_text(parts, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, parts_json(parts).dump(2) + "\n");
      break;
    case OutputStyle::kQuiet: {
      std::string names;
      for (const Crossing& one : crossings(parts)) names += one.name + "\n";
      write_text(TextStream::kOutput, names);
      break;
    }
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_front
