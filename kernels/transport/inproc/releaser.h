#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::transport {

/// Something whose streams may wait for peers that will not come.
class Releasable {
 public:
  virtual ~Releasable() = default;
  /// Called again and again once the world is stopped, from the releaser's thread.
  virtual void release() = 0;
};

/// Sees to it that nobody waits for ever once the world is stopped. A device's stream cannot be called back:
/// it waits for signals, and these are set until nobody is left who could wait for them.
class Releaser {
 public:
  ~Releaser();

  void add(Releasable& releasable);
  /// When it returns, release() is not running and is not called again.
  void remove(Releasable& releasable);
  /// The world is stopped. Any thread.
  void start();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Releasable*> all_;
  bool started_ = false;
  bool ended_ = false;
  std::thread thread_;  ///< from the first add() on
};

}  // namespace penstock::transport
