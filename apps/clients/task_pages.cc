#include <harmonics/clients/task_pages.h>

#include <algorithm>
#include <iterator>

namespace harmonics::inline in_clients {
namespace {

std::uint32_t page_size(std::size_t left) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(left, kMaxTasksPerPage));
}

void append(std::vector<TaskView>& tasks, TaskPage& page) {
  std::ranges::move(page.tasks, std::back_inserter(tasks));
}

/// All that an older server has, which only goes upwards; the last `limit` are kept.
std::vector<TaskView> last_of_all(ClusterClient& client, ListTasksQuery query, std::size_t limit) {
  std::vector<TaskView> found;
  query.from = {};
  query.limit = kMaxTasksPerPage;
  do {
    TaskPage page = client.list_tasks(query);
    append(found, page);
    if (found.size() > limit) {
      found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
    }
    query.from = page.next;
  } while (query.from != TaskId{});
  return found;
}

}  // namespace

std::vector<TaskView> first_tasks(ClusterClient& client, ListTasksQuery query, std::size_t limit) {
  std::vector<TaskView> found;
  do {
    query.limit = page_size(limit - found.size());
    TaskPage page = client.list_tasks(query);
    append(found, page);
    query.from = page.next;
  } while (query.from != TaskId{} && found.size() < limit);
  return found;
}

std::vector<TaskView> newest_tasks(ClusterClient& client, ListTasksQuery query, std::size_t limit) {
  std::vector<TaskView> found;
  query.newest_first = true;
  do {
    query.limit = page_size(limit - found.size());
    TaskPage page = client.list_tasks(query);
    if (!page.newest_first) return last_of_all(client, query, limit);
    append(found, page);
    query.from = page.next;
  } while (query.from != TaskId{} && found.size() < limit);
  std::ranges::reverse(found);
  return found;
}

}  // namespace harmonics::inline in_clients
