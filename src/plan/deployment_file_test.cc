#include <harmonics/plan/deployment_file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>

namespace harmonics::inline in_plan {
namespace {

using ::testing::HasSubstr;

TEST(DeploymentFileTest, ReadsEveryField) {
  const DeploymentFile file = parse_deployment(
      "backend: auto\nsecure: true\nproofs: true\nstrict: true\npartitions:\n"
      "  - {backend: gpu, device: 1, weight: 1.5, mem_MB: 2048}\n  - {backend: fpga}\n  - {}\n",
      "d.yml");
  DeploymentFile expected{"auto", true, true, {{"gpu", 1, 1.5, 2048.0}, {"fpga"}, {}}, true};
  EXPECT_EQ(file, expected);
  EXPECT_EQ(parse_deployment(deployment_to_yaml(file), "again"), file);
}

void expect_broken(const std::string& text, const std::string& words) {
  try {
    static_cast<void>(parse_deployment(text, "d.yml"));
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("d.yml"));
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(DeploymentFileTest, WhatIsWrongIsNamedWithItsLine) {
  expect_broken("", "partitions");
  expect_broken("partitions: []", "at least one");
  expect_broken("partitions:\n  - {backend: tpu}\n", "'tpu' is no backend");
  expect_broken("partitions:\n  - {weight: 0}\n", "above 0");
  expect_broken("partitions:\n  - {weight: much}\n", "d.yml:2");
  expect_broken("partitions:\n  - {device: -1}\n", "device");
  expect_broken("partitions:\n  - {colour: red}\n", "colour");
  expect_broken("strict: maybe\npartitions:\n  - {}\n", "neither true nor false");
}

TEST(DeploymentFileTest, ReachesItsCeiling) {
  std::string text = "partitions:\n";
  for (std::size_t i = 0; i < kMaxDeploymentEntries; ++i) text += "  - {backend: cpu}\n";
  EXPECT_EQ(parse_deployment(text, "d.yml").partitions.size(), kMaxDeploymentEntries);
  expect_broken(text + "  - {backend: cpu}\n", format("at most {}", kMaxDeploymentEntries));
}

}  // namespace
}  // namespace harmonics::inline in_plan
