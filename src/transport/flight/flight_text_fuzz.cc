// Fuzzes the metadata of guests: what is read is written and read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <harmonics/base/error.h>

#include "flight_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace harmonics;
  Message message;
  try {
    read_message_text({reinterpret_cast<const char*>(data), size}, message);
  } catch (const Error&) {
    return 0;
  }
  if (message.attachment.size() > kMaxAttachmentBytes) std::abort();
  if (message.tensor.defined() && message.tensor.bytes().size() > kMaxTextTensorBytes) std::abort();
  Message again;
  read_message_text(message_text(message), again);
  const bool same = again.kind == message.kind && again.step == message.step &&
                    again.micro_batch == message.micro_batch &&
                    again.attachment == message.attachment &&
                    message_text(again) == message_text(message);
  if (!same) std::abort();
  return 0;
}
