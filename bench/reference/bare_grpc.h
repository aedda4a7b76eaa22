// Bare grpc++ as one would write it by hand for speed: unary calls of byte buffers on one
// completion queue that one thread serves, no store, nothing decided. What a server of unary calls
// could reach on this machine; of the ways tried (callbacks, one or two queues) the fastest.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace reference {

/// Sends every message back; says its port on standard output and ends with the process.
[[noreturn]] inline void serve_bare_grpc() {
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer message;
    enum { kAsked, kRead, kAnswered } step = kAsked;
  };
  constexpr int kWaitingCalls = 32;
  grpc::ServerBuilder builder;
  grpc::AsyncGenericService service;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (!server) std::exit(2);
  std::printf("bare gRPC on 127.0.0.1:%d, ready\n", port);
  std::fflush(stdout);
  const auto ask = [&] {
    auto* call = new Call;
    service.RequestCall(&call->context, &call->stream, queue.get(), queue.get(), call);
  };
  for (int i = 0; i < kWaitingCalls; ++i) ask();
  void* tag = nullptr;
  bool good = false;
  while (queue->Next(&tag, &good)) {
    auto* call = static_cast<Call*>(tag);
    if (!good || call->step == Call::kAnswered) {
      delete call;
    } else if (call->step == Call::kAsked) {
      ask();
      call->step = Call::kRead;
      call->stream.Read(&call->message, call);
    } else {
      call->step = Call::kAnswered;
      call->stream.WriteAndFinish(call->message, {}, grpc::Status::OK, call);
    }
  }
  std::exit(0);
}

/// Calls a second of `clients` threads, each with a connection of its own and one call at a time,
/// with a token and a deadline as ours have.
inline double bare_grpc_rate(const std::string& address, int clients, int count,
                             std::size_t bytes) {
  std::atomic<int> next{0};
  const auto work = [&] {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    grpc::GenericStub stub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    grpc::CompletionQueue queue;
    const grpc::Slice slice(std::string(bytes, 'x'));
    const grpc::ByteBuffer request(&slice, 1);
    while (next++ < count) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      context.AddMetadata("authorization", "Bearer " + std::string(43, 't'));
      const auto call = stub.PrepareUnaryCall(&context, "/reference/Echo", request, &queue);
      call->StartCall();
      grpc::ByteBuffer reply;
      grpc::Status status;
      call->Finish(&reply, &status, nullptr);
      void* tag = nullptr;
      bool good = false;
      if (!queue.Next(&tag, &good) || !status.ok()) std::exit(2);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return count / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace reference
