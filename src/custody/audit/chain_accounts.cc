#include <harmonics/custody/chain_accounts.h>

#include <algorithm>
#include <set>
#include <utility>

#include <harmonics/base/format.h>
#include <harmonics/custody/breach.h>

namespace harmonics::inline in_custody {
namespace {

// The records of a stage between two heads: one batch.
struct Batch {
  std::vector<Link> links;
  std::vector<LayerMark> layers;
  std::optional<std::uint64_t> step;
  /// It has gradients or marks of layers, which only learning has.
  bool learns = false;
};

bool is_of_learning(const ChainRecord& record) {
  switch (record.kind) {
    case RecordKind::kLayers: return true;
    case RecordKind::kLink:
      return decode_link(record.body).passage.direction == Direction::kBackward;
    case RecordKind::kReceipt:
      return decode_receipt(record.body).passage.direction == Direction::kBackward;
    default: return false;
  }
}

// Collects the batches of one stage.
class StageReader {
 public:
  /// `tells`: what the stage learns from can be told by its records.
  StageReader(StageAccount& account, bool tells) : account_(account), tells_(tells) {}

  void take(const ChainRecord& record) {
    batch_.learns = batch_.learns || is_of_learning(record);
    switch (record.kind) {
      case RecordKind::kLink:
        batch_.links.push_back(decode_link(record.body));
        batch_.step = batch_.links.back().passage.step;
        break;
      case RecordKind::kReceipt:
        if (!batch_.step) batch_.step = decode_receipt(record.body).passage.step;
        break;
      case RecordKind::kLayers:
        batch_.layers.push_back(decode_layer_mark(record.body));
        batch_.step = batch_.layers.back().step;
        break;
      case RecordKind::kWeights: take_weights(decode_weight_mark(record.body)); break;
      case RecordKind::kHead: end_batch(); break;
      default: break;
    }
  }

 private:
  void take_weights(const WeightMark& mark) {
    if (!due_) due_ = mark.step;
    account_.weights[mark.step] = mark.root;
  }

  void end_batch() {
    Batch batch = std::exchange(batch_, {});
    if (!batch.step) return;
    if (!due_) due_ = *batch.step;
    if (*batch.step != *due_ || (tells_ && !batch.learns)) return;
    StepAccount& step = account_.steps[*due_];
    step.links = std::move(batch.links);
    for (LayerMark& mark : batch.layers) step.layers[mark.micro_batch] = std::move(mark.layers);
    ++*due_;
  }

