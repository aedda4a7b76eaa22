#include <algorithm>
#include <map>

#include <harmonics/base/error.h>

#include "templates/template_tree.h"

namespace harmonics::inline in_text {
namespace {

using Kind = TemplateExpression::Kind;

/// One rendering.
class Rendering {
 public:
  Rendering(std::string_view name, const Json& variables) : name_(name), scopes_(1) {
    for (const auto& [key, value] : variables.as_object()) scopes_[0].insert_or_assign(key, value);
  }

  std::string run(const std::vector<TemplateNode>& nodes) {
    body(nodes);
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, "{}, line {}: {}", name_, line, what);
  }

  void step(int line) {
    if (++steps_ > kMaxTemplateSteps) {
      refuse(line, format("it takes more than {} steps", kMaxTemplateSteps));
    }
    if (out_.size() > kMaxTemplateOutput) {
      refuse(line, format("it writes more than {} bytes", kMaxTemplateOutput));
    }
  }

  void body(const std::vector<TemplateNode>& nodes) {
    for (const TemplateNode& node : nodes) {
      step(node.line);
      switch (node.kind) {
        case TemplateNode::Kind::kPlain: out_ += node.text; break;
        case TemplateNode::Kind::kPrint: out_ += printed(value(node.expressions[0])); break;
        case TemplateNode::Kind::kSet: set(node); break;
        case TemplateNode::Kind::kIf: branch(node); break;
        case TemplateNode::Kind::kFor: loop(node); break;
      }
    }
  }

  void set(const TemplateNode& node) {
    TemplateValue given = value(node.expressions[0]);
    const std::size_t dot = node.text.find('.');
    if (dot == std::string::npos) {
      scopes_.back().insert_or_assign(node.text, given.value_or(Json()));
      return;
    }
    Json* const owner = find(node.text.substr(0, dot));
    if (owner == nullptr || !owner->is_object()) {
      refuse(node.line, format("'{}' is no namespace", node.text.substr(0, dot)));
    }
    owner->set(node.text.substr(dot + 1), given.value_or(Json()));
  }

  void branch(const TemplateNode& node) {
    for (std::size_t i = 0; i < node.expressions.size(); ++i) {
      if (is_true(value(node.expressions[i]))) return body(node.bodies[i]);
    }
    if (node.bodies.size() > node.expressions.size()) body(node.bodies.back());
  }

  void loop(const TemplateNode& node) {
    const TemplateValue over = value(node.expressions[0]);
    if (!over) refuse(node.line, "a loop goes over something that is not defined");
    Json::Array items;
    if (over->is_object()) {
      for (const auto& [key, member] : over->as_object()) items.emplace_back(key);
    } else {
      items = over->as_array();
    }
    const auto count = static_cast<std::int64_t>(items.size());
    const std::size_t comma = node.text.find(',');
    for (std::int64_t i = 0; i < count; ++i) {
      step(node.line);
      const Json& item = items[static_cast<std::size_t>(i)];
      scopes_.emplace_back();
      if (comma == std::string::npos) {
        scopes_.back().insert_or_assign(node.text, item);
      } else {
        const Json::Array& pair = item.as_array();
        if (pair.size() != 2) refuse(node.line, "a loop of two names needs pairs");
        scopes_.back().insert_or_assign(node.text.substr(0, comma), pair[0]);
        scopes_.back().insert_or_assign(node.text.substr(comma + 1), pair[1]);
      }
      Json about = Json::object();
      about.set("index", i + 1).set("index0", i).set("first", i == 0).set("last", i == count - 1);
      about.set("length", count).set("revindex", count - i).set("revindex0", count - i - 1);
      if (i > 0) about.set("previtem", items[static_cast<std::size_t>(i - 1)]);
      if (i + 1 < count) about.set("nextitem", items[static_cast<std::size_t>(i + 1)]);
      scopes_.back().insert_or_assign("loop", std::move(about));
      body(node.bodies[0]);
      scopes_.pop_back();
    }
  }

  Json* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  TemplateValue value(const TemplateExpression& e) {
    step(e.line);
    try {
      return value_of(e);
    } catch (const Error& error) {
      const std::string what = error.what();
      if (what.starts_with(name_)) throw;
      refuse(e.line, what);
    }
  }

