// What a GPU's NVDEC engines give through raw driver calls, without this library: the yardstick of benchmarks/nvdec.py.
//
// Sessions on one context, each a thread with a parser and a decoder, work for a fixed time on one Annex B stream in
// memory:
//   seq    every packet in order, nothing copied                              pictures decoded per second
//   map    every packet in order, every picture copied                        pictures delivered per second
//   rand   random single frames, every packet from its sync picture on       frames served per second
//   skip   random single frames, without the disposable packets between       frames served per second
//   ahead  as skip; a picture is copied some pictures later, so that nothing waits for what was just handed over
// RATE holds all sessions together to so many decoded pictures per second: a load to set beside something else.
//
// The index has a line for each packet in decode order: "offset size start disposable"; start is the packet of the sync
// picture from which it is decoded.
// Pictures are known by the surface they were decoded into; "hits" is the share of served frames that were the asked.
//
// g++ -O2 -std=c++17 -I csrc benchmarks/nvdec_ceiling.cpp csrc/core/driver/driver.cpp -o nvdec_ceiling -ldl -lpthread
#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/driver/driver.h"

namespace {

using namespace vd::driver;
using Clock = std::chrono::steady_clock;

constexpr size_t kAhead = 6;            // asked pictures that may wait for their copy
constexpr unsigned kSpareSurfaces = 3;  // so that decoding never waits for one to be given back

struct Packet {
    size_t offset, size, start;
    bool disposable;
};

// A callback's error cannot cross the driver's C code, and there is nothing to clean up.
template <class Body>
int ended_on_error(Body body) {
    try {
        return body();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::_Exit(1);
    }
}

class Session {
  public:
    Session(int codec, bool copies, bool ahead) : ahead_(ahead), copies_(copies) {
        VD_CHECK(streamCreate, &stream_, kStreamNonBlocking);
        VD_CHECK(eventCreate, &copied_, kEventBlockingSync | kEventDisableTiming);
        ParserParams params{};
        params.codec = codec;
        params.maxNumDecodeSurfaces = 1;
        params.userData = this;
        params.onSequence = [](void* self, VideoFormat* format) {
            return ended_on_error([&] { return static_cast<Session*>(self)->sequence(*format); });
        };
        params.onDecode = [](void* self, PictureParams* picture) {
            return ended_on_error([&] { return static_cast<Session*>(self)->decode(*picture); });
        };
        params.onDisplay = [](void* self, DisplayInfo* shown) {
            return ended_on_error([&] { return shown ? static_cast<Session*>(self)->display(*shown) : 1; });
        };
        VD_CHECK(createVideoParser, &parser_, &params);
    }

    void feed(const unsigned char* data, size_t size, long number, unsigned long flags) {
        feeding_ = number;
        SourcePacket packet{};
        packet.flags = flags;
        packet.payload = data;
        packet.payloadSize = size;
        VD_CHECK(parseVideoData, parser_, &packet);
    }
    void end_of_run() { feed(nullptr, 0, -1, kPacketEndOfStream); }

    void want(long number) {
        served += wanted_ >= 0;
        wanted_ = number;
    }
    // Counts what was fed before as warming up.
    void begin() { decoded = served = hits = 0, wanted_ = -1; }
    void finish() {
        want(-1);
        while (!pending_.empty()) copy_oldest();
        release();
        VD_CHECK(streamSynchronize, stream_);
    }

    long decoded = 0, served = 0, hits = 0;

  private:
    int sequence(const VideoFormat& format) {
        if (decoder_) return static_cast<int>(surfaces_);
        surfaces_ = format.minNumDecodeSurfaces + kSpareSurfaces + (ahead_ ? kAhead : 0);
        width_ = format.codedWidth;
        height_ = format.codedHeight;
        CreateInfo info{};
        info.codec = format.codec;
        info.chroma = format.chroma;
        info.bitDepthMinus8 = format.bitDepthLumaMinus8;
        info.outputFormat = format.bitDepthLumaMinus8 ? kP016 : kNv12;
        info.deinterlaceMode = kDeinterlaceWeave;
        info.numOutputSurfaces = 2;
        info.numDecodeSurfaces = surfaces_;
        info.creationFlags = kCreatePreferCuvid;
        info.width = info.maxWidth = info.targetWidth = width_;
        info.height = info.maxHeight = info.targetHeight = height_;
        VD_CHECK(createDecoder, &decoder_, &info);
        auto allocate = reinterpret_cast<Result (*)(DevicePtr*, size_t)>(
            dlsym(dlopen(found().cuda_library.c_str(), RTLD_NOW), "cuMemAlloc_v2"));
        check(allocate(&picture_, size_t{width_} * height_ * 3), "cuMemAlloc");
        return static_cast<int>(surfaces_);
    }

    int decode(PictureParams& picture) {
        // The parser uses a surface again once it has announced it: what waits there is copied first.
        while (std::any_of(pending_.begin(), pending_.end(), [&](auto& s) { return s.surface == picture.surface; }))
            copy_oldest();
        VD_CHECK(decodePicture, decoder_, &picture);
        content_[picture.surface] = feeding_;
        decoded++;
        return 1;
    }

    int display(const DisplayInfo& shown) {
        if (!copies_) return 1;
        if (wanted_ >= 0) {
            if (content_[shown.surface] != wanted_) return 1;
            hits++;
        }
        pending_.push_back(shown);
        if (!ahead_ || pending_.size() > kAhead) copy_oldest();
        return 1;
    }

