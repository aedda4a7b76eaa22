// Threads that share the blocks of one operation (private to runtime_tokens).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace harmonics::inline in_runtime {

/// `run` calls work(member, block) once for each block, on this thread and the team's others, and
/// returns when all are done. Which member takes which block is chance: work must not depend on it.
/// Work must not throw. One thread at a time calls it.
class RowTeam {
 public:
  using Work = std::function<void(int member, std::size_t block)>;

  explicit RowTeam(int members);
  ~RowTeam();
  RowTeam(const RowTeam&) = delete;
  RowTeam& operator=(const RowTeam&) = delete;

  [[nodiscard]] int members() const { return static_cast<int>(threads_.size()) + 1; }
  void run(std::size_t blocks, const Work& work);

 private:
  void serve(int member);
  void take_blocks(int member);

  const Work* work_ = nullptr;
  std::size_t blocks_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> busy_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace harmonics::inline in_runtime
