#include <harmonics/images/image_producer.h>

#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/data/byte_source.h>

namespace harmonics::inline in_images {
namespace {

Image image_in(const std::string& path) {
  const ByteSourcePtr file = open_file(path);
  if (file->size() > kMaxImageFileBytes) {
    fail(ErrorCode::kDataLoss, "'{}' has {} bytes: pictures of at most {} are read", path,
         file->size(), kMaxImageFileBytes);
  }
  std::vector<char> bytes(static_cast<std::size_t>(file->size()));
  file->read_at(0, bytes);
  return decode_image(std::as_bytes(std::span(bytes)), path);
}

}  // namespace

ImageProducer::ImageProducer(std::shared_ptr<const ImageList> list, const ImageSteps& steps)
    : list_(std::move(list)), steps_(steps) {
  static_cast<void>(steps_.sample_size());
}

TensorSpec ImageProducer::sample_spec() const {
  const auto [height, width] = steps_.sample_size();
  return {{3, height, width}, DType::kFloat32};
}

void ImageProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  const std::size_t bytes = sample_bytes(sample_spec());
  std::vector<float> sample(bytes / sizeof(float));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string path = list_->path(rows[i]).string();
    process_image(image_in(path), steps_, sample, path);
    std::memcpy(out.data() + i * bytes, sample.data(), bytes);
  }
}

ImageLabelProducer::ImageLabelProducer(std::shared_ptr<const ImageList> list)
    : list_(std::move(list)) {
  if (list_->labels().empty()) {
    fail(ErrorCode::kInvalidArgument,
         "nothing says what the pictures show: put them into a folder for each class, or name a "
         "table with labels=FILE");
  }
}

void ImageLabelProducer::read(std::span<const std::int64_t> rows, std::span<std::byte> out) {
  check_read(rows, out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t label = list_->labels()[static_cast<std::size_t>(rows[i])];
    std::memcpy(out.data() + i * sizeof label, &label, sizeof label);
  }
}

}  // namespace harmonics::inline in_images
