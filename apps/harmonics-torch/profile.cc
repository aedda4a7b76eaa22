// harmonics profile: measures a graph here and adds the figures to the planner's files.
#include <algorithm>
#include <cmath>
#include <thread>

#include <harmonics/base/clock.h>
#include <harmonics/base/core_clock.h>
#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/log.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/options/graph_argument.h>
#include <harmonics/place/profile.h>
#include <harmonics/place/profile_bandwidth.h>
#include <harmonics/place/profile_files.h>
#include <harmonics/place/profile_machine.h>
#include <harmonics/plan/cost_model.h>
#include <harmonics/runtime/devices.h>
#include <harmonics/runtime/opencl_devices.h>
#include <harmonics/transport/packing.h>

#include "profile_progress.h"
#include "profile_report.h"
#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

Backend backend_of(ProfiledBackend backend) {
  switch (backend) {
    case ProfiledBackend::kCpu: return Backend::CPU;
    case ProfiledBackend::kGpu: return Backend::GPU;
    case ProfiledBackend::kFpga: break;
  }
  return Backend::FPGA;
}

int optimizer_slots(ProfiledOptimizer optimizer) {
  return optimizer == ProfiledOptimizer::kSgd ? 1 : 2;  // momentum; mean and square
}

ProfileOptions options_of(const ProfileCommand& command) {
  ProfileOptions options;
  options.mode =
      command.mode == ProfiledMode::kTraining ? ProfileMode::kTraining : ProfileMode::kInference;
  options.backend = backend_of(command.backend);
  options.device_index = static_cast<std::uint32_t>(command.device_index);
  options.warmup = static_cast<int>(command.warmup);
  options.repeats = static_cast<int>(command.repeats);
  options.threads = static_cast<int>(command.threads);
  options.training = {optimizer_slots(command.optimizer), static_cast<int>(command.in_flight)};
  return options;
}

// The OpenCL device that is measured; there is one, since the profile itself comes first.
OpenClDevice opencl_device() {
  const std::vector<OpenClDevice> devices = list_opencl_devices();
  const OpenClWish wish = opencl_wish(std::nullopt);
  const auto chosen = choose_opencl_device(devices, wish);
  if (!chosen) fail(ErrorCode::kUnavailable, "{}", opencl_lacking(devices, wish));
  return devices[*chosen];
}

void expect_gpu(const ProfileCommand& command) {
  if (command.backend != ProfiledBackend::kGpu) return;
  if (command.device_index < cuda_device_count()) return;
  fail(ErrorCode::kFailedPrecondition,
       "libtorch sees no GPU {} here: 'harmonics devices' lists what this machine has",
       command.device_index);
}

std::string type_name(const ProfileCommand& command) {
  if (!command.type.empty()) return command.type;
  if (command.backend == ProfiledBackend::kFpga) return device_type_name(opencl_device().name);
  return command.backend == ProfiledBackend::kGpu
             ? gpu_type_name(static_cast<std::uint32_t>(command.device_index))
             : cpu_type_name();
}

double memory_mb(const ProfileCommand& command) {
  if (command.memory_mb > 0) return command.memory_mb;
  if (command.backend == ProfiledBackend::kFpga) {
    return std::floor(static_cast<double>(opencl_device().memory_bytes) / kBytesPerMegabyte);
  }
  const auto free = command.backend == ProfiledBackend::kGpu
                        ? free_gpu_memory_bytes(static_cast<std::uint32_t>(command.device_index))
                        : free_memory_bytes();
  if (!free) {
    fail(ErrorCode::kUnavailable,
         "this machine does not say how much memory is free: give --mem-mb");
  }
  return std::floor(static_cast<double>(*free) / kBytesPerMegabyte);
}

