#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/signalled_hub.h"

namespace penstock::transport {

Channel::Channel(Device& receiver, const std::string& name)
    : name_(name),
      device_(receiver),
      sent_{receiver.create_signal(name + " sent")},
      room_{receiver.create_signal(name + " room")},
      passed_(receiver.create_signal(name + " passed")) {}

uint64_t Channel::post(Stream& stream, bool sends, const MessageEnd& end, std::string* wrong) {
  const std::lock_guard lock(mutex_);
  check_open();
  const uint64_t number = ++posted_[sends ? 1 : 0];
  (sends ? sent_ : room_).write(stream, number);
  if (first_waiting_ == waiting_.size() || waiting_send_ == sends) {
    waiting_send_ = sends;
    waiting_.push_back(end);
    return number;
  }
  const MessageEnd other = waiting_[first_waiting_++];
  if (first_waiting_ == waiting_.size()) {
    waiting_.clear();
    first_waiting_ = 0;
  }
  copy(sends ? end : other, sends ? other : end, wrong);
  return number;
}

void Channel::copy(const MessageEnd& from, const MessageEnd& to, std::string* wrong) {
  ++matched_;
  if (from.bytes != to.bytes) {
    *wrong = fmt::format(
        "sent {} bytes where {} bytes are to be received (message {} of this pair); both sides "
        "must name the same tensor",
        from.bytes, to.bytes, matched_ - 1);
    return;
  }
  if (!link_) link_ = device_.create_stream(name_, StreamUse::transfer);
  link_->wait(*sent_.signal, matched_);
  link_->wait(*room_.signal, matched_);
  link_->copy(to.data, from.data, to.bytes);
  link_->signal(*passed_, matched_);
}

void Channel::wait(Stream& stream, uint64_t message) {
  const std::lock_guard lock(mutex_);
  if (!open_ && message <= matched_) return;  // the receiver has left because it has passed
  check_open();
  stream.wait(*passed_, message);
}

void Channel::close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  link_.reset();
}

void Channel::forget() {
  const std::lock_guard lock(mutex_);
  sent_.signal.reset();
  room_.signal.reset();
  passed_.reset();
}

void Channel::release() {
  for (Signal* signal : {sent_.signal.get(), room_.signal.get(), passed_.get()}) signal->release();
}

void Channel::check_open() const {
  if (open_) return;
  throw DeviceError(fmt::format("{}: the receiving rank has left the communicator", name_));
}

}  // namespace penstock::transport
