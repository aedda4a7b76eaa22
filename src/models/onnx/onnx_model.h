// An ONNX file as it is spelled: nodes, attributes, tensors (private to models). What it means is
// the importer's business. Reads data only; nothing of a file is executed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <harmonics/base/bytes.h>
#include <harmonics/tensor/dtype.h>

namespace harmonics::inline in_models {

/// Ceilings of a file; beyond them it is refused before anything is allocated for them.
inline constexpr std::size_t kMaxOnnxNodes = 200'000;
inline constexpr std::size_t kMaxOnnxNameLength = 1'000;
inline constexpr std::size_t kMaxOnnxAxes = 16;
inline constexpr std::size_t kMaxOnnxListed = 1'000'000;
inline constexpr int kMaxOnnxNesting = 8;

/// The dtype of a number of TensorProto.DataType, or nothing for one that is not read.
[[nodiscard]] std::optional<DType> onnx_dtype(std::int64_t number);
/// The number of a dtype.
[[nodiscard]] std::int64_t onnx_data_type(DType dtype);

/// A tensor of the file. Its numbers stand in the file as they are used (`raw`), in another file
/// (`location`), or spelled one by one (`integers`).
struct OnnxTensor {
  std::string name;
  TensorSpec spec;
  ByteSpan raw;
  std::vector<std::int64_t> integers;
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

struct OnnxGraph;

struct OnnxAttribute {
  double real = 0;
  std::int64_t integer = 0;
  std::string text;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;
  std::shared_ptr<OnnxTensor> tensor;
  std::shared_ptr<OnnxGraph> graph;
};

struct OnnxNode {
  std::string name;
  std::string op;
  std::string domain;
  /// An empty name stands for an input or output that is left out.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, OnnxAttribute, std::less<>> attributes;

  [[nodiscard]] const OnnxAttribute* find(std::string_view attribute) const;
  [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t fallback) const;
  [[nodiscard]] double real(std::string_view attribute, double fallback) const;
  [[nodiscard]] std::string text(std::string_view attribute, std::string_view fallback) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view attribute) const;
  /// "Conv 'layer1/conv'", for messages.
  [[nodiscard]] std::string title() const;
};

/// A dimension: a number, or a name (perhaps empty) when the file leaves it open.
struct OnnxDimension {
  std::int64_t value = 0;
  std::string name;
  /// False where the file gives no number. Some write 0 for what they do not know.
  bool is_given = false;
  [[nodiscard]] bool is_open() const { return value <= 0; }
  [[nodiscard]] bool is_empty() const { return is_given && value == 0; }
};

struct OnnxValueInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<OnnxDimension> dimensions;
  /// False where the file gives no shape at all.
  bool has_shape = false;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs;
  std::vector<OnnxValueInfo> outputs;
};

struct OnnxModel {
  std::int64_t opset = 0;
  OnnxGraph graph;
};

/// Reads a tensor that is a file of its own, as data of test cases are; it looks into `bytes`.
[[nodiscard]] OnnxTensor read_onnx_tensor(ByteSpan bytes, const std::string& file);

/// Reads a model; its tensors look into `bytes`, which must outlive it. `file` names it in errors:
/// kDataLoss for what is damaged, kUnimplemented for what ONNX has and this does not read.
[[nodiscard]] OnnxModel read_onnx(ByteSpan bytes, const std::string& file);

}  // namespace harmonics::inline in_models