  TemplateValue value_of(const TemplateExpression& e) {
    switch (e.kind) {
      case Kind::kLiteral: return e.value;
      case Kind::kVariable: {
        const Json* const found = find(e.word);
        return found == nullptr ? TemplateValue() : TemplateValue(*found);
      }
      case Kind::kMember: return member(e, value(e.parts[0]), Json(e.word));
      case Kind::kItem: {
        const TemplateValue owner = value(e.parts[0]);
        return member(e, owner, value(e.parts[1]).value_or(Json()));
      }
      case Kind::kSlice: return slice(e);
      case Kind::kList: {
        Json list = Json::array();
        for (const TemplateExpression& part : e.parts) list.push(value(part).value_or(Json()));
        return list;
      }
      case Kind::kObject: {
        Json object = Json::object();
        for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
          object.set(printed(value(e.parts[i])), value(e.parts[i + 1]).value_or(Json()));
        }
        return object;
      }
      case Kind::kUnary: return unary(e);
      case Kind::kBinary: return binary(e);
      case Kind::kTest:
      case Kind::kFilter:
      case Kind::kMethod: {
        const TemplateValue subject = value(e.parts[0]);
        std::vector<TemplateValue> arguments;
        for (std::size_t i = 1; i < e.parts.size(); ++i) arguments.push_back(value(e.parts[i]));
        return apply_template_function(e, subject, arguments);
      }
      case Kind::kCall: return call(e);
      case Kind::kChoice: return value(e.parts[is_true(value(e.parts[0])) ? 1 : 2]);
    }
    return {};
  }

  TemplateValue member(const TemplateExpression& e, const TemplateValue& owner, const Json& key) {
    if (!owner) {
      refuse(e.line, format("{} of something that is not defined is asked for", key.dump()));
    }
    if (owner->is_object()) {
      const Json* const found = owner->find(key.as_string());
      return found == nullptr ? TemplateValue() : TemplateValue(*found);
    }
    if (!key.is_integer()) return {};
    const Json whole = owner->is_array() ? *owner : characters(owner->as_string());
    const auto count = static_cast<std::int64_t>(whole.as_array().size());
    const std::int64_t at = key.as_integer() < 0 ? key.as_integer() + count : key.as_integer();
    if (at < 0 || at >= count) return {};
    return whole.as_array()[static_cast<std::size_t>(at)];
  }

  static Json characters(const std::string& text) {
    Json::Array all;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
      all.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return Json(std::move(all));
  }

