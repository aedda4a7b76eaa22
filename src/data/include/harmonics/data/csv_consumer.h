// Batches written to a CSV file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <harmonics/data/kept_rows.h>
#include <harmonics/data/producer.h>

namespace harmonics::inline in_data {

struct CsvConsumerOptions {
  /// Names for the first line; none: no header. Quoted where needed.
  std::vector<std::string> header;
  char delimiter = ',';
  /// Rows may differ in how many numbers they have, as batches of a named axis do; then without a
  /// header.
  bool unequal_rows = false;
  /// Set: each batch goes there as it comes, and finish() makes the file of all that lies there,
  /// also of batches that were kept before this consumer was. Then without a header.
  std::shared_ptr<KeptRows> kept = nullptr;
};

/// Writes each sample of a batch as one row of numbers, in the shortest form that reads back to the
/// same value. The file appears whole on finish(); without it (an error on the way, a kill)
/// whatever stood under that name is untouched. Rows go to disk as they come: their number has no
/// limit.
///
/// A path that cannot be written is an Error of the constructor; samples of another size than the
/// first (unless rows may be unequal), and float16, bfloat16 or GPU tensors, are Errors of push.
class CsvConsumer final : public Consumer {
 public:
  explicit CsvConsumer(const std::filesystem::path& path, CsvConsumerOptions options = {});
  ~CsvConsumer() override;

  void push(const Tensor& batch) override;
  void finish() override;

  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  void write_out();

  struct Output;
  std::unique_ptr<Output> output_;  // until finish
  std::string path_;
  CsvConsumerOptions options_;
  std::int64_t width_ = -1;  // of a row; unknown before the first
  std::int64_t rows_ = 0;
};

}  // namespace harmonics::inline in_data
