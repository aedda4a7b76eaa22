// The scheme images: its settings, and where they come from otherwise.
#include <harmonics/base/error.h>
#include <harmonics/data/producer_settings.h>
#include <harmonics/images/image_producer.h>

// Linking the module takes this file in, and with it the scheme that it registers.
extern "C" void harmonics_images_part() {}

namespace harmonics::inline in_images {
namespace {

/// "224" or "224x320": height and width.
std::array<std::int64_t, 2> sides(const ProducerSettings& settings, std::string_view key) {
  const std::string& text = *settings.text(key);
  const std::size_t cross = text.find('x');
  const auto height = number_from<std::int64_t>(text.substr(0, cross));
  const auto width =
      cross == std::string::npos ? height : number_from<std::int64_t>(text.substr(cross + 1));
  if (!height || !width || *height < 1 || *width < 1) {
    settings.wrong(key, "a number of pixels, or height x width as in 224x320");
  }
  return {*height, *width};
}

/// "0.5" or "0.485,0.456,0.406".
std::array<double, 3> three(const ProducerSettings& settings, std::string_view key) {
  std::string_view rest = *settings.text(key);
  std::array<double, 3> numbers = {};
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const auto number = number_from<double>(rest.substr(0, comma));
    if (!number || count == 3) settings.wrong(key, "one number or three, as in 0.5,0.5,0.5");
    numbers[count] = *number;
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  if (count == 2) settings.wrong(key, "one number or three, as in 0.5,0.5,0.5");
  if (count == 1) numbers[1] = numbers[2] = numbers[0];
  return numbers;
}

ImageSteps preprocessor_of(const std::string& place, const OpenBytes& open) {
  const ByteSourcePtr file =
      open(place.ends_with(".json") ? place : place + "/preprocessor_config.json");
  if (file->size() > kMaxPreprocessorBytes) {
    fail(ErrorCode::kInvalidArgument, "'{}' has {} bytes, at most {}", file->path(), file->size(),
         kMaxPreprocessorBytes);
  }
  std::string json(static_cast<std::size_t>(file->size()), '\0');
  file->read_at(0, json);
  return parse_preprocessor(json, file->path());
}

// What is written in the text wins over the preprocessor.
ImageSteps steps_of(const ProducerSettings& settings, const OpenBytes& open) {
  ImageSteps steps;
  if (const std::string* place = settings.text("preprocessor"))
    steps = preprocessor_of(*place, open);
  if (settings.text("size") != nullptr) {
    const auto [height, width] = sides(settings, "size");
    steps.height = height, steps.width = width, steps.shortest = 0;
  }
  if (const auto shortest = settings.number<std::int64_t>("shortest")) {
    if (settings.text("size") != nullptr) settings.wrong("shortest", "absent where size is given");
    if (*shortest < 1) settings.wrong("shortest", "a number of pixels");
    steps.shortest = *shortest, steps.height = steps.width = 0;
  }
  if (settings.text("crop") != nullptr) {
    const auto [height, width] = sides(settings, "crop");
    steps.crop_height = height, steps.crop_width = width;
  }
  const auto resample =
      settings.choice("resample", {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"});
  if (resample) steps.resample = static_cast<Resample>(*resample);
  steps.rescale = settings.number<double>("scale").value_or(steps.rescale);
  if (settings.text("mean") != nullptr) steps.mean = three(settings, "mean");
  if (settings.text("std") != nullptr) steps.deviation = three(settings, "std");
  for (const double deviation : steps.deviation) {
    if (deviation == 0) settings.wrong("std", "numbers other than 0");
  }
  if (settings.text("mean") != nullptr || settings.text("std") != nullptr) steps.normalize = true;
  return steps;
}

IndexedProducerPtr open_images(const ProducerSettings& settings, const OpenBytes& open) {
  settings.allow({"size", "shortest", "crop", "resample", "scale", "mean", "std", "preprocessor",
                  "labels", "column", "dtype"});
  const std::filesystem::path place = settings.place();
  const std::string* table = settings.text("labels");
  const auto list = std::make_shared<const ImageList>(
      table == nullptr ? ImageList::of_folder(place) : ImageList::of_table(place, *open(*table)));
  const bool labels = settings.choice("column", {"pixels", "label"}).value_or(0) == 1;
  const DType made = labels ? DType::kInt64 : DType::kFloat32;
  if (settings.dtype().value_or(made) != made) settings.wrong("dtype", dtype_name(made));
  if (labels) return std::make_shared<ImageLabelProducer>(list);
  return std::make_shared<ImageProducer>(list, steps_of(settings, open));
}

const bool kRegistered = [] {
  register_producer_scheme("images", open_images);
  return true;
}();

}  // namespace
}  // namespace harmonics::inline in_images