  TemplateValue slice(const TemplateExpression& e) {
    const TemplateValue owner = value(e.parts[0]);
    if (!owner) refuse(e.line, "a part of something that is not defined is asked for");
    const Json all = owner->is_string() ? characters(owner->as_string()) : *owner;
    const Json::Array& items = all.as_array();
    const auto count = static_cast<std::int64_t>(items.size());
    const auto bound = [&](const TemplateExpression& part, std::int64_t otherwise) {
      const Json given = value(part).value_or(Json());
      if (given.is_null()) return otherwise;
      const std::int64_t at = given.as_integer();
      return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count);
    };
    const std::int64_t stride = e.parts.size() > 3 && !value(e.parts[3]).value_or(Json()).is_null()
                                    ? value(e.parts[3])->as_integer()
                                    : 1;
    const std::int64_t first = bound(e.parts[1], 0), end = bound(e.parts[2], count);
    Json::Array some;
    if (stride == -1 && first == 0 && end == count) {
      some.assign(items.rbegin(), items.rend());
    } else if (stride == 1) {
      for (std::int64_t i = first; i < end; ++i) some.push_back(items[static_cast<std::size_t>(i)]);
    } else {
      refuse(e.line, format("a slice with steps of {} is not known here", stride));
    }
    if (!owner->is_string()) return Json(std::move(some));
    std::string text;
    for (const Json& each : some) text += each.as_string();
    return Json(text);
  }

  TemplateValue unary(const TemplateExpression& e) {
    const TemplateValue operand = value(e.parts[0]);
    if (e.word == "not") return Json(!is_true(operand));
    const Json number = operand.value_or(Json());
    return number.is_integer() ? Json(-number.as_integer()) : Json(-number.as_number());
  }

  TemplateValue binary(const TemplateExpression& e) {
    const TemplateValue left = value(e.parts[0]);
    if (e.word == "and") return is_true(left) ? value(e.parts[1]) : left;
    if (e.word == "or") return is_true(left) ? left : value(e.parts[1]);
    const TemplateValue right = value(e.parts[1]);
    if (e.word == "==") return Json(equal(left, right));
    if (e.word == "!=") return Json(!equal(left, right));
    if (e.word == "~") return Json(printed(left) + printed(right));
    if (e.word == "in") return Json(contains(right, left));
    if (!left || !right) {
      refuse(e.line, format("one side of '{}' is not defined", e.word));
    }
    return arithmetic(e, *left, *right);
  }

  static bool equal(const TemplateValue& left, const TemplateValue& right) {
    if (!left || !right) return !left && !right;
    return left->dump() == right->dump();
  }

  static bool contains(const TemplateValue& all, const TemplateValue& one) {
    if (!all) return false;
    if (all->is_string()) return all->as_string().find(printed(one)) != std::string::npos;
    if (all->is_object()) return all->find(printed(one)) != nullptr;
    return std::ranges::any_of(all->as_array(), [&](const Json& each) { return equal(each, one); });
  }

  Json arithmetic(const TemplateExpression& e, const Json& left, const Json& right) {
    const std::string& sign = e.word;
    if (left.is_string() && right.is_string()) {
      const int order = left.as_string().compare(right.as_string());
      if (sign == "+") return Json(left.as_string() + right.as_string());
      if (sign == "<") return Json(order < 0);
      if (sign == ">") return Json(order > 0);
      if (sign == "<=") return Json(order <= 0);
      if (sign == ">=") return Json(order >= 0);
    }
    if (sign == "+" && left.is_array() && right.is_array()) {
      Json::Array both = left.as_array();
      both.insert(both.end(), right.as_array().begin(), right.as_array().end());
      return Json(std::move(both));
    }
    if (left.is_integer() && right.is_integer() && sign != "/") {
      return whole_arithmetic(e, left.as_integer(), right.as_integer());
    }
    const double a = left.as_number(), b = right.as_number();
    if (sign == "+") return Json(a + b);
    if (sign == "-") return Json(a - b);
    if (sign == "*") return Json(a * b);
    if (sign == "/" && b != 0) return Json(a / b);
    if (sign == "<") return Json(a < b);
    if (sign == ">") return Json(a > b);
    if (sign == "<=") return Json(a <= b);
    if (sign == ">=") return Json(a >= b);
    refuse(e.line,
           format("'{}' cannot be worked out between {} and {}", sign, left.dump(), right.dump()));
  }

  Json whole_arithmetic(const TemplateExpression& e, std::int64_t a, std::int64_t b) {
    const std::string& sign = e.word;
    if (sign == "<") return Json(a < b);
    if (sign == ">") return Json(a > b);
    if (sign == "<=") return Json(a <= b);
    if (sign == ">=") return Json(a >= b);
    std::int64_t result = 0;
    if (sign == "+" && !__builtin_add_overflow(a, b, &result)) return Json(result);
    if (sign == "-" && !__builtin_sub_overflow(a, b, &result)) return Json(result);
    if (sign == "*" && !__builtin_mul_overflow(a, b, &result)) return Json(result);
    if (b > 0 && (sign == "//" || sign == "%")) {  // rounded down, as Python does
      const std::int64_t rest = ((a % b) + b) % b;
      return Json(sign == "%" ? rest : (a - rest) / b);
    }
    refuse(e.line, format("'{}' cannot be worked out between {} and {}", sign, a, b));
  }

  TemplateValue call(const TemplateExpression& e) {
    if (e.word == "raise_exception") {
      fail(ErrorCode::kInvalidArgument, "{} refuses the conversation: {}", name_,
           e.parts.empty() ? std::string() : printed(value(e.parts[0])));
    }
    if (e.word == "namespace") {
      Json object = Json::object();
      for (std::size_t i = 0; i < e.parts.size(); ++i) {
        object.set(e.names[i], value(e.parts[i]).value_or(Json()));
      }
      return object;
    }
    std::vector<std::int64_t> bounds;
    for (const TemplateExpression& part : e.parts) {
      bounds.push_back(value(part).value_or(Json()).as_integer());
    }
    if (bounds.empty() || bounds.size() > 2) refuse(e.line, "range takes one or two numbers");
    const std::int64_t first = bounds.size() == 1 ? 0 : bounds[0], end = bounds.back();
    if (end - first > static_cast<std::int64_t>(kMaxTemplateSteps)) {
      refuse(e.line, "a range is too long");
    }
    Json list = Json::array();
    for (std::int64_t i = first; i < end; ++i) list.push(i);
    return list;
  }

  std::string name_;
  std::vector<std::map<std::string, Json>> scopes_;
  std::string out_;
  std::size_t steps_ = 0;
};

}  // namespace

std::string run_template(const ChatTemplate::Program& program, const Json& variables) {
  return Rendering(program.name, variables).run(program.nodes);
}

}  // namespace harmonics::inline in_text
