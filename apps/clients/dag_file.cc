#include <harmonics/clients/dag_file.h>

#include <algorithm>
#include <map>
#include <string>

#include <harmonics/base/error.h>
#include <harmonics/base/file.h>
#include <harmonics/base/json.h>
#include <harmonics/base/nearest_word.h>

namespace harmonics::inline in_clients {
namespace {

constexpr std::size_t kMaxDagBytes = 64 << 20;

struct NamedNode {
  TaskSpec spec{};
  std::vector<std::string> after{};
};

/// The task without "after", over what all have.
NamedNode read_node(const Json& json, const Json* defaults, std::string_view where) {
  if (!json.is_object()) fail(ErrorCode::kInvalidArgument, "{}: a task is an object", where);
  NamedNode node;
  Json own = defaults == nullptr ? Json::object() : *defaults;
  for (const auto& [key, value] : json.as_object()) {
    if (key != "after") {
      own.set(key, value);
      continue;
    }
    if (!value.is_array()) fail(ErrorCode::kInvalidArgument, "{}: after is a list of names", where);
    for (const Json& name : value.as_array()) node.after.push_back(name.as_string());
  }
  node.spec = parse_task(own.dump(), where);
  return node;
}

/// Each behind those that it waits for; else as the file has them.
class DagOrder {
 public:
  DagOrder(const std::vector<NamedNode>& nodes, std::string_view where)
      : nodes_(nodes), where_(where), places_(nodes.size(), kNowhere) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (by_name_.emplace(nodes[i].spec.name, i).second) continue;
      fail(ErrorCode::kInvalidArgument, "{}: two tasks are called '{}'", where, nodes[i].spec.name);
    }
  }

  std::vector<DagRequest::Node> run() {
    std::vector<std::size_t> open(nodes_.size());
    std::vector<std::vector<std::size_t>> followers(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const std::string& name : nodes_[i].after) {
        followers[find(name, nodes_[i].spec.name)].push_back(i);
        ++open[i];
      }
    }
    std::vector<std::size_t> ready;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      if (open[i] == 0) ready.push_back(i);
    }
    std::vector<DagRequest::Node> ordered;
    while (!ready.empty()) {
      const std::size_t next = ready.back();
      ready.pop_back();
      ordered.push_back(placed(next, ordered.size()));
      for (std::size_t i = followers[next].size(); i-- > 0;) {
        if (--open[followers[next][i]] == 0) ready.push_back(followers[next][i]);
      }
    }
    if (ordered.size() == nodes_.size()) return ordered;
    const auto stuck = std::ranges::find(places_, kNowhere) - places_.begin();
    fail(ErrorCode::kInvalidArgument, "{}: '{}' waits for itself, in a circle of tasks", where_,
         nodes_[static_cast<std::size_t>(stuck)].spec.name);
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  std::size_t find(const std::string& name, const std::string& by) const {
    const auto found = by_name_.find(name);
    if (found != by_name_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, place] : by_name_) names.push_back(known);
    fail(ErrorCode::kInvalidArgument, "{}: '{}' waits for '{}', which is no task of the file{}",
         where_, by, name, suggestion(name, names));
  }
  DagRequest::Node placed(std::size_t node, std::size_t place) {
    places_[node] = place;
    DagRequest::Node made{nodes_[node].spec, {}};
    for (const std::string& name : nodes_[node].after) {
      made.after.push_back(static_cast<std::uint32_t>(places_[by_name_.at(name)]));
    }
    return made;
  }

  const std::vector<NamedNode>& nodes_;
  std::string_view where_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<std::size_t> places_;  ///< In the order that is made.
};

}  // namespace

std::vector<DagRequest::Node> parse_dag(std::string_view text, std::string_view where) {
  const Json root = Json::parse(text, where);
  const Json* tasks = root.is_object() ? root.find("tasks") : nullptr;
  if (tasks == nullptr || !tasks->is_array() || tasks->as_array().empty()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: must be an object with a list of tasks: {{\"tasks\": [{{\"name\": ...}}]}}", where);
  }
  for (const auto& [key, value] : root.as_object()) {
    if (key == "tasks" || (key == "defaults" && value.is_object())) continue;
    fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'; known are tasks and defaults", where,
         key);
  }
  if (tasks->as_array().size() > kMaxDagNodes) {
    fail(ErrorCode::kInvalidArgument, "{}: {} tasks, at most {} come at once", where,
         tasks->as_array().size(), kMaxDagNodes);
  }
  std::vector<NamedNode> nodes;
  for (const Json& task : tasks->as_array()) {
    nodes.push_back(
        read_node(task, root.find("defaults"), format("{}, task {}", where, nodes.size() + 1)));
  }
  return DagOrder(nodes, where).run();
}

std::vector<DagRequest::Node> read_dag(const std::filesystem::path& file) {
  return parse_dag(read_text_file(file, kMaxDagBytes), file.string());
}

}  // namespace harmonics::inline in_clients
