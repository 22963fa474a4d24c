// A thread of the library's own, which works while its caller waits.

#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace {

// How many cores this process may use.
size_t cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return size_t(CPU_COUNT(&allowed));
#endif
  return std::thread::hardware_concurrency();
}

// Work on arrays larger than the cache of a core pushes everything else out of that cache. Python
// then takes twice as long for what it does between two such calls. So another core works on them,
// and the caller, which waits, finds its cache as it left it.
//
// Where the other thread does not come at once, since all cores are busy, the caller works itself.
// It asks less and less often then.
class Helper {
 public:
  // Runs `work`, here or in the other thread, and returns when it is done; throws what it throws.
  template <class Work>
  void run(const Work& work) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock() || !is_ready() || !handed_over([](const void* work) {
          (*static_cast<const Work*>(work))();
        }, &work))
      work();
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum State { kIdle, kOffered, kTaken, kDone };
  static constexpr auto kPatience = std::chrono::microseconds(50);  // it comes in about 20
  static constexpr size_t kMostSkipped = 1 << 10, kPauses = 256;

  // True where the other thread may be asked. It is started the first time.
  bool is_ready() {
    if (skipped_ < to_skip_) {
      skipped_++;
      return false;
    }
    if (owner_ != 0) return owner_ == getpid();  // a process that was forked has no other threads
    if (has_failed_ || cores() < 2) return false;
    sigset_t all, before;  // signals are for the threads of the program
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) return false;
    try {
      std::thread([this] { serve(); }).detach();
      owner_ = getpid();
    } catch (const std::system_error&) {  // there are no more threads
      has_failed_ = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return owner_ != 0;
  }

  // True when the other thread has done it; false where it did not come.
  bool handed_over(void (*run)(const void*), const void* work) {
    run_ = run, work_ = work, error_ = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state_.store(kOffered, std::memory_order_release);
    }
    offered_.notify_one();
    const auto start = Clock::now();
    for (size_t i = 1; state_.load(std::memory_order_acquire) == kOffered; i++) {
      if (i % kPauses || Clock::now() - start < kPatience) continue;
      int was = kOffered;
      if (!state_.compare_exchange_strong(was, kIdle)) break;
      to_skip_ = to_skip_ < kMostSkipped ? 2 * to_skip_ + 1 : kMostSkipped;
      skipped_ = 0;
      return false;
    }
    for (size_t i = 1; state_.load(std::memory_order_acquire) != kDone; i++)
      if (i % kPauses == 0) sched_yield();
    state_.store(kIdle, std::memory_order_relaxed);
    to_skip_ = skipped_ = 0;
    if (error_) std::rethrow_exception(error_);
    return true;
  }

  void serve() {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), "ren-helper");  // for debuggers
#endif
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        offered_.wait(lock, [this] { return state_.load(std::memory_order_relaxed) == kOffered; });
      }
      int was = kOffered;
      if (!state_.compare_exchange_strong(was, kTaken)) continue;
      try {
        run_(work_);
      } catch (...) {
        error_ = std::current_exception();
      }
      state_.store(kDone, std::memory_order_release);
    }
  }

  std::mutex turn_;  // of the one caller that may ask
  pid_t owner_ = 0;
  bool has_failed_ = false;
  size_t to_skip_ = 0, skipped_ = 0;  // calls that do not ask, since the last ones asked in vain
  std::mutex mutex_;
  std::condition_variable offered_;
  std::atomic<int> state_{kIdle};
  void (*run_)(const void*) = nullptr;
  const void* work_ = nullptr;
  std::exception_ptr error_;
};

Helper& helper() {
  static Helper* made = new Helper;  // its thread outlives static destructors
  return *made;
}

}  // namespace
