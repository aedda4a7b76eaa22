#include <harmonics/models/import_model.h>

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/graph/harp.h>
#include <harmonics/models/export_model.h>
#include <harmonics/models/safetensors_header.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "gguf_testing.h"

namespace harmonics::inline in_models {
namespace {

using Shapes = std::vector<std::pair<std::string, Shape>>;

/// A file whose numbers are 0, 1, 2, … throughout.
std::string counted(const Shapes& shapes) {
  std::vector<SafetensorsEntry> entries;
  std::int64_t count = 0;
  for (const auto& [name, shape] : shapes) {
    entries.push_back({name, {shape, DType::kFloat32}});
    count += element_count(shape);
  }
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const std::string header = safetensors_header_text(entries, Json::object());
  const std::uint64_t length = header.size();
  return text_of(std::as_bytes(std::span(&length, 1))) + header +
         text_of(std::as_bytes(std::span(numbers)));
}

constexpr std::string_view kTinyGpt2 =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_embd": 4,
        "n_head": 2, "n_positions": 6, "vocab_size": 5, "resid_pdrop": 0.1})";
const Shapes kTinyGpt2Tensors = {{"transformer.h.0.attn.c_attn.bias", {12}},
                                 {"transformer.h.0.attn.c_attn.weight", {4, 12}},
                                 {"transformer.h.0.attn.c_proj.bias", {4}},
                                 {"transformer.h.0.attn.c_proj.weight", {4, 4}},
                                 {"transformer.h.0.ln_1.bias", {4}},
                                 {"transformer.h.0.ln_1.weight", {4}},
                                 {"transformer.h.0.ln_2.bias", {4}},
                                 {"transformer.h.0.ln_2.weight", {4}},
                                 {"transformer.h.0.mlp.c_fc.bias", {16}},
                                 {"transformer.h.0.mlp.c_fc.weight", {4, 16}},
                                 {"transformer.h.0.mlp.c_proj.bias", {4}},
                                 {"transformer.h.0.mlp.c_proj.weight", {16, 4}},
                                 {"transformer.ln_f.bias", {4}},
                                 {"transformer.ln_f.weight", {4}},
                                 {"transformer.wpe.weight", {6, 4}},
                                 {"transformer.wte.weight", {5, 4}}};

class ImportModelTest : public testing::Test {
 protected:
  std::filesystem::path folder(std::string_view config, const Shapes& tensors) {
    const std::filesystem::path model = folder_.path() / "model";
    std::filesystem::create_directories(model);
    write_text_file(model / "config.json", config);
    write_text_file(model / "model.safetensors", counted(tensors));
    return model;
  }
  TemporaryFolder folder_;
};

TEST_F(ImportModelTest, TurnsMatricesAndTakesJoinedOnesApart) {
  const ImportedModel model = import_model(folder(kTinyGpt2, kTinyGpt2Tensors));
  EXPECT_EQ(model.architecture, "GPT2LMHeadModel");
  EXPECT_EQ(model.left_out, std::vector<std::string>{"resid_pdrop = 0.1"});
  EXPECT_FALSE(model.weights.entries().contains("lm_head.weight"));  // tied
  const WeightSource source = WeightSource::open(folder_.path() / "model");
  const Tensor joined = source.read("transformer.h.0.attn.c_attn.weight");
  const Tensor key = model.weights.read("h.0.attn.k.weight");
  ASSERT_EQ(key.shape(), (Shape{4, 4}));
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(key.values<float>()[4 * row + column],
                joined.values<float>()[12 * column + 4 + row]);
    }
  }
}

TEST_F(ImportModelTest, CopiesAndLinksAreReadAlikeAndGoBack) {
  const std::filesystem::path source = folder(kTinyGpt2, kTinyGpt2Tensors);
  const ImportedModel model = import_model(source);
  const std::filesystem::path harp = folder_.path() / "tiny.harp";
  std::uint64_t told = 0;
  (void)write_model(model, harp, WeightsMode::kCopy, [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_LE(done, all);
    told = done;
  });
  EXPECT_EQ(told, 4U * static_cast<std::uint64_t>(model.graph.parameter_count()));
  (void)write_model(model, folder_.path() / "linked.harp", WeightsMode::kLink);
  const HarpDocument document = load_harp_document(harp);
  EXPECT_EQ(document.weights.find("file")->value, "tiny.safetensors");
  EXPECT_EQ(document.graph.layers(), model.graph.layers());
  const WeightSource copied = WeightSource::open(folder_.path() / "tiny.safetensors");
  const WeightSource linked = WeightSource::open(folder_.path() / "linked.weights.json");
  ASSERT_EQ(copied.entries().size(), linked.entries().size());
  for (const auto& [name, entry] : copied.entries()) {
    EXPECT_TRUE(std::ranges::equal(copied.read(name).bytes(), linked.read(name).bytes())) << name;
  }
  for (const WeightSource& weights : {copied, linked}) {
    (void)export_hf(weights, weights, folder_.path() / "back");
    const WeightSource before = WeightSource::open(source);
    const WeightSource after = WeightSource::open(folder_.path() / "back");
    ASSERT_EQ(after.entries().size(), before.entries().size());
    for (const auto& [name, entry] : before.entries()) {
      EXPECT_TRUE(std::ranges::equal(before.read(name).bytes(), after.read(name).bytes())) << name;
    }
  }
}

