#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "tests/kernels/math/guarded_buffer.h"

/// The harness of every math operation: one body, the reference and the implementation under test.
namespace penstock::testing {

/// The two implementations of a family: what is tested against what.
template <class Family>
struct Implementations {
  std::unique_ptr<Family> (*reference)(Device&);
  std::unique_ptr<Family> (*tested)(Device&);
};

/// Largest ‖a−b‖/‖b‖ between an implementation and the reference, by the type the operation works in: its
/// inputs are rounded to that type first, sums are fp32 in any order (‖·‖ over all elements of an output).
double tolerance(DType dtype);

/// 1, or PENSTOCK_TEST_SEED: other values of it search for failures; failures print it.
uint64_t test_seed();

/// A device with the stream that operations run on: the host's for the reference, or that of what is tested.
struct Lane {
  explicit Lane(Place where, int variant = 0);

  Place place;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

/// The arguments of one run, placed in memory.
class Call {
 public:
  explicit Call(const Lane& lane, size_t shift_elements = 0)
      : stream_(*lane.stream), place_(lane.place), shift_elements_(shift_elements) {}

  Stream& stream() { return stream_; }
  /// The tensor of the argument with this number.
  Tensor operator[](int argument) const { return buffers_[static_cast<size_t>(argument)]->tensor(); }
  /// Scratch memory of the run, full of NaN, guarded like the arguments; absent if bytes is 0.
  Tensor workspace(size_t bytes);

  /// `value` as kernels can read and write it, guarded too.
  template <class Value>
  Value* copy_of(const Value& value) {
    return static_cast<Value*>(place_bytes(&value, sizeof(Value)));
  }

  GuardedBuffer& place(const std::string& name, DType dtype, const Shape& shape);
  GuardedBuffer& buffer(int argument) { return *buffers_[static_cast<size_t>(argument)]; }
  void check_guards() const;

 private:
  void* place_bytes(const void* bytes, size_t count);

  Stream& stream_;
  Place place_;
  size_t shift_elements_;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::vector<std::unique_ptr<GuardedBuffer>> scratch_;
};

/// One operation with its arguments. check() runs it on the reference and on what is tested and demands:
/// - every output within the tolerance, none left poisoned, inputs and guard bytes untouched;
/// - the same bits in every variant (under_test.h) and wherever in memory the arguments lie.
class Operation {
 public:
  /// `dtype`: the type the operation works in, which sets the tolerance.
  Operation(std::string name, DType dtype);

  /// Arguments lie only at multiples of this many elements behind an aligned address.
  void place_at_multiples_of(size_t elements) { shift_step_ = elements; }
  /// Seeded by the operation's name and test_seed(): a case has the same numbers in whatever order tests run.
  std::mt19937_64& random() { return random_; }
  /// Normally distributed values, rounded to dtype. Each returns the argument's number.
  int input(std::string name, DType dtype, Shape shape, double scale = 1.0, double mean = 0.0);
  /// Uniform integers in [low, high], i32 or i64.
  int indices(std::string name, DType dtype, Shape shape, int64_t low, int64_t high);
  /// These values.
  int given(std::string name, DType dtype, Shape shape, std::vector<double> values);
  /// These values, which the operation updates in place; compared.
  int updated(std::string name, DType dtype, Shape shape, std::vector<double> values);
  /// Poisoned with NaN before each run, compared after it.
  int output(std::string name, DType dtype, Shape shape);
  /// Normally distributed values that the operation updates in place; compared.
  int accumulated(std::string name, DType dtype, Shape shape, double scale = 1.0);

  /// The argument must have the reference's values exactly, not within the tolerance.
  void exactly(int argument) { arguments_[static_cast<size_t>(argument)].exact = true; }

  /// call: void(Family&, Call&), enqueues the operation once.
  template <class Family, class Body>
  void check(const Implementations<Family>& family, const Body& body) {
    check_runs([&](Device& device, Call& call) { run(*family.reference(device), body, call); },
               [&](Device& device, Call& call) { run(*family.tested(device), body, call); });
  }
  /// One run on the reference alone; the output's values.
  template <class Family, class Body>
  std::vector<double> reference_result(const Implementations<Family>& family, int argument,
                                       const Body& body) {
    return result_of([&](Device& device, Call& call) { run(*family.reference(device), body, call); },
                     argument);
  }

 private:
  enum class Role : uint8_t { input, output, accumulated };
  struct Argument {
    std::string name;
    DType dtype;
    Shape shape;
    Role role;
    std::vector<double> values;
    bool exact = false;
  };
  using Run = std::function<void(Device&, Call&)>;

  template <class Family, class Body>
  static void run(Family& family, const Body& body, Call& call) {
    body(family, call);
    call.stream().synchronize();  // before the family, and the plans it made, go
  }
  int add(Argument argument);
  void fill(Call& call) const;
  void check_runs(const Run& reference, const Run& tested) const;
  std::vector<double> result_of(const Run& run, int argument) const;
  void check_inputs(Call& call) const;
  void compare(const Argument& argument, const std::vector<double>& expected,
               const std::vector<double>& found) const;

  std::string name_;
  DType dtype_;
  std::mt19937_64 random_;
  size_t shift_step_ = 1;
  std::vector<Argument> arguments_;
};

}  // namespace penstock::testing