/// Megabits of float32 a second that are packed to eight bits, or unpacked, on one thread: the
/// slower of both, the best of some rounds.
double packing_mbps(const Clock& clock) {
  constexpr int kRounds = 5;
  Tensor rows = Tensor::empty({1024, 1024});
  float value = 0;
  for (float& one : rows.mutable_values<float>()) one = std::sin(value += 0.37F);
  double fastest = 0;
  for (int i = 0; i < kRounds; ++i) {
    const Nanoseconds start = clock.now();
    const Tensor packed = pack_tensor(rows, 8);
    const Nanoseconds middle = clock.now();
    static_cast<void>(unpack_tensor(packed));
    const double slower = std::max(in_seconds(middle - start), in_seconds(clock.now() - middle));
    fastest = std::max(fastest, static_cast<double>(rows.byte_size()) / kBytesPerMegabit / slower);
  }
  return std::floor(fastest);
}

std::vector<GraphProfile> measure(const ProfileCommand& command, const HarmonicGraph& graph) {
  const SteadyClock clock;
  const CoreClock cores;
  ProfileOptions options = options_of(command);
  options.waited = [&cores] { return cores.now().for_core; };
  ProfileBar bar(command.batch_sizes.size() * command.dtypes.size(),
                 command.output == OutputStyle::kTable, clock);
  std::vector<GraphProfile> profiles;
  for (const std::string& dtype : command.dtypes) {
    for (const std::int64_t batch_size : command.batch_sizes) {
      options.dtype = dtype;
      options.batch_size = batch_size;
      bar.begin_run(format("{} x{}", graph.name(), batch_size));
      profiles.push_back(
          profile_graph(graph, options, clock,
                        [&](std::size_t index, std::size_t units, const std::string& name) {
                          bar.show(index, units, name);
                        }));
    }
  }
  return profiles;
}

void print(const ProfileReport& report, OutputStyle output) {
  switch (output) {
    case OutputStyle::kTable:
      write_text(TextStream::kOutput, report_text(report, wants_colour(TextStream::kOutput)));
      break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, report_json(report).dump() + "\n");
      break;
    case OutputStyle::kQuiet:
      for (const GraphProfile& profile : report.profiles) {
        write_text(TextStream::kOutput, format("{}\n", profile.total_s()));
      }
      break;
  }
}

}  // namespace

int profile(const ProfileCommand& command) {
  const GraphArgument argument = open_graph_argument(command.graph, command.axes);
  ProfileReport report;
  report.graph = argument.graph.name();
  // Times of training must not replace those of inference.
  report.model = argument.model + (command.mode == ProfiledMode::kTraining ? "-training" : "");
  if (!command.model.empty()) report.model = command.model;
  report.files = {command.models_file, command.types_file, command.results_file};
  // Whatever may fail soon comes before what takes long.
  expect_gpu(command);
  for (const auto& file : {command.models_file, command.types_file, command.results_file}) {
    if (!file.empty()) const AtomicFile trial(file);
  }
  report.machine.type = type_name(command);
  report.machine.memory_mb = memory_mb(command);
  const FoundBandwidth bandwidth = find_bandwidth(
      command.bandwidth_mbps, command.peer,
      known_bandwidth(read_profile_tables(report.files), report.machine.type), SteadyClock());
  report.machine.bandwidth_mbps = bandwidth.mbps;
  report.bandwidth_source = bandwidth.source;
  report.machine.packing_mbps = packing_mbps(SteadyClock());
  const std::vector<ProcessTime> before = process_times();
  const Nanoseconds began = SteadyClock().now();
  report.profiles = measure(command, argument.graph);
  const double seconds = in_seconds(SteadyClock().now() - began);
  report.busy = busy_processes(before, process_times(), seconds);
  report.cores = std::max(1U, std::thread::hardware_concurrency());
  // Others may have written meanwhile.
  ProfileTables tables = read_profile_tables(report.files);
  merge_profiles(tables, report.model, report.machine, report.profiles);
  write_profile_files(report.files, tables, results_to_yaml(report.model, report.profiles));
  write_text(TextStream::kError, busy_text(report));
  print(report, command.output);
  return kExitDone;
}

}  // namespace harmonics::inline in_torch_program
