// Prints what a source yields, for the test with pyarrow: a line with dtype and shape, then the
// bytes of every sample in hexadecimal.
#include <cstdio>
#include <string>

#include <harmonics/base/bytes.h>
#include <harmonics/base/error.h>
#include <harmonics/data/open_producer.h>

int main(int count, char** arguments) {
  using namespace harmonics;
  if (count != 2) return 2;
  try {
    const IndexedProducerPtr source = open_producer(arguments[1]);
    const TensorSpec spec = source->sample_spec();
    std::printf("%s %s\n", std::string(dtype_name(spec.dtype)).c_str(),
                shape_text(spec.shape).c_str());
    while (const auto sample = source->next()) std::printf("%s\n", to_hex(sample->bytes()).c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
