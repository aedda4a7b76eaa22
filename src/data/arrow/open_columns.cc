// What `parquet:` and `arrow:` open.
#include "arrow_producer.h"
#include "column_schemes.h"

/// What linking the part asks for.
extern "C" void harmonics_data_arrow_part() {}

namespace harmonics::inline in_data {
namespace {

IndexedProducerPtr open_columns(const ProducerSettings& settings, const OpenBytes& open,
                                OpenGroups open_groups) {
  settings.allow({"columns", "dtype", "scale", "shape", "nan"});
  ColumnWishes wishes;
  if (const auto* columns = settings.text("columns")) wishes.columns = *columns;
  wishes.dtype = settings.dtype();
  wishes.scale = settings.number<double>("scale").value_or(wishes.scale);
  wishes.shape = settings.shape().value_or(Shape{});
  wishes.allow_nan = settings.choice("nan", {"refuse", "allow"}).value_or(0) == 1;
  return std::make_shared<ArrowProducer>(settings.bytes(open), open_groups, wishes);
}

}  // namespace

IndexedProducerPtr open_parquet(const ProducerSettings& settings, const OpenBytes& open) {
  return open_columns(settings, open, parquet_groups);
}

IndexedProducerPtr open_arrow(const ProducerSettings& settings, const OpenBytes& open) {
  return open_columns(settings, open, ipc_groups);
}

}  // namespace harmonics::inline in_data
