// harmonics devices: what this machine can compute on.
#include <harmonics/place/list_devices.h>

#include <harmonics/base/format.h>
#include <harmonics/base/json.h>
#include <harmonics/console/table.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>

#include "subcommands.h"

namespace harmonics::inline in_torch_program {
namespace {

constexpr std::int64_t kDecimalMegabyte = 1'000'000;

std::string used_by(const ComputeDevice& device) {
  std::string text(backend_name(device.backend));
  if (!device.is_default) text += format(":{}", device.index);
  if (device.is_auto) text += ", auto";
  return text;
}

std::string table_text(const std::vector<ComputeDevice>& devices) {
  Table table{{{"device"}, {"name"}, {"memory MB", Align::kRight}, {"driver"}, {"backend"}}, {}};
  for (const ComputeDevice& device : devices) {
    table.rows.push_back(
        {format("{}:{}", device.kind, device.index), device.name,
         device.memory_bytes ? with_thousands(*device.memory_bytes / kDecimalMegabyte) : "?",
         device.driver, used_by(device)});
  }
  return table.text(wants_colour(TextStream::kOutput));
}

Json devices_json(const std::vector<ComputeDevice>& devices) {
  Json list = Json::array();
  for (const ComputeDevice& device : devices) {
    Json json;
    json.set("kind", device.kind).set("index", static_cast<std::int64_t>(device.index));
    json.set("name", device.name).set("driver", device.driver);
    if (device.memory_bytes) json.set("memory_bytes", *device.memory_bytes);
    json.set("backend", backend_name(device.backend));
    json.set("default", device.is_default).set("auto", device.is_auto);
    list.push(std::move(json));
  }
  Json json;
  json.set("devices", std::move(list));
  return json;
}

}  // namespace

int devices(const DevicesCommand& command) {
  const std::vector<ComputeDevice> found = list_devices();
  switch (command.output) {
    case OutputStyle::kTable: write_text(TextStream::kOutput, table_text(found)); break;
    case OutputStyle::kJson:
      write_text(TextStream::kOutput, devices_json(found).dump() + "\n");
      break;
    case OutputStyle::kQuiet:
      for (const ComputeDevice& device : found) {
        write_text(TextStream::kOutput, format("{}:{}\n", device.kind, device.index));
      }
      break;
  }
  return kExitDone;
}

}  // namespace harmonics::inline in_torch_program
