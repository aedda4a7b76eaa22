#include <harmonics/graph/deployment.h>

#include <array>
#include <cctype>

#include <harmonics/base/error.h>

namespace harmonics::inline in_graph {
namespace {
constexpr std::array<std::string_view, 4> kNames = {"cpu", "gpu", "fpga", "auto"};
}

std::string_view backend_name(Backend backend) { return kNames.at(static_cast<int>(backend)); }

Backend backend_from_name(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == lower) return static_cast<Backend>(i);
  }
  fail(ErrorCode::kInvalidArgument, "unknown backend '{}': use cpu, gpu, fpga or auto", name);
}

double partition_weight(const PartitionOptions& options, Backend backend) {
  if (options.weight) {
    if (!(*options.weight > 0)) {
      fail(ErrorCode::kInvalidArgument, "a partition's weight must be above 0, {} was given",
           *options.weight);
    }
    return *options.weight;
  }
  switch (backend) {
    case Backend::GPU: return 4.0;
    case Backend::FPGA: return 2.0;
    default: return 1.0;
  }
}

}  // namespace harmonics::inline in_graph
