// The engine over the fake driver: right pictures in their slots, and clean ends whatever fails. Meant for sanitizers.
#include "core/engine.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/driver/driver.h"
#include "fake/fake_driver.h"

namespace {

int failed_checks = 0;
#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: expected %s\n", __func__, __LINE__, #condition); \
            failed_checks++;                                                              \
        }                                                                                 \
    } while (0)

constexpr uint8_t kUntouched = 0xA5;

// A made-up stream: groups of `gop` pictures, each key picture followed by threes of one late and two early pictures.
struct Stream {
    vd::driver::Codec codec = vd::driver::kH264;
    unsigned width = 64, height = 48;
    int chroma = vd::driver::k420, depth = 8, surfaces = 4, gop = 12, pictures = 48;
    uint8_t base = 10;
    int length_size = 0;
    bool reordered = true;
    unsigned width_of_odd_groups = 0;  // where it is another

    unsigned width_of(int picture) const {
        return width_of_odd_groups && picture / gop % 2 ? width_of_odd_groups : width;
    }
    uint8_t value(int picture) const { return static_cast<uint8_t>(base + picture * 3); }
    int rank(int picture) const {
        const int place = picture % gop;
        if (!place || !reordered) return place;
        const int third = (place - 1) / 3, within = (place - 1) % 3;
        return third * 3 + (within == 0 ? 3 : within);
    }
};

struct Made {
    std::shared_ptr<vd::Video> video;
    Stream stream;
    std::string path;
    ~Made() { unlink(path.c_str()); }
};

std::string packet_of(const Stream& s, int picture, uint8_t flags = 0) {
    if (picture % s.gop == 0) flags |= fake::kKey;
    std::string unit{'F', 'K', static_cast<char>(flags), static_cast<char>(s.value(picture))};
    for (unsigned side : {s.width_of(picture), s.height}) {
        unit += static_cast<char>(side & 255);
        unit += static_cast<char>(side >> 8);
    }
    for (int field : {s.chroma, s.depth, s.surfaces, s.rank(picture)}) unit += static_cast<char>(field);
    unit += std::string(static_cast<size_t>(picture % 7), '.');
    if (!s.length_size) return unit;
    std::string framed;
    for (int k = s.length_size - 1; k >= 0; k--) framed += static_cast<char>(unit.size() >> (8 * k));
    return framed + unit;
}

void set_identity(vd::Video& video) {
    struct stat status{};
    stat(video.path.c_str(), &status);
    video.identity = {status.st_size, static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec,
                      static_cast<int64_t>(status.st_ino)};
}

