#include "fake/fake_driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/driver/types.h"

using namespace vd::driver;

namespace {

std::mutex settings_mutex;
struct Failure {
    int calls_left, code;
    bool lasts;  // every later call fails too
};
std::map<std::string, Failure> failures;  // by symbol
std::atomic<int> decoder_limit{-1}, copy_delay_us{200};
std::atomic<int> streams{0}, events{0}, parsers{0}, decoders{0}, mapped{0}, most_decoders{0};

// Whether this call is to fail, and how.
int injected(const char* symbol) {
    std::lock_guard<std::mutex> lock(settings_mutex);
    const auto found = failures.find(symbol);
    if (found == failures.end() || --found->second.calls_left > 0) return 0;
    const Failure failure = found->second;
    if (!failure.lasts) failures.erase(found);
    return failure.code;
}
#define FAIL_IF_TOLD(symbol) \
    if (int code = injected(symbol)) return code

struct FakeEvent {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned long long recorded = 0, reached = 0;

    void wait(unsigned long long number) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return reached >= number; });
    }
    void reach(unsigned long long number) {
        std::lock_guard<std::mutex> lock(mutex);
        reached = std::max(reached, number);
        changed.notify_all();
    }
};

std::shared_ptr<FakeEvent> as_event(Event event) {
    return *reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
}

// Work in order on a thread of its own, late.
class FakeStream {
  public:
    FakeStream() : thread_([this] { run(); }) {}
    ~FakeStream() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            ended_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    void add(std::function<void()> work) {
        std::lock_guard<std::mutex> lock(mutex_);
        work_.push_back(std::move(work));
        changed_.notify_all();
    }
    void synchronize() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return work_.empty() && !busy_; });
    }

  private:
    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return ended_ || !work_.empty(); });
            if (work_.empty()) return;
            auto work = std::move(work_.front());
            work_.pop_front();
            busy_ = true;
            lock.unlock();
            work();
            lock.lock();
            busy_ = false;
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> work_;
    bool ended_ = false, busy_ = false;
    std::thread thread_;
};

FakeStream& default_stream() {
    static FakeStream stream;
    return stream;
}
FakeStream& as_stream(Stream stream) {
    return stream ? *reinterpret_cast<FakeStream*>(stream) : default_stream();
}

// What a fake parser hands over in the place of picture parameters; the core reads the first three fields.
struct FakePicture {
    PictureParams params;
    uint8_t value, flags;
};

struct FakeDecoder {
    CreateInfo info;
    unsigned width, height, surfaces;
    std::vector<uint8_t> values, flags;
    std::map<DevicePtr, std::unique_ptr<std::vector<uint8_t>>> mapped_memory;
};

struct FakeParser {
    ParserParams params;
    int dpb = 0;
    unsigned width = 0, height = 0;
    int chroma = -1, depth = 0;
    struct Waiting {
        int rank, surface;
    };
    std::vector<Waiting> waiting;     // to be shown
    std::multiset<long long> stamps;  // given out in rising order
    std::deque<int> references;       // surfaces that are referred to
    int last = -1;
    static constexpr size_t kReorder = 2;

    bool in_use(int surface) const {
        return std::find(references.begin(), references.end(), surface) != references.end() ||
               std::any_of(waiting.begin(), waiting.end(), [&](const Waiting& w) { return w.surface == surface; });
    }
    int free_surface() const {
        for (int k = 0; k < dpb; k++)
            if (!in_use(k)) return k;
        return -1;
    }
    bool show_first() {
        auto first = std::min_element(waiting.begin(), waiting.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
        DisplayInfo info{};
        info.surface = first->surface;
        info.progressiveFrame = 1;
        info.timestamp = *stamps.begin();
        stamps.erase(stamps.begin());
        waiting.erase(first);  // from here on the surface may be decoded into again
        return params.onDisplay(params.userData, &info) != 0;
    }
};

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" {
__attribute__((visibility("default"))) void fake_fail(const char* symbol, int nth, int code, bool lasts) {
    std::lock_guard<std::mutex> lock(settings_mutex);
    if (code)
        failures[symbol] = {nth, code, lasts};
    else
        failures.erase(symbol);
}
__attribute__((visibility("default"))) void fake_set_decoder_limit(int limit) {
    decoder_limit = limit;
}
__attribute__((visibility("default"))) void fake_set_copy_delay(int microseconds) {
    copy_delay_us = microseconds;
}
__attribute__((visibility("default"))) int fake_decoders_alive() {
    return decoders;
}
__attribute__((visibility("default"))) int fake_most_decoders() {
    return most_decoders;
}
__attribute__((visibility("default"))) int fake_leaks() {
    return streams + events + parsers + decoders + mapped;
}
}

