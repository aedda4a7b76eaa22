// Any bytes are planner files or an Error; what is read survives being written and read again. The
// first byte picks the format.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/base/log.h>
#include <harmonics/plan/deployment_file.h>
#include <harmonics/plan/inputs.h>
#include <harmonics/plan/plan.h>

namespace {

using namespace harmonics;

void expect(bool held) {
  if (!held) std::abort();
}

void read_one(unsigned format, std::string_view text) {
  static const HostTable hosts = {{"t", {"a", "b"}}, {"u", {"c"}}};
  static const DeviceTypeTable types = {{"t", {}}, {"u", {}}};
  switch (format % 6) {
    case 0: {
      const ModelTable table = parse_models(text, "f");
      expect(parse_models(models_to_yaml(table), "f") == table);
      break;
    }
    case 1: {
      const DeviceTypeTable table = parse_device_types(text, "f", {});
      expect(parse_device_types(device_types_to_yaml(table), "f", {}) == table);
      break;
    }
    case 2: {
      const HostTable table = parse_hosts(text, "f", types);
      expect(parse_hosts(hosts_to_yaml(table), "f", types) == table);
      break;
    }
    case 3: {
      const LinkTable table = parse_links(text, "f", hosts);
      expect(parse_links(links_to_yaml(table), "f", hosts) == table);
      break;
    }
    case 4: {
      const DeploymentFile file = parse_deployment(text, "f");
      expect(parse_deployment(deployment_to_yaml(file), "f") == file);
      break;
    }
    default: {
      const Plan plan = parse_plan(text, "f");
      expect(parse_plan(plan_to_yaml(plan), "f") == plan);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  set_log_level(LogLevel::kOff);
  if (size == 0) return 0;
  try {
    read_one(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
