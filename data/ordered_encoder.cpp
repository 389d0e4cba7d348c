#include "data/ordered_encoder.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>

#include "data/encoder.h"

namespace penstock::data {
namespace {

constexpr size_t batches_per_thread = 3;  // one encoded, one waiting, one waiting to be taken
// A text is never divided, so batches may be long: their tokens take up to four times as much again.
constexpr size_t most_bytes_under_way = size_t{64} << 20;
constexpr size_t longest_spare = 4 * OrderedEncoder::batch_bytes;
// The caches of all threads together stay below 350 MB.
constexpr size_t most_cached_chunks = 8 * Encoder::usual_cache;

struct Text {
  size_t bytes;
  uint64_t tag;
  size_t tokens_end = 0;
};

struct Batch {
  std::string bytes;
  std::vector<Text> texts;
  std::vector<int32_t> tokens;
  std::exception_ptr failure;
  bool encoded = false;

  void encode(Encoder& encoder) {
    std::string_view rest = bytes;
    for (Text& text : texts) {
      encoder.encode(rest.substr(0, text.bytes), tokens);
      text.tokens_end = tokens.size();
      rest.remove_prefix(text.bytes);
    }
  }
  void clear() {
    bytes.clear();
    texts.clear();
    tokens.clear();
    encoded = false;
  }
};

}  // namespace

class OrderedEncoder::Work {
 public:
  Work(const Tokenizer& tokenizer, size_t threads, Take take)
      : take_(std::move(take)), most_under_way_(batches_per_thread * threads), own_(tokenizer) {
    if (threads < 2) return;
    const size_t cached = std::min(Encoder::usual_cache, most_cached_chunks / threads);
    for (size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, &tokenizer, cached] { serve(tokenizer, cached); });
    }
  }

  ~Work() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void add(std::string_view text, uint64_t tag) {
    if (!open_) open_ = fresh();
    open_->bytes += text;
    open_->texts.push_back({text.size(), tag});
    if (open_->bytes.size() >= batch_bytes) send();
  }

  void finish() {
    if (open_) send();
    while (!under_way_.empty()) take_first();
  }

 private:
  std::unique_ptr<Batch> fresh() {
    if (spare_.empty()) return std::make_unique<Batch>();
    std::unique_ptr<Batch> batch = std::move(spare_.back());
    spare_.pop_back();
    return batch;
  }

  void send() {
    under_way_.push_back(std::move(open_));
    Batch* batch = under_way_.back().get();
    bytes_under_way_ += batch->bytes.size();
    if (threads_.empty()) {
      batch->encode(own_);
      batch->encoded = true;
    } else {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(batch);
    }
    changed_.notify_all();
    while (under_way_.size() >= most_under_way_ || bytes_under_way_ > most_bytes_under_way ||
           first_is_encoded())
      take_first();
  }

  bool first_is_encoded() {
    const std::lock_guard lock(mutex_);
    return !under_way_.empty() && under_way_.front()->encoded;
  }

  void take_first() {
    std::unique_ptr<Batch> batch = std::move(under_way_.front());
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return batch->encoded; });
    }
    under_way_.pop_front();
    bytes_under_way_ -= batch->bytes.size();
    if (batch->failure) std::rethrow_exception(batch->failure);
    size_t begin = 0;
    for (const Text& text : batch->texts) {
      take_(std::span(batch->tokens).subspan(begin, text.tokens_end - begin), text.tag);
      begin = text.tokens_end;
    }
    if (batch->bytes.capacity() > longest_spare) return;
    batch->clear();
    spare_.push_back(std::move(batch));
  }

  void serve(const Tokenizer& tokenizer, size_t cached_chunks) {
    Encoder encoder(tokenizer, cached_chunks);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Batch* batch = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      try {
        batch->encode(encoder);
      } catch (...) {
        batch->failure = std::current_exception();
      }
      lock.lock();
      batch->encoded = true;
      changed_.notify_all();
    }
  }

  Take take_;
  size_t most_under_way_;
  size_t bytes_under_way_ = 0;
  Encoder own_;
  std::unique_ptr<Batch> open_;
  std::deque<std::unique_ptr<Batch>> under_way_;  // in order; the caller's thread alone moves them
  std::vector<std::unique_ptr<Batch>> spare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch*> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

OrderedEncoder::OrderedEncoder(const Tokenizer& tokenizer, size_t threads, Take take)
    : work_(std::make_unique<Work>(tokenizer, std::max<size_t>(threads, 1), std::move(take))) {}
OrderedEncoder::~OrderedEncoder() = default;

void OrderedEncoder::add(std::string_view text, uint64_t tag) {
  work_->add(text, tag);
}

void OrderedEncoder::finish() {
  work_->finish();
}

size_t OrderedEncoder::usual_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return std::max<size_t>(1, static_cast<size_t>(CPU_COUNT(&allowed)));
  }
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

}  // namespace penstock::data
