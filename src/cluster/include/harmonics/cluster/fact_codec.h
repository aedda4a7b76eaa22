// Facts as bytes: the rows of the store's journal and snapshot (docs/formats/store-schema.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <harmonics/base/bytes.h>
#include <harmonics/cluster/fact.h>

namespace harmonics::inline in_cluster {

/// The version of the bytes; a store written by a newer one is refused, an older one migrated.
inline constexpr std::uint32_t kFactFormat = 1;

/// Appends facts to a batch. Tasks kept one after the other share their submission's bytes.
class FactWriter {
 public:
  void add(const Fact& fact);
  /// The batch so far; the writer starts a new one.
  [[nodiscard]] Bytes take();
  [[nodiscard]] std::size_t size() const { return out_.bytes().size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }

 private:
  ByteWriter out_;
  std::shared_ptr<const Submission> shared_;
};

/// Calls `visit` for every fact of a batch that one FactWriter made. Untrusted: what is malformed
/// or above a ceiling is an `Error` (kDataLoss) that names `where` and the offset.
void read_facts(ByteSpan batch, const std::string& where, const std::function<void(Fact&&)>& visit);

}  // namespace harmonics::inline in_cluster
