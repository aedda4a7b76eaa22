#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include <harmonics/base/error.h>
#include <harmonics/base/number_text.h>
#include <harmonics/plan/flow_plan.h>

namespace harmonics::inline in_plan {
namespace {

struct LpTerm {
  double factor = 0;
  std::string_view variable;
};
struct LpConstraint {
  std::string_view name;
  std::vector<LpTerm> terms;
  double limit = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '\\') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !is_blank(text[end])) ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> pieces_of(std::string_view name) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = name.find('_');
    pieces.push_back(name.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    name.remove_prefix(end + 1);
  }
}

// The constraints of the file, one after the other.
class LpReader {
 public:
  LpReader(std::string_view text, std::string_view file) : words_(words_of(text)), file_(file) {
    while (at_ < words_.size() && words_[at_] != "To") ++at_;
    if (at_++ >= words_.size()) broken("there is no 'Subject To'");
  }

  std::optional<LpConstraint> next() {
    if (at_ >= words_.size()) broken("the file ends within its constraints");
    if (!words_[at_].ends_with(':')) return std::nullopt;
    LpConstraint one{.name = words_[at_].substr(0, words_[at_].size() - 1), .terms = {}};
    ++at_;
    double sign = 1;
    double factor = 1;
    for (; at_ < words_.size(); ++at_) {
      const std::string_view word = words_[at_];
      if (word == "<=" || word == "=" || word == ">=") {
        one.limit = limit(one.name);
        return one;
      }
      if (word == "+" || word == "-") {
        sign = word == "-" ? -1 : 1;
        factor = 1;
      } else if (const auto number = number_from<double>(word)) {
        factor = *number;
      } else {
        one.terms.push_back({sign * factor, word});
        sign = factor = 1;
      }
    }
    broken(format("constraint '{}' has no end", one.name));
  }

  [[noreturn]] void broken(const std::string& what) const {
    fail(ErrorCode::kInvalidArgument, "{}: {}: not a placement problem of Helix", file_, what);
  }

 private:
  double limit(std::string_view constraint) {
    const auto number = ++at_ < words_.size() ? number_from<double>(words_[at_]) : std::nullopt;
    if (!number) broken(format("constraint '{}' has no limit", constraint));
    ++at_;
    return *number;
  }

  std::vector<std::string_view> words_;
  std::string file_;
  std::size_t at_ = 0;
};

// Gathers what the constraints say.
class HelixReader {
 public:
  HelixReader(std::string_view text, std::string_view file) : reader_(text, file) {
    while (const auto one = reader_.next()) take(*one);
  }

  FlowProblem problem() {
    if (rates_.empty() || layers_ == 0) reader_.broken("it names no nodes or no layers");
    if (rates_.rbegin()->first + 1 != rates_.size()) reader_.broken("nodes are missing");
    FlowProblem made;
    made.layers = layers_;
    for (const auto& [node, rates] : rates_) {
      const auto same = std::ranges::find_if(
          made.kinds, [&](const FlowKind& kind) { return kind.rates.front() == rates; });
      const auto kind = static_cast<std::size_t>(same - made.kinds.begin());
      if (same == made.kinds.end()) {
        made.kinds.push_back({format("kind-{}", made.kinds.size() + 1), {rates}});
      }
      made.hosts.push_back({format("node-{}", node), kind});
    }
    const std::size_t ends = made.hosts.size() + 2;
    made.link_rates.assign(ends * ends, 0);
    for (const Link& link : links_) {
      made.link_rates[end_of(link.from, made) * ends + end_of(link.to, made)] = link.rate;
    }
    check_flow(made);
    return made;
  }

 private:
  struct Link {
    std::string_view from;
    std::string_view to;
    double rate;
  };

  void take(const LpConstraint& one) {
    const std::vector<std::string_view> pieces = pieces_of(one.name);
    if (one.name.starts_with("end_constraint_")) {
      take_layers(one);
    } else if (one.name.starts_with("node_throughput_constraint_")) {
      take_rates(one, pieces.back());
    } else if (one.name.starts_with("edge_flow_constr_") && pieces.size() == 5) {
      take_link(one, pieces[3], pieces[4]);
    } else if (one.name.starts_with("edge_disable_constr2_") && pieces.size() == 5) {
      // Where a node may also begin within its range, the second rule speaks of its own end.
      for (const LpTerm& term : one.terms) {
        const auto names = pieces_of(term.variable);
        if (names[0] == "hold" && names.size() == 3 && names[1] == pieces[4]) {
          reader_.broken(format("'{}' lets a node begin within its range", one.name));
        }
      }
    }
  }

  void take_layers(const LpConstraint& one) {
    if (!(one.limit >= 1 && one.limit <= static_cast<double>(kMaxFlowLayers)) ||
        (layers_ != 0 && static_cast<double>(layers_) != one.limit)) {
      reader_.broken(format("'{}' says {} layers", one.name, one.limit));
    }
    layers_ = static_cast<std::size_t>(one.limit);
  }

  void take_rates(const LpConstraint& one, std::string_view node) {
    const auto number = number_from<std::size_t>(node);
    if (!number || *number >= kMaxFlowHosts) {
      reader_.broken(format("'{}' is no node of 0 to {}", node, kMaxFlowHosts - 1));
    }
    std::vector<double>& rates = rates_[*number];
    for (const LpTerm& term : one.terms) {
      const auto names = pieces_of(term.variable);
      if (names[0] != "hold" || names.size() != 3) continue;
      const auto count = number_from<std::size_t>(names[2]);
      if (!count || *count == 0 || *count > kMaxFlowLayers || !(term.factor <= 0)) {
        reader_.broken(format("'{}' in '{}' is no rate", term.variable, one.name));
      }
      if (rates.size() < *count) rates.resize(*count, 0);
      rates[*count - 1] = -term.factor;
    }
    if (rates.empty()) reader_.broken(format("'{}' has no rates", one.name));
  }

  void take_link(const LpConstraint& one, std::string_view from, std::string_view to) {
    for (const LpTerm& term : one.terms) {
      if (term.variable.starts_with("switch_")) links_.push_back({from, to, -term.factor});
    }
  }

  std::size_t end_of(std::string_view word, const FlowProblem& made) const {
    if (word == "source") return made.source();
    if (word == "sink") return made.sink();
    const auto number = number_from<std::size_t>(word);
    if (!number || *number >= made.hosts.size()) {
      reader_.broken(format("a link ends at '{}'", word));
    }
    return *number;
  }

  LpReader reader_;
  std::size_t layers_ = 0;
  std::map<std::size_t, std::vector<double>> rates_;
  std::vector<Link> links_;
};

}  // namespace

FlowProblem parse_helix_lp(std::string_view text, std::string_view name) {
  if (text.size() > kMaxFlowFileBytes) {
    fail(ErrorCode::kResourceExhausted, "{}: {} bytes, the limit is {}", name, text.size(),
         kMaxFlowFileBytes);
  }
  return HelixReader(text, name).problem();
}

}  // namespace harmonics::inline in_plan
