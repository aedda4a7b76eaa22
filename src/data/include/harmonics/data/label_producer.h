// LabelProducer: classes that are checked as they are read, so that a wrong one says where it
// stands.
#pragma once

#include <cstdint>
#include <string>

#include <harmonics/data/producer.h>
#include <harmonics/data/row_places.h>

namespace harmonics::inline in_data {

/// The label that losses pass over, as in PyTorch.
inline constexpr std::int64_t kIgnoredLabel = -100;

/// What the numbers are: classes, of which a loss passes over kIgnoredLabel; tokens to be foretold,
/// of which it passes over all below 0; or ids of a table's rows, of which none is passed over.
enum class LabelKind { kClasses, kTokens, kRows };

/// The samples of `source`, whole numbers from 0 to `classes` - 1 or those that are passed over.
/// Another one is an Error (kOutOfRange) that names its place in the source when it is read.
class LabelProducer final : public IndexedProducer, public RowPlaces {
 public:
  /// A source of another kind of numbers than int64, int32, int8 or uint8 is an Error. `judge` is
  /// what has the classes, for messages.
  LabelProducer(IndexedProducerPtr source, std::int64_t classes, std::string judge,
                LabelKind kind = LabelKind::kClasses);

  [[nodiscard]] TensorSpec sample_spec() const override { return source_->sample_spec(); }
  [[nodiscard]] std::int64_t row_count() const override { return source_->row_count(); }
  /// As the source says it; row and element where it does not.
  [[nodiscard]] std::string place_of(std::int64_t row, std::size_t element) const override;
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;
  [[nodiscard]] std::vector<std::int64_t> row_lengths(std::span<const std::int64_t> rows) override {
    return source_->row_lengths(rows);
  }

 private:
  [[nodiscard]] bool is_allowed(std::int64_t label) const;

  const IndexedProducerPtr source_;
  const std::int64_t classes_;
  const std::string judge_;
  const LabelKind kind_;
};

}  // namespace harmonics::inline in_data
