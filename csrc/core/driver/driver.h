// The driver's two libraries, opened at run time: a machine with neither can import the library and use the CPU.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "core/driver/types.h"
#include "core/error.h"

namespace vd::driver {

// Name of the member, exported symbol, arguments.
#define VD_CUDA_FUNCTIONS(X)                                                        \
    X(init, "cuInit", (unsigned))                                                   \
    X(driverGetVersion, "cuDriverGetVersion", (int*))                               \
    X(deviceGetCount, "cuDeviceGetCount", (int*))                                   \
    X(deviceGet, "cuDeviceGet", (Device*, int))                                     \
    X(deviceGetName, "cuDeviceGetName", (char*, int, Device))                       \
    X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context*, Device))             \
    X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (Device))                  \
    X(ctxPushCurrent, "cuCtxPushCurrent_v2", (Context))                             \
    X(ctxPopCurrent, "cuCtxPopCurrent_v2", (Context*))                              \
    X(threadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int*)) \
    X(memGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                            \
    X(memcpy2DAsync, "cuMemcpy2DAsync_v2", (const Memcpy2D*, Stream))               \
    X(streamCreate, "cuStreamCreate", (Stream*, unsigned))                          \
    X(streamDestroy, "cuStreamDestroy_v2", (Stream))                                \
    X(streamSynchronize, "cuStreamSynchronize", (Stream))                           \
    X(streamWaitEvent, "cuStreamWaitEvent", (Stream, Event, unsigned))              \
    X(eventCreate, "cuEventCreate", (Event*, unsigned))                             \
    X(eventDestroy, "cuEventDestroy_v2", (Event))                                   \
    X(eventRecord, "cuEventRecord", (Event, Stream))                                \
    X(eventSynchronize, "cuEventSynchronize", (Event))                              \
    X(getErrorName, "cuGetErrorName", (Result, const char**))

#define VD_CUVID_FUNCTIONS(X)                                                                    \
    X(getDecoderCaps, "cuvidGetDecoderCaps", (DecodeCaps*))                                      \
    X(createDecoder, "cuvidCreateDecoder", (Decoder*, CreateInfo*))                              \
    X(destroyDecoder, "cuvidDestroyDecoder", (Decoder))                                          \
    X(reconfigureDecoder, "cuvidReconfigureDecoder", (Decoder, ReconfigureInfo*))                \
    X(decodePicture, "cuvidDecodePicture", (Decoder, PictureParams*))                            \
    X(getDecodeStatus, "cuvidGetDecodeStatus", (Decoder, int, GetStatus*))                       \
    X(mapVideoFrame, "cuvidMapVideoFrame64", (Decoder, int, DevicePtr*, unsigned*, ProcParams*)) \
    X(unmapVideoFrame, "cuvidUnmapVideoFrame64", (Decoder, DevicePtr))                           \
    X(createVideoParser, "cuvidCreateVideoParser", (Parser*, ParserParams*))                     \
    X(parseVideoData, "cuvidParseVideoData", (Parser, SourcePacket*))                            \
    X(destroyVideoParser, "cuvidDestroyVideoParser", (Parser))

// How many calls this process has made into the driver; stays 0 in a loader's worker.
extern std::atomic<unsigned long long> call_count;

// A function of the driver that counts its calls.
template <class Signature>
class Function;
template <class... Arguments>
class Function<Result(Arguments...)> {
  public:
    void set(void* symbol) { pointer_ = reinterpret_cast<Result (*)(Arguments...)>(symbol); }
    Result operator()(Arguments... arguments) const {
        call_count.fetch_add(1, std::memory_order_relaxed);
        return pointer_(arguments...);
    }

  private:
    Result (*pointer_)(Arguments...) = nullptr;
};

struct Functions {
#define VD_DECLARE(name, symbol, arguments) Function<Result arguments> name;
    VD_CUDA_FUNCTIONS(VD_DECLARE)
    VD_CUVID_FUNCTIONS(VD_DECLARE)
#undef VD_DECLARE
};

// What was found of the driver's libraries; never throws.
struct Found {
    std::string cuda_library, cuvid_library;  // as opened; empty where missing
    std::string problem;                      // why decoding is impossible, with what to do; empty where all is well
    std::vector<std::string> missing_symbols;
    int version = 0;  // of the driver's CUDA interface, such as 13000
};
const Found& found();

// The functions, with the driver initialised. Throws Error(unavailable).
const Functions& functions();

// Name of a result, such as CUDA_ERROR_OUT_OF_MEMORY.
std::string result_name(Result result);

// Throws Error(driver), or Error(out_of_memory).
void check(Result result, const char* call);

#define VD_CHECK(function, ...) ::vd::driver::check(::vd::driver::functions().function(__VA_ARGS__), #function)

}  // namespace vd::driver
