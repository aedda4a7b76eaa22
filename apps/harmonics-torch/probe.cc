// harmonics-torch --probe: tells `harmonics doctor` about libtorch.
#include <harmonics/base/json.h>
#include <harmonics/console/terminal.h>
#include <harmonics/options/command_line.h>
#include <harmonics/runtime/devices.h>

#include "subcommands.h"

namespace harmonics::inline in_torch_program {

int probe() {
  Json json;
  json.set("version", torch_version()).set("cuda", cuda_available());
  json.set("cuda_devices", cuda_available() ? cuda_device_count() : 0);
  write_text(TextStream::kOutput, json.dump() + "\n");
  return kExitDone;
}

}  // namespace harmonics::inline in_torch_program
