#include "onnx_model.h"

#include <bit>
#include <cstring>
#include <utility>

#include <harmonics/base/error.h>

#include "wire.h"

namespace harmonics::inline in_models {
namespace {

// What is being read, for messages, and how deep graphs stand inside one another.
struct Place {
  const std::string& file;
  int nesting = 0;
};

std::string short_text(const WireField& field, const Place& place) {
  if (field.bytes.size() > kMaxOnnxNameLength) {
    fail(ErrorCode::kResourceExhausted, "{}: a name of {} bytes; at most {} are read", place.file,
         field.bytes.size(), kMaxOnnxNameLength);
  }
  return std::string(field.text());
}

template <typename List>
void check_count(const List& list, std::size_t limit, const char* what, const Place& place) {
  if (list.size() >= limit)
    fail(ErrorCode::kResourceExhausted, "{}: more than {} {}", place.file, limit, what);
}

DType dtype_of(std::int64_t number, const Place& place) {
  if (const std::optional<DType> dtype = onnx_dtype(number)) return *dtype;
  fail(ErrorCode::kUnimplemented,
       "{}: elements of ONNX data type {} are not read; float, double, float16, bfloat16, int64, "
       "int32, int8, uint8 and bool are",
       place.file, number);
}

void read_external(ByteSpan bytes, OnnxTensor& tensor, const Place& place) {
  std::string key, value;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) key = short_text(field, place);
    if (field.number == 2) value = short_text(field, place);
  }
  if (key == "location") tensor.location = value;
  if (key != "offset" && key != "length") return;
  std::uint64_t number = 0;
  for (const char digit : value) {
    if (digit < '0' || digit > '9' || number > (std::uint64_t{1} << 58)) {
      fail(ErrorCode::kDataLoss, "{}: '{}' of tensor '{}' is '{}', not a number of bytes",
           place.file, key, tensor.name, value);
    }
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  if (key == "offset") tensor.offset = number;
  if (key == "length") tensor.length = number;
}

// float_data and double_data: packed they are what raw_data would be.
void read_packed(const WireField& field, OnnxTensor& tensor, const Place& place) {
  if (!field.is_bytes || !tensor.raw.empty()) {
    fail(ErrorCode::kUnimplemented, "{}: the numbers of tensor '{}' are not packed", place.file,
         tensor.name);
  }
  tensor.raw = field.bytes;
}

void check_tensor(const OnnxTensor& tensor, const Place& place) {
  const auto size = static_cast<std::uint64_t>(byte_count(tensor.spec));
  const auto count = static_cast<std::uint64_t>(element_count(tensor.spec.shape));
  const bool listed = !tensor.integers.empty();
  if (!tensor.location.empty()) return;
  if (listed ? tensor.integers.size() != count : tensor.raw.size() != size) {
    fail(ErrorCode::kDataLoss, "{}: tensor '{}' is {}, which takes {} bytes, but has {}",
         place.file, tensor.name, spec_text(tensor.spec), size,
         listed ? tensor.integers.size() * dtype_size(tensor.spec.dtype) : tensor.raw.size());
  }
}

OnnxTensor read_tensor(ByteSpan bytes, const Place& place) {
  OnnxTensor tensor;
  std::int64_t type = 0;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 1: add_integers(field, tensor.spec.shape, kMaxOnnxAxes, place.file); break;
      case 2: type = field.integer(); break;
      case 4:
      case 10: read_packed(field, tensor, place); break;
      case 5:
      case 7: add_integers(field, tensor.integers, kMaxOnnxListed, place.file); break;
      case 8: tensor.name = short_text(field, place); break;
      case 9: tensor.raw = field.bytes; break;
      case 13: read_external(field.bytes, tensor, place); break;
      default: break;
    }
  }
  tensor.spec.dtype = dtype_of(type, place);
  for (const std::int64_t axis : tensor.spec.shape) {
    if (axis < 0 || axis > kMaxElements) {
      fail(ErrorCode::kDataLoss, "{}: tensor '{}' has an axis of {}", place.file, tensor.name,
           axis);
    }
  }
  check_tensor(tensor, place);
  return tensor;
}

