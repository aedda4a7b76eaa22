// Where data enters a model and leaves it: inputs with their batch, values that are given, outputs.
#include <algorithm>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>

#include "onnx_importer.h"

namespace harmonics::inline in_models {

std::string onnx_user_name(std::string_view wish) {
  std::string name;
  for (const char c : wish.substr(0, kMaxNameLength / 2)) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.';
    name += allowed ? c : '_';
  }
  while (!name.empty() && name.front() == '.') name.erase(0, 1);
  if (name.empty() || (name.front() >= '0' && name.front() <= '9')) name.insert(0, "n");
  return name;
}

// The first axis, unless it is longer than one and fixed: then the first that is open, else of one.
std::size_t OnnxImporter::batch_axis(const OnnxValueInfo& input) const {
  if (is_whole()) return kNoBatch;
  const std::vector<OnnxDimension>& axes = input.dimensions;
  if (axes.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: input '{}' is one number, not a batch; give it a value with --value {}=…", file_,
         input.name, input.name);
  }
  if (choices_.batch) {
    const auto axis = static_cast<std::size_t>(*choices_.batch);
    if (axis < axes.size()) return axis;
    fail(ErrorCode::kInvalidArgument,
         "{}: input '{}' has {} axes, so that axis {} cannot be its batch; give it a value with "
         "--value {}=…",
         file_, input.name, axes.size(), axis, input.name);
  }
  if (axes[0].is_open() || axes[0].value == 1) return 0;
  const auto place = [&](auto&& fits) {
    return static_cast<std::size_t>(std::find_if(axes.begin(), axes.end(), fits) - axes.begin());
  };
  std::size_t axis = place([](const OnnxDimension& one) { return one.is_open(); });
  if (axis == axes.size()) axis = place([](const OnnxDimension& one) { return one.value == 1; });
  if (axis == axes.size()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: input '{}' has no axis for a batch; say which it is (--batch 0), or that a whole "
         "tensor is one sample (--batch none)",
         file_, input.name);
  }
  return axis;
}

Shape OnnxImporter::input_shape(const OnnxValueInfo& input, std::size_t batch) const {
  const auto chosen = choices_.shapes.find(input.name);
  Shape shape;
  if (chosen != choices_.shapes.end()) {
    shape = chosen->second;
    const std::size_t own = input.dimensions.size() - (batch == kNoBatch ? 0 : 1);
    if (shape.size() != own) {
      fail(ErrorCode::kInvalidArgument, "{}: input '{}' has {} axes besides the batch, not {}",
           file_, input.name, own, shape.size());
    }
    if (batch != kNoBatch)
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(batch), kBatchExtent);
    return shape;
  }
  for (const OnnxDimension& dimension : input.dimensions) {
    if (shape.size() != batch && dimension.is_open()) {
      fail(ErrorCode::kInvalidArgument,
           "{}: input '{}' leaves axis {} ({}) open; say the shape of a sample: --shape {}={}",
           file_, input.name, shape.size(), dimension.name.empty() ? "unnamed" : dimension.name,
           input.name, input.dimensions.size() == 4 ? "3,224,224" : "128");
    }
    shape.push_back(shape.size() == batch ? kBatchExtent : dimension.value);
  }
  return shape;
}

// Numbers fill the shape that the file declares; where it declares none, one number is one number
// and several are a row.
Constant OnnxImporter::given_value(const OnnxValueInfo& input,
                                   const std::vector<double>& numbers) const {
  Shape shape;
  bool is_open = !input.has_shape;
  for (const OnnxDimension& dimension : input.dimensions) {
    is_open = is_open || (dimension.is_open() && !dimension.is_empty());
    shape.push_back(dimension.value);
  }
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (is_open || (count == 1 && element_count(shape) != 1))
    shape = count == 1 ? Shape{} : Shape{count};
  if (element_count(shape) != count) {
    fail(ErrorCode::kInvalidArgument, "{}: input '{}' is {}, but {} numbers are given for it",
         file_, input.name, shape_text(shape), count);
  }
  return Constant::of_reals(std::move(shape), numbers, input.dtype);
}

// What is said of an input that the file does not have is a mistake.
void OnnxImporter::check_choices() const {
  const auto check = [&](const std::string& name) {
    const std::vector<OnnxValueInfo>& inputs = model_.graph.inputs;
    if (std::ranges::any_of(inputs, [&](const auto& one) { return one.name == name; })) return;
    fail(ErrorCode::kInvalidArgument, "{}: there is no input '{}'; the inputs are {}", file_, name,
         listed(inputs, [](const OnnxValueInfo& one) { return one.name; }));
  };
  for (const auto& [name, shape] : choices_.shapes) check(name);
  for (const auto& [name, numbers] : choices_.values) check(name);
}

void OnnxImporter::add_inputs() {
  check_choices();
  for (const OnnxValueInfo& input : model_.graph.inputs) {
    if (const auto fixed = choices_.values.find(input.name); fixed != choices_.values.end()) {
      values_[input.name] = given_value(input, fixed->second);
      continue;
    }
    if (values_.contains(input.name)) continue;  // an initializer's default
    if (is_whole() && std::ranges::any_of(input.dimensions, &OnnxDimension::is_empty)) {
      values_[input.name] = given_value(input, {});  // there is nothing in it to be known
      continue;
    }
    Living value;
    value.batch_axis = batch_axis(input);
    value.shape = input_shape(input, value.batch_axis);
    value.dtype = input.dtype;
    value.tensor = unique_name(input.name);
    ProducerNode producer;
    producer.name = value.tensor;
    producer.shape = value.sample();
    producer.dtype = input.dtype;
    producers_.push_back(std::move(producer));
    values_[input.name] = std::move(value);
  }
}

// What a whole sample leads to may be known already, such as its shape: it leaves as a constant.
Living OnnxImporter::output_value(const OnnxValueInfo& output) {
  const auto found = values_.find(output.name);
  if (found != values_.end()) {
    if (const auto* value = std::get_if<Living>(&found->second)) return *value;
    if (is_whole() && !producers_.empty()) {
      OnnxNode node;
      node.op = "output";
      node.name = output.name;
      Living data;
      data.tensor = producers_[0].name;
      data.batch_axis = kNoBatch;
      return constant_layer(node, std::get<Constant>(found->second), data);
    }
  }
  fail(ErrorCode::kUnimplemented, "{}: output '{}' does not depend on the data", file_,
       output.name);
}

std::vector<std::pair<std::string, Living>> OnnxImporter::outputs() {
  std::map<std::string, int> taken;
  std::vector<std::pair<std::string, Living>> leaving;
  for (const OnnxValueInfo& output : model_.graph.outputs) {
    const Living value = output_value(output);
    const std::string name = onnx_user_name(output.name);
    if (taken[name]++ > 0) {
      fail(ErrorCode::kInvalidArgument, "{}: two outputs would be called '{}'", file_, name);
    }
    leaving.emplace_back(name, value);
  }
  return leaving;
}

}  // namespace harmonics::inline in_models
