// Whatever text comes as a trace, as learned rates or as a device's name: an Error at worst.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/dispatch/device.h>
#include <harmonics/dispatch/rates.h>
#include <harmonics/dispatch/trace.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0:
        (void)harmonics::dispatch_trace_svg(harmonics::read_dispatch_trace(text, "fuzz"));
        break;
      case 1: (void)harmonics::rates_text(harmonics::parse_rates(text, "fuzz")); break;
      default: (void)harmonics::parse_work_device(text); break;
    }
  } catch (const harmonics::Error&) {
  }
  return 0;
}
