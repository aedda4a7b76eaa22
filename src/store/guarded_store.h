// What all stores share: nothing before `lead`, nothing after a failure.
#pragma once

#include <harmonics/store/store.h>

namespace harmonics::inline in_store {

/// Calls the do_* members in the right order only.
class GuardedStore : public Store {
 public:
  void lead(Nanoseconds timeout) final;
  void load(const std::function<void(Fact&&)>& visit) final;
  void append(std::span<const Fact> facts) final;
  void compact(const ClusterState& state) final;
  [[nodiscard]] Sizes sizes() const final { return sizes_; }

 protected:
  virtual void do_lead(Nanoseconds timeout) = 0;
  /// Also sets both sizes.
  virtual void do_load(const std::function<void(Fact&&)>& visit) = 0;
  /// `facts` may be empty: then only whether this store still leads is checked.
  virtual void do_append(std::span<const Fact> facts) = 0;
  virtual void do_compact(const ClusterState& state) = 0;

  Sizes sizes_;

 private:
  template <typename Action>
  void guarded(Action action);

  enum class Stage { kOpen, kLeads, kLoaded, kFailed } stage_ = Stage::kOpen;
};

}  // namespace harmonics::inline in_store