API cuInit(unsigned) {
    FAIL_IF_TOLD("cuInit");
    return 0;
}
API cuDriverGetVersion(int* version) {
    *version = 13000;
    return 0;
}
API cuDeviceGetCount(int* count) {
    FAIL_IF_TOLD("cuDeviceGetCount");
    *count = 1;
    return 0;
}
API cuDeviceGet(Device* device, int number) {
    *device = number;
    return 0;
}
API cuDeviceGetName(char* name, int size, Device) {
    std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
    return 0;
}
API cuDevicePrimaryCtxRetain(Context* context, Device) {
    FAIL_IF_TOLD("cuDevicePrimaryCtxRetain");
    *context = reinterpret_cast<Context>(1);
    return 0;
}
API cuDevicePrimaryCtxRelease_v2(Device) {
    return 0;
}
API cuCtxPushCurrent_v2(Context) {
    FAIL_IF_TOLD("cuCtxPushCurrent_v2");
    return 0;
}
API cuCtxPopCurrent_v2(Context* context) {
    *context = nullptr;
    return 0;
}
API cuThreadExchangeStreamCaptureMode(int* mode) {
    *mode = 0;
    return 0;
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
    *free = *total = size_t{1} << 30;
    return 0;
}
API cuGetErrorName(Result, const char** name) {
    *name = "FAKE_ERROR";
    return 0;
}

API cuStreamCreate(Stream* stream, unsigned) {
    FAIL_IF_TOLD("cuStreamCreate");
    streams++;
    *stream = reinterpret_cast<Stream>(new FakeStream);
    return 0;
}
API cuStreamDestroy_v2(Stream stream) {
    delete reinterpret_cast<FakeStream*>(stream);
    streams--;
    return 0;
}
API cuStreamSynchronize(Stream stream) {
    FAIL_IF_TOLD("cuStreamSynchronize");
    as_stream(stream).synchronize();
    return 0;
}
API cuStreamWaitEvent(Stream stream, Event event, unsigned) {
    FAIL_IF_TOLD("cuStreamWaitEvent");
    auto fake = as_event(event);
    unsigned long long number;
    {
        std::lock_guard<std::mutex> lock(fake->mutex);
        number = fake->recorded;
    }
    as_stream(stream).add([fake, number] { fake->wait(number); });
    return 0;
}
API cuEventCreate(Event* event, unsigned) {
    FAIL_IF_TOLD("cuEventCreate");
    events++;
    *event = reinterpret_cast<Event>(new std::shared_ptr<FakeEvent>(std::make_shared<FakeEvent>()));
    return 0;
}
API cuEventDestroy_v2(Event event) {
    delete reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);  // what is queued keeps its own share
    events--;
    return 0;
}
API cuEventRecord(Event event, Stream stream) {
    FAIL_IF_TOLD("cuEventRecord");
    auto fake = as_event(event);
    unsigned long long number;
    {
        std::lock_guard<std::mutex> lock(fake->mutex);
        number = ++fake->recorded;
    }
    as_stream(stream).add([fake, number] { fake->reach(number); });
    return 0;
}
API cuEventSynchronize(Event event) {
    FAIL_IF_TOLD("cuEventSynchronize");
    auto fake = as_event(event);
    unsigned long long number;
    {
        std::lock_guard<std::mutex> lock(fake->mutex);
        number = fake->recorded;
    }
    fake->wait(number);
    return 0;
}
API cuMemcpy2DAsync_v2(const Memcpy2D* copy, Stream stream) {
    FAIL_IF_TOLD("cuMemcpy2DAsync_v2");
    const Memcpy2D plane = *copy;
    as_stream(stream).add([plane] {
        std::this_thread::sleep_for(std::chrono::microseconds(copy_delay_us));
        for (size_t row = 0; row < plane.Height; row++)
            std::memcpy(reinterpret_cast<char*>(plane.dstDevice) + row * plane.dstPitch,
                        reinterpret_cast<const char*>(plane.srcDevice) + row * plane.srcPitch, plane.WidthInBytes);
    });
    return 0;
}

