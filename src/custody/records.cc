#include <harmonics/custody/records.h>

#include <algorithm>
#include <cstring>

#include <harmonics/base/error.h>
#include <harmonics/base/format.h>
#include <harmonics/custody/merkle.h>

namespace harmonics::inline in_custody {
namespace {

template <typename Rows, typename Name>
void require_unique(const Rows& rows, Name name, std::string_view what) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& own = name(rows[i]);
    if (own.empty() || own.size() > kMaxCustodyName) {
      fail(ErrorCode::kInvalidArgument, "the name '{}' of a {} has not 1 to {} bytes", own, what,
           kMaxCustodyName);
    }
    if (i > 0 && name(rows[i - 1]) == own) {
      fail(ErrorCode::kInvalidArgument, "{} '{}' is there twice", what, own);
    }
  }
}

template <typename Rows, typename Name>
auto find_row(const Rows& rows, std::string_view wanted, Name name) -> decltype(rows.data()) {
  const auto found = std::ranges::lower_bound(rows, wanted, {}, name);
  return found != rows.end() && name(*found) == wanted ? &*found : nullptr;
}

std::string_view stage_name(const StageEntry& entry) { return entry.stage; }
std::string_view boundary_name(const BoundaryEntry& entry) { return entry.name; }

Digest marked_leaf(char mark, ByteSpan bytes) {
  Bytes marked;
  marked.reserve(bytes.size() + 1);
  marked.push_back(static_cast<std::byte>(mark));
  marked.insert(marked.end(), bytes.begin(), bytes.end());
  return merkle_leaf(marked);
}

}  // namespace

std::string_view direction_name(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

std::string passage_text(const Passage& passage) {
  return format("{} '{}', step {}, micro-batch {}", direction_name(passage.direction),
                passage.boundary, passage.step + 1, passage.micro_batch);
}

const StageEntry* Opening::stage(std::string_view name) const {
  return find_row(stages, name, stage_name);
}

const BoundaryEntry* Opening::boundary(std::string_view name) const {
  return find_row(boundaries, name, boundary_name);
}

Opening checked_opening(Opening opening) {
  std::ranges::sort(opening.stages);
  std::ranges::sort(opening.boundaries);
  if (opening.stages.empty() || opening.stages.size() > kMaxCustodyStages ||
      opening.boundaries.size() > kMaxCustodyBoundaries) {
    fail(ErrorCode::kInvalidArgument,
         "a run has 1 to {} stages and at most {} boundaries, not {} and {}", kMaxCustodyStages,
         kMaxCustodyBoundaries, opening.stages.size(), opening.boundaries.size());
  }
  require_unique(
      opening.stages, [](const StageEntry& e) -> const std::string& { return e.stage; }, "stage");
  require_unique(
      opening.boundaries, [](const BoundaryEntry& e) -> const std::string& { return e.name; },
      "boundary");
  for (const StageEntry& entry : opening.stages) {
    if (const std::string problem = key_name_problem(entry.signer); !problem.empty()) {
      fail(ErrorCode::kInvalidArgument, "signer '{}' of stage '{}': {}", entry.signer, entry.stage,
           problem);
    }
  }
  for (const BoundaryEntry& entry : opening.boundaries) {
    for (const std::string& end : {entry.from, entry.to}) {
      if (opening.stage(end) != nullptr) continue;
      fail(ErrorCode::kInvalidArgument, "boundary '{}' ends at '{}', which is no stage of the run",
           entry.name, end);
    }
    if (entry.from == entry.to) {
      fail(ErrorCode::kInvalidArgument, "boundary '{}' begins and ends at '{}'", entry.name,
           entry.from);
    }
  }
  return opening;
}

Digest link_digest(ByteSpan encoded) { return marked_leaf('L', encoded); }
Digest receipt_digest(ByteSpan encoded) { return marked_leaf('R', encoded); }
Digest weight_mark_digest(ByteSpan encoded) { return marked_leaf('W', encoded); }
Digest layer_mark_digest(ByteSpan encoded) { return marked_leaf('Y', encoded); }
Digest head_digest(ByteSpan encoded) { return marked_leaf('H', encoded); }
Digest opening_digest(ByteSpan encoded) { return marked_leaf('O', encoded); }

Digest proof_context(const Digest& run, const Digest& graph, const Passage& passage) {
  ByteWriter out;
  out.text("harmonics custody proof 1");
  out.raw(run);
  out.raw(graph);
  out.text(passage.boundary);
  out.number(static_cast<std::uint8_t>(passage.direction));
  out.number(passage.step);
  out.number(passage.micro_batch);
  return sha256(out.bytes());
}

Bytes signed_text(std::string_view purpose, const Digest& digest) {
  ByteWriter out;
  out.text(purpose);
  out.raw(digest);
  return out.take();
}

}  // namespace harmonics::inline in_custody