    void copy_oldest() {
        const DisplayInfo shown = pending_.front();
        pending_.pop_front();
        ProcParams process{};
        process.progressiveFrame = shown.progressiveFrame;
        process.topFieldFirst = shown.topFieldFirst;
        process.unpairedField = shown.repeatFirstField < 0;
        process.outputStream = stream_;
        DevicePtr surface = 0;
        unsigned pitch = 0;
        VD_CHECK(mapVideoFrame, decoder_, shown.surface, &surface, &pitch, &process);
        Memcpy2D copy{};
        copy.srcMemoryType = copy.dstMemoryType = kMemoryTypeDevice;
        copy.srcDevice = surface;
        copy.srcPitch = pitch;
        copy.dstDevice = picture_;
        copy.dstPitch = copy.WidthInBytes = width_;
        copy.Height = height_ + height_ / 2;  // luma, and chroma behind it
        VD_CHECK(memcpy2DAsync, &copy, stream_);
        if (!ahead_) {
            VD_CHECK(streamSynchronize, stream_);
            VD_CHECK(unmapVideoFrame, decoder_, surface);
            return;
        }
        release();  // of the picture before this one, whose copy has long ended
        VD_CHECK(eventRecord, copied_, stream_);
        mapped_ = surface;
    }

    void release() {
        if (!mapped_) return;
        VD_CHECK(eventSynchronize, copied_);
        VD_CHECK(unmapVideoFrame, decoder_, mapped_);
        mapped_ = 0;
    }

    const bool ahead_, copies_;
    Parser parser_ = nullptr;
    Decoder decoder_ = nullptr;
    Stream stream_ = nullptr;
    Event copied_ = nullptr;
    DevicePtr picture_ = 0, mapped_ = 0;
    unsigned width_ = 0, height_ = 0, surfaces_ = 0;
    std::deque<DisplayInfo> pending_;
    std::map<int, long> content_;  // by surface: number of the packet decoded into it
    long feeding_ = -1, wanted_ = -1;
};

double processor_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 7 && argc != 8) {
        std::fprintf(stderr, "usage: %s STREAM INDEX h264|hevc seq|map|rand|skip|ahead SESSIONS SECONDS [RATE]\n",
                     argv[0]);
        return 2;
    }
    const std::string codec = argv[3], mode = argv[4];
    const size_t count = std::stoul(argv[5]);
    const double seconds = std::stod(argv[6]), rate = argc == 8 ? std::stod(argv[7]) / static_cast<double>(count) : 0;
    std::ifstream stream(argv[1], std::ios::binary), index(argv[2]);
    const std::vector<unsigned char> bytes((std::istreambuf_iterator<char>(stream)), {});
    std::vector<Packet> packets;
    for (Packet p; index >> p.offset >> p.size >> p.start >> p.disposable;) packets.push_back(p);
    if (bytes.empty() || packets.empty()) {
        std::fprintf(stderr, "empty stream or index\n");
        return 2;
    }
    Context context = nullptr;
    Device device = 0;
    VD_CHECK(deviceGet, &device, 0);
    VD_CHECK(primaryCtxRetain, &context, device);

    std::vector<Session*> sessions(count);
    std::atomic<size_t> ready{0};
    std::atomic<bool> go{false}, stop{false};
    const auto work = [&](size_t number) {
        VD_CHECK(ctxPushCurrent, context);
        Session& session =
            *(sessions[number] = new Session(codec == "hevc" ? kHevc : kH264, mode != "seq", mode == "ahead"));
        const auto send = [&](size_t n) {
            session.feed(bytes.data() + packets[n].offset, packets[n].size, static_cast<long>(n), kPacketEndOfPicture);
        };
        for (size_t n = 0; n < std::min<size_t>(packets.size(), 8); n++) send(n);  // makes the decoder
        if (mode != "seq" && mode != "map") session.end_of_run();
        session.begin();
        ready++;
        while (!go) std::this_thread::yield();
        const auto started = Clock::now();
        const auto hold_rate = [&] {
            if (rate <= 0) return;
            const std::chrono::duration<double> due(static_cast<double>(session.decoded) / rate);
            std::this_thread::sleep_until(started + std::chrono::duration_cast<Clock::duration>(due));
        };
        if (mode == "seq" || mode == "map") {
            for (size_t n = 0; !stop; n = (n + 1) % packets.size()) {
                send(n);
                hold_rate();
            }
            session.finish();
            session.served = session.hits = session.decoded;
            return;
        }
        std::mt19937 random(static_cast<unsigned>(number) + 1);
        while (!stop) {
            const size_t target = random() % packets.size();
            session.want(static_cast<long>(target));
            for (size_t n = packets[target].start; n <= target; n++)
                if (mode == "rand" || n == target || !packets[n].disposable) send(n);
            session.end_of_run();
            hold_rate();
        }
        session.finish();
    };
    std::vector<std::thread> threads;
    for (size_t k = 0; k < count; k++) threads.emplace_back([&, k] { ended_on_error([&] { return work(k), 0; }); });
    while (ready < count) std::this_thread::yield();
    const double processor = processor_seconds();
    const auto started = Clock::now();
    go = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto& thread : threads) thread.join();
    const double elapsed = std::chrono::duration<double>(Clock::now() - started).count();

    double decoded = 0, served = 0, hits = 0;
    for (const Session* session : sessions) {
        decoded += static_cast<double>(session->decoded);
        served += static_cast<double>(session->served);
        hits += static_cast<double>(session->hits);
    }
    const double each = served > 0 ? served : 1;
    std::printf(
        "{\"mode\": \"%s\", \"sessions\": %zu, \"decoded_per_s\": %.0f, \"served_per_s\": %.0f, "
        "\"decoded_per_served\": %.3f, \"hits\": %.3f, \"cores\": %.2f}\n",
        mode.c_str(), count, decoded / elapsed, served / elapsed, decoded / each, hits / each,
        (processor_seconds() - processor) / elapsed);
    std::fflush(stdout);
    std::_Exit(0);  // the driver takes long to tear down
}
