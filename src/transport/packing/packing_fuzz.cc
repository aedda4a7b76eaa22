// Any bytes are a packed tensor or an Error; what was read is packed and read again unchanged, and
// reading takes no more memory than the bytes allow.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/transport/packing.h>

namespace {

using namespace harmonics;

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Tensor input =
      Tensor::of<std::uint8_t>({static_cast<std::int64_t>(size)}, std::span(data, size));
  Tensor read;
  try {
    read = unpack_tensor(input);
  } catch (const Error&) {
    return 0;
  }
  if (read.byte_size() > 8 * size) std::abort();
  for (const int bits : {16, 8, 4}) {
    const Tensor packed = pack_tensor(read, bits);
    if (packed.byte_size() != packed_bytes(read.spec(), bits)) std::abort();
    if (!is_packable(read.spec(), bits)) continue;
    const Tensor back = unpack_tensor(packed);
    if (back.spec() != read.spec()) std::abort();
    if (read.dtype() == DType::kFloat32 && !same_bytes(pack_tensor(back, bits), packed)) {
      std::abort();
    }
  }
  return 0;
}
