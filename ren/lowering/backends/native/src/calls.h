// What XLA's foreign function interface hands over.

#pragma once

#include <exception>
#include <new>
#include <string>
#include <vector>

#include "threads.h"
#include "vectors.h"

namespace {

// The arrays that a call reads, and where its results go.
struct Call {
  const Pool pool;
  const XLA_FFI_CallFrame* frame;

  explicit Call(const XLA_FFI_CallFrame* frame) : pool(frame), frame(frame) {}
  const XLA_FFI_Buffer& buffer(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(frame->args.args[i]);
  }
  static size_t size(const XLA_FFI_Buffer& b) {
    size_t total = 1;
    for (int64_t d = 0; d < b.rank; d++) total *= size_t(b.dims[d]);
    return total;
  }
  size_t size(size_t i) const { return size(buffer(i)); }
  const u32* operator[](size_t i) const { return static_cast<u32*>(buffer(i).data); }
  const XLA_FFI_Buffer& result_buffer(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(frame->rets.rets[i]);
  }
};

// What XLA would hand over, for a call without it: there are no threads to lend.
struct HostFrame {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> pointers;
  XLA_FFI_CallFrame call{};

  HostFrame(size_t args, size_t results, void* const* data, const int64_t* ranks, int64_t* dims)
      : buffers(args + results), pointers(args + results) {
    for (size_t i = 0; i < buffers.size(); i++) {
      buffers[i].data = data[i];
      buffers[i].rank = ranks[i];
      buffers[i].dims = dims;
      pointers[i] = &buffers[i];
      dims += ranks[i];
    }
    call.args.size = int64_t(args);
    call.args.args = pointers.data();
    call.rets.size = int64_t(results);
    call.rets.rets = pointers.data() + args;
  }
};

// An error of XLA's, which the caller of a program gets as an exception.
XLA_FFI_Error* error_of(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code, const char* why) {
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, why, code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

// What XLA calls: it first asks which version of the interface it would call.
template <class Body>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame, const Body& body) {
  for (auto* e = frame->extension_start; e != nullptr; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    auto* about = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    about->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                          XLA_FFI_API_MINOR};
    about->traits = 0;
    about->state_type_id = XLA_FFI_UNKNOWN_TYPE_ID;
    return nullptr;
  }
  try {  // no exception may pass through the frames of XLA, which would end the process
    const Call call(frame);
    if (call.size(0) > 0) body(call);
    return nullptr;
  } catch (const std::bad_alloc&) {
    return error_of(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                    "Ren's native code is out of memory.");
  } catch (const std::exception& error) {
    return error_of(frame, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace
