#include <harmonics/place/profile_machine.h>

#include <gtest/gtest.h>

#include <harmonics/base/file.h>

#include <temporary_folder_testing.h>

namespace harmonics::inline in_place {
namespace {

// A made-up root with the system's files.
class ProfileMachineTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) { root_.write(path, text); }

  TemporaryFolder root_;
};

TEST(DeviceTypeName, KeepsWhatTellsMachinesApart) {
  EXPECT_EQ(device_type_name("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), "Intel-Xeon-E5-2680-v4");
  EXPECT_EQ(device_type_name("AMD EPYC 7742 64-Core Processor"), "AMD-EPYC-7742-64-Core");
  EXPECT_EQ(device_type_name("NVIDIA H200"), "NVIDIA-H200");
  EXPECT_EQ(device_type_name("  : \"odd\"\n"), "odd");
  EXPECT_EQ(device_type_name(""), "");
}

TEST_F(ProfileMachineTest, NamesTheProcessor) {
  EXPECT_EQ(cpu_type_name(root_), "cpu");
  write("proc/cpuinfo", "processor\t: 0\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4\n");
  EXPECT_EQ(cpu_type_name(root_), "Raspberry-Pi-4");
  write("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Atom(TM) E3845\n");
  EXPECT_EQ(cpu_type_name(root_), "Intel-Atom-E3845");
}

TEST_F(ProfileMachineTest, NamesTheCard) {
  EXPECT_EQ(gpu_type_name(0, root_), "gpu");
  write("proc/driver/nvidia/gpus/0000:65:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
  write("proc/driver/nvidia/gpus/0000:17:00.0/information", "Model: \t\t NVIDIA A100\n");
  EXPECT_EQ(gpu_type_name(0, root_), "NVIDIA-A100");
  EXPECT_EQ(gpu_type_name(1, root_), "NVIDIA-H200");
  EXPECT_EQ(gpu_type_name(2, root_), "gpu");
}

TEST_F(ProfileMachineTest, FreeMemoryIsTheSmallerOfSystemAndGroup) {
  EXPECT_EQ(free_memory_bytes(root_), std::nullopt);
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(free_memory_bytes(root_), 4000 * 1024);
  write("sys/fs/cgroup/memory.current", "1000\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(free_memory_bytes(root_), 4000 * 1024);
  write("sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(free_memory_bytes(root_), 2000);
  write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(free_memory_bytes(root_), 0);
}

TEST_F(ProfileMachineTest, TheFastestInterfaceThatIsUpCounts) {
  EXPECT_EQ(interface_speed_mbps(root_), std::nullopt);
  write("sys/class/net/lo/operstate", "unknown\n");
  write("sys/class/net/lo/speed", "99999\n");
  write("sys/class/net/eth0/operstate", "up\n");
  write("sys/class/net/eth0/speed", "1000\n");
  write("sys/class/net/eth1/operstate", "down\n");
  write("sys/class/net/eth1/speed", "40000\n");
  write("sys/class/net/wlan0/operstate", "up\n");
  write("sys/class/net/wlan0/speed", "-1\n");
  EXPECT_EQ(interface_speed_mbps(root_), 1000);
}

TEST(ThisMachine, SaysWhatItIs) {
  EXPECT_FALSE(cpu_type_name().empty());
  const auto free = free_memory_bytes();
  ASSERT_TRUE(free.has_value());
  EXPECT_GT(*free, 0);
}

}  // namespace
}  // namespace harmonics::inline in_place
