// What the fuzzers of files of one array share.
#pragma once

#include <cstdlib>
#include <string_view>

#include <harmonics/base/error.h>
#include <harmonics/data/array_producer.h>

#include <memory_file_testing.h>

namespace harmonics::inline in_data {

/// Opens and reads such a file: an Error, or as many samples as it promised; else the program ends.
template <typename FileProducer>
void read_or_refuse(std::string_view bytes, const ArrayOptions& options) {
  const MemoryFile file(bytes);
  try {
    FileProducer producer(file.path(), options);
    // Samples without elements take no bytes, so a tiny file may promise billions of them.
    const bool countable = sample_bytes(producer.sample_spec()) > 0;
    std::int64_t samples = 0;
    while (countable && producer.next()) ++samples;
    if (countable && samples != producer.row_count()) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace harmonics::inline in_data
