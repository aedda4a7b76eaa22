#include "import_onnx.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <harmonics/base/error.h>

namespace harmonics::inline in_models {
namespace {

// Files in the model's folder, mapped when they are asked for.
class FilesBeside {
 public:
  explicit FilesBeside(std::filesystem::path folder) : folder_(std::move(folder)) {}

  ByteSpan operator()(const std::string& location) {
    const std::filesystem::path path(location);
    const bool inside = path.is_relative() && std::ranges::count(path, "..") == 0;
    if (!inside) {
      fail(ErrorCode::kInvalidArgument,
           "'{}' lies outside the model's folder; put it beside the model", location);
    }
    auto& file = files_[location];
    if (!file) file = std::make_shared<const MappedFile>(folder_ / path);
    return file->bytes();
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, MappedFilePtr> files_;
};

// Numbers of 16 bits become float32, as the graph's layers have them.
Tensor as_parameter(const Constant& value) {
  if (value.dtype() != DType::kFloat16 && value.dtype() != DType::kBFloat16) return value.tensor();
  return Constant::of_reals(value.shape(), value.reals()).tensor();
}

}  // namespace

OnnxResult import_onnx(const MappedFile& file, const OnnxChoices& choices) {
  const std::string name = file.path().string();
  const OnnxModel model = read_onnx(file.bytes(), name);
  FilesBeside beside(file.path().parent_path());
  OnnxImport imported =
      OnnxImporter(model, name, choices, [&](const std::string& one) { return beside(one); }).run();
  OnnxResult result{std::move(imported.graph), {}, {}};
  for (const auto& [parameter, value] : imported.weights) {
    result.weights.emplace(parameter, as_parameter(value));
    if (!value.origin().name.empty()) result.origins.emplace(parameter, value.origin());
  }
  return result;
}

}  // namespace harmonics::inline in_models
