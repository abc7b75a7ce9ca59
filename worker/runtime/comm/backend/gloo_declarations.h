#pragma once

// What ProcessGroupGloo.hpp of libtorch needs to know of gloo. The wheel holds gloo inside libtorch_cpu.so
// but ships none of its headers, and that header includes five of them. We only ever hold these types by
// pointer, and construct them through exported functions of ProcessGroupGloo, so that declarations under the
// same names are enough.
//
// CMake writes the five headers (gloo/algorithm.h, …) into the build folder, each including this file, and
// stops if the mentions of gloo in ProcessGroupGloo.hpp are not those this file was written for
// (GlooDeclarations.cmake).

#include <chrono>
#include <string>
#include <vector>

namespace gloo {

class Algorithm;

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

}  // namespace gloo
