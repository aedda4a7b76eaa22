#include "row_groups.h"

#include "arrow_status.h"

namespace harmonics::inline in_data {

void RowGroups::check_group(std::size_t group, std::int64_t rows, std::int64_t sum) const {
  if (group >= kMostRowGroups) {
    fail(ErrorCode::kResourceExhausted, "'{}' has more than {} row groups: write larger ones",
         path(), kMostRowGroups);
  }
  if (rows < 0 || rows > kMostRows || sum + rows > kMostRows) {
    fail(ErrorCode::kDataLoss, "'{}' is damaged: row group {} claims {} rows after {}", path(),
         group, rows, sum);
  }
}

void RowGroups::check(std::size_t group, const std::vector<int>& fields,
                      const ArrowColumns& columns) const {
  if (columns.size() != fields.size()) {
    fail(ErrorCode::kDataLoss, "'{}' is damaged: row group {} has {} of {} columns", path(), group,
         columns.size(), fields.size());
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const arrow::Field& field = *schema().field(fields[i]);
    if (!columns[i]->type()->Equals(*field.type()) || columns[i]->length() != rows()[group]) {
      fail(ErrorCode::kDataLoss,
           "'{}' is damaged: column '{}' of row group {} holds {} rows of {} instead of {} of {}",
           path(), field.name(), group, columns[i]->length(), columns[i]->type()->ToString(),
           rows()[group], field.type()->ToString());
    }
    check_arrow(columns[i]->ValidateFull(), path());
  }
}

}  // namespace harmonics::inline in_data
