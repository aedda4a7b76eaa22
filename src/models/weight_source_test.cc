#include <harmonics/models/weight_source.h>

#include <gtest/gtest.h>

#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/models/gguf.h>
#include <harmonics/models/safetensors_header.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

#include "gguf_testing.h"
#include "unpack.h"
#include "weight_index.h"

namespace harmonics::inline in_models {
namespace {

std::string safetensors_bytes(const std::vector<SafetensorsEntry>& tensors,
                              std::span<const float> values) {
  const std::string header = safetensors_header_text(tensors, Json::object());
  const std::uint64_t length = header.size();
  return text_of(std::as_bytes(std::span(&length, 1))) + header + text_of(std::as_bytes(values));
}

class WeightSourceTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& bytes) {
    write_text_file(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  std::vector<float> values(const WeightSource& source, std::string_view name) {
    const Tensor tensor = source.read(name);
    const auto all = tensor.values<float>();
    return {all.begin(), all.end()};
  }
  TemporaryFolder folder_;
};

TEST_F(WeightSourceTest, SafetensorsAreMappedByName) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7};
  const auto path =
      file("x.safetensors",
           safetensors_bytes({{"a", {{2, 3}, DType::kFloat32}}, {"b", {{1}, DType::kFloat32}}},
                             numbers));
  const WeightSource source = WeightSource::open(path);
  EXPECT_EQ(source.read("a").shape(), (Shape{2, 3}));
  EXPECT_EQ(values(source, "a"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  source.forget("b");
  EXPECT_EQ(values(source, "b"), std::vector<float>{7});
  expect_error(ErrorCode::kNotFound, "no tensor 'aa'", [&] { (void)source.at("aa"); });
}

TEST_F(WeightSourceTest, ShardsAreFoundByTheirIndex) {
  const std::vector<float> one = {1}, two = {2, 3};
  file("1.safetensors", safetensors_bytes({{"a", {{1}, DType::kFloat32}}}, one));
  file("2.safetensors", safetensors_bytes({{"b", {{2}, DType::kFloat32}}}, two));
  file("model.safetensors.index.json",
       R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  const WeightSource source = WeightSource::open(folder_.path());
  EXPECT_EQ(values(source, "b"), two);
  const auto lying =
      file("lying.safetensors.index.json", R"({"weight_map": {"b": "1.safetensors"}})");
  expect_error(ErrorCode::kDataLoss, "does not have it", [&] { (void)WeightSource::open(lying); });
  const auto away =
      file("away.safetensors.index.json", R"({"weight_map": {"b": "../1.safetensors"}})");
  expect_error(ErrorCode::kInvalidArgument, "beside the index",
               [&] { (void)WeightSource::open(away); });
}

TEST_F(WeightSourceTest, PicklesOfTorchAreRefusedWithTheWayOut) {
  file("pytorch_model.bin", "PK");
  expect_error(ErrorCode::kUnimplemented, "save_file(",
               [&] { (void)WeightSource::open(folder_.path()); });
}

TEST_F(WeightSourceTest, MapsTransposeSliceAndUnpair) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7, 8};
  file("x.safetensors", safetensors_bytes({{"m", {{2, 4}, DType::kFloat32}}}, numbers));
  const WeightSource plain = WeightSource::open(folder_.path() / "x.safetensors");
  const WeightEntry& stored = plain.at("m");
  WeightMap map{{"x.safetensors"}, {}, Json()};
  WeightEntry turned = stored;
  turned.shape = {2, 2};
  turned.layout = {true, 1, 0};
  map.entries["turned"] = turned;
  WeightEntry row = stored;
  row.shape = {1, 4};
  row.layout = {false, 1, 0};
  map.entries["row"] = row;
  WeightEntry first = row;
  first.layout.first_row = 0;
  map.entries["first"] = first;
  WeightEntry paired = stored;
  paired.stored.shape = paired.shape = {4, 2};
  paired.layout = {false, -1, 1};
  map.entries["paired"] = paired;
  const WeightSource source = WeightSource::open(file("x.weights.json", weight_map_text(map)));
  EXPECT_EQ(values(source, "turned"), (std::vector<float>{2, 6, 3, 7}));
  EXPECT_EQ(values(source, "row"), (std::vector<float>{5, 6, 7, 8}));
  EXPECT_EQ(values(source, "first"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(values(source, "paired"), (std::vector<float>{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_EQ(source.at("turned").source_name, "m");
}

TEST_F(WeightSourceTest, HeldTensorsAreReadAsTheyAre) {
  WeightSource source;
  source.hold({{"sum", Tensor::of<float>({2}, {3, 4})}});
  EXPECT_EQ(values(source, "sum"), (std::vector<float>{3, 4}));
  source.forget("sum");
  EXPECT_EQ(source.at("sum").spec(), (TensorSpec{{2}, DType::kFloat32}));
  expect_error(ErrorCode::kAlreadyExists, "twice", [&] {
    source.hold({{"sum", Tensor::of<float>({1}, {1})}});
  });
}

TEST_F(WeightSourceTest, MapsThatDoNotFitAreRefused) {
  const std::vector<float> numbers = {1, 2, 3, 4};
  file("x.safetensors", safetensors_bytes({{"m", {{2, 2}, DType::kFloat32}}}, numbers));
  WeightEntry entry = WeightSource::open(folder_.path() / "x.safetensors").at("m");
  const auto refused = [&](const WeightEntry& wrong, std::string_view what) {
    const auto path =
        file("x.weights.json", weight_map_text({{"x.safetensors"}, {{"m", wrong}}, {}}));
    expect_error(ErrorCode::kDataLoss, std::string(what), [&] { (void)WeightSource::open(path); });
  };
  WeightEntry wrong = entry;
  wrong.offset += 1'000'000;
  refused(wrong, "the file has");
  wrong = entry;
  wrong.shape = {3, 2};
  refused(wrong, "cannot be read as");
  wrong = entry;
  wrong.layout.first_row = 1;
  refused(wrong, "cannot be read as");
  wrong = entry;
  wrong.stored.shape = wrong.shape = {1LL << 40, 1LL << 40};
  refused(wrong, "out of bounds");
}

TEST_F(WeightSourceTest, GgufTellsSettingsAndUnpacks) {
  std::string q8(34, '\0'), q41(20, '\0');
  q8[0] = 0x00, q8[1] = 0x40;  // 2.0
  q8[2] = 3, q8[33] = -4;
  q41[1] = 0x3c, q41[3] = 0x40;  // 1.0 and 2.0
  q41[4] = '\x5a';
  GgufWriter writer;
  writer.text("general.architecture", "llama").number("llama.eps", 6, 1e-5F).list("words", 2, 2);
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6};
  writer.tensor("plain", {3, 2}, 0, text_of(std::as_bytes(std::span(plain))));
  writer.tensor("q8", {32}, 8, q8).tensor("q41", {32}, 3, q41);
  const auto path = file("x.gguf", writer.bytes());
  const GgufFile opened = open_gguf(std::make_shared<const MappedFile>(path));
  EXPECT_EQ(opened.settings.at("general.architecture").as_string(), "llama");
  EXPECT_EQ(opened.settings.at("llama.eps").as_number(), 1e-5);
  EXPECT_EQ(opened.settings.at("words").at("count").as_integer(), 2);
  EXPECT_EQ(opened.weights.read("plain").shape(), (Shape{2, 3}));
  EXPECT_EQ(values(opened.weights, "q8")[0], 6.0F);
  EXPECT_EQ(values(opened.weights, "q8")[31], -8.0F);
  EXPECT_EQ(values(opened.weights, "q41")[0], 12.0F);
  EXPECT_EQ(values(opened.weights, "q41")[16], 7.0F);
}

TEST_F(WeightSourceTest, AClaimOfTenGigabytesInAKilobyteIsRefused) {
  GgufWriter writer;
  writer.text("general.architecture", "llama");
  writer.tensor("huge", {std::uint64_t{1} << 16, 40'000}, 0, std::string(1000, 'x'));
  const auto gguf = file("x.gguf", writer.bytes());
  expect_error(ErrorCode::kDataLoss, "claims 10485760000 bytes",
               [&] { (void)WeightSource::open(gguf); });
  const auto lists =
      file("y.gguf", GgufWriter().list("tokens", std::uint64_t{10} << 30, 1).bytes());
  expect_error(ErrorCode::kDataLoss, "items of a list", [&] { (void)WeightSource::open(lists); });
  std::string bytes = writer.bytes();
  const std::uint64_t many = std::uint64_t{1} << 40;
  std::memcpy(bytes.data() + 8, &many, sizeof many);
  const auto tensors = file("z.gguf", bytes);
  expect_error(ErrorCode::kDataLoss, "tensors", [&] { (void)WeightSource::open(tensors); });
}

TEST(HalfValue, EveryKindOfNumber) {
  EXPECT_EQ(half_value(0x3c00), 1.0F);
  EXPECT_EQ(half_value(0xc000), -2.0F);
  EXPECT_EQ(half_value(0x0001), 0x1.0p-24F);
  EXPECT_EQ(half_value(0x7bff), 65504.0F);
  EXPECT_EQ(half_value(0x7c00), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace harmonics::inline in_models
