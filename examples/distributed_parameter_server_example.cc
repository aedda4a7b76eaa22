// A parameter server and a worker in a second process. One gRPC stream hands out the parameter, the
// other collects the worker's gradient; the server applies it and hands out the result.
//
//   ./build-Release/distributed_parameter_server_example
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <iostream>
#include <memory>
#include <string>

#include <harmonics/harmonics.h>

using namespace harmonics;

extern char** environ;

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

float number(const NamedTensors& parameters) {
  return parameters.find("weight")->second.values<float>()[0];
}

/// The second process: the loss is weight squared, so the gradient is twice the weight.
int work(const std::string& url) {
  ParameterClientOptions options;
  options.first_contact = kPatience;
  options.deadline = kPatience;
  ParameterClient client({parse_binding(url)}, options);
  client.pull();
  client.push({{"weight", Tensor::of<float>({1}, {2 * number(client.parameters())})}}, 1, 1);
  client.pull();
  std::cout << "The worker received:  " << number(client.parameters()) << std::endl;
  client.close();
  return 0;
}

/// Over gRPC; over TCP where this build lacks it.
std::unique_ptr<ParameterServer> make_server(const NamedTensors& start) {
  ParameterServerOptions options;
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.learning_rate = 0.1;
  options.worker_deadline = kPatience;
  RemoteBinding place{"parameters", "127.0.0.1", 0, RemoteTransport::GRPC};
  try {
    return std::make_unique<ParameterServer>(start, place, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnimplemented) throw;
    std::cout << error.what() << "\nThe streams go over TCP instead.\n";
  }
  place.transport = RemoteTransport::TCP;
  return std::make_unique<ParameterServer>(start, place, options);
}

pid_t start_worker(const std::string& program, std::string url) {
  std::string name = program;
  std::string role = "--worker";
  char* arguments[] = {name.data(), role.data(), url.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ);
  if (failed != 0) fail_errno(failed, "cannot start the worker");
  return child;
}

int serve(const std::string& program) {
  const auto server = make_server({{"weight", Tensor::of<float>({1}, {1.0F})}});
  std::cout << "Initial parameter:    " << number(server->parameters()) << std::endl;
  const pid_t worker = start_worker(program, binding_url(server->place()));
  try {
    server->wait_until_left(kPatience);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    ::kill(worker, SIGKILL);
  }
  int status = 1;
  ::waitpid(worker, &status, 0);
  std::cout << "After the gradient:   " << number(server->parameters()) << std::endl;
  return status == 0 && server->version() == 1 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count == 3 && std::string(arguments[1]) == "--worker") return work(arguments[2]);
    return serve(arguments[0]);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
