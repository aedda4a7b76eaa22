#include <gtest/gtest.h>

#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/runtime/safetensors.h>
#include <harmonics/runtime/safetensors_consumer.h>

#include <error_testing.h>
#include <temporary_folder_testing.h>

namespace harmonics::inline in_runtime {
namespace {

std::size_t files_in(const TemporaryFolder& folder) {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator(folder.path()), Iterator()));
}

Tensor numbers(Shape shape, float first) {
  Tensor tensor = Tensor::empty(std::move(shape), DType::kFloat32);
  for (float& value : tensor.mutable_values<float>()) value = first++;
  return tensor;
}

TEST(SafetensorsConsumer, RowsReadBackAsOneTensor) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows.safetensors";
  SafetensorsConsumer consumer(path, "scores");
  constexpr std::int64_t kBatches = 40;  // the digits of rows and places grow meanwhile
  for (std::int64_t i = 0; i < kBatches; ++i) {
    consumer.push(numbers({i % 3 + 1, 2, 5}, static_cast<float>(consumer.rows() * 10)));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  consumer.finish();
  consumer.finish();
  const Safetensors file = read_safetensors(path);
  ASSERT_EQ(file.tensors.size(), 1u);
  const Tensor& rows = file.tensors.at("scores");
  EXPECT_EQ(rows.shape(), (Shape{consumer.rows(), 2, 5}));
  EXPECT_TRUE(std::ranges::equal(rows.bytes(), numbers(rows.shape(), 0).bytes()));
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(SafetensorsConsumer, NoRowsAndOtherDtypesAreKeptAsTheyAre) {
  const TemporaryFolder folder;
  SafetensorsConsumer none(folder.path() / "none", "rows");
  none.push(Tensor::empty({0, 4}, DType::kFloat32));
  none.finish();
  EXPECT_EQ(read_safetensors(folder.path() / "none").tensors.at("rows").shape(), Shape{0});
  SafetensorsConsumer tags(folder.path() / "tags", "tags");
  tags.push(Tensor::of<std::int64_t>({2}, {1, -2}));
  tags.finish();
  const Tensor read = read_safetensors(folder.path() / "tags").tensors.at("tags");
  EXPECT_EQ(read.dtype(), DType::kInt64);
  EXPECT_EQ(read.values<std::int64_t>()[1], -2);
}

TEST(SafetensorsConsumer, WhatDoesNotFitIsAnErrorAndTheOldFileStays) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "rows";
  write_text_file(path, "old");
  {
    SafetensorsConsumer consumer(path, "rows");
    consumer.push(numbers({2, 3}, 0));
    expect_error(ErrorCode::kInvalidArgument, "one tensor holds rows of one shape", [&] {
      consumer.push(numbers({2, 4}, 0));
    });
    expect_error(ErrorCode::kInvalidArgument, "one tensor holds rows of one shape", [&] {
      consumer.push(Tensor::of<std::int64_t>({1, 3}, {1, 2, 3}));
    });
    expect_error(ErrorCode::kInvalidArgument, "leading batch axis", [&] { consumer.push({}); });
  }
  EXPECT_EQ(read_text_file(path, 100), "old");
  EXPECT_EQ(files_in(folder), 1u);
  expect_error(ErrorCode::kNotFound, "nowhere",
               [&] { SafetensorsConsumer(folder.path() / "nowhere" / "x", "rows"); });
  SafetensorsConsumer done(path, "rows");
  done.finish();
  expect_error(ErrorCode::kFailedPrecondition, "is finished", [&] { done.push(numbers({1}, 0)); });
}

}  // namespace
}  // namespace harmonics::inline in_runtime