OnnxGraph read_graph(ByteSpan bytes, const Place& place);

std::pair<std::string, OnnxAttribute> read_attribute(ByteSpan bytes, const Place& place) {
  std::string name;
  OnnxAttribute attribute;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 1: name = short_text(field, place); break;
      case 2: attribute.real = field.real(); break;
      case 3: attribute.integer = field.integer(); break;
      case 4: attribute.text = short_text(field, place); break;
      case 5:
        attribute.tensor = std::make_shared<OnnxTensor>(read_tensor(field.bytes, place));
        break;
      case 6:
        attribute.graph = std::make_shared<OnnxGraph>(
            read_graph(field.bytes, Place{place.file, place.nesting + 1}));
        break;
      case 7:
        for (std::size_t at = 0; field.is_bytes && at + 4 <= field.bytes.size(); at += 4) {
          check_count(attribute.reals, kMaxOnnxListed, "numbers in an attribute", place);
          float value = 0;
          std::memcpy(&value, field.bytes.data() + at, 4);
          attribute.reals.push_back(value);
        }
        if (!field.is_bytes) {
          check_count(attribute.reals, kMaxOnnxListed, "numbers in an attribute", place);
          attribute.reals.push_back(field.real());
        }
        break;
      case 8: add_integers(field, attribute.integers, kMaxOnnxListed, place.file); break;
      case 9:
        check_count(attribute.texts, kMaxOnnxListed, "texts in an attribute", place);
        attribute.texts.push_back(short_text(field, place));
        break;
      default: break;
    }
  }
  return {std::move(name), std::move(attribute)};
}

OnnxNode read_node(ByteSpan bytes, const Place& place) {
  OnnxNode node;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 1:
        check_count(node.inputs, kMaxOnnxNodes, "inputs of a node", place);
        node.inputs.push_back(short_text(field, place));
        break;
      case 2:
        check_count(node.outputs, kMaxOnnxNodes, "outputs of a node", place);
        node.outputs.push_back(short_text(field, place));
        break;
      case 3: node.name = short_text(field, place); break;
      case 4: node.op = short_text(field, place); break;
      case 5:
        check_count(node.attributes, 1'000, "attributes of a node", place);
        node.attributes.insert(read_attribute(field.bytes, place));
        break;
      case 7: node.domain = short_text(field, place); break;
      default: break;
    }
  }
  return node;
}

OnnxDimension read_dimension(ByteSpan bytes, const Place& place) {
  OnnxDimension dimension;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) {
      dimension.value = field.integer();
      dimension.is_given = true;
    }
    if (field.number == 2) dimension.name = short_text(field, place);
  }
  return dimension;
}

void read_shape(ByteSpan bytes, OnnxValueInfo& info, const Place& place) {
  info.has_shape = true;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    check_count(info.dimensions, kMaxOnnxAxes, "axes", place);
    if (field.number == 1) info.dimensions.push_back(read_dimension(field.bytes, place));
  }
}

void read_tensor_type(ByteSpan bytes, OnnxValueInfo& info, const Place& place) {
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) info.dtype = dtype_of(field.integer(), place);
    if (field.number == 2) read_shape(field.bytes, info, place);
  }
}

OnnxValueInfo read_value_info(ByteSpan bytes, const Place& place) {
  OnnxValueInfo info;
  ByteSpan type;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) info.name = short_text(field, place);
    if (field.number == 2) type = field.bytes;
  }
  WireReader types(type, place.file);
  for (WireField field; types.next(field);) {
    if (field.number != 1) {
      fail(ErrorCode::kUnimplemented,
           "{}: '{}' is no tensor; sequences, maps and optional values are not read", place.file,
           info.name);
    }
    read_tensor_type(field.bytes, info, place);
  }
  return info;
}