  StageAccount& account_;
  const bool tells_;
  Batch batch_;
  /// The step of learning that comes next.
  std::optional<std::uint64_t> due_;
};

const Link* find_link(const StepAccount& step, const Passage& passage) {
  const auto found = std::ranges::find(step.links, passage, &Link::passage);
  return found == step.links.end() ? nullptr : &*found;
}

const StepAccount* find_step(const StageAccount& account, std::uint64_t step) {
  const auto found = account.steps.find(step);
  return found == account.steps.end() ? nullptr : &found->second;
}

// The first layer of a micro-batch that gave something else; empty where none is known.
std::string other_layer(const StepAccount& ours, const StepAccount& theirs, std::uint32_t slice) {
  const auto own = ours.layers.find(slice);
  const auto other = theirs.layers.find(slice);
  if (own == ours.layers.end() || other == theirs.layers.end()) return "";
  for (const LayerRoot& layer : own->second) {
    const auto same = std::ranges::find(other->second, layer.layer, &LayerRoot::layer);
    if (same != other->second.end() && same->root != layer.root) return layer.layer;
  }
  return "";
}

const LinkInput* find_input(const Link& link, LinkInput::Source source, const std::string& name) {
  for (const LinkInput& input : link.inputs) {
    if (input.source == source && input.name == name) return &input;
  }
  return nullptr;
}

// Of data that one stage took and the other account has otherwise.
std::optional<Disagreement> other_data(const Link& ours, const Link& theirs) {
  for (const LinkInput& input : ours.inputs) {
    if (input.source != LinkInput::Source::kData) continue;
    const LinkInput* other = find_input(theirs, input.source, input.name);
    if (other != nullptr && other->root == input.root) continue;
    Disagreement found;
    found.kind = Disagreement::Kind::kInput;
    found.passage = ours.passage;
    found.layer = input.name;
    found.ours = input.root;
    if (other != nullptr) found.theirs = other->root;
    return found;
  }
  return std::nullopt;
}

// What is wrong with a stage's step itself, given that what it received was the same.
std::optional<Disagreement> own_fault(const StepAccount& ours, const StepAccount& theirs) {
  for (const Link& expected : theirs.links) {
    const Link* link = find_link(ours, expected.passage);
    const bool same_root = link != nullptr && link->root == expected.root;
    if (link != nullptr && same_root && link->inputs == expected.inputs) continue;
    if (link != nullptr) {
      if (auto data = other_data(*link, expected)) return data;
      if (link->inputs != expected.inputs || same_root) continue;
    }
    Disagreement found;
    found.passage = expected.passage;
    found.layer = other_layer(ours, theirs, expected.passage.micro_batch);
    found.ours = link == nullptr ? Digest{} : link->root;
    found.theirs = expected.root;
    return found;
  }
  return std::nullopt;
}

bool differs(const StepAccount& ours, const StepAccount& theirs) {
  return std::ranges::any_of(theirs.links, [&](const Link& expected) {
    const Link* link = find_link(ours, expected.passage);
    return link == nullptr || link->root != expected.root || link->inputs != expected.inputs;
  });
}

// Weights that a step begins with: of the stages whose roots differ, the first by name.
std::optional<Disagreement> other_weights(const ChainAccounts& ours, const ChainAccounts& theirs,
                                          std::uint64_t step) {
  for (const auto& [stage, expected] : theirs) {
    const auto own = ours.find(stage);
    const auto theirs_at = expected.weights.find(step);
    if (own == ours.end() || theirs_at == expected.weights.end()) continue;
    const auto ours_at = own->second.weights.find(step);
    if (ours_at == own->second.weights.end() || ours_at->second == theirs_at->second) continue;
    Disagreement found;
    found.kind = Disagreement::Kind::kWeights;
    found.stage = stage;
    found.signer = own->second.signer;
    found.step = step;
    found.ours = ours_at->second;
    found.theirs = theirs_at->second;
    return found;
  }
  return std::nullopt;
}

std::optional<Disagreement> other_tensors(const ChainAccounts& ours, const ChainAccounts& theirs,
                                          std::uint64_t step) {
  std::optional<Disagreement> any;
  for (const auto& [stage, expected] : theirs) {
    const auto own = ours.find(stage);
    const StepAccount* theirs_at = find_step(expected, step);
    if (own == ours.end() || theirs_at == nullptr) continue;
    const StepAccount* ours_at = find_step(own->second, step);
    static const StepAccount nothing;
    if (ours_at == nullptr) ours_at = &nothing;
    if (!differs(*ours_at, *theirs_at)) continue;
    std::optional<Disagreement> found = own_fault(*ours_at, *theirs_at);
    const bool is_cause = found.has_value();
    if (!found) found.emplace();
    found->stage = stage;
    found->signer = own->second.signer;
    found->step = step;
    if (is_cause) return found;
    if (!any) any = std::move(found);
  }
  return any;
}

}  // namespace

ChainAccounts accounts_of(std::span<const Chain> chains) {
  std::set<std::string> sending, telling;
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      const std::string& stage = chain.opening.stages[record.stage].stage;
      if (record.kind == RecordKind::kLink) sending.insert(stage);
      if (is_of_learning(record)) telling.insert(stage);
    }
  }
  ChainAccounts accounts;
  std::map<std::string, StageReader> readers;
  for (const Chain& chain : chains) {
    for (const StageEntry& entry : chain.opening.stages) {
      if (!sending.contains(entry.stage)) continue;
      accounts[entry.stage].signer = entry.signer;
      readers.try_emplace(entry.stage, accounts[entry.stage], telling.contains(entry.stage));
    }
    for (const ChainRecord& record : chain.records) {
      const auto reader = readers.find(chain.opening.stages[record.stage].stage);
      if (reader != readers.end()) reader->second.take(record);
    }
  }
  return accounts;
}

std::uint64_t steps_in(const ChainAccounts& accounts) {
  std::uint64_t steps = 0;
  for (const auto& [stage, account] : accounts) {
    if (!account.steps.empty()) steps = std::max(steps, account.steps.rbegin()->first + 1);
  }
  return steps;
}

std::optional<Disagreement> first_disagreement(const ChainAccounts& ours,
                                               const ChainAccounts& theirs, std::uint64_t from,
                                               std::uint64_t to) {
  for (std::uint64_t step = from; step < to; ++step) {
    // Where they begin with other weights nothing that follows says more.
    if (auto found = other_weights(ours, theirs, step)) return found;
    if (auto found = other_tensors(ours, theirs, step)) return found;
  }
  return other_weights(ours, theirs, to);
}

std::string disagreement_text(const Disagreement& found) {
  const std::string roots =
      format("signed is {}, computed {}", digest_text(found.ours), digest_text(found.theirs));
  const std::string who = format("part '{}', signed by '{}'", found.stage, found.signer);
  switch (found.kind) {
    case Disagreement::Kind::kWeights:
      return format("step {}, {}: the weights after it are others: {}", found.step, who, roots);
    case Disagreement::Kind::kInput:
      return format("step {}, {}: micro-batch {} was made from other data of producer '{}': {}",
                    found.step + 1, who, found.passage.micro_batch, found.layer, roots);
    case Disagreement::Kind::kTensor: break;
  }
  return format("step {}, {}{}: {}: {}", found.step + 1, who,
                found.layer.empty() ? "" : format(", layer '{}'", found.layer),
                passage_text(found.passage), roots);
}

}  // namespace harmonics::inline in_custody
