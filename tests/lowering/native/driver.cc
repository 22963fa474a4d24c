// Runs recorded calls of the native kernels without Python, XLA or JAX, so that sanitizers report on
// the kernels alone. driver.py writes the file: its words are u64, its residues u32.
//
// usage: driver FILE THREADS CALLERS
//
// The pool has THREADS threads, and CALLERS threads make each call at once: as the host does, and as
// XLA does, which has to give the same. The driver prints a line for each call and for each mutant of
// its last argument: "ok", "differs" or "error: ...".

#include "kernels.cc"
#include "words.cc"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace {

// What stands for XLA: a pool of threads, and errors as strings.
class Workers {
 public:
  explicit Workers(size_t threads) {
    for (size_t i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  }
  ~Workers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  size_t threads() const { return workers_.size() + 1; }
  void schedule(std::function<void()> task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return is_over_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> workers_;
  bool is_over_ = false;
};

Workers& workers_of(XLA_FFI_ExecutionContext* context) { return *reinterpret_cast<Workers*>(context); }

XLA_FFI_Error* create(XLA_FFI_Error_Create_Args* args) {
  return reinterpret_cast<XLA_FFI_Error*>(new std::string(args->message));
}
void destroy(XLA_FFI_Error_Destroy_Args* args) {
  delete reinterpret_cast<std::string*>(args->error);
}
XLA_FFI_Error* schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  workers_of(args->ctx).schedule([run = args->task, data = args->data] { run(data); });
  return nullptr;
}
XLA_FFI_Error* count(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = int64_t(workers_of(args->ctx).threads());
  return nullptr;
}

// An array in memory of its own, exactly as long as it is.
struct Array {
  std::vector<int64_t> dims;
  std::unique_ptr<u32[]> data;
  size_t size = 1;

  XLA_FFI_Buffer view() {
    return {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, XLA_FFI_DataType_U32, data.get(),
            int64_t(dims.size()), dims.data()};
  }
};

class Reader {
 public:
  explicit Reader(const char* path) : file_(path, std::ios::binary) {}
  u64 word() {
    u64 value = 0;
    file_.read(reinterpret_cast<char*>(&value), sizeof value);
    if (!file_) std::fprintf(stderr, "the file ends too early\n"), std::exit(2);
    return value;
  }
  Array array() {
    Array made;
    made.dims.resize(word());
    for (int64_t& dim : made.dims) made.size *= size_t(dim = int64_t(word()));
    made.data.reset(new u32[made.size]);
    file_.read(reinterpret_cast<char*>(made.data.get()), std::streamsize(made.size * sizeof(u32)));
    return made;
  }
  std::vector<Array> arrays() {
    std::vector<Array> made(word());
    for (Array& array : made) array = this->array();
    return made;
  }

 private:
  std::ifstream file_;
};

// Memory for results, full of what they are not.
std::vector<Array> blanks(const std::vector<Array>& expected) {
  std::vector<Array> made(expected.size());
  for (size_t i = 0; i < made.size(); i++) {
    made[i].dims = expected[i].dims, made[i].size = expected[i].size;
    made[i].data.reset(new u32[made[i].size]);
    std::memset(made[i].data.get(), 0xA5, made[i].size * sizeof(u32));
  }
  return made;
}

bool are_equal(const std::vector<Array>& made, const std::vector<Array>& expected) {
  for (size_t i = 0; i < made.size(); i++)
    if (std::memcmp(made[i].data.get(), expected[i].data.get(), made[i].size * sizeof(u32)))
      return false;
  return true;
}

// What came of a call by the host.
std::string called_by_host(const std::vector<XLA_FFI_Buffer>& args,
                           const std::vector<Array>& expected) {
  std::vector<Array> made = blanks(expected);
  std::vector<XLA_FFI_Buffer> all(args);
  for (Array& array : made) all.push_back(array.view());
  std::vector<void*> data;
  std::vector<int64_t> ranks, dims;
  for (const XLA_FFI_Buffer& buffer : all) {
    data.push_back(buffer.data), ranks.push_back(buffer.rank);
    dims.insert(dims.end(), buffer.dims, buffer.dims + buffer.rank);
  }
  const char* why = ren_run(args.size(), made.size(), data.data(), ranks.data(), dims.data());
  if (why != nullptr) return "error: " + std::string(why);
  return are_equal(made, expected) ? "ok" : "differs";
}

// One call with results of its own; what came of it.
std::string called(std::vector<XLA_FFI_Buffer> args, const std::vector<Array>& expected,
                   Workers& workers) {
  const std::string by_host = called_by_host(args, expected);
  std::vector<Array> made = blanks(expected);
  std::vector<XLA_FFI_Buffer> results;
  std::vector<void*> given, taken;
  for (Array& array : made) results.push_back(array.view());
  for (XLA_FFI_Buffer& arg : args) given.push_back(&arg);
  for (XLA_FFI_Buffer& result : results) taken.push_back(&result);
  XLA_FFI_Api api{};
  api.XLA_FFI_Error_Create = create, api.XLA_FFI_Error_Destroy = destroy;
  api.XLA_FFI_ThreadPool_Schedule = schedule, api.XLA_FFI_ThreadPool_NumThreads = count;
  XLA_FFI_CallFrame frame{};
  frame.api = &api, frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&workers);
  frame.args.size = int64_t(given.size()), frame.args.args = given.data();
  frame.rets.size = int64_t(taken.size()), frame.rets.rets = taken.data();
  if (XLA_FFI_Error* error = ren_plan(&frame)) {
    std::unique_ptr<std::string> why(reinterpret_cast<std::string*>(error));
    return by_host == "error: " + *why ? by_host : "differs: " + by_host;
  }
  return are_equal(made, expected) ? by_host : "differs";
}

