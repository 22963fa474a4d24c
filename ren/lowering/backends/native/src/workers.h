// Work divided among threads of the library's own, for what the host calls.

#pragma once

#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// Runs task(0), task(step), .. below `count`, each once, here and in other threads.
template <class Task>
void work_off(size_t threads, size_t count, const Task& task, size_t step = 1) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(step)) < count;) task(i);
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads) others.emplace_back(work);
  } catch (const std::system_error&) {  // there are no more threads
  }
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace
