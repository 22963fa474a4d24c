// Memory that outlives calls.

#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "vectors.h"

namespace {

constexpr size_t kPage = size_t(1) << 21;  // of the large pages that are asked for

// Large pages for memory that is about to be written for the first time. A fault for each small
// page costs more than the work on it.
void prefer_large_pages(void* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr size_t kSmall = 4096;
  const size_t begin = (size_t(data) + kSmall - 1) / kSmall * kSmall;
  const size_t end = (size_t(data) + bytes) / kSmall * kSmall;
  if (end >= begin + kPage) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REN_EXACT_BLOCKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define REN_EXACT_BLOCKS
#endif

#if defined(REN_EXACT_BLOCKS)

// A block of exactly so many bytes, never used twice. The address sanitizer then reports each
// access beyond its end, and each read after it was given back.
class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, 64, bytes_)) throw std::bad_alloc();
  }
  ~Block() { free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  u32* data() const { return static_cast<u32*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

constexpr bool kHasExactBlocks = true;

#else

constexpr bool kHasExactBlocks = false;

// Memory of the system's, in large pages where there are some.
class Block {
 public:
  explicit Block(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    prefer_large_pages(data_, bytes_);
  }
  ~Block() { munmap(data_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  u32* data() const { return static_cast<u32*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

#endif

// Blocks for calls, one at a time for each; some are kept for later calls.
class Blocks {
 public:
  std::unique_ptr<Block> take(size_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      size_t best = kept_.size();
      for (size_t i = 0; i < kept_.size(); i++)
        if (kept_[i]->bytes() >= bytes && (best == kept_.size() || kept_[i]->bytes() < kept_[best]->bytes()))
          best = i;
      if (best < kept_.size()) {
        std::unique_ptr<Block> found = std::move(kept_[best]);
        kept_.erase(kept_.begin() + best);
        bytes_ -= found->bytes();
        return found;
      }
    }
    return std::make_unique<Block>(bytes);
  }
  void give_back(std::unique_ptr<Block> block) {
    if (kHasExactBlocks || block->bytes() > kMost) return;
    std::lock_guard<std::mutex> lock(mutex_);
    while (!kept_.empty() && bytes_ + block->bytes() > kMost) {  // the oldest go
      bytes_ -= kept_.front()->bytes();
      kept_.erase(kept_.begin());
    }
    bytes_ += block->bytes();
    kept_.push_back(std::move(block));
  }

 private:
  static constexpr size_t kMost = size_t(3) << 27;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> kept_;
  size_t bytes_ = 0;
};
Blocks& blocks() {
  static Blocks* made = new Blocks;  // threads may outlive static destructors
  return *made;
}

// A block while this lives, of so many residues.
class Kept {
 public:
  explicit Kept(size_t residues) {
    if (residues) block_ = blocks().take(residues * sizeof(u32));
  }
  ~Kept() {
    if (block_) blocks().give_back(std::move(block_));
  }
  u32* data() const { return block_ ? block_->data() : nullptr; }

 private:
  std::unique_ptr<Block> block_;
};

// Rows of this thread's own, kept between its tasks.
u32* scratch(size_t bytes) {
  static thread_local std::unique_ptr<Block> own;
  if (kHasExactBlocks || !own || own->bytes() < bytes) own = std::make_unique<Block>(bytes);
  return own->data();
}

}  // namespace
