// The schemes of files of columns, which the part `data_arrow` knows (private to data).
#pragma once

#include <harmonics/data/producer_settings.h>

namespace harmonics::inline in_data {

/// A Parquet file, and a file or stream of Arrow. A program that does not link the part has
/// stand-ins: an Error that says what to build.
[[nodiscard]] IndexedProducerPtr open_parquet(const ProducerSettings& settings,
                                              const OpenBytes& open);
[[nodiscard]] IndexedProducerPtr open_arrow(const ProducerSettings& settings,
                                            const OpenBytes& open);

}  // namespace harmonics::inline in_data
