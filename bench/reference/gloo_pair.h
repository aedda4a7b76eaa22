// Two ranks of libtorch's Gloo process group in one process, over TCP on loopback. Between two
// processes on an idle 2-core machine, 64 MB messages into fresh tensors were measured at 0.70
// GB/s.
#pragma once

// Debian's libtorch is built with Gloo, but its headers do not say so.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO 1
#endif
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstddef>
#include <thread>
#include <vector>

namespace reference {

class GlooPair {
 public:
  explicit GlooPair(std::size_t bytes)
      : store_(c10::make_intrusive<c10d::HashStore>()),
        from_(torch::zeros({static_cast<std::int64_t>(bytes / 4)})),
        to_(torch::zeros_like(from_)) {
    std::thread other([&] { second_ = connect(1); });
    first_ = connect(0);
    other.join();
  }

  /// Sends a tensor that many times, one way; into a fresh tensor each time, as a program needs
  /// that keeps what it receives, or always into the same one.
  void stream(int count, bool fresh) {
    std::thread sender([&] {
      for (int i = 0; i < count; ++i) {
        std::vector<at::Tensor> tensors = {from_};
        first_->send(tensors, 1, kTag)->wait();
      }
    });
    for (int i = 0; i < count; ++i) {
      std::vector<at::Tensor> tensors = {fresh ? torch::empty_like(to_) : to_};
      second_->recv(tensors, 0, kTag)->wait();
    }
    sender.join();
  }

  /// Both ranks sum their tensors, that many times.
  void sum(int count) {
    const auto reduce = [count](Group& group, at::Tensor& tensor) {
      for (int i = 0; i < count; ++i) {
        std::vector<at::Tensor> tensors = {tensor};
        group->allreduce(tensors)->wait();
      }
    };
    std::thread other([&] { reduce(second_, to_); });
    reduce(first_, from_);
    other.join();
  }

 private:
  static constexpr int kTag = 7;
  using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

  Group connect(int rank) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    options->threads = 1;
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank, 2, options);
  }

  c10::intrusive_ptr<c10d::HashStore> store_;
  at::Tensor from_;
  at::Tensor to_;
  Group first_;
  Group second_;
};

}  // namespace reference
