// A network of the zoo over every device that is named: a CycleRuntime on each, rows in order.
//   dispatch_model [DEVICE ...]        for instance: dispatch_model cuda:0 cpu
#include <harmonics/harmonics.h>

#include <iostream>

using namespace harmonics;

int main(int argc, char** argv) try {
  std::vector<std::string> devices(argv + 1, argv + argc);
  if (devices.empty()) devices = {"cpu"};
  const HarmonicGraph graph = zoo_graph("lenet-digits");
  const std::string input = graph.producers().front().name;
  Shape shape = graph.spec(input).shape;
  shape.insert(shape.begin(), 20'000);

  AdaptiveScheduler scheduler(devices);
  ValueDispatcher dispatcher(scheduler, runtime_functions({.graph = graph}));
  TensorMapLoader batch({{input, Tensor::zeros(shape)}});
  for (const auto& [name, rows] : dispatcher.run(batch)) {
    std::cout << name << ": " << spec_text(rows.spec()) << '\n';
  }
  for (const DeviceKnowledge& one : scheduler.knowledge()) {
    std::cout << one.device << ": " << static_cast<long>(one.rows_per_second) << " rows/s\n";
  }
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
