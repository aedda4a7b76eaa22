#include <harmonics/place/place.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/base/log.h>
#include <harmonics/graph/partition.h>
#include <harmonics/graph/zoo.h>
#include <harmonics/runtime/devices.h>

#include <error_testing.h>

#include "share.h"

namespace harmonics::inline in_place {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `layers` layers of equal cost, one after another.
HarmonicGraph chain(std::size_t layers) {
  GraphBuilder b("net");
  b.producer("x0", Shape{1});
  for (std::size_t i = 1; i <= layers; ++i) {
    b.layer(format("x{}", i), "identity", {}, {format("x{}", i - 1)});
  }
  return b.consumer("output", format("x{}", layers)).build();
}

std::vector<std::size_t> layer_counts(const std::vector<HarmonicGraph>& parts) {
  std::vector<std::size_t> counts;
  for (const HarmonicGraph& part : parts) counts.push_back(part.layers().size());
  return counts;
}

TEST(ShareTest, AutoMeansTheDeploymentsBackendAndThenTheMachines) {
  DeploymentDescriptor deploy;
  deploy.partitions = {{}, {Backend::FPGA}, {Backend::CPU}};
  EXPECT_THAT(resolve_shares(deploy, Backend::GPU),
              ElementsAre(Share{Backend::GPU, 4}, Share{Backend::FPGA, 2}, Share{Backend::CPU, 1}));
  EXPECT_EQ(resolve_shares(deploy, Backend::CPU)[0], (Share{Backend::CPU, 1}));
  deploy.backend = Backend::FPGA;
  EXPECT_EQ(resolve_shares(deploy, Backend::GPU)[0], (Share{Backend::FPGA, 2}));
}

TEST(ShareTest, AUsersWeightReplacesTheDefault) {
  DeploymentDescriptor deploy;
  deploy.partitions = {{Backend::GPU, "", 0, std::nullopt, 1.5}, {Backend::FPGA}, {Backend::CPU}};
  EXPECT_THAT(
      resolve_shares(deploy, Backend::CPU),
      ElementsAre(Share{Backend::GPU, 1.5}, Share{Backend::FPGA, 2}, Share{Backend::CPU, 1}));
}

TEST(PlaceTest, TheAcceleratorIsTheGpuWhereOneAnswers) {
  EXPECT_EQ(select_accelerator_backend(), best_backend());
  EXPECT_EQ(select_accelerator_backend() == Backend::GPU, cuda_available());
}

TEST(PlaceTest, WorkFollowsTheWeights) {
  DeploymentDescriptor deploy;
  deploy.partitions = {{Backend::GPU}, {Backend::FPGA}, {Backend::CPU}};
  EXPECT_THAT(layer_counts(auto_partition(chain(14), deploy)), ElementsAre(8, 4, 2));
  deploy.partitions = {{Backend::GPU, "", 0, std::nullopt, 1.5}, {Backend::FPGA}, {Backend::CPU}};
  EXPECT_THAT(layer_counts(auto_partition(chain(18), deploy)), ElementsAre(6, 8, 4));
  deploy.partitions = {{Backend::GPU, "", 0, std::nullopt, 2.0}, {Backend::FPGA}};
  EXPECT_THAT(layer_counts(auto_partition(chain(18), deploy)), ElementsAre(9, 9));
}

TEST(PlaceTest, APartWithNextToNoWeightStillGetsALayer) {
  DeploymentDescriptor deploy;
  deploy.partitions = {
      {Backend::CPU, "", {}, {}, 1e-6}, {Backend::CPU}, {Backend::CPU, "", {}, {}, 1e-6}};
  EXPECT_THAT(layer_counts(auto_partition(chain(10), deploy)), ElementsAre(1, 8, 1));
}

TEST(PlaceTest, EqualWeightsCutLikePartitionGraph) {
  DeploymentDescriptor deploy;
  deploy.partitions.assign(5, {Backend::CPU});
  const HarmonicGraph graph = zoo_graph("resnet18");
  EXPECT_EQ(auto_partition(graph, deploy), partition_graph(graph, 5));
}

TEST(PlaceTest, AutoIsWhatThisMachineHasWithItsWeight) {
  DeploymentDescriptor deploy;
  deploy.partitions = {{}, {Backend::CPU, "", 0, std::nullopt, 3.0}};
  const Backend here = select_accelerator_backend();
  const LogCapture capture;
  (void)auto_partition(chain(4), deploy);
  EXPECT_THAT(
      capture.lines(),
      Contains(HasSubstr(format("{} {}, cpu 3", backend_name(here), partition_weight({}, here)))));
}

TEST(PlaceTest, LogsTheResolvedWeights) {
  DeploymentDescriptor deploy;
  deploy.partitions = {{Backend::GPU, "", 0, std::nullopt, 1.5}, {Backend::FPGA}, {Backend::CPU}};
  const LogCapture capture;
  (void)auto_partition(chain(4), deploy);
  EXPECT_THAT(capture.lines(), Contains(HasSubstr("gpu 1.5, fpga 2, cpu 1")));
}

TEST(PlaceTest, ImpossibleDeploymentsAreErrors) {
  const auto invalid = ErrorCode::kInvalidArgument;
  DeploymentDescriptor deploy;
  expect_error(invalid, "names no partitions", [&] { (void)auto_partition(chain(2), deploy); });
  deploy.partitions.assign(3, {Backend::CPU});
  expect_error(invalid, "into 3 parts", [&] { (void)auto_partition(chain(2), deploy); });
  deploy.partitions[1].weight = 0.0;
  expect_error(invalid, "above 0", [&] { (void)auto_partition(chain(9), deploy); });
  const HarmonicGraph open =
      GraphBuilder("net").producer("x").layer("y", "identity", {}, {"x"}).build();
  deploy.partitions.assign(1, {Backend::CPU});
  expect_error(ErrorCode::kFailedPrecondition, "'x'", [&] { (void)auto_partition(open, deploy); });
}

TEST(PlaceTest, ReachesItsCeiling) {
  DeploymentDescriptor deploy;
  deploy.partitions.assign(kMaxPartitions, {Backend::CPU});
  deploy.partitions[7].weight = 3.0;
  const auto parts = auto_partition(chain(kMaxPartitions + 2), deploy);
  ASSERT_EQ(parts.size(), kMaxPartitions);
  EXPECT_EQ(parts[7].layers().size(), 3u);
  deploy.partitions.emplace_back();
  expect_error(ErrorCode::kInvalidArgument, "at most 4096",
               [&] { (void)auto_partition(chain(kMaxPartitions + 2), deploy); });
}

}  // namespace
}  // namespace harmonics::inline in_place