// The same by several threads at once; the first that is not "ok", if any.
std::string called_by(size_t callers, const std::vector<XLA_FFI_Buffer>& args,
                      const std::vector<Array>& expected, Workers& workers) {
  std::vector<std::string> found(callers);
  std::vector<std::thread> others;
  for (size_t i = 1; i < callers; i++)
    others.emplace_back([&, i] { found[i] = called(args, expected, workers); });
  found[0] = called(args, expected, workers);
  for (std::thread& other : others) other.join();
  for (const std::string& one : found)
    if (one != "ok") return one;
  return "ok";
}

// The functions that the host calls: the same streams with one thread and with several.
std::string hashed(size_t threads) {
  constexpr size_t kCount = 77, kBlocks = 3, kBytes = kCount * kBlocks * 136;
  std::vector<byte> one(kBytes), many(kBytes);
  ren_shake256(reinterpret_cast<const byte*>("prefix"), 6, 250, kCount, kBlocks, one.data(), 1);
  ren_shake256(reinterpret_cast<const byte*>("prefix"), 6, 250, kCount, kBlocks, many.data(), threads);
  std::vector<u32> words(kBytes / 4), out(kBytes / 4), above(kBytes / 4);
  std::memcpy(words.data(), one.data(), kBytes);
  ren_uniform(words.data(), words.size(), 97, 4294967269u, out.data(), above.data());
  for (size_t i = 0; i < words.size(); i++)
    if (out[i] != words[i] % 97) return "differs";
  return one == many ? "ok" : "differs";
}

}  // namespace

int main(int count, char** given) {
  if (count != 4) return 2;
  Reader file(given[1]);
  Workers workers(std::strtoul(given[2], nullptr, 10));
  const size_t callers = std::strtoul(given[3], nullptr, 10);
  std::puts(hashed(workers.threads()).c_str());
  for (u64 calls = file.word(); calls > 0; calls--) {
    std::vector<Array> args = file.arrays();
    const std::vector<Array> expected = file.arrays();
    std::vector<XLA_FFI_Buffer> views;
    for (Array& arg : args) views.push_back(arg.view());
    std::puts(called_by(callers, views, expected, workers).c_str());
    for (u64 mutants = file.word(); mutants > 0; mutants--) {
      Array mutant;  // the last argument, cut to a length, with some words replaced
      mutant.dims = {int64_t(mutant.size = file.word())};
      mutant.data.reset(new u32[mutant.size]);
      std::memcpy(mutant.data.get(), args.back().data.get(), mutant.size * sizeof(u32));
      for (u64 edits = file.word(); edits > 0; edits--) {
        const u64 place = file.word();
        mutant.data[place] = u32(file.word());
      }
      views.back() = mutant.view();
      std::puts(called_by(callers, views, expected, workers).c_str());
      std::fflush(stdout);
    }
  }
  return 0;
}
