// What harmonics monitor shows besides the overview, and how keys choose it.
#pragma once

#include <string>

#include <harmonics/rpc/client.h>

namespace harmonics::inline in_cluster_program {

enum class MonitorView { kOverview, kTasks, kMachine, kPipelines, kOutput };
enum class TaskSort { kId, kName, kState, kSince };

/// What the person at the terminal has asked for so far.
struct MonitorWish {
  MonitorView view = MonitorView::kOverview;
  TaskSort sort = TaskSort::kId;
  std::string filter{};  ///< Part of a name, user or state; empty: all.
  bool typing = false;   ///< Keys go into the filter.
  std::size_t chosen = 0;
  std::size_t rows = 0;  ///< Of what was drawn last: there is no choosing beyond.
  TaskId task{};         ///< The one that was chosen among tasks.
  bool quits = false;

  /// A key as KeyReader gives it.
  void press(int key);
};

/// Any view but the overview; remembers in `wish` how many rows there are and which task is chosen.
[[nodiscard]] std::string draw_view(ClusterClient& client, MonitorWish& wish, bool colour);
/// The keys that there are, in one line.
[[nodiscard]] std::string key_line(const MonitorWish& wish);

}  // namespace harmonics::inline in_cluster_program