OnnxGraph read_graph(ByteSpan bytes, const Place& place) {
  if (place.nesting > kMaxOnnxNesting) {
    fail(ErrorCode::kResourceExhausted, "{}: graphs stand more than {} deep in one another",
         place.file, kMaxOnnxNesting);
  }
  OnnxGraph graph;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    switch (field.number) {
      case 1:
        check_count(graph.nodes, kMaxOnnxNodes, "nodes", place);
        graph.nodes.push_back(read_node(field.bytes, place));
        break;
      case 2: graph.name = short_text(field, place); break;
      case 5:
        check_count(graph.initializers, kMaxOnnxNodes, "initializers", place);
        graph.initializers.push_back(read_tensor(field.bytes, place));
        break;
      case 11:
        check_count(graph.inputs, kMaxOnnxNodes, "inputs", place);
        graph.inputs.push_back(read_value_info(field.bytes, place));
        break;
      case 12:
        check_count(graph.outputs, kMaxOnnxNodes, "outputs", place);
        graph.outputs.push_back(read_value_info(field.bytes, place));
        break;
      case 15: fail(ErrorCode::kUnimplemented, "{}: sparse initializers are not read", place.file);
      default: break;
    }
  }
  return graph;
}

void read_opset(ByteSpan bytes, OnnxModel& model, const Place& place) {
  std::string domain;
  std::int64_t version = 0;
  WireReader reader(bytes, place.file);
  for (WireField field; reader.next(field);) {
    if (field.number == 1) domain = short_text(field, place);
    if (field.number == 2) version = field.integer();
  }
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

}  // namespace

std::optional<DType> onnx_dtype(std::int64_t number) {
  switch (number) {
    case 1: return DType::kFloat32;
    case 2: return DType::kUInt8;
    case 3: return DType::kInt8;
    case 6: return DType::kInt32;
    case 7: return DType::kInt64;
    case 9: return DType::kBool;
    case 10: return DType::kFloat16;
    case 11: return DType::kFloat64;
    case 16: return DType::kBFloat16;
    default: return std::nullopt;
  }
}

std::int64_t onnx_data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return 1;
    case DType::kUInt8: return 2;
    case DType::kInt8: return 3;
    case DType::kInt32: return 6;
    case DType::kInt64: return 7;
    case DType::kBool: return 9;
    case DType::kFloat16: return 10;
    case DType::kFloat64: return 11;
    case DType::kBFloat16: return 16;
  }
  return 0;
}

const OnnxAttribute* OnnxNode::find(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? nullptr : &found->second;
}

std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t fallback) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? fallback : found->integer;
}

double OnnxNode::real(std::string_view attribute, double fallback) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? fallback : found->real;
}

std::string OnnxNode::text(std::string_view attribute, std::string_view fallback) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? std::string(fallback) : found->text;
}

std::vector<std::int64_t> OnnxNode::integers(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  return found == nullptr ? std::vector<std::int64_t>() : found->integers;
}

std::string OnnxNode::title() const {
  return format("{} '{}'", op, !name.empty() ? name : outputs.empty() ? "" : outputs[0]);
}

OnnxTensor read_onnx_tensor(ByteSpan bytes, const std::string& file) {
  return read_tensor(bytes, Place{file});
}

OnnxModel read_onnx(ByteSpan bytes, const std::string& file) {
  const Place place{file};
  OnnxModel model;
  bool has_graph = false;
  WireReader reader(bytes, file);
  for (WireField field; reader.next(field);) {
    if (field.number == 7) {
      model.graph = read_graph(field.bytes, place);
      has_graph = true;
    }
    if (field.number == 8) read_opset(field.bytes, model, place);
    if (field.number == 25)
      fail(ErrorCode::kUnimplemented, "{}: functions of a model's own are not read", file);
  }
  if (!has_graph || model.opset == 0)
    fail(ErrorCode::kDataLoss, "{}: no graph in it; this is no ONNX model", file);
  if (model.opset < 7 || model.opset > 21) {
    fail(ErrorCode::kUnimplemented,
         "{}: written for opset {}, but 7 to 21 are read; convert it with "
         "onnx.version_converter",
         file, model.opset);
  }
  return model;
}

}  // namespace harmonics::inline in_models
