#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/fake_cuda/state.h"

namespace penstock::fake_cuda {

/// One piece of a stream's work. Dropped where the GPU's context is lost, unless it `always` runs.
struct Work {
  std::function<void()> run;
  bool always = false;
};

/// What a record captured.
struct Record {
  std::atomic<bool> done{false};
  int64_t nanoseconds = 0;

  void finish();
  void wait() const { done.wait(false); }
};

}  // namespace penstock::fake_cuda

/// A captured graph: the work of all capturing streams in the order in which it was queued, which is one that
/// the graph allows.
struct CUgraph_st {
  std::vector<penstock::fake_cuda::Work> nodes;
  std::vector<CUstream_st*> streams;
  bool invalid = false;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<penstock::fake_cuda::Work>> nodes;
};

struct CUevent_st {
  int gpu = 0;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<penstock::fake_cuda::Record> record;  ///< the latest; empty: never recorded
  CUgraph_st* capture = nullptr;                        ///< recorded by a capture in progress

  std::shared_ptr<penstock::fake_cuda::Record> latest() {
    const std::lock_guard lock(mutex);
    return record;
  }
};

struct CUstream_st {
  CUstream_st(int on_gpu, int with_priority);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  void enqueue(penstock::fake_cuda::Work work);
  void synchronize();
  bool idle();

  const int gpu;
  const int priority;
  CUgraph_st* capture = nullptr;  ///< the host thread's

 private:
  void run();
  void pause();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<penstock::fake_cuda::Work> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  std::mt19937_64 random_;
  std::thread worker_;
};
