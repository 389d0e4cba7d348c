#include "kernels/transport/inproc/mailbox.h"

#include <memory>

namespace penstock::transport {

Mailbox::~Mailbox() {
  while (posts_ != nullptr) {  // only buffered ones outlive their sender
    const std::unique_ptr<Post> post(posts_);
    posts_ = post->next;
  }
}

void Mailbox::deliver(Post& post) {
  {
    const std::lock_guard lock(mutex_);
    post.next = posts_;
    posts_ = &post;
  }
  change();
}

Post* Mailbox::take(int source, uint32_t sequence) {
  const std::lock_guard lock(mutex_);
  for (Post** link = &posts_; *link != nullptr; link = &(*link)->next) {
    Post* const post = *link;
    if (post->source != source || post->sequence != sequence) continue;
    *link = post->next;
    post->taken = true;
    return post;
  }
  return nullptr;
}

bool Mailbox::withdraw(Post& post) {
  const std::lock_guard lock(mutex_);
  if (post.taken) return false;
  for (Post** link = &posts_; *link != nullptr; link = &(*link)->next) {
    if (*link != &post) continue;
    *link = post.next;
    break;
  }
  return true;
}

void Mailbox::change() {
  changes_.fetch_add(1);
  changed_.notify_all();
}

void Mailbox::wait_for_change(uint64_t seen) {
  changed_.wait([&] { return changes_.load() != seen; });
}

}  // namespace penstock::transport
