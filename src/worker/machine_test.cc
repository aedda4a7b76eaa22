// GPUs as NVML tells of them: a library that looks like it (fake_nvml_testing.cc) stands in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>

#include <tree_testing.h>

#include "nvml.h"

namespace harmonics::inline in_worker {
namespace {

using testing::HasSubstr;

std::string library(const char* name) { return (binary_folder() / "tests" / name).string(); }

TEST(Nvml, ListsWhatTheLibraryKnows) {
  const auto found = find_nvml_gpus(library("fake_nvml.so"));
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0], (DeviceSpec{"0", "Imaginary A", 24576}));
  EXPECT_EQ((*found)[1], (DeviceSpec{"1", "Imaginary B", 81920}));
}

TEST(Nvml, NoLibraryIsNotAnErrorAWrongOneIs) {
  EXPECT_FALSE(find_nvml_gpus("libharmonics-absent.so.1").has_value());
  try {
    static_cast<void>(find_nvml_gpus("libm.so.6"));
    ADD_FAILURE() << "took a library that is another";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("nvmlInit_v2 is not in it"));
  }
}

}  // namespace
}  // namespace harmonics::inline in_worker
