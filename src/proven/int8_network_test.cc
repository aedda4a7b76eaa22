#include <harmonics/base/file.h>
#include <harmonics/proven/int8_network.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/random.h>
#include <harmonics/runtime/safetensors.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_proven {
namespace {

NamedTensors random_weights(const HarmonicGraph& graph, std::uint64_t seed, float bias) {
  Random random(seed, "weights");
  NamedTensors weights;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    for (const ParameterSpec& spec : graph.layer_shape(i).parameters) {
      Tensor tensor = Tensor::empty(spec.shape);
      const float scale = spec.name == "bias" ? bias : 0.3f;
      for (float& value : tensor.mutable_values<float>()) value = random.normal() * scale;
      if (spec.name == "running_var") {
        for (float& value : tensor.mutable_values<float>()) value = 0.1f + std::abs(value);
      }
      weights[graph.layers()[i].name + "." + spec.name] = tensor;
    }
  }
  return weights;
}

Tensor random_rows(Shape shape, std::uint64_t seed) {
  Random random(seed, "rows");
  Tensor rows = Tensor::empty(std::move(shape));
  for (float& value : rows.mutable_values<float>()) value = random.normal();
  return rows;
}

HarmonicGraph dense_graph() {
  return GraphBuilder("dense")
      .producer("x", Shape{20})
      .layer("a", "linear", {{"out", std::int64_t{30}}}, {"x"}, "relu")
      .layer("drop", "dropout", {}, {"a"})
      .layer("b", "linear", {{"out", std::int64_t{7}}}, {"drop"})
      .consumer("y", "b")
      .build();
}

HarmonicGraph conv_graph() {
  return GraphBuilder("conv")
      .producer("x", Shape{2, 6, 5})
      .layer("a", "conv2d",
             {{"out", std::int64_t{4}}, {"kernel", std::int64_t{3}}, {"padding", std::int64_t{1}}},
             {"x"}, "relu")
      .layer("b", "conv2d",
             {{"out", std::int64_t{3}}, {"kernel", std::int64_t{3}}, {"padding", std::int64_t{1}}},
             {"a"}, "relu")
      .layer("flat", "flatten", {}, {"b"})
      .layer("c", "linear", {{"out", std::int64_t{5}}}, {"flat"})
      .consumer("y", "c")
      .build();
}

// With norms before and behind relu's place, and pools.
HarmonicGraph pool_graph() {
  const Attributes conv = {
      {"out", std::int64_t{4}}, {"kernel", std::int64_t{3}}, {"padding", std::int64_t{1}}};
  return GraphBuilder("pool")
      .producer("x", Shape{2, 8, 4})
      .layer("a", "conv2d", conv, {"x"})
      .layer("norm", "batch_norm", {}, {"a"}, "relu")
      .layer("b", "conv2d", conv, {"norm"}, "relu")
      .layer("pool", "max_pool", {{"kernel", std::int64_t{2}}}, {"b"})
      .layer("c", "conv2d", conv, {"pool"})
      .layer("again", "max_pool", {{"kernel", std::int64_t{2}}}, {"c"}, "relu")
      .layer("flat", "flatten", {}, {"again"})
      .layer("d", "linear", {{"out", std::int64_t{5}}}, {"flat"})
      .consumer("y", "d")
      .build();
}

// What the float stage says, and how far the int8 network is from it at most, relative to the
// largest output.
double distance(const HarmonicGraph& graph, float bias, const Tensor& rows) {
  const NamedTensors weights = random_weights(graph, 3, bias);
  Stage stage(graph, {});
  stage->set_parameters(weights);
  const Tensor expected = stage->infer({{"x", rows}}).at("y");
  const Tensor is = infer(quantize(graph, weights, rows), rows);
  EXPECT_EQ(is.spec(), expected.spec());
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
    largest = std::max<double>(largest, std::abs(expected.values<float>()[i]));
    off = std::max<double>(off, std::abs(expected.values<float>()[i] - is.values<float>()[i]));
  }
  return off / largest;
}

TEST(Int8Network, IsCloseToTheFloatNetwork) {
  EXPECT_LT(distance(dense_graph(), 0.1f, random_rows({50, 20}, 1)), 0.03);
  EXPECT_LT(distance(conv_graph(), 0.1f, random_rows({20, 2, 6, 5}, 2)), 0.03);
  EXPECT_LT(distance(pool_graph(), 0.1f, random_rows({20, 2, 8, 4}, 4)), 0.03);
}

TEST(Int8Network, LargeBiasesAreCarriedExactly) {
  EXPECT_LT(distance(dense_graph(), 20.0f, random_rows({50, 20}, 1)), 0.03);
  EXPECT_LT(distance(conv_graph(), 20.0f, random_rows({20, 2, 6, 5}, 2)), 0.03);
}

