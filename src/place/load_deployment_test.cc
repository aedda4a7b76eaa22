#include <harmonics/place/load_deployment.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_place {
namespace {

using ::testing::HasSubstr;

TEST(DeploymentTest, AListNamesBackendsAndDevices) {
  const Deployment made = load_deployment("gpu:1,FPGA,cpu");
  const auto& partitions = made.descriptor.partitions;
  ASSERT_EQ(partitions.size(), 3u);
  EXPECT_EQ(partitions[0].backend, Backend::GPU);
  EXPECT_EQ(partitions[0].device_index, 1u);
  EXPECT_EQ(partitions[1].backend, Backend::FPGA);
  EXPECT_EQ(partitions[1].fpga_device_index, std::nullopt);
  EXPECT_EQ(partitions[2].backend, Backend::CPU);
  EXPECT_FALSE(made.is_limited());
  EXPECT_FALSE(made.descriptor.strict);
}

TEST(DeploymentTest, AFileSaysMore) {
  const TemporaryFolder folder;
  const std::filesystem::path path =
      folder.write("deploy.yml",
                   "strict: true\npartitions:\n  - {backend: gpu, weight: 1.5}\n"
                   "  - {backend: fpga, device: 2, mem_MB: 64}\n");
  const Deployment made = load_deployment(path.string());
  EXPECT_TRUE(made.descriptor.strict);
  EXPECT_EQ(made.descriptor.backend, Backend::Auto);
  ASSERT_EQ(made.descriptor.partitions.size(), 2u);
  EXPECT_EQ(made.descriptor.partitions[0].weight, 1.5);
  EXPECT_EQ(made.descriptor.partitions[1].fpga_device_index, 2u);
  EXPECT_TRUE(made.is_limited());
  EXPECT_EQ(made.limits.memory_mb[1], 64.0);
}

TEST(DeploymentTest, WhatMakesNoSenseIsAnError) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "unknown backend"},
           {"cpu,", "unknown backend"},
           {"tpu", "'tpu'"},
           {"gpu:x", "no device number"},
           {"gpu:99999999", "no device number"},
           {"there-is-none.yml", "there-is-none.yml"}}) {
    try {
      static_cast<void>(load_deployment(text));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words)) << text;
    }
  }
}

}  // namespace
}  // namespace harmonics::inline in_place