TEST_F(ImportModelTest, WhatMakesItsInputsComesAlong) {
  const std::filesystem::path source = folder(kTinyGpt2, kTinyGpt2Tensors);
  const std::filesystem::path harp = folder_.path() / "tiny.harp";
  const auto settings = [&](WeightsMode mode) {
    (void)write_model(import_model(source), harp, mode);
    std::map<std::string, std::string> found;
    for (const Setting& each : load_harp_document(harp).weights.entries) {
      found[each.key] = each.value;
    }
    return found;
  };
  EXPECT_EQ(settings(WeightsMode::kCopy).size(), 1U);
  write_text_file(source / "tokenizer.json", "{}");
  write_text_file(source / "preprocessor_config.json", "{\"size\": 4}");
  const auto copied = settings(WeightsMode::kCopy);
  EXPECT_EQ(copied.at("tokenizer"), "tiny.tokenizer.json");
  EXPECT_EQ(copied.at("preprocessor"), "tiny.preprocessor.json");
  EXPECT_EQ(read_text_file(folder_.path() / "tiny.preprocessor.json", 100), "{\"size\": 4}");
  const auto linked = settings(WeightsMode::kLink);
  EXPECT_EQ(linked.at("tokenizer"), "model/tokenizer.json");
  EXPECT_EQ(linked.at("preprocessor"), "model/preprocessor_config.json");
}

TEST_F(ImportModelTest, WhatHasNoPlaceIsNamedAndSourcesAreNotOverwritten) {
  Shapes more = kTinyGpt2Tensors;
  more.push_back({"transformer.zz.weight", {1}});
  const std::filesystem::path odd = folder(kTinyGpt2, more);
  expect_error(ErrorCode::kUnimplemented, "'transformer.zz.weight'",
               [&] { (void)import_model(odd); });
  Shapes wrong = kTinyGpt2Tensors;
  wrong.back().second = {7, 4};
  const std::filesystem::path misfit = folder(kTinyGpt2, wrong);
  expect_error(ErrorCode::kDataLoss, "wte.weight", [&] { (void)import_model(misfit); });
  const std::filesystem::path source = folder(kTinyGpt2, kTinyGpt2Tensors);
  const ImportedModel model = import_model(source);
  expect_error(ErrorCode::kInvalidArgument, "a file of the source",
               [&] { (void)write_model(model, source / "model.harp", WeightsMode::kCopy); });
  expect_error(ErrorCode::kInvalidArgument, "above the model's 6",
               [&] { (void)import_model(source, {.length = 7}); });
  expect_error(ErrorCode::kUnimplemented, "no head for classes is known",
               [&] { (void)import_model(source, {.classes = 2}); });
  expect_error(ErrorCode::kInvalidArgument, "--shape", [&] {
    (void)import_model(source, {.shapes = {{"x", {1}}}});
  });
}

// Keys of two heads of four: GGUF keeps their rows in pairs.
TEST_F(ImportModelTest, GgufFilesHaveTheNamesAndRowsOfFolders) {
  GgufWriter file;
  file.text("general.architecture", "llama").number("llama.block_count", 4, std::uint32_t{1});
  file.number("llama.context_length", 4, std::uint32_t{8});
  file.number("llama.embedding_length", 4, std::uint32_t{8});
  file.number("llama.feed_forward_length", 4, std::uint32_t{4});
  file.number("llama.attention.head_count", 4, std::uint32_t{2});
  file.number("llama.attention.layer_norm_rms_epsilon", 6, 1e-5F);
  std::vector<float> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const std::string bytes = text_of(std::as_bytes(std::span(numbers)));
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    file.tensor(format("blk.0.{}.weight", name), {8, 8}, 0, bytes);
  }
  for (const char* name : {"ffn_gate", "ffn_up"}) {
    file.tensor(format("blk.0.{}.weight", name), {8, 4}, 0, bytes.substr(0, 128));
  }
  file.tensor("blk.0.ffn_down.weight", {4, 8}, 0, bytes.substr(0, 128));
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) {
    file.tensor(format("{}.weight", name), {8}, 0, bytes.substr(0, 32));
  }
  file.tensor("token_embd.weight", {8, 3}, 0, bytes.substr(0, 96));
  const std::filesystem::path path = folder_.path() / "tiny.gguf";
  write_text_file(path, file.bytes());
  const ImportedModel model = import_model(path);
  EXPECT_EQ(model.architecture, "LlamaForCausalLM");
  EXPECT_EQ(model.weights.at("layers.0.attention.k.weight").source_name,
            "model.layers.0.self_attn.k_proj.weight");
  const Tensor key = model.weights.read("layers.0.attention.k.weight");
  for (const auto& [row, from] : std::vector<std::pair<int, int>>{{0, 0}, {1, 2}, {2, 1}, {5, 6}}) {
    EXPECT_EQ(key.values<float>()[static_cast<std::size_t>(8 * row)],
              8.0F * static_cast<float>(from));
  }
  const Tensor value = model.weights.read("layers.0.attention.v.weight");
  EXPECT_EQ(value.values<float>()[8], 8.0F);
}

}  // namespace
}  // namespace harmonics::inline in_models