std::unique_ptr<Made> make(const Stream& stream, const std::vector<std::pair<int, uint8_t>>& special = {}) {
    static std::atomic<int> number{0};
    auto made = std::make_unique<Made>();
    made->stream = stream;
    made->path = "/tmp/videodataset_native_" + std::to_string(getpid()) + "_" + std::to_string(number++);
    made->video = std::make_shared<vd::Video>();
    vd::Video& video = *made->video;
    video.name = video.path = made->path;
    video.codec = stream.codec;
    video.nal_length_size = stream.length_size;
    video.parameter_set_blobs = {"PS"};
    std::string bytes = "header";
    for (int picture = 0; picture < stream.pictures; picture++) {
        uint8_t flags = 0;
        for (const auto& entry : special)
            if (entry.first == picture) flags = entry.second;
        const std::string packet = packet_of(stream, picture, flags);
        video.first_packet.push_back(picture);
        video.packet_offset.push_back(static_cast<int64_t>(bytes.size()));
        video.packet_size.push_back(static_cast<int64_t>(packet.size()));
        video.sync.push_back(picture % stream.gop == 0);
        video.parameter_sets.push_back(0);
        bytes += packet;
    }
    video.first_packet.push_back(stream.pictures);
    FILE* file = std::fopen(made->path.c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    set_identity(video);
    return made;
}

struct Memory {
    std::vector<uint8_t> bytes;
    vd::Slot slot;
    const Made* made = nullptr;

    Memory(const Made& of, int picture) : made(&of) {
        const Stream& s = of.stream;
        const size_t sample = s.depth > 8 ? 2 : 1;
        const unsigned width = s.width_of(picture);
        slot.picture = picture;
        slot.pitch = (width + 1) / 2 * 2 * sample;
        slot.format = {static_cast<int>(width), static_cast<int>(s.height), s.chroma, s.depth};
        const size_t rows = s.chroma == vd::driver::k444 ? 3 * s.height : s.height + (s.height + 1) / 2;
        bytes.assign(rows * slot.pitch, kUntouched);
        slot.address = reinterpret_cast<vd::driver::DevicePtr>(bytes.data());
    }
    bool right() const {
        const Stream& s = made->stream;
        const int picture = static_cast<int>(slot.picture);
        const size_t luma = slot.pitch * s.height, used = s.width_of(picture) * (s.depth > 8 ? 2 : 1);
        const uint8_t value = s.value(picture);
        for (size_t k = 0; k < bytes.size(); k++)
            if (k % slot.pitch < used && bytes[k] != static_cast<uint8_t>(k < luma ? value : value + 1)) return false;
        return true;
    }
    bool untouched() const {
        for (uint8_t byte : bytes)
            if (byte != kUntouched) return false;
        return true;
    }
};

struct Work {
    std::vector<std::unique_ptr<vd::Run>> runs;
    std::vector<std::unique_ptr<Memory>> memories;

    // A run from the key picture to the last of `asked`.
    void add(const Made& made, const std::vector<int>& asked) {
        auto run = std::make_unique<vd::Run>();
        run->video = made.video;
        const int last = *std::max_element(asked.begin(), asked.end());
        for (int picture = last / made.stream.gop * made.stream.gop; picture <= last; picture++)
            run->pictures.push_back(picture);
        for (int picture : asked) {
            memories.push_back(std::make_unique<Memory>(made, picture));
            run->slots.push_back(memories.back()->slot);
        }
        runs.push_back(std::move(run));
    }
};

// Submits and waits, with the copies ended.
std::vector<vd::RunResult> decode(vd::Engine& engine, Work& work) {
    auto ticket = engine.submit(std::move(work.runs), nullptr);
    ticket->wait(-1);
    engine.synchronize(*ticket);
    return ticket->results();
}

bool all_right(const std::vector<vd::RunResult>& results) {
    for (const auto& result : results)
        if (result.failed || !result.missing.empty() || !result.bad.empty()) return false;
    return true;
}

void every_picture_of_many_streams() {
    std::vector<std::unique_ptr<Made>> streams;
    for (const Stream& s : {Stream{}, Stream{vd::driver::kHevc, 65, 49, vd::driver::k420, 10},
                            Stream{vd::driver::kHevc, 64, 48, vd::driver::k444},
                            Stream{vd::driver::kH264, 640, 480, vd::driver::k420, 8, 16},
                            Stream{vd::driver::kH264, 80, 48, vd::driver::k420, 8, 20}})
        streams.push_back(make(s));
    Stream prefixed;
    for (int size : {1, 2, 4}) {
        prefixed.length_size = size;
        streams.push_back(make(prefixed));
    }
    Stream plain;
    plain.codec = vd::driver::kVp9;
    plain.reordered = false;
    streams.push_back(make(plain));
    vd::Engine engine(0, 5);
    std::mt19937 random(1);
    for (int round = 0; round < 6; round++) {
        Work work;
        for (int k = 0; k < 60; k++) {
            const Made& made = *streams[random() % streams.size()];
            const int gop = static_cast<int>(random() % 4) * made.stream.gop;
            std::vector<int> asked;
            for (int picture = gop; picture < gop + made.stream.gop; picture++)
                if (random() % 3 == 0) asked.push_back(picture);
            if (!asked.empty()) work.add(made, asked);
        }
        EXPECT(all_right(decode(engine, work)));
        for (const auto& memory : work.memories) EXPECT(memory->right());
    }
}

void one_size_after_another_needs_few_decoders() {
    auto small = make(Stream{}), wide = make(Stream{vd::driver::kH264, 96, 48});
    vd::Engine engine(0, 1);
    for (int k = 0; k < 10; k++) {
        Work work;
        work.add(k % 2 ? *small : *wide, {1, 5, 11});
        EXPECT(all_right(decode(engine, work)));
        for (const auto& memory : work.memories) EXPECT(memory->right());
    }
    EXPECT(engine.statistics().decoders_created == 1);
    EXPECT(engine.statistics().decoders_reconfigured == 10);  // once when it is made, then for every change
}

// Whichever session takes a run, it finds the decoder that another one gave back.
void one_run_after_another_needs_one_decoder() {
    auto small = make(Stream{}), wide = make(Stream{vd::driver::kH264, 96, 48});
    vd::Engine engine(0, 4);
    for (int k = 0; k < 24; k++) {
        Work work;
        work.add(k % 2 ? *small : *wide, {1, 5, 11});
        EXPECT(all_right(decode(engine, work)));
        for (const auto& memory : work.memories) EXPECT(memory->right());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a session rests when it has told of its run
    }
    EXPECT(engine.statistics().decoders_created == 1);
}

// With pictures of the size before waiting for their copies, or mapped; where its size is not the expected one, too.
void the_size_changes_inside_a_stream() {
    Stream changing;
    changing.width_of_odd_groups = 320;
    auto made = make(changing);
    vd::Engine engine(0, 2);
    std::mt19937 random(3);
    for (int round = 0; round < 20; round++) {
        Work work;
        std::vector<bool> wrong_size;
        for (int k = 0; k < 12; k++) {
            const int group = static_cast<int>(random() % 4) * changing.gop;
            const size_t before = work.memories.size();
            work.add(*made, {group, group + 1, group + 3, group + 7, group + 11});
            wrong_size.push_back(random() % 5 == 0);
            if (!wrong_size.back()) continue;
            for (size_t slot = 0; slot < 5; slot++) work.runs.back()->slots[slot].format.width += 32;
            work.memories.resize(before);
        }
        const auto results = decode(engine, work);
        for (size_t k = 0; k < results.size(); k++) {
            EXPECT(results[k].failed == wrong_size[k]);
            if (wrong_size[k]) EXPECT(results[k].kind == vd::ErrorKind::format);
        }
        for (const auto& memory : work.memories) EXPECT(memory->right());
    }
    EXPECT(engine.statistics().decoders_created == 2);
}

void a_stream_that_needs_more_surfaces() {
    auto few = make(Stream{}), many = make(Stream{vd::driver::kH264, 64, 48, vd::driver::k420, 8, 40});
    for (bool first_many : {false, true}) {
        vd::Engine engine(0, 1);
        for (bool is_many : {first_many, !first_many, first_many}) {
            Work work;
            work.add(is_many ? *many : *few, {0, 3, 7, 11});
            EXPECT(all_right(decode(engine, work)));
            for (const auto& memory : work.memories) EXPECT(memory->right());
        }
        EXPECT(engine.statistics().decoders_created <= 2);
    }
}

void damage_is_told() {
    auto made = make(Stream{}, {{4, fake::kDamaged}, {14, fake::kUndecodable}});
    vd::Engine engine(0, 1);
    Work work;
    work.add(*made, {2, 9});
    work.add(*made, {13, 14, 20});
    const auto results = decode(engine, work);
    EXPECT(!results[0].failed && results[0].missing.empty());
    EXPECT(results[0].bad == std::vector<int64_t>{4});
    EXPECT(!results[1].failed && results[1].missing == std::vector<int64_t>{14});
    EXPECT(results[1].bad == std::vector<int64_t>{14});
}

void a_cut_file_is_told() {
    auto made = make(Stream{});
    EXPECT(truncate(made->path.c_str(), made->video->packet_offset[20] + 3) == 0);
    set_identity(*made->video);
    vd::Engine engine(0, 1);
    Work work;
    work.add(*made, {0, 5});
    work.add(*made, {13, 23});
    const auto results = decode(engine, work);
    EXPECT(!results[0].failed && results[0].bad.empty() && results[0].missing.empty());
    EXPECT(!results[1].bad.empty() && results[1].bad.front() == 20);
    EXPECT(work.memories[0]->right() && work.memories[1]->right() && work.memories[2]->right());
}

void a_replaced_or_missing_file_fails_its_run() {
    auto made = make(Stream{}), other = make(Stream{});
    vd::Engine engine(0, 1);
    FILE* file = std::fopen(made->path.c_str(), "ab");
    std::fputs("more", file);
    std::fclose(file);
    Work work;
    work.add(*made, {1});
    work.add(*other, {1});
    const auto results = decode(engine, work);
    EXPECT(results[0].failed && results[0].kind == vd::ErrorKind::unreadable);
    EXPECT(!results[1].failed && work.memories[1]->right());
    EXPECT(work.memories[0]->untouched());
}

void another_format_than_the_slots() {
    auto made = make(Stream{});
    vd::Engine engine(0, 1);
    Work work;
    work.add(*made, {1, 2});
    work.runs[0]->slots[1].format.width = 32;
    work.add(*made, {3});
    const auto results = decode(engine, work);
    EXPECT(results[0].failed && results[0].kind == vd::ErrorKind::format && results[0].found.width == 64);
    EXPECT(!results[1].failed && work.memories[2]->right());
}

void what_the_hardware_cannot() {
    auto made = make(Stream{vd::driver::kVp8}), large = make(Stream{vd::driver::kH264, 8000, 48});
    vd::Engine engine(0, 2);
    Work work;
    work.add(*made, {1});
    work.runs[0]->slots.clear();
    work.runs[0]->slots.push_back(work.memories[0]->slot);
    auto run = std::make_unique<vd::Run>();
    run->video = large->video;
    run->pictures = {0};
    work.runs.push_back(std::move(run));
    const auto results = decode(engine, work);
    EXPECT(results[0].failed && results[0].kind == vd::ErrorKind::unsupported);
    EXPECT(results[1].failed && results[1].kind == vd::ErrorKind::unsupported);
}

// Every driver call that a run makes fails, at every use up to the eighth, once or from then on: runs fail and are
// told, what is said to be whole is right, and when the driver works again so does the engine.
void any_call_failing() {
    for (const char* symbol :
         {"cuvidGetDecoderCaps", "cuvidCreateDecoder", "cuvidReconfigureDecoder", "cuvidDecodePicture",
          "cuvidGetDecodeStatus", "cuvidMapVideoFrame64", "cuvidUnmapVideoFrame64", "cuvidCreateVideoParser",
          "cuvidParseVideoData", "cuMemcpy2DAsync_v2", "cuStreamWaitEvent", "cuStreamSynchronize", "cuEventRecord",
          "cuEventSynchronize", "cuEventCreate", "cuStreamCreate"}) {
        for (int nth : {1, 2, 3, 5, 8, -1, -4}) {
            const bool lasts = nth < 0;
            auto made = make(Stream{}), wide = make(Stream{vd::driver::kH264, 96, 48});
            vd::Engine engine(0, 1);
            if (std::getenv("VERBOSE")) std::fprintf(stderr, "  %s %d\n", symbol, nth);
            std::vector<std::unique_ptr<Work>> works;  // a copy may be under way for longer than its run is known
            fake_fail(symbol, std::abs(nth), 999, lasts);
            bool submitted = true;
            for (int k = 0; k < 4; k++) {
                Work& work = *works.emplace_back(std::make_unique<Work>());
                work.add(k % 2 ? *made : *wide, {1, 2, 5, 7, 11});
                work.add(*made, {13, 14, 17});
                try {
                    const auto results = decode(engine, work);
                    for (size_t r = 0; r < results.size(); r++)
                        if (!results[r].failed)
                            for (size_t m = r ? 5 : 0; m < (r ? 8u : 5u); m++) EXPECT(work.memories[m]->right());
                } catch (const vd::Error&) {
                    submitted =
                        false;  // the submission itself failed, and nothing was queued; or waiting for the copies
                }
            }
            fake_fail(symbol, 0, 0, false);
            Work after;
            after.add(*made, {3, 4, 11});
            EXPECT(all_right(decode(engine, after)) || !submitted);
            for (const auto& memory : after.memories) EXPECT(memory->right());
        }
    }
}

void memory_of_the_gpu_exhausted() {
    auto made = make(Stream{}), hevc = make(Stream{vd::driver::kHevc});
    vd::Engine engine(0, 1);
    fake_set_decoder_limit(1);
    for (int k = 0; k < 3; k++) {
        Work work;
        work.add(*made, {1});
        work.add(*hevc, {1});  // the idle decoder is given up for this one
        EXPECT(all_right(decode(engine, work)));
    }
    fake_set_decoder_limit(0);
    Stream high;
    high.codec = vd::driver::kHevc;
    high.depth = 10;
    auto other = make(high);
    Work work;
    work.add(*other, {1});
    const auto results = decode(engine, work);
    EXPECT(results[0].failed && results[0].kind == vd::ErrorKind::out_of_memory);
    fake_set_decoder_limit(-1);
    Work again;
    again.add(*other, {1});
    EXPECT(all_right(decode(engine, again)));
}

void cancelled_at_every_stage() {
    auto made = make(Stream{vd::driver::kH264, 64, 48, vd::driver::k420, 8, 4, 200, 400});
    vd::Engine engine(0, 3);
    for (int pause_us : {0, 50, 200, 1000, 5000}) {
        Work work;
        for (int k = 0; k < 8; k++) work.add(*made, {190, 191, 195, 10, 50});
        auto ticket = engine.submit(std::move(work.runs), nullptr);
        std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        ticket->cancel();
        EXPECT(ticket->wait(30));
        engine.synchronize(*ticket);
        for (const auto& result : ticket->results()) EXPECT(!result.failed || result.kind == vd::ErrorKind::cancelled);
        // Freed and handed out again: whatever still wrote there would be found by a sanitizer, or here.
        work.memories.clear();
        Work next;
        next.add(*made, {3, 60});
        EXPECT(all_right(decode(engine, next)));
        for (const auto& memory : next.memories) EXPECT(memory->right());
    }
}

void many_threads_submit() {
    auto made = make(Stream{});
    vd::Engine engine(0, 4);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 6; t++)
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            for (int k = 0; k < 15; k++) {
                Work work;
                for (int r = 0; r < 3; r++) work.add(*made, {static_cast<int>(random() % 48)});
                wrong += !all_right(decode(engine, work));
                for (const auto& memory : work.memories) wrong += !memory->right();
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT(wrong == 0);
}

void pictures_that_are_shown_again() {
    Stream plain;
    plain.codec = vd::driver::kVp9;
    plain.reordered = false;
    // Picture 3 is hidden, picture 4 shows it.
    auto made = make(plain, {{3, fake::kHidden}, {4, fake::kShowsBefore}});
    vd::Engine engine(0, 1);
    Work work;
    work.add(*made, {2, 4, 5});
    const auto results = decode(engine, work);
    EXPECT(all_right(results));
    EXPECT(work.memories[0]->right() && work.memories[2]->right());
    EXPECT(work.memories[1]->bytes[0] == plain.value(3));
}

void bytes_brought_along() {
    auto made = make(Stream{});
    vd::Engine engine(0, 1);
    Work work;
    work.add(*made, {2, 4});
    auto& run = *work.runs[0];
    run.payloads = std::make_unique<std::vector<std::string>>();
    for (int picture : run.pictures) run.payloads->push_back(packet_of(made->stream, picture));
    unlink(made->path.c_str());
    EXPECT(all_right(decode(engine, work)));
    for (const auto& memory : work.memories) EXPECT(memory->right());
}

void closing_with_work_queued() {
    auto made = make(Stream{});
    std::vector<std::unique_ptr<Memory>> memories;
    std::shared_ptr<vd::Ticket> ticket;
    {
        vd::Engine engine(0, 2);
        Work work;
        for (int k = 0; k < 40; k++) work.add(*made, {5, 11});
        memories = std::move(work.memories);
        ticket = engine.submit(std::move(work.runs), nullptr);
        engine.close();
        EXPECT(ticket->done());
        bool refused = false;
        try {
            Work more;
            more.add(*made, {1});
            engine.submit(std::move(more.runs), nullptr);
        } catch (const vd::Error& error) {
            refused = error.kind == vd::ErrorKind::unavailable;
        }
        EXPECT(refused);
    }
    for (const auto& result : ticket->results()) EXPECT(!result.failed || result.kind == vd::ErrorKind::cancelled);
    ticket.reset();
}

void use_in_a_forked_child() {
    auto made = make(Stream{});
    auto* engine = new vd::Engine(0, 2);
    Work work;
    work.add(*made, {1});
    EXPECT(all_right(decode(*engine, work)));
    const pid_t pid = fork();
    if (pid == 0) {
        int code = 1;
        try {
            Work more;
            more.add(*made, {1});
            engine->submit(std::move(more.runs), nullptr);
        } catch (const vd::Error& error) {
            code = error.kind == vd::ErrorKind::forked ? 0 : 2;
        }
        engine->close();  // does nothing
        _exit(code);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    delete engine;
}

void a_device_that_is_not_there() {
    for (int device : {-1, 1}) {
        bool refused = false;
        try {
            vd::Engine engine(device, 1);
        } catch (const vd::Error& error) {
            refused = error.kind == vd::ErrorKind::unavailable;
        }
        EXPECT(refused);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::pair<const char*, void (*)()>> tests{
#define TEST(name) {#name, name}
        TEST(every_picture_of_many_streams),
        TEST(one_size_after_another_needs_few_decoders),
        TEST(one_run_after_another_needs_one_decoder),
        TEST(the_size_changes_inside_a_stream),
        TEST(a_stream_that_needs_more_surfaces),
        TEST(damage_is_told),
        TEST(a_cut_file_is_told),
        TEST(a_replaced_or_missing_file_fails_its_run),
        TEST(another_format_than_the_slots),
        TEST(what_the_hardware_cannot),
        TEST(any_call_failing),
        TEST(memory_of_the_gpu_exhausted),
        TEST(cancelled_at_every_stage),
        TEST(many_threads_submit),
        TEST(pictures_that_are_shown_again),
        TEST(bytes_brought_along),
        TEST(closing_with_work_queued),
        TEST(use_in_a_forked_child),
        TEST(a_device_that_is_not_there)};
    int run = 0;
    for (const auto& test : tests) {
        if (argc > 1 && std::strcmp(argv[1], test.first) != 0) continue;
        std::fprintf(stderr, "%s\n", test.first);
        test.second();
        run++;
        const int leaks = fake_leaks();
        if (leaks) {
            std::fprintf(stderr, "%s: %d driver objects were not given back\n", test.first, leaks);
            failed_checks++;
        }
    }
    std::printf("%d tests, %d failed checks\n", run, failed_checks);
    return failed_checks || !run;
}