API cuvidGetDecoderCaps(DecodeCaps* caps) {
    FAIL_IF_TOLD("cuvidGetDecoderCaps");
    caps->isSupported = caps->codec == kH264 || caps->codec == kHevc || caps->codec == kVp9;
    caps->numNvdecs = 7;
    caps->maxWidth = caps->maxHeight = 4096;
    caps->maxMbCount = 65536;
    caps->minWidth = caps->minHeight = 16;
    return 0;
}
API cuvidCreateDecoder(Decoder* decoder, CreateInfo* info) {
    FAIL_IF_TOLD("cuvidCreateDecoder");
    if (decoder_limit >= 0 && decoders >= decoder_limit) return kOutOfMemory;
    if (info->width > info->maxWidth || info->height > info->maxHeight || info->maxWidth > 4096) return 1;
    auto* fake = new FakeDecoder{};
    fake->info = *info;
    fake->width = static_cast<unsigned>(info->width);
    fake->height = static_cast<unsigned>(info->height);
    fake->surfaces = static_cast<unsigned>(info->numDecodeSurfaces);
    fake->values.resize(fake->surfaces);
    fake->flags.resize(fake->surfaces);
    most_decoders = std::max<int>(most_decoders, ++decoders);
    *decoder = fake;
    return 0;
}
API cuvidDestroyDecoder(Decoder decoder) {
    auto* fake = static_cast<FakeDecoder*>(decoder);
    mapped -= static_cast<int>(fake->mapped_memory.size());
    delete fake;
    decoders--;
    return 0;
}
API cuvidReconfigureDecoder(Decoder decoder, ReconfigureInfo* info) {
    FAIL_IF_TOLD("cuvidReconfigureDecoder");
    auto* fake = static_cast<FakeDecoder*>(decoder);
    if (info->width > fake->info.maxWidth || info->height > fake->info.maxHeight ||
        info->numDecodeSurfaces > fake->surfaces)
        return 1;
    if (!fake->mapped_memory.empty()) return 1;
    fake->width = info->width;
    fake->height = info->height;
    std::fill(fake->values.begin(), fake->values.end(), uint8_t{0xDD});
    return 0;
}
API cuvidDecodePicture(Decoder decoder, PictureParams* params) {
    FAIL_IF_TOLD("cuvidDecodePicture");
    auto* fake = static_cast<FakeDecoder*>(decoder);
    const auto* picture = reinterpret_cast<const FakePicture*>(params);
    if (params->surface < 0 || params->surface >= static_cast<int>(fake->surfaces)) return 1;
    fake->values[static_cast<size_t>(params->surface)] = picture->value;
    fake->flags[static_cast<size_t>(params->surface)] = picture->flags;
    return 0;
}
API cuvidGetDecodeStatus(Decoder decoder, int surface, GetStatus* status) {
    FAIL_IF_TOLD("cuvidGetDecodeStatus");
    const auto* fake = static_cast<FakeDecoder*>(decoder);
    status->status = fake->flags[static_cast<size_t>(surface)] & fake::kDamaged ? kStatusError : 2;
    return 0;
}
API cuvidMapVideoFrame64(Decoder decoder, int surface, DevicePtr* address, unsigned* pitch, ProcParams*) {
    FAIL_IF_TOLD("cuvidMapVideoFrame64");
    auto* fake = static_cast<FakeDecoder*>(decoder);
    if (fake->mapped_memory.size() >= fake->info.numOutputSurfaces) return 1;
    const size_t bytes = fake->info.bitDepthMinus8 ? 2 : 1;
    *pitch = static_cast<unsigned>((fake->width * bytes + 255) / 256 * 256);
    const size_t luma_rows = (fake->height + 1) / 2 * 2;
    const size_t rows = fake->info.chroma == k444 ? 3 * fake->height : luma_rows + luma_rows / 2;
    // As on the hardware, memory of mapped pictures has the size that the decoder was made with.
    const size_t made_pitch = (fake->info.targetWidth * bytes + 255) / 256 * 256;
    const size_t made_rows = fake->info.chroma == k444 ? 3 * fake->info.targetHeight : fake->info.targetHeight * 3 / 2;
    if (*pitch * rows > made_pitch * made_rows) return 1;
    auto memory = std::make_unique<std::vector<uint8_t>>(*pitch * rows);
    const uint8_t value = fake->values[static_cast<size_t>(surface)];
    const size_t chroma_begin = *pitch * (fake->info.chroma == k444 ? fake->height : luma_rows);
    std::fill(memory->begin(), memory->begin() + static_cast<long>(chroma_begin), value);
    std::fill(memory->begin() + static_cast<long>(chroma_begin), memory->end(), static_cast<uint8_t>(value + 1));
    *address = reinterpret_cast<DevicePtr>(memory->data());
    fake->mapped_memory[*address] = std::move(memory);
    mapped++;
    return 0;
}
API cuvidUnmapVideoFrame64(Decoder decoder, DevicePtr address) {
    FAIL_IF_TOLD("cuvidUnmapVideoFrame64");
    auto* fake = static_cast<FakeDecoder*>(decoder);
    const auto found = fake->mapped_memory.find(address);
    if (found == fake->mapped_memory.end()) return 1;
    std::fill(found->second->begin(), found->second->end(), uint8_t{0xEE});
    fake->mapped_memory.erase(found);
    mapped--;
    return 0;
}

