// A thread of the library's own, which works while its caller waits.

#pragma once

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace {

#if defined(__linux__)

// The cores that this process may use, and where threads run among them.
class Cores {
 public:
  // True where there are several.
  bool are_known() {
    return sched_getaffinity(0, sizeof all_, &all_) == 0 && CPU_COUNT(&all_) > 1;
  }
  // Keeps a thread away from the core of the thread that calls. Schedulers wake it there at times.
  void keep_apart(pthread_t thread) {
    const int here = sched_getcpu();
    if (here == here_ || here < 0 || here >= CPU_SETSIZE) return;
    cpu_set_t others = all_;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) > 0) pthread_setaffinity_np(thread, sizeof others, &others);
    here_ = here;
  }

 private:
  cpu_set_t all_;
  int here_ = -1;
};

#else

class Cores {
 public:
  bool are_known() { return false; }
  void keep_apart(pthread_t) {}
};

#endif

// Work on arrays larger than the cache of a core pushes everything else out of that cache. Python
// then takes twice as long for what it does between two such calls. So another core works on them,
// and the caller, which waits, finds its cache as it left it.
//
// Where the other thread does not come at once, since all cores are busy, the caller works itself.
// The first time after a rest it takes long to wake, and does not come. Where it does not come
// several times in a row, it is not asked for a while.
class Helper {
 public:
  // From now on all work is done by who asks.
  void forbid() { is_forbidden_ = true; }

  // Runs `work`, here or in the other thread, and returns when it is done; throws what it throws.
  // Where that one sleeps it is waited for if `is_much`, and else woken for the next call.
  template <class Work>
  void run(const Work& work, bool is_much) {
    std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock() || !is_ready() || !(is_much || is_awake()) ||
        !handed_over([](const void* work) { (*static_cast<const Work*>(work))(); }, &work))
      work();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::microseconds;
  enum State { kIdle, kOffered, kTaken, kDone };
  static constexpr Time kPatience{100};  // it takes 40 where a virtual core has to be woken
  static constexpr Time kLingering{300};  // more than Python takes between two calls in a row
  static constexpr size_t kOften = 3, kSkipped = 64, kPauses = 64;

  // True where the other thread may be asked. It is started the first time.
  bool is_ready() {
    if (is_forbidden_) return false;
    if (to_skip_ > 0) {
      to_skip_--;
      return false;
    }
    if (owner_ != 0) return owner_ == getpid();  // a process that was forked has no other threads
    if (!cores_.are_known()) {
      is_forbidden_ = true;
      return false;
    }
    sigset_t all, before;  // signals are for the threads of the program
    sigfillset(&all);
    if (sem_init(&wakes_, 0, 0) || pthread_sigmask(SIG_SETMASK, &all, &before)) return false;
    try {
      std::thread thread([this] { serve(); });
      thread_ = thread.native_handle(), owner_ = getpid();
      thread.detach();
    } catch (const std::system_error&) {  // there are no more threads
      is_forbidden_ = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return owner_ != 0;
  }

  // True where the other thread waits for work. One that sleeps is woken.
  bool is_awake() {
    if (!is_asleep_.exchange(false)) return true;
    cores_.keep_apart(thread_);
    sem_post(&wakes_);
    return false;
  }

  // True when the other thread has done it; false where it did not come.
  bool handed_over(void (*run)(const void*), const void* work) {
    run_ = run, work_ = work, error_ = nullptr;
    cores_.keep_apart(thread_);
    state_.store(kOffered);
    if (is_asleep_.exchange(false)) sem_post(&wakes_);
    if (!waited([this] { return state_.load(std::memory_order_acquire) != kOffered; }, kPatience)) {
      int was = kOffered;
      if (state_.compare_exchange_strong(was, kIdle)) {
        if (++in_vain_ == kOften) in_vain_ = 0, to_skip_ = kSkipped;
        return false;
      }
    }
    while (!waited([this] { return state_.load(std::memory_order_acquire) == kDone; }, kPatience))
      sched_yield();
    state_.store(kIdle, std::memory_order_relaxed);
    in_vain_ = 0;
    if (error_) std::rethrow_exception(error_);
    return true;
  }

  void serve() {
#if defined(__linux__)
    pthread_setname_np(pthread_self(), "ren-helper");  // for debuggers
#endif
    const auto has_work = [this] { return state_.load() == kOffered; };
    for (;;) {
      if (!waited(has_work, kLingering)) {
        is_asleep_.store(true);
        // Who sees it asleep wakes it. It may have work already, from one who did not see it.
        if (!has_work() || !is_asleep_.exchange(false))
          while (sem_wait(&wakes_)) {
          }
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

  // Waits for something, and for no longer than that; true when it has come.
  template <class Check>
  static bool waited(const Check& has_come, Time time) {
    const auto end = Clock::now() + time;
    do {
      for (size_t i = 0; i < kPauses; i++) {
        if (has_come()) return true;
        pause();
      }
    } while (Clock::now() < end);
    return has_come();
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex turn_;  // of the one caller that may ask
  Cores cores_;
  pthread_t thread_{};
  pid_t owner_ = 0;
  std::atomic<bool> is_forbidden_{false};
  size_t in_vain_ = 0, to_skip_ = 0;  // times in a row that it was asked; calls that do not ask
  sem_t wakes_;  // conditions of C++ are none for this: glibc 2.36 was seen to block in `notify_one`
  std::atomic<bool> is_asleep_{false};
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
