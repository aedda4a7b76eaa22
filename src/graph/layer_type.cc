#include <harmonics/graph/layer_type.h>

#include <memory>
#include <mutex>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/graph/graph.h>

#include "builtin/builtin.h"

namespace harmonics::inline in_graph {
namespace {

// A process-wide table of named types. Entries are never removed, so pointers stay valid; replacing
// a name keeps the old entry alive.
template <typename Type>
class Table {
 public:
  void add(Type type) {
    const std::lock_guard lock(mutex_);
    auto entry = std::make_unique<Type>(std::move(type));
    current_[entry->name] = entry.get();
    owned_.push_back(std::move(entry));
  }
  const Type* find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = current_.find(name);
    return found == current_.end() ? nullptr : found->second;
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [name, type] : current_) all.push_back(name);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, const Type*, std::less<>> current_;
  std::vector<std::unique_ptr<Type>> owned_;
};

struct Tables {
  Table<LayerType> layers;
  Table<ActivationType> activations;
  Table<LossType> losses;

  Tables() {
    for (LayerType& type : builtin_layer_types()) layers.add(std::move(type));
    for (ActivationType& type : builtin_activation_types()) activations.add(std::move(type));
    for (LossType& type : builtin_loss_types()) losses.add(std::move(type));
  }
};

Tables& tables() {
  static Tables instance;
  return instance;
}

}  // namespace

std::string attribute_text(const Attribute& value) {
  struct Spell {
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const {
      std::string text = format("{}", v);
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Shape& v) const { return shape_text(v); }
  };
  return std::visit(Spell{}, value);
}

namespace {
const Attribute& attribute(const LayerQuery& query, std::string_view name) {
  const auto found = query.attributes.find(std::string(name));
  if (found == query.attributes.end()) query.refuse(format("'{}' is missing", name));
  return found->second;
}
}  // namespace

std::int64_t LayerQuery::integer(std::string_view name) const {
  const Attribute& value = attribute(*this, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  refuse(format("'{}' must be a whole number, not {}", name, attribute_text(value)));
}

std::int64_t LayerQuery::integer(std::string_view name, std::int64_t minimum) const {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const std::int64_t value = integer(name);
  if (value < minimum || value > kLimit) {
    refuse(format("'{}' must be at least {} and at most {}, not {}", name, minimum, kLimit, value));
  }
  return value;
}

double LayerQuery::number(std::string_view name) const {
  const Attribute& value = attribute(*this, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  refuse(format("'{}' must be a number, not {}", name, attribute_text(value)));
}

const std::string& LayerQuery::text(std::string_view name) const {
  const Attribute& value = attribute(*this, name);
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  refuse(format("'{}' must be a word, not {}", name, attribute_text(value)));
}

Shape LayerQuery::list(std::string_view name) const {
  const Attribute& value = attribute(*this, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return {*integer};
  if (const auto* list = std::get_if<Shape>(&value)) return *list;
  refuse(format("'{}' must be a list such as {{2, 2}}, not {}", name, attribute_text(value)));
}

std::int64_t LayerQuery::integer_or(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

double LayerQuery::number_or(std::string_view name, double otherwise) const {
  return has(name) ? number(name) : otherwise;
}

std::string LayerQuery::text_or(std::string_view name, std::string_view otherwise) const {
  return has(name) ? text(name) : std::string(otherwise);
}

bool LayerQuery::has(std::string_view name) const {
  return attributes.find(std::string(name)) != attributes.end();
}

void LayerQuery::refuse(const std::string& what) const {
  fail(ErrorCode::kInvalidArgument, "layer '{}' ({}): {}; input is {}", layer, type, what,
       listed(inputs, spec_text));
}

namespace {
void need_name(std::string_view kind, std::string_view name) {
  if (!is_user_name(name)) {
    fail(ErrorCode::kInvalidArgument,
         "'{}' cannot name {}: use a letter or _, then letters, digits, _ or dots", name, kind);
  }
}
}  // namespace

void register_layer_type(LayerType type) {
  need_name("a layer type", type.name);
  for (const AttributeSpec& attribute : type.attributes) need_name("an attribute", attribute.name);
  if (!type.infer || type.min_inputs < 1 || type.max_inputs < type.min_inputs) {
    fail(ErrorCode::kInvalidArgument,
         "layer type '{}' needs an infer function and a range of inputs that starts at 1",
         type.name);
  }
  tables().layers.add(std::move(type));
}
void register_activation_type(ActivationType type) {
  need_name("an activation", type.name);
  tables().activations.add(std::move(type));
}
void register_loss_type(LossType type) {
  need_name("a loss", type.name);
  if (!type.check) {
    fail(ErrorCode::kInvalidArgument, "loss '{}' needs a check function", type.name);
  }
  tables().losses.add(std::move(type));
}
const LayerType* find_layer_type(std::string_view name) { return tables().layers.find(name); }
const ActivationType* find_activation_type(std::string_view name) {
  return tables().activations.find(name);
}
const LossType* find_loss_type(std::string_view name) { return tables().losses.find(name); }
std::vector<std::string> layer_type_names() { return tables().layers.names(); }
std::vector<std::string> activation_type_names() { return tables().activations.names(); }
std::vector<std::string> loss_type_names() { return tables().losses.names(); }

}  // namespace harmonics::inline in_graph