API cuvidCreateVideoParser(Parser* parser, ParserParams* params) {
    FAIL_IF_TOLD("cuvidCreateVideoParser");
    auto* fake = new FakeParser;
    fake->params = *params;
    parsers++;
    *parser = fake;
    return 0;
}
API cuvidDestroyVideoParser(Parser parser) {
    delete static_cast<FakeParser*>(parser);
    parsers--;
    return 0;
}
API cuvidParseVideoData(Parser parser, SourcePacket* packet) {
    FAIL_IF_TOLD("cuvidParseVideoData");
    auto& self = *static_cast<FakeParser*>(parser);
    const unsigned char* data = packet->payload;
    for (size_t at = 0; at + fake::kPictureBytes <= packet->payloadSize; at++) {
        if (data[at] != 'F' || data[at + 1] != 'K') continue;
        const uint8_t flags = data[at + 2], value = data[at + 3];
        const unsigned width = data[at + 4] | data[at + 5] << 8, height = data[at + 6] | data[at + 7] << 8;
        const int chroma = data[at + 8], depth = data[at + 9], surfaces = data[at + 10], rank = data[at + 11];
        at += fake::kPictureBytes - 1;
        if (flags & fake::kKey) {
            while (!self.waiting.empty())
                if (!self.show_first()) return 1;
            self.references.clear();
            if (width != self.width || height != self.height || chroma != self.chroma || depth != self.depth) {
                VideoFormat format{};
                format.codec = self.params.codec;
                format.codedWidth = width;
                format.codedHeight = height;
                format.displayArea.right = static_cast<int>(width);
                format.displayArea.bottom = static_cast<int>(height);
                format.chroma = chroma;
                format.bitDepthLumaMinus8 = static_cast<unsigned char>(depth - 8);
                format.minNumDecodeSurfaces = static_cast<unsigned char>(surfaces);
                const int answer = self.params.onSequence(self.params.userData, &format);
                if (!answer) return 1;
                self.dpb = answer > 1 ? answer : surfaces;
                self.width = width;
                self.height = height;
                self.chroma = chroma;
                self.depth = depth;
            }
        }
        if (flags & fake::kUndecodable || !self.dpb) continue;  // left out without a word
        if (flags & fake::kShowsBefore) {
            DisplayInfo info{};
            info.surface = self.last;
            info.timestamp = packet->timestamp;
            if (!self.params.onDisplay(self.params.userData, &info)) return 1;
            continue;
        }
        const int surface = self.free_surface();
        if (surface < 0) return 1;
        FakePicture picture{{1, 1, surface}, value, flags};
        if (!self.params.onDecode(self.params.userData, &picture.params)) return 1;
        self.references.push_back(surface);
        if (self.references.size() > 2) self.references.pop_front();
        self.last = surface;
        if (flags & fake::kHidden) continue;
        self.waiting.push_back({rank, surface});
        self.stamps.insert(packet->timestamp);
        const size_t reorder = self.params.codec == kVp9 ? 0 : FakeParser::kReorder;
        while (self.waiting.size() > reorder)
            if (!self.show_first()) return 1;
    }
    if (packet->flags & kPacketEndOfStream)
        while (!self.waiting.empty())
            if (!self.show_first()) return 1;
    return 0;
}
