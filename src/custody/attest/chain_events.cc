#include "chain_events.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace harmonics::inline in_custody {
namespace {

// Stages whose senders all stand before them, by name among themselves.
std::vector<std::string> flow_order(const Opening& opening) {
  std::vector<std::string> order;
  const auto placed = [&](const std::string& stage) {
    return std::ranges::find(order, stage) != order.end();
  };
  while (order.size() < opening.stages.size()) {
    const std::size_t before = order.size();
    for (const StageEntry& entry : opening.stages) {
      const bool ready = std::ranges::all_of(opening.boundaries, [&](const BoundaryEntry& one) {
        return one.to != entry.stage || placed(one.from);
      });
      if (ready && !placed(entry.stage)) order.push_back(entry.stage);
    }
    // A ring of stages has no first one.
    if (order.size() > before) continue;
    for (const StageEntry& entry : opening.stages) {
      if (!placed(entry.stage)) order.push_back(entry.stage);
    }
  }
  return order;
}

// What a stage did in one step, in the order of its log.
struct Act {
  bool sent = false;
  Passage passage;
  Digest link{};
};

// The record as an act of a step; nothing where it is none.
std::optional<Act> act_of(const ChainRecord& record, std::uint64_t step) {
  std::optional<Act> act;
  if (record.kind == RecordKind::kLink) {
    const Passage passage = decode_link(record.body).passage;
    if (passage.step == step) act = {true, passage, link_digest(record.body)};
  } else if (record.kind == RecordKind::kReceipt) {
    const Receipt receipt = decode_receipt(record.body);
    if (receipt.passage.step == step) act = {false, receipt.passage, receipt.link};
  }
  return act;
}

std::vector<std::deque<Act>> acts_of(std::span<const Chain> chains, const ChainEvents& events,
                                     std::uint64_t step) {
  std::vector<std::deque<Act>> acts(events.stages.size());
  // Batches that were only computed have a count of their own: the first batch is the step.
  std::vector<bool> over(events.stages.size(), false);
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      const std::string& stage = chain.opening.stages[record.stage].stage;
      const auto row = std::ranges::find(events.stages, stage, &DrawnStage::stage);
      const auto at = static_cast<std::size_t>(row - events.stages.begin());
      if (over[at]) continue;
      if (record.kind == RecordKind::kHead) over[at] = !acts[at].empty();
      if (const std::optional<Act> act = act_of(record, step)) acts[at].push_back(*act);
    }
  }
  return acts;
}

// Stages that take their acts one by one, with a clock each.
class Replay {
 public:
  explicit Replay(std::vector<std::deque<Act>> acts) : acts_(std::move(acts)) {
    clocks_.resize(acts_.size(), 0);
  }

  // Every stage goes on until it waits for a tensor that has not been sent yet.
  std::vector<DrawnHandOver> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t row = 0; row < acts_.size(); ++row) {
        while (take_next(row)) moved = true;
      }
    }
    return std::move(all_);
  }

 private:
  bool take_next(std::size_t row) {
    if (acts_[row].empty()) return false;
    const Act act = acts_[row].front();
    const auto sent = under_way_.find(act.link);
    if (!act.sent && sent == under_way_.end()) return false;
    acts_[row].pop_front();
    if (act.sent) {
      under_way_[act.link] = {act.passage, row, 0, clocks_[row]++, 0};
      return true;
    }
    clocks_[row] = std::max(clocks_[row], sent->second.sent_at + 1);
    sent->second.to = row;
    sent->second.received_at = clocks_[row]++;
    all_.push_back(sent->second);
    under_way_.erase(sent);
    return true;
  }

  std::vector<std::deque<Act>> acts_;
  std::vector<std::uint64_t> clocks_;
  std::map<Digest, DrawnHandOver> under_way_;
  std::vector<DrawnHandOver> all_;
};

}  // namespace

ChainEvents chain_events(std::span<const Chain> chains, const VerifyReport& report) {
  ChainEvents events;
  for (const std::string& name : flow_order(chains.front().opening)) {
    const auto stage = std::ranges::find(report.stages, name, &StageReport::stage);
    events.stages.push_back({name, stage->signer, stage->key, stage->known, {}, stage->weights});
    for (const WeightMark& mark : stage->weights) events.steps = std::max(events.steps, mark.step);
  }
  for (const Chain& chain : chains) {
    for (const ChainRecord& record : chain.records) {
      const bool link = record.kind == RecordKind::kLink;
      if (!link && record.kind != RecordKind::kReceipt) continue;
      const Passage passage =
          link ? decode_link(record.body).passage : decode_receipt(record.body).passage;
      const std::string& stage = chain.opening.stages[record.stage].stage;
      auto& counts =
          std::ranges::find(events.stages, stage, &DrawnStage::stage)->steps[passage.step];
      ++(link ? counts.first : counts.second);
      events.steps = std::max(events.steps, passage.step + 1);
    }
  }
  return events;
}

std::vector<DrawnHandOver> hand_overs(std::span<const Chain> chains, const ChainEvents& events,
                                      std::uint64_t step, std::size_t limit) {
  std::vector<DrawnHandOver> all = Replay(acts_of(chains, events, step)).run();
  std::ranges::stable_sort(all, {}, &DrawnHandOver::sent_at);
  if (all.size() > limit) all.resize(limit);
  return all;
}

}  // namespace harmonics::inline in_custody
