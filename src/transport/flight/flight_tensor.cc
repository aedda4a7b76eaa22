#include "flight_tensor.h"

#include <arrow/extension/fixed_shape_tensor.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <harmonics/base/error.h>

#include "flight_text.h"

namespace harmonics::inline in_transport {
namespace {

namespace extension = arrow::extension;

// Keeps a tensor alive for as long as Arrow needs its bytes.
class TensorBuffer final : public arrow::Buffer {
 public:
  explicit TensorBuffer(Tensor tensor)
      : Buffer(reinterpret_cast<const std::uint8_t*>(tensor.bytes().data()),
               static_cast<std::int64_t>(tensor.bytes().size())),
        tensor_(std::move(tensor)) {}

 private:
  Tensor tensor_;
};

std::shared_ptr<arrow::DataType> arrow_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return arrow::float32();
    case DType::kFloat64: return arrow::float64();
    case DType::kFloat16: return arrow::float16();
    case DType::kInt64: return arrow::int64();
    case DType::kInt32: return arrow::int32();
    case DType::kInt8: return arrow::int8();
    case DType::kUInt8:
    case DType::kBool: return arrow::uint8();
    case DType::kBFloat16: break;
  }
  fail(ErrorCode::kInvalidArgument, "Arrow has no {}: a Flight client needs float32 or float16",
       dtype_name(dtype));
}

std::optional<DType> dtype_of(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::FLOAT: return DType::kFloat32;
    case arrow::Type::DOUBLE: return DType::kFloat64;
    case arrow::Type::HALF_FLOAT: return DType::kFloat16;
    case arrow::Type::INT64: return DType::kInt64;
    case arrow::Type::INT32: return DType::kInt32;
    case arrow::Type::INT8: return DType::kInt8;
    case arrow::Type::UINT8: return DType::kUInt8;
    default: return std::nullopt;
  }
}

[[noreturn]] void wrong(const std::string& what) {
  fail(ErrorCode::kInvalidArgument,
       "a Flight client sent {}; a message is one column without nulls, of a fixed-shape tensor or "
       "of numbers",
       what);
}

// The column of a batch: its values in a row, and the shape of all of them.
struct Column {
  std::shared_ptr<arrow::ArrayData> values;
  Shape shape;
};

Column column_of(const arrow::RecordBatch& batch) {
  if (batch.num_columns() != 1) wrong(format("{} columns", batch.num_columns()));
  if (const arrow::Status status = batch.ValidateFull(); !status.ok()) wrong(status.message());
  const std::shared_ptr<arrow::Array>& array = batch.column(0);
  if (array->null_count() != 0) wrong("nulls");
  Column out{array->data(), {batch.num_rows()}};
  if (array->type()->name() != "extension" && array->type_id() != arrow::Type::EXTENSION) {
    return out;
  }
  const auto& type = static_cast<const arrow::ExtensionType&>(*array->type());
  if (type.extension_name() != "arrow.fixed_shape_tensor") wrong(type.ToString());
  const auto& tensors = static_cast<const extension::FixedShapeTensorType&>(type);
  if (!std::ranges::is_sorted(tensors.permutation())) wrong("permuted axes");
  out.shape.insert(out.shape.end(), tensors.shape().begin(), tensors.shape().end());
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(
      *static_cast<const arrow::ExtensionArray&>(*array).storage());
  const std::shared_ptr<arrow::Array> values = lists.values()->Slice(
      lists.offset() * lists.value_length(), lists.length() * lists.value_length());
  if (values->null_count() != 0) wrong("nulls");
  out.values = values->data();
  return out;
}

}  // namespace

ArrowMessage arrow_message(const Message& message) {
  ArrowMessage out;
  out.metadata = message_text(message);
  if (!message.tensor.defined() || tensor_is_text(message)) return out;
  const Shape& shape = message.tensor.shape();
  const std::shared_ptr<arrow::DataType> type = arrow_type(message.tensor.dtype());
  const std::int64_t rows = shape.empty() ? 1 : shape.front();
  const auto count =
      static_cast<std::int64_t>(message.tensor.bytes().size() / dtype_size(message.tensor.dtype()));
  auto values = arrow::ArrayData::Make(
      type, count, {nullptr, std::make_shared<TensorBuffer>(message.tensor)}, 0);
  std::shared_ptr<arrow::DataType> column_type = type;
  if (shape.size() > 1) {
    column_type = extension::fixed_shape_tensor(type, {shape.begin() + 1, shape.end()});
    auto lists = arrow::ArrayData::Make(column_type, rows, {nullptr}, 0);
    lists->child_data = {std::move(values)};
    values = std::move(lists);
  }
  out.batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("tensor", column_type, false)}),
                                       rows, {std::move(values)});
  return out;
}

Message message_from_arrow(const arrow::RecordBatch* batch, std::string_view metadata,
                           std::uint64_t number, std::uint64_t limit) {
  Message out;
  out.step = number;
  read_message_text(metadata, out);
  if (batch == nullptr) return out;
  if (out.tensor.defined()) wrong("a tensor both as text and as a column");
  Column column = column_of(*batch);
  const std::optional<DType> dtype = dtype_of(*column.values->type);
  if (!dtype) wrong("values of type " + column.values->type->ToString());
  if (column.shape.size() > kMaxMessageAxes) wrong("too many axes");
  const std::size_t width = dtype_size(*dtype);
  const auto bytes = static_cast<std::size_t>(column.values->length) * width;
  if (bytes > limit) {
    fail(ErrorCode::kResourceExhausted, "a tensor of {} bytes, this boundary takes at most {}",
         bytes, limit);
  }
  out.tensor = Tensor::empty(std::move(column.shape), *dtype);
  if (out.tensor.bytes().size() != bytes) wrong("a shape that does not fit its values");
  if (bytes > 0) {
    const arrow::Buffer& from = *column.values->buffers[1];
    std::memcpy(out.tensor.mutable_bytes().data(),
                from.data() + static_cast<std::size_t>(column.values->offset) * width, bytes);
  }
  return out;
}

}  // namespace harmonics::inline in_transport
