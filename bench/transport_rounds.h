// What the benchmarks of transports share: both ends in one process, rounds of ours and of a
// reference in turn.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <harmonics/base/format.h>
#include <harmonics/transport/transport.h>

#include "rounds.h"

namespace bench {

using harmonics::Deadline;
using harmonics::format;
using harmonics::Message;
using harmonics::RemoteBinding;
using harmonics::RemoteTransport;
using harmonics::Tensor;
using harmonics::TransportPtr;

inline Deadline patient() { return harmonics::deadline_in(std::chrono::minutes(5)); }

inline Message message_of(std::size_t bytes) {
  Message message;
  message.tensor = Tensor::zeros({static_cast<std::int64_t>(bytes / 4)});
  return message;
}

using Ends = std::pair<TransportPtr, TransportPtr>;

inline Ends network_ends(RemoteTransport transport) {
  RemoteBinding binding{"bench", "127.0.0.1", 0, transport};
  binding.listen = true;
  TransportPtr first = make_transport(binding);
  binding.port = first->binding().port;
  binding.listen = false;
  return {std::move(first), make_transport(binding)};
}

inline Ends shm_ends() {
  const RemoteBinding binding{format("bench.{}", ::getpid()), "127.0.0.1", 1,
                              RemoteTransport::SharedMemory};
  TransportPtr first = make_transport(binding);
  return {std::move(first), make_transport(binding)};
}

// One way, as fast as it goes.
inline void stream_ours(Ends& ends, const Message& message, int count) {
  std::thread sender([&] {
    for (int i = 0; i < count; ++i) ends.first->send(message, patient());
  });
  for (int i = 0; i < count; ++i) (void)ends.second->receive(patient());
  sender.join();
}

// Rounds of both in turn.
struct Rounds {
  std::vector<double> wall_ratio, cpu_ratio;
  std::vector<double> our_wall, their_wall, our_cpu, their_cpu;

  void add(const Cost& ours, const Cost& theirs) {
    our_wall.push_back(ours.wall);
    their_wall.push_back(theirs.wall);
    our_cpu.push_back(ours.cpu);
    their_cpu.push_back(theirs.cpu);
    wall_ratio.push_back(ours.wall / theirs.wall);
    cpu_ratio.push_back(ours.cpu / theirs.cpu);
  }
};

inline Rounds alternate(int rounds, const std::function<void()>& ours,
                        const std::function<void()>& theirs) {
  ours();  // warms buffers and sockets
  theirs();
  Rounds out;
  for (int i = 0; i < rounds; ++i) {
    const Cost mine = measured(ours);
    out.add(mine, measured(theirs));
  }
  return out;
}

inline bool print_row(const std::string& name, const std::string& ours, const std::string& theirs,
                      double ratio, const std::string& bar) {
  std::printf("%s | %s | %s | %.2f | %s\n", name.c_str(), ours.c_str(), theirs.c_str(), ratio,
              bar.c_str());
  std::fflush(stdout);
  if (bar.empty()) return true;
  const double limit = std::stod(bar.substr(2));
  return bar[0] == '>' ? ratio >= limit : ratio <= limit;
}

}  // namespace bench
