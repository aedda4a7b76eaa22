#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/plan/operator_graph.h>

#include "operator_testing.h"

namespace harmonics::inline in_plan {
namespace {

constexpr std::string_view kOwn = R"({"name": "small",
"devices": [{"type": "gpu", "hosts": ["g1", "g2"], "memory_mb": 100, "bandwidth_mbps": 1000},
            {"type": "cpu", "hosts": ["c"], "pays_transfers": false}],
"nodes": [{"name": "a", "time_s": {"gpu": 0.1, "cpu": 1}, "memory_mb": 3, "colocate": "w"},
          {"name": "b", "time_s": {"cpu": 2}},
          {"name": "c", "time_s": {"gpu": 0.2}, "colocate": "w", "backward": true}],
"edges": [{"from": "a", "to": ["c", "b"], "bytes": 1000}]})";

constexpr std::string_view kMicrosoft =
    R"({"maxSizePerFPGA": 1048576.0, "maxFPGAs": 2, "maxCPUs": 1,
"nodes": [{"id": 7, "supportedOnFpga": 1, "cpuLatency": 10, "fpgaLatency": 1.5, "isBackwardNode": 0,
           "colorClass": 3, "size": 524288.0, "name": "any", "layerId": 4},
          {"id": 9, "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 0,
           "isBackwardNode": true}],
"edges": [{"sourceId": 7, "destId": 9, "cost": 0.5, "size": 12}]})";

TEST(OperatorGraph, ReadsItsOwnFile) {
  const OperatorGraph graph = parse_operator_graph(kOwn, "f.json");
  EXPECT_EQ(graph.name, "small");
  ASSERT_EQ(graph.devices.size(), 2u);
  EXPECT_EQ(graph.devices[0].memory_mb, 100);
  EXPECT_FALSE(graph.devices[1].pays_transfers());
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[1].time_s, (std::vector<double>{kCannotRun, 2}));
  EXPECT_TRUE(graph.nodes[2].backward);
  EXPECT_EQ(graph.tensors[0].consumers, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(parse_operator_graph(operator_graph_to_json(graph), "again"), graph);
}

TEST(OperatorGraph, ReadsDnnPartitioningAsItIs) {
  const OperatorGraph graph = parse_operator_graph(kMicrosoft, "f.json");
  EXPECT_EQ(graph.devices[0].hosts, (std::vector<std::string>{"accelerator-1", "accelerator-2"}));
  EXPECT_EQ(graph.devices[0].memory_mb, 1);
  EXPECT_FALSE(graph.devices[1].pays_transfers());
  EXPECT_EQ(graph.nodes[0].name, "7");
  EXPECT_DOUBLE_EQ(graph.nodes[0].time_s[0], 0.0015);
  EXPECT_EQ(graph.nodes[0].memory_mb, 0.5);
  EXPECT_EQ(graph.nodes[1].time_s[0], kCannotRun);
  // Half a millisecond for a stage of an accelerator.
  EXPECT_DOUBLE_EQ(
      operator_stage_costs(graph, Overlap::kNone, {.device = 0, .host = 0, .nodes = {0}}).send_s,
      0.0005);
}

TEST(OperatorGraph, WhatIsDrawnSurvivesTheFile) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed, "operator file");
    const OperatorGraph graph = random_operators(random,
                                                 {.classes = true,
                                                  .backward = seed % 2 == 0,
                                                  .tight_memory = seed % 3 == 0,
                                                  .cannot_run = true,
                                                  .free_device = true},
                                                 12);
    EXPECT_EQ(parse_operator_graph(operator_graph_to_json(graph), "f"), graph);
  }
}

std::string mistake(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const std::size_t at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  changed.replace(at, from.size(), to);
  try {
    (void)parse_operator_graph(changed, "f.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

TEST(OperatorGraph, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string_view from, to, says;
  };
  for (const Case& one : {
           Case{"\"gpu\": 0.1", "\"gpu\": -1", "f.json.nodes[0].time_s.gpu: is below 0"},
           Case{"\"gpu\": 0.1", "\"tpu\": 1", "there is no device type 'tpu', only gpu, cpu"},
           Case{"\"name\": \"b\"", "\"name\": \"a\"", "f.json.nodes[1]: node 'a' is there twice"},
           Case{"\"memory_mb\": 3", "\"memory\": 3", "f.json.nodes[0]: 'memory' is unknown here"},
           Case{"\"from\": \"a\"", "\"from\": \"z\"", "f.json.edges[0].from: there is no node 'z'"},
           Case{"\"c\", \"b\"", "\"c\", \"c\"", "f.json.edges[0].to: a node is there twice"},
           Case{"\"c\", \"b\"", "\"a\"", "operator 'a' takes what it makes"},
           Case{"\"bytes\": 1000", "\"bytes\": \"x\"", "f.json.edges[0].bytes"},
           Case{", \"bandwidth_mbps\": 1000", "", "'bandwidth_mbps' is missing"},
           Case{"\"bandwidth_mbps\": 1000", "\"bandwidth_mbps\": 0", "bandwidth is not above 0"},
           Case{"\"g1\", \"g2\"", "\"g1\", \"c\"", "host 'c' is there twice"},
           Case{"\"devices\"", "\"things\"", "'things' is unknown here"},
           Case{"\"from\": \"a\", \"to\": [\"c\", \"b\"]", "\"from\": \"c\", \"to\": [\"b\"]",
                "of the backward pass makes what 'b' of the forward pass takes"},
       }) {
    const std::string said = mistake(kOwn, one.from, one.to);
    EXPECT_NE(said.find(one.says), std::string::npos) << one.says << "\n" << said;
  }
  EXPECT_NE(mistake(kMicrosoft, "\"id\": 9", "\"id\": 7").find("node 7 is there twice"),
            std::string::npos);
  EXPECT_NE(mistake(kMicrosoft, "\"destId\": 9", "\"destId\": 8").find("there is no node 8"),
            std::string::npos);
  EXPECT_NE(mistake(kMicrosoft, "\"maxFPGAs\": 2", "\"maxFPGAs\": 100000").find("0..1000"),
            std::string::npos);
}

TEST(OperatorGraph, RefusesCirclesAndTooMuch) {
  OperatorGraph graph = parse_operator_graph(kOwn, "f.json");
  graph.nodes[2].backward = false;
  graph.tensors = {{0, {1}, 1}, {1, {2}, 1}, {2, {0}, 1}};
  EXPECT_THROW(check_operator_graph(graph), Error);
  graph.tensors.clear();
  EXPECT_NO_THROW(check_operator_graph(graph));
  while (graph.nodes.size() <= kMaxOperators) {
    graph.nodes.push_back({format("x{}", graph.nodes.size()), {1, 1}});
  }
  EXPECT_THROW(check_operator_graph(graph), Error);
}

}  // namespace
}  // namespace harmonics::inline in_plan
