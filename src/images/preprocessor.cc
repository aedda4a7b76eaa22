#include <algorithm>
#include <array>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/base/json.h>
#include <harmonics/base/listed.h>
#include <harmonics/images/image_steps.h>

namespace harmonics::inline in_images {
namespace {

/// One preprocessor_config.json, key by key.
class Preprocessor {
 public:
  Preprocessor(const Json& json, std::string_view name) : json_(json), name_(name) {}

  ImageSteps steps() const {
    check_kind();
    check_keys();
    ImageSteps steps;
    if (flag("do_resize", true)) read_size(steps);
    if (const Json* resample = find("resample")) {
      const std::int64_t number = resample->as_integer();
      if (number < 0 || number >= kResampleCount) refuse("resample", "a number from 0 to 5");
      steps.resample = static_cast<Resample>(number);
    }
    if (flag("do_center_crop", kind().starts_with("CLIP"))) read_crop(steps);
    steps.rescale = 1;
    if (flag("do_rescale", true)) {
      const Json* factor = find("rescale_factor");
      steps.rescale = factor == nullptr ? 1.0 / 255 : factor->as_number();
    }
    steps.normalize = flag("do_normalize", true);
    if (steps.normalize) {
      steps.mean = three("image_mean");
      steps.deviation = three("image_std");
      if (std::ranges::count(steps.deviation, 0.0) > 0) refuse("image_std", "numbers other than 0");
    }
    static_cast<void>(steps.sample_size());
    return steps;
  }

 private:
  static constexpr std::array<std::string_view, 4> kKinds = {"ViT", "DeiT", "CLIP", "Bit"};

  const Json* find(std::string_view key) const {
    for (const auto& [each, value] : json_.as_object()) {
      if (each == key && !value.is_null()) return &value;
    }
    return nullptr;
  }
  bool flag(std::string_view key, bool otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : value->as_bool();
  }
  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const {
    fail(ErrorCode::kInvalidArgument, "'{}': '{}' must be {}", name_, key, wanted);
  }

  std::string kind() const {
    for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
      if (const Json* value = find(key)) return value->as_string();
    }
    return "";
  }

  void check_kind() const {
    const std::string type = kind();
    const bool known =
        std::ranges::any_of(kKinds, [&](std::string_view each) { return type.starts_with(each); });
    if (!type.empty() && !known) {
      fail(ErrorCode::kUnimplemented, "'{}' asks for {}; known are processors of {}", name_, type,
           listed(kKinds));
    }
  }

  // What is not known could change the numbers.
  void check_keys() const {
    static constexpr std::array<std::string_view, 15> kKnown = {"do_resize",
                                                                "size",
                                                                "resample",
                                                                "do_center_crop",
                                                                "crop_size",
                                                                "do_rescale",
                                                                "rescale_factor",
                                                                "do_normalize",
                                                                "image_mean",
                                                                "image_std",
                                                                "do_convert_rgb",
                                                                "image_processor_type",
                                                                "processor_class",
                                                                "feature_extractor_type",
                                                                "_valid_processor_keys"};
    for (const auto& [key, value] : json_.as_object()) {
      if (value.is_null() || std::ranges::count(kKnown, std::string_view(key)) > 0) continue;
      fail(ErrorCode::kUnimplemented, "'{}': '{}' is not honoured; known are {}", name_, key,
           listed(kKnown));
    }
  }

  std::int64_t side(const Json& of, std::string_view key) const {
    const std::int64_t value = of.as_integer();
    if (value < 1 || value > kMaxSampleSide) refuse(key, format("1 to {}", kMaxSampleSide));
    return value;
  }

  void read_size(ImageSteps& steps) const {
    const Json* size = find("size");
    if (size == nullptr) refuse("size", "given where do_resize is true");
    if (size->is_integer()) {  // as older folders have it
      (kind().starts_with("CLIP") ? steps.shortest : steps.height) = side(*size, "size");
      steps.width = steps.height;
      return;
    }
    for (const auto& [key, value] : size->as_object()) {
      if (key == "height") {
        steps.height = side(value, key);
      } else if (key == "width") {
        steps.width = side(value, key);
      } else if (key == "shortest_edge") {
        steps.shortest = side(value, key);
      } else {
        refuse("size", "height and width, or shortest_edge");
      }
    }
    const bool both = steps.height > 0 && steps.width > 0, none = steps.height + steps.width == 0;
    if (!(both && steps.shortest == 0) && !(none && steps.shortest > 0)) {
      refuse("size", "height and width, or shortest_edge");
    }
  }

  void read_crop(ImageSteps& steps) const {
    const Json* size = find("crop_size");
    if (size == nullptr) refuse("crop_size", "given where do_center_crop is true");
    if (size->is_integer()) {
      steps.crop_height = steps.crop_width = side(*size, "crop_size");
      return;
    }
    for (const auto& [key, value] : size->as_object()) {
      if (key != "height" && key != "width") refuse("crop_size", "height and width");
      (key == "height" ? steps.crop_height : steps.crop_width) = side(value, key);
    }
    if (steps.crop_height == 0 || steps.crop_width == 0) refuse("crop_size", "height and width");
  }

  std::array<double, 3> three(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_array() || value->as_array().size() != 3) {
      refuse(key, "three numbers");
    }
    std::array<double, 3> numbers = {};
    std::ranges::transform(value->as_array(), numbers.begin(), &Json::as_number);
    return numbers;
  }

  const Json& json_;
  std::string_view name_;
};

}  // namespace

ImageSteps parse_preprocessor(std::string_view json, std::string_view name) {
  const Json parsed = Json::parse(json, name);
  return Preprocessor(parsed, name).steps();
}

}  // namespace harmonics::inline in_images
