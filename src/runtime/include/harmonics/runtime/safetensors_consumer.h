// Batches written to a safetensors file, as one tensor of all rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <harmonics/data/producer.h>

namespace harmonics::inline in_runtime {

/// Appends the rows of each batch to one tensor, in the dtype that they come in. The file appears
/// whole on finish(); without it whatever stood under that name is untouched. Rows go to disk as
/// they come: their number has no limit. One thread at a time.
///
/// A path that cannot be written is an Error of the constructor; samples of another shape or dtype
/// than the first, and GPU tensors, are Errors of push. Without any row the tensor has shape {0}.
class SafetensorsConsumer final : public Consumer {
 public:
  /// `name` is the tensor's.
  SafetensorsConsumer(const std::filesystem::path& path, std::string name);
  ~SafetensorsConsumer() override;

  void push(const Tensor& batch) override;
  void finish() override;

  [[nodiscard]] std::int64_t rows() const { return rows_; }

 private:
  void begin(const TensorSpec& first);
  [[nodiscard]] std::string header() const;

  struct Output;
  std::unique_ptr<Output> output_;  // until finish
  const std::string path_;
  const std::string name_;
  TensorSpec spec_ = {{0}, DType::kFloat32};  // of all rows so far
  std::int64_t rows_ = 0;
};

}  // namespace harmonics::inline in_runtime