TEST(Int8Network, LayersThatHaveNoInt8FormAreErrorsThatNameThem) {
  const HarmonicGraph graph = GraphBuilder("g")
                                  .producer("x", Shape{20})
                                  .layer("a", "linear", {{"out", std::int64_t{4}}}, {"x"}, "tanh")
                                  .consumer("y", "a")
                                  .build();
  try {
    (void)quantize(graph, random_weights(graph, 1, 1), random_rows({2, 20}, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_NE(std::string(error.what()).find("'a' (linear)"), std::string::npos) << error.what();
  }
}

TEST(Int8Network, NormsAndPoolsThatHaveNoInt8FormAreErrorsThatNameThem) {
  const Attributes conv = {
      {"out", std::int64_t{3}}, {"kernel", std::int64_t{3}}, {"padding", std::int64_t{1}}};
  const auto refused = [&](const char* layer, const Attributes& attributes,
                           const std::string& activation, const std::string& named) {
    const HarmonicGraph graph = GraphBuilder("g")
                                    .producer("x", Shape{1, 6, 6})
                                    .layer("a", "conv2d", conv, {"x"}, activation)
                                    .layer("b", layer, attributes, {"a"})
                                    .layer("flat", "flatten", {}, {"b"})
                                    .layer("c", "linear", {{"out", std::int64_t{2}}}, {"flat"})
                                    .consumer("y", "c")
                                    .build();
    try {
      (void)quantize(graph, random_weights(graph, 1, 1), random_rows({2, 1, 6, 6}, 1));
      ADD_FAILURE() << named;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  };
  refused("batch_norm", {}, "relu", "'b' (batch_norm)");
  refused("max_pool", {{"kernel", std::int64_t{3}}}, "", "'b' (max_pool)");
  refused("max_pool", {{"kernel", std::int64_t{2}}, {"stride", std::int64_t{1}}}, "",
          "'b' (max_pool)");
  refused("avg_pool", {{"kernel", std::int64_t{2}}}, "", "'b' (avg_pool)");
}

TEST(Int8Network, InputsThatAreNotFiniteAreErrors) {
  const HarmonicGraph graph = dense_graph();
  const Tensor rows = random_rows({2, 20}, 1);
  const Int8Network network = quantize(graph, random_weights(graph, 1, 1), rows);
  Tensor bad = random_rows({2, 20}, 1);
  bad.mutable_values<float>()[3] = NAN;
  EXPECT_THROW((void)infer(network, bad), Error);
  EXPECT_THROW((void)infer(network, random_rows({2, 19}, 1)), Error);
}

TEST(Int8Network, SurvivesItsFileAndDamageDoesNot) {
  const TemporaryFolder folder;
  const HarmonicGraph with_pools = pool_graph();
  const Int8Network pools =
      quantize(with_pools, random_weights(with_pools, 1, 1), random_rows({3, 2, 8, 4}, 1));
  save_int8_network(folder / "pools", pools);
  EXPECT_EQ(load_int8_network(folder / "pools"), pools);
  const HarmonicGraph graph = conv_graph();
  const Tensor rows = random_rows({3, 2, 6, 5}, 1);
  const Int8Network network = quantize(graph, random_weights(graph, 1, 1), rows);
  save_int8_network(folder / "net", network);
  EXPECT_EQ(load_int8_network(folder / "net"), network);
  Safetensors file = read_safetensors(folder / "net");
  file.metadata.erase("sha256");
  const std::string facts = file.metadata.at("harmonics.int8");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"inputs\":", "\"inputs\":9"},
           {"\"kind\":\"conv3x3\"", "\"kind\":\"conv4x4\""},
           {"\"outputs\":4", "\"outputs\":0"},
           {"\"height\":6", "\"height\":60000000000"},
           {"\"pool\":false", "\"pool\":true"},
           {"\"layers\":[", "\"layers\":[],\"old\":["}}) {
    std::string changed = facts;
    ASSERT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    file.metadata["harmonics.int8"] = changed;
    write_safetensors(folder / "bad", file);
    EXPECT_THROW((void)load_int8_network(folder / "bad"), Error) << to;
  }
  // A file from before there were pools.
  std::string older = facts;
  const std::string pool = ",\"pool\":false";
  for (std::size_t at = older.find(pool); at != std::string::npos; at = older.find(pool)) {
    older.erase(at, pool.size());
  }
  ASSERT_EQ(older.find("pool"), std::string::npos);
  file.metadata["harmonics.int8"] = older;
  write_safetensors(folder / "older", file);
  EXPECT_EQ(load_int8_network(folder / "older"), network);
  file.metadata.clear();
  write_safetensors(folder / "bad", file);
  EXPECT_THROW((void)load_int8_network(folder / "bad"), Error);
}

}  // namespace
}  // namespace harmonics::inline in_proven
