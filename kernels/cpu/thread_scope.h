#pragma once

namespace penstock::cpu {

/// While it lives, parallel loops and oneDNN calls of the calling thread use `threads` threads. Matmul plans
/// are made inside one, so that they suit the stream they will run on. Nothing under thread sanitizer, where
/// loops are serial.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace penstock::cpu
