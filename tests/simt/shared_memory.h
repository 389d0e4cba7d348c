#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <source_location>
#include <type_traits>

#include "tests/simt/machine.h"

/// Shared memory of the harness: pointers and references that check every access.
namespace penstock::simt {

/// What *p and p[i] give: reads when converted, writes when assigned.
template <class T>
class SharedReference {
  using Value = std::remove_const_t<T>;

 public:
  SharedReference(T* address, const SharedRegion* region, const std::source_location& place)
      : address_(address), region_(region), place_(place) {}
  SharedReference(const SharedReference&) = default;
  ~SharedReference() = default;

  operator Value() const {  // NOLINT(google-explicit-constructor): as a reference would
    check_shared_read(*region_, address_, sizeof(T), alignof(T), place_);
    return *address_;
  }
  const SharedReference& operator=(const Value& value) const {
    check_shared_write(*region_, address_, sizeof(T), alignof(T), place_);
    *address_ = value;
    return *this;
  }
  const SharedReference& operator=(const SharedReference& other) const {
    return *this = static_cast<Value>(other);
  }
  const SharedReference& operator+=(const Value& value) const {
    return *this = static_cast<Value>(*this) + value;
  }
  const SharedReference& operator*=(const Value& value) const {
    return *this = static_cast<Value>(*this) * value;
  }

 private:
  T* address_;
  const SharedRegion* region_;
  std::source_location place_;
};

/// An index that remembers where it was written: operator[] takes no default argument.
struct PlacedIndex {
  template <class Integer>
  requires std::is_integral_v<Integer> PlacedIndex(
      Integer i,  // NOLINT(google-explicit-constructor)
      const std::source_location& where = std::source_location::current())
      : index(static_cast<ptrdiff_t>(i)), place(where) {}
  ptrdiff_t index;
  std::source_location place;
};

template <class T>
class SharedPointer {
 public:
  SharedPointer() = default;
  SharedPointer(T* address, const SharedRegion* region) : address_(address), region_(region) {}
  template <class U>
  requires std::is_same_v<const U, T> SharedPointer(
      const SharedPointer<U>& other)  // NOLINT(google-explicit-constructor)
      : address_(other.address()), region_(other.region()) {}

  SharedReference<T> operator[](const PlacedIndex& at) const {
    return {address_ + at.index, region_, at.place};
  }
  SharedPointer operator+(ptrdiff_t elements) const { return {address_ + elements, region_}; }
  T* address() const { return address_; }
  const SharedRegion* region() const { return region_; }
  /// The same memory as elements of another type.
  template <class U>
  SharedPointer<U> as() const {
    return {reinterpret_cast<U*>(address_), region_};
  }

 private:
  T* address_ = nullptr;
  const SharedRegion* region_ = nullptr;
};

/// A statically declared array in shared memory: one a host thread, which all its blocks use in turn.
template <class T, size_t count>
class SharedArray {
 public:
  /// A constant expression, so that no thread is seen to initialise it for the others.
  explicit constexpr SharedArray(const char* name) : name_(name) {}
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  SharedReference<T> operator[](const PlacedIndex& at) {
    return {values_.data() + at.index, region(), at.place};
  }
  operator SharedPointer<T>() { return {values_.data(), region()}; }  // NOLINT(google-explicit-constructor)
  SharedPointer<T> operator+(ptrdiff_t elements) { return SharedPointer<T>(*this) + elements; }

 private:
  __attribute__((no_sanitize("thread"))) const SharedRegion* region() {
    region_.name = name_;
    region_.begin = reinterpret_cast<char*>(&values_);
    region_.bytes = sizeof(values_);
    region_.written = written_;
    return &region_;
  }

  alignas(16) std::array<T, count> values_{};
  uint64_t written_[count * sizeof(T)] = {};
  const char* name_;
  SharedRegion region_;
};

}  // namespace penstock::simt
