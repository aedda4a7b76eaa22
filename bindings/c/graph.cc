#include <map>

#include <harmonics/base/json.h>
#include <harmonics/graph/blob.h>
#include <harmonics/graph/harp.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>

#include "border.h"

using namespace harmonics;
using namespace harmonics::border;

namespace {

template <typename Nodes>
Json nodes_json(const Nodes& nodes) {
  Json list = Json::array();
  for (const auto& node : nodes) {
    Json json = Json().set("name", node.name).set("boundary", is_boundary_name(node.name));
    if constexpr (requires { node.dtype; }) json.set("dtype", dtype_name(node.dtype));
    if (node.shape) {
      Json shape = Json::array();
      for (const std::int64_t axis : *node.shape) shape.push(axis);
      json.set("shape", std::move(shape));
    }
    list.push(std::move(json));
  }
  return list;
}

int make_graph(hm_graph** out, auto make) {
  return guarded([&] { object_of(out, "out") = new hm_graph{make()}; });
}

}  // namespace

extern "C" {

int hm_graph_load(const char* path, hm_graph** out) {
  return make_graph(out, [&] { return load_harp(text_of(path, "path")); });
}

int hm_graph_parse(const char* text, hm_graph** out) {
  return make_graph(out, [&] { return parse_harp(text_of(text, "text")); });
}

int hm_graph_zoo(const char* name, hm_graph** out) {
  return make_graph(out, [&] { return zoo_graph(text_of(name, "name")); });
}

int hm_graph_decode(const void* bytes, uint64_t size, hm_graph** out) {
  return make_graph(out, [&] {
    return decode_graph({static_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)});
  });
}

int hm_graph_encode(const hm_graph* graph, void** bytes, uint64_t* size) {
  return guarded([&] {
    const Bytes encoded = encode_graph(object_of(graph, "graph").graph);
    object_of(size, "size") = encoded.size();
    object_of(bytes, "bytes") =
        copy_text({reinterpret_cast<const char*>(encoded.data()), encoded.size()});
  });
}

int hm_graph_resolve(const hm_graph* graph, const char* const* names, hm_producer* const* producers,
                     size_t count, hm_graph** out) {
  return make_graph(out, [&] {
    std::map<std::string, TensorSpec> specs;
    for (size_t i = 0; i < count; ++i) {
      specs[std::string(text_of(names[i], "names"))] =
          object_of(producers[i], "producers").producer->sample_spec();
    }
    return object_of(graph, "graph").graph.resolved_with(specs);
  });
}

int hm_graph_partition(const hm_graph* graph, size_t parts, hm_graph** out) {
  return guarded([&] {
    std::vector<HarmonicGraph> made = partition_graph(object_of(graph, "graph").graph, parts);
    std::vector<std::unique_ptr<hm_graph>> owned;
    for (HarmonicGraph& part : made) owned.push_back(std::make_unique<hm_graph>(std::move(part)));
    for (size_t i = 0; i < owned.size(); ++i) out[i] = owned[i].release();
  });
}

int hm_graph_describe(const hm_graph* graph, char** json) {
  return guarded([&] {
    const HarmonicGraph& described = object_of(graph, "graph").graph;
    Json text;
    text.set("name", described.name());
    text.set("layers", static_cast<std::int64_t>(described.layers().size()));
    text.set("producers", nodes_json(described.producers()));
    text.set("consumers", nodes_json(described.consumers()));
    text.set("learns", !described.taps().empty());
    text.set("resolved", described.resolved());
    object_of(json, "json") = copy_text(text.dump());
  });
}

void hm_graph_free(hm_graph* graph) { delete graph; }

}  // extern "C"
