// One batch over one device: sub-batches of 345 rows, results in order, reduced by a sum.
#include <harmonics/harmonics.h>

#include <iostream>
#include <numeric>

using namespace harmonics;

int main() {
  SimpleScheduler scheduler("cpu", 345, 800);
  WorkDispatcher<Slice, double, double> dispatcher(
      scheduler, {.run =
                      [](Slice&& rows, const WorkDevice&) {
                        return static_cast<double>(rows.start) * static_cast<double>(rows.stop);
                      },
                  .reduce =
                      [](std::vector<double>&& parts) {
                        std::cout << parts.size() << " sub-batches\n";
                        return std::accumulate(parts.begin(), parts.end(), 0.0);
                      }});
  SliceGenerator rows(50, 2000);
  const double total = dispatcher.run(rows);
  std::cout << "total " << static_cast<long>(total) << '\n';
}
