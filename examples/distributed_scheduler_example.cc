// A tiny graph split in two: each half has a RemoteScheduler of its own, and the tensor between
// them crosses over every transport that this build has.
//
//   ./build-Release/distributed_scheduler_example
#include <iostream>
#include <thread>

#include <harmonics/harmonics.h>

using namespace harmonics;

namespace {

HarmonicGraph first_half() {
  return parse_harp(R"(harmonic first {
    producer input {3};
    layer hidden linear(4);
    consumer crossing {4};
    cycle { input -(relu)-> hidden -> crossing; }
  })");
}

HarmonicGraph second_half() {
  return parse_harp(R"(harmonic second {
    producer crossing {4};
    layer output linear(2);
    consumer received {4};
    consumer result {2};
    cycle { crossing -> output -> result; crossing -> received; }
  })");
}

/// A port of this machine that is free now: the one that a listening end was given.
std::uint16_t free_port() {
  RemoteBinding probe{"probe", "127.0.0.1"};
  probe.listen = true;
  return make_transport(probe)->binding().port;
}

/// Lets one batch of two samples cross; the tensor that arrived.
Tensor cross(RemoteTransport transport) {
  const RemoteBinding meeting{"crossing", "127.0.0.1", free_port(), transport};
  RemoteScheduler first(first_half(), {}, {meeting});
  RemoteScheduler second(second_half(), {meeting}, {});
  first.bindProducer(
      "input", std::make_shared<BatchProducer>(std::make_shared<MemoryProducer>(Tensor::of<float>(
                                                   {2, 3}, {0.5f, -1.0f, 2.0f, 1.0f, 0.0f, -0.5f})),
                                               2));
  const auto received = std::make_shared<MemoryConsumer>();
  second.bindConsumer("received", received);

  std::string failure;
  std::thread sender([&] {
    try {
      first.step();
    } catch (const Error& error) {
      failure = error.what();
    }
  });
  try {
    second.step();
  } catch (const Error& error) {
    failure = error.what();
  }
  sender.join();
  if (!failure.empty()) fail(ErrorCode::kAborted, "{}", failure);
  return received->rows();
}

}  // namespace

int main() {
  int failures = 0;
  for (const RemoteTransport transport : {RemoteTransport::TCP, RemoteTransport::GRPC,
                                          RemoteTransport::SharedMemory, RemoteTransport::Flight}) {
    std::cout << transport_name(transport) << ": ";
    try {
      const Tensor tensor = cross(transport);
      std::cout << "the second partition received a tensor of dimension " << tensor.shape().at(1)
                << " (shape " << shape_text(tensor.shape()) << ")\n";
    } catch (const Error& error) {
      std::cout << error.what() << "\n";
      if (error.code() != ErrorCode::kUnimplemented) ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}
