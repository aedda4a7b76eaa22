// Pictures of a folder as samples, and their classes beside them.
#pragma once

#include <memory>

#include <harmonics/data/producer.h>
#include <harmonics/images/image_list.h>
#include <harmonics/images/image_steps.h>

namespace harmonics::inline in_images {

/// A float32 sample {3, height, width} for every picture of a list. A picture that cannot be read
/// or decoded is an Error that names its file.
class ImageProducer final : public IndexedProducer {
 public:
  ImageProducer(std::shared_ptr<const ImageList> list, const ImageSteps& steps);

  [[nodiscard]] TensorSpec sample_spec() const override;
  [[nodiscard]] std::int64_t row_count() const override { return list_->count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  std::shared_ptr<const ImageList> list_;
  ImageSteps steps_;
};

/// An int64 sample {1} for every picture of a list: its class. A list without classes is an Error.
class ImageLabelProducer final : public IndexedProducer {
 public:
  explicit ImageLabelProducer(std::shared_ptr<const ImageList> list);

  [[nodiscard]] TensorSpec sample_spec() const override { return {{1}, DType::kInt64}; }
  [[nodiscard]] std::int64_t row_count() const override { return list_->count(); }
  void read(std::span<const std::int64_t> rows, std::span<std::byte> out) override;

 private:
  std::shared_ptr<const ImageList> list_;
};

}  // namespace harmonics::inline in_images
