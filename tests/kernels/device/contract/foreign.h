#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/device/stream.h"

namespace penstock::testing {

/// A stream, event and signal of some other backend.
class ForeignStream final : public Stream {
 public:
  const std::string& name() const override { return name_; }
  void record(Event&) override {}
  void wait(const Event&) override {}
  void signal(Signal&, uint64_t) override {}
  void wait(const Signal&, uint64_t) override {}
  void copy(void*, const void*, size_t) override {}
  void fill_zero(void*, size_t) override {}
  void host_task(const char*, double, std::function<void()>) override {}
  void stamp(double*) override {}
  void synchronize() override {}

 private:
  std::string name_ = "foreign stream";
};

class ForeignEvent final : public Event {
 public:
  const std::string& name() const override { return name_; }
  bool query() const override { return true; }
  void synchronize() const override {}
  double seconds() const override { return 0; }

 private:
  std::string name_ = "foreign event";
};

class ForeignSignal final : public Signal {
 public:
  const std::string& name() const override { return name_; }
  uint64_t value() const override { return 0; }
  void release() override {}

 private:
  std::string name_ = "foreign signal";
};

}  // namespace penstock::testing
