// Work divided among the threads of XLA.

#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "xla/ffi/api/c_api.h"


namespace {

using std::size_t;

// XLA's own threads, as far as it lends them; a call without XLA has the thread that it is in.
class Pool {
 public:
  explicit Pool(const XLA_FFI_CallFrame* frame) : api_(frame->api), context_(frame->ctx) {}

  size_t threads() const {
    if (api_ == nullptr) return 1;
    int64_t count = 1;
    XLA_FFI_ThreadPool_NumThreads_Args args{XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr,
                                            context_, &count};
    return is_done(api_->XLA_FFI_ThreadPool_NumThreads(&args)) && count > 1 ? size_t(count) : 1;
  }
  template <class Work>
  void schedule(const Work& work) const {
    auto* data = new Work(work);
    XLA_FFI_Task* run = [](void* data) {
      auto* work = static_cast<Work*>(data);
      (*work)();
      delete work;
    };
    XLA_FFI_ThreadPool_Schedule_Args args{XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr,
                                          context_, run, data};
    if (!is_done(api_->XLA_FFI_ThreadPool_Schedule(&args))) delete data;
  }

 private:
  bool is_done(XLA_FFI_Error* error) const {
    if (error == nullptr) return true;
    XLA_FFI_Error_Destroy_Args args{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
    api_->XLA_FFI_Error_Destroy(&args);
    return false;
  }
  const XLA_FFI_Api* api_;
  XLA_FFI_ExecutionContext* context_;
};

// Runs task(0) .. task(count - 1), each once, here and in XLA's threads. The caller waits for tasks
// that have begun, never for a thread to come. It is itself one of the pool's at times. It throws
// what the first task to fail threw, once all are done.
template <class Task>
void parallel(const Pool& pool, size_t count, size_t work, const Task& task) {
  constexpr size_t kLeastWork = size_t(1) << 15;  // residues times stages or terms; about 10 us
  size_t threads = work < kLeastWork ? 1 : pool.threads();
  if (threads > count) threads = count;
  if (threads <= 1) {
    for (size_t i = 0; i < count; i++) task(i);
    return;
  }
  struct Progress {
    std::atomic<size_t> next{0}, done{0};
    std::atomic<bool> has_failed{false};
    std::exception_ptr error;
  };
  auto progress = std::make_shared<Progress>();
  auto work_off = [progress, count, &task] {  // `task` is read only by who got an i < count
    for (size_t i; (i = progress->next.fetch_add(1)) < count;) {
      try {
        task(i);
      } catch (...) {
        if (!progress->has_failed.exchange(true)) progress->error = std::current_exception();
      }
      progress->done.fetch_add(1, std::memory_order_release);
    }
  };
  for (size_t i = 1; i < threads; i++) pool.schedule(work_off);
  work_off();
  while (progress->done.load(std::memory_order_acquire) < count) sched_yield();
  if (progress->has_failed) std::rethrow_exception(progress->error);
}

}  // namespace
